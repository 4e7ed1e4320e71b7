#include "image/unwind/unwind_table.h"

#include <dwarf.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "image/exceptions/encoded_pointer.h"
#include "image/unwind/frame_entries.h"
#include "image/unwind/frame_program.h"
#include "image/unwind/table_builder.h"

namespace uscope::image {
namespace {

constexpr uint64_t kMostDebugFrame = uint64_t(256) << 20;

void add_section(const ElfFile& file, const FrameSection& section, TableBuilder& builder) {
  builder.remember_functions();
  bool whole = for_each_entry(section, [&](const FunctionEntry& entry) {
    // Functions that the linker dropped stay in .debug_frame, at 0.
    if (entry.begin >= entry.end || !file.is_executable({entry.begin})) return;
    auto at = file.to_file_offset({entry.begin});
    if (!at || builder.covers(at->value)) return;
    uint64_t begin = at->value;
    if (!builder.begin_function(begin, begin + (entry.end - entry.begin))) return;
    bool is_run = run_frame_program(entry, section.address, [&](uint64_t address, const UnwindRule& rule) {
      builder.add_row(begin + (address - entry.begin), rule);
    });
    if (!is_run) builder.set_partial();
  });
  if (!whole) builder.set_partial();
}

// .eh_frame by its section, or by the header that the program itself finds it by.
FrameSection find_eh_frame(const ElfFile& file) {
  if (const Section* section = file.find_section(".eh_frame"))
    return {file.stored_bytes(*section), section->address.value, true};
  const Segment* header = file.find_segment(PT_GNU_EH_FRAME);
  if (header == nullptr) return {};
  Bytes bytes = file.stored_bytes(*header);
  if (bytes.size() < 8 || bytes[0] != 1) return {};
  ByteReader reader(bytes, 4);
  auto address = read_encoded_pointer(reader, bytes[1], header->address.value);
  if (!address) return {};
  return {file.bytes_from({*address}), *address, true, /*ends_at_zero=*/true};
}

void add_debug_frame(const ElfFile& file, const ElfFile& holder, TableBuilder& builder) {
  for (std::string_view name : {".debug_frame", ".zdebug_frame"}) {
    const Section* section = holder.find_section(name);
    if (section == nullptr || !section->has_contents()) continue;
    auto data = holder.read_section(*section, kMostDebugFrame);
    if (data)
      add_section(file, {data->bytes, 0, false}, builder);
    else
      builder.set_partial();
  }
}

// Where the runtime starts a stack or leaves one for another.
UnwindKind go_boundary(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOutermost = {"runtime.goexit", "runtime.mstart",
                                                          "runtime.rt0_go", "_rt0_amd64_linux", "_rt0_amd64"};
  constexpr std::array<std::string_view, 5> kSwitches = {"runtime.systemstack", "runtime.mcall",
                                                         "runtime.morestack", "runtime.asmcgocall",
                                                         "runtime.cgocallback"};
  if (name.ends_with(".abi0")) name.remove_suffix(5);
  if (std::ranges::find(kOutermost, name) != kOutermost.end()) return UnwindKind::End;
  if (std::ranges::find(kSwitches, name) != kSwitches.end()) return UnwindKind::OtherStack;
  return UnwindKind::Unknown;
}

void add_go(const ElfFile& file, const Pclntab& go, TableBuilder& builder) {
  builder.remember_functions();
  for (const GoFunction& function : go.functions()) {
    auto at = file.to_file_offset(function.entry);
    if (!at || builder.covers(at->value)) continue;
    if (!builder.begin_function(at->value, at->value + function.size)) continue;
    UnwindRule rule;
    rule.kind = go_boundary(function.name);
    if (rule.kind != UnwindKind::Unknown) {
      builder.add_row(at->value, rule);
      continue;
    }
    for (const GoFrameSize& part : go.frame_sizes(function)) {
      rule = {};
      if (part.size >= 0 && part.size < (int64_t(1) << 30)) {
        rule.kind = UnwindKind::Register;
        rule.offset = int32_t(part.size) + 8;
        // Go keeps nothing across calls but the frame pointer, which assembly does as it likes.
        for (int16_t& saved : rule.saved) saved = UnwindRule::kLost;
        if (part.size == 0) rule.saved[1] = UnwindRule::kUnchanged;
      }
      builder.add_row(at->value + part.begin, rule);
    }
  }
}

// The kernel's rt_sigframe, as a signal handler's return finds it at the stack pointer.
UnwindRule signal_return_rule() {
  UnwindRule rule;
  rule.kind = UnwindKind::Dereferenced;
  rule.base = rule.saved_base = kStackPointer;
  rule.flags = UnwindRule::kSignalFrame;
  rule.offset = 160;
  constexpr int16_t kSaved[] = {128, 120, 72, 80, 88, 96};
  std::ranges::copy(kSaved, rule.saved);
  rule.return_address = 168;
  return rule;
}

// musl and Go describe the code that a signal handler returns to in no table: mov $15, %rax; syscall.
void add_signal_returns(const ElfFile& file, TableBuilder& builder) {
  constexpr std::string_view kCode("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);
  constexpr int kMost = 4;
  builder.remember_functions();
  int found = 0;
  for (const Segment& segment : file.loads()) {
    if (!segment.is_executable()) continue;
    std::string_view text = as_text(file.stored_bytes(segment));
    for (size_t at = text.find(kCode); at != std::string_view::npos && found < kMost;
         at = text.find(kCode, at + 1)) {
      uint64_t begin = segment.offset.value + at;
      // One byte early: a return address is looked up by the byte before it.
      if (begin == 0 || !builder.begin_function(begin - 1, begin + kCode.size())) continue;
      builder.add_row(begin - 1, signal_return_rule());
      ++found;
    }
  }
}

}  // namespace

const UnwindRule& UnwindTable::at(uint64_t file_offset) const {
  static const UnwindRule kUnknown;
  auto after = std::upper_bound(rows.begin(), rows.end(), file_offset,
                                [](uint64_t at, const UnwindRow& row) { return at < row.offset; });
  if (after == rows.begin()) return kUnknown;
  return rules[(after - 1)->rule];
}

UnwindTable read_unwind_table(const ElfFile& file, const ElfFile* debug_file, const Pclntab* go) {
  TableBuilder builder;
  if (FrameSection section = find_eh_frame(file); !section.bytes.empty()) add_section(file, section, builder);
  if (go != nullptr) {
    add_go(file, *go, builder);
  } else {
    add_debug_frame(file, file, builder);
    if (debug_file != nullptr) add_debug_frame(file, *debug_file, builder);
  }
  // Only what stands alone has its own: static programs, Go's, musl.
  if (go != nullptr || file.dynamic().needed.empty()) add_signal_returns(file, builder);
  return builder.finish();
}

}  // namespace uscope::image
