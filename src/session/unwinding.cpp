#include "session/unwinding.h"

#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "image/btf/btf.h"
#include "image/elf/debug_files.h"
#include "process/maps.h"
#include "session/kernel_device.h"
#include "symbols/library_search.h"

namespace uscope::session {
namespace {

using codegen::ImageEntry;
using codegen::ImageKey;
using codegen::RuleEntry;
using image::UnwindRule;

// What is mapped later shall find room: the libraries of a plug-in.
constexpr uint32_t kSpareRows = 128u << 10, kSpareRules = 4096;
constexpr size_t kMostRows = size_t(32) << 20;

static_assert(sizeof(RuleEntry) == sizeof(UnwindRule));
static_assert(offsetof(RuleEntry, offset) == offsetof(UnwindRule, offset) &&
              offsetof(RuleEntry, saved) == offsetof(UnwindRule, saved) &&
              offsetof(RuleEntry, return_address) == offsetof(UnwindRule, return_address));
static_assert(RuleEntry::kUnchanged == UnwindRule::kUnchanged && RuleEntry::kLost == UnwindRule::kLost &&
              RuleEntry::kSignalFrame == UnwindRule::kSignalFrame &&
              uint8_t(image::UnwindKind::OtherStack) == RuleEntry::OtherStack &&
              uint8_t(image::UnwindKind::Plt) == RuleEntry::Plt);

RuleEntry rule_entry(const UnwindRule& rule) {
  RuleEntry entry;
  std::memcpy(static_cast<void*>(&entry), &rule, sizeof entry);
  return entry;
}

template <typename T>
Bytes bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}
template <typename T>
Bytes bytes_from(const std::vector<T>& values, size_t first) {
  return {reinterpret_cast<const uint8_t*>(values.data() + first), (values.size() - first) * sizeof(T)};
}

std::optional<ImageKey> key_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return ImageKey{info.st_ino, kernel_device(info.st_dev)};
}

// "/proc/123/root" of a path below it: a file of another mount namespace.
std::string root_of(const std::string& path) {
  constexpr std::string_view kProc = "/proc/", kRoot = "/root/";
  if (!path.starts_with(kProc)) return "";
  size_t end = path.find_first_not_of("0123456789", kProc.size());
  if (end == std::string::npos || path.compare(end, kRoot.size(), kRoot) != 0) return "";
  return path.substr(0, end + kRoot.size() - 1);
}

std::vector<RuleEntry> common_rules() {
  std::vector<RuleEntry> rules(codegen::kFirstImageRule);
  RuleEntry& by_frame_pointer = rules[codegen::kFramePointerRule];
  by_frame_pointer.kind = RuleEntry::Register;
  by_frame_pointer.base = image::kFramePointer;
  by_frame_pointer.offset = 16;
  // Whatever else such code saved, nobody knows where.
  for (int16_t& saved : by_frame_pointer.saved) saved = RuleEntry::kLost;
  by_frame_pointer.saved[1] = -16;
  RuleEntry& leaf = rules[codegen::kLeafRule];
  leaf.kind = RuleEntry::Register;
  leaf.offset = 8;
  return rules;
}

}  // namespace

std::optional<codegen::VmaLayout> kernel_vma_layout() {
  auto types = image::Btf::of_running_kernel();
  if (!types) return std::nullopt;
  codegen::VmaLayout layout;
  struct Wanted {
    std::string_view structure, member;
    uint32_t codegen::VmaLayout::*where;
  };
  using L = codegen::VmaLayout;
  const Wanted wanted[] = {
      {"vm_area_struct", "vm_start", &L::vm_start},
      {"vm_area_struct", "vm_end", &L::vm_end},
      {"vm_area_struct", "vm_pgoff", &L::vm_pgoff},
      {"vm_area_struct", "vm_flags", &L::vm_flags},
      {"vm_area_struct", "vm_file", &L::vm_file},
      {"file", "f_inode", &L::f_inode},
      {"inode", "i_ino", &L::i_ino},
      {"inode", "i_sb", &L::i_sb},
      {"super_block", "s_dev", &L::s_dev},
  };
  for (const Wanted& one : wanted) {
    auto offset = types->offset_of(one.structure, one.member);
    if (!offset) return std::nullopt;
    layout.*one.where = *offset;
  }
  return layout;
}

codegen::ImageEntry Unwinding::read_tables(const std::string& path, const std::string& root) {
  if (rules_.empty()) rules_ = common_rules();
  ImageEntry entry;
  entry.flags = ImageEntry::kFramePointers;
  auto file = image::ElfFile::open(path);
  if (!file) return entry;
  auto go = image::Pclntab::find(*file);
  const image::Pclntab* pclntab = go && *go ? &**go : nullptr;
  image::UnwindTable table = image::read_unwind_table(*file, nullptr, pclntab);
  if (table.rows.size() < 2) {
    image::DebugFiles debug = image::find_debug_files(*file, {.root = root});
    if (debug.file) table = image::read_unwind_table(*file, &*debug.file, pclntab);
  }
  if (table.rows.empty() || rows_.size() + table.rows.size() > kMostRows) return entry;
  entry.flags = 0;
  entry.first_row = uint32_t(rows_.size());
  entry.row_count = uint32_t(table.rows.size());
  auto first_rule = uint32_t(rules_.size());
  for (const image::UnwindRow& row : table.rows) rows_.push_back({row.offset, first_rule + row.rule});
  for (const UnwindRule& rule : table.rules) rules_.push_back(rule_entry(rule));
  return entry;
}

void Unwinding::add_file(const std::string& path, const std::string& root, std::optional<ImageKey> key) {
  if (!key) key = key_of(path);
  if (!key || !known_.insert(*key).second) return;
  Image image{path, root, *key, read_tables(path, root), nullptr, false};
  leave_process(image.path, image.root);
  if (image.path.starts_with("/proc/")) open(image);
  images_.push_back(std::move(image));
}

void Unwinding::open(Image& image) {
  if (image.is_opened) return;
  image.is_opened = true;
  auto symbols = symbols::ImageSymbols::open(image.path, image.root, names_.options().debug_folders);
  if (symbols) image.symbols = std::make_unique<symbols::ImageSymbols>(std::move(*symbols));
}

void Unwinding::add_program(const std::string& path) {
  if (path.empty() || !programs_.insert(path).second) return;
  std::string root = root_of(path);
  add_file(path, root);
  auto file = image::ElfFile::open(path);
  if (!file) return;
  symbols::LibrarySearch search;
  search.root = root;
  if (!root.empty() && path.starts_with(root)) search.image_path = path.substr(root.size());
  if (std::string_view loader = file->interpreter(); !loader.empty())
    add_file(root + symbols::real_path_below(root, loader), root);
  for (const symbols::Library& library : symbols::find_libraries(*file, search))
    if (!library.real_path.empty()) add_file(root + library.real_path, root);
}

void Unwinding::add_process(pid_t pid) {
  auto maps = process::Maps::of(pid);
  if (!maps) return;
  std::string root = "/proc/" + std::to_string(pid) + "/root";
  for (const process::MappedImage& mapped : maps->images()) {
    auto path = process::path_to_mapped_file(pid, mapped.mappings.front());
    if (path) add_file(*path, root, ImageKey{mapped.inode, kernel_device(mapped.device)});
  }
}

void Unwinding::size_maps(codegen::Compiled& compiled) {
  maps_ = compiled.unwind;
  if (!maps_) return;
  if (followed_) add_code_of_process();
  if (rules_.empty()) rules_ = common_rules();
  row_room_ = uint32_t(rows_.size() + rows_.size() / 4) + kSpareRows;
  rule_room_ = uint32_t(rules_.size() + rules_.size() / 4) + kSpareRules;
  compiled.program.maps[maps_->rows].max_entries = row_room_;
  compiled.program.maps[maps_->rules].max_entries = rule_room_;
}

Status Unwinding::send_tables(engine::Engine& engine, const Image& image) {
  if (rows_.size() > row_room_ || rules_.size() > rule_room_) {
    rows_.resize(sent_rows_);
    rules_.resize(sent_rules_);
    return fail("stacks through " + image.path + " end there: there is no room for more unwind tables");
  }
  TRY_STATUS(engine.set_elements(maps_->rows, sent_rows_, bytes_from(rows_, sent_rows_)));
  TRY_STATUS(engine.set_elements(maps_->rules, sent_rules_, bytes_from(rules_, sent_rules_)));
  sent_rows_ = uint32_t(rows_.size());
  sent_rules_ = uint32_t(rules_.size());
  return {};
}

Status Unwinding::add_to_engine(engine::Engine& engine, const Image& image) {
  TRY_STATUS(send_tables(engine, image));
  return engine.set_entry(maps_->images, bytes_of(image.key), bytes_of(image.entry));
}

Status Unwinding::fill(engine::Engine& engine) {
  if (inside_ && !maps_) engine.when_libraries_change([this] { remember(*inside_); });
  if (!maps_) return {};
  if (followed_) {
    engine.when_libraries_change([this, &engine] { (void)list_code(engine); });
    return list_code(engine);
  }
  engine_ = &engine;
  for (const Image& image : images_) TRY_STATUS(add_to_engine(engine, image));
  if (images_.empty()) TRY_STATUS(engine.set_elements(maps_->rules, 0, bytes_from(rules_, 0)));
  return {};
}

bool Unwinding::take(engine::Engine& engine, Bytes record) {
  ByteReader reader(record);
  if (event::RecordKind(reader.u32()) != event::RecordKind::UnknownImage) return false;
  reader.skip(4);
  auto pid = pid_t(reader.u64());
  auto mapping = reader.read<codegen::MappingEntry>();
  if (!reader.failed() && followed_) {
    asked_.push_back(mapping.start);
    keep_up(engine);
    return true;
  }
  if (reader.failed() || !maps_ || known_.contains(mapping.image)) return true;
  auto maps = process::Maps::of(pid);
  const process::Mapping* found = maps ? maps->find(ProcessAddr{mapping.start}) : nullptr;
  auto path =
      found ? process::path_to_mapped_file(pid, *found) : Result<std::string>(fail("the process is gone"));
  if (!path) {
    // Another process may bring it again.
    (void)engine.remove_entry(maps_->images, bytes_of(mapping.image));
    return true;
  }
  add_file(*path, "/proc/" + std::to_string(pid) + "/root", mapping.image);
  (void)add_to_engine(engine, images_.back());
  return true;
}

const codegen::MappingEntry* Unwinding::past_at(uint64_t process, uint64_t address) const {
  auto after = past_.upper_bound({process, address});
  if (after == past_.begin()) return nullptr;
  --after;
  return after->first.first == process && address < after->second.end ? &after->second : nullptr;
}

void Unwinding::read_past() {
  past_batch_ = batch_;
  (void)engine_->for_each_entry(maps_->mappings, [&](const engine::MapEntry& entry) {
    codegen::MappingKey key;
    codegen::MappingEntry value;
    if (entry.key.size() != sizeof key || entry.values.empty() || entry.values[0].size() != sizeof value)
      return;
    std::memcpy(&key, entry.key.data(), sizeof key);
    std::memcpy(&value, entry.values[0].data(), sizeof value);
    past_[{key.process, key.start}] = value;
  });
  // Where two files lay in turn, nobody knows which one is meant.
  std::vector<std::pair<uint64_t, uint64_t>> doubtful;
  for (auto at = past_.begin(); at != past_.end(); ++at)
    for (auto next = std::next(at);
         next != past_.end() && next->first.first == at->first.first && next->second.start < at->second.end;
         ++next) {
      const codegen::MappingEntry &one = at->second, &other = next->second;
      if (one.image == other.image && one.start - one.offset == other.start - other.offset) continue;
      doubtful.push_back(at->first);
      doubtful.push_back(next->first);
    }
  for (const auto& key : doubtful) past_.erase(key);
}

std::optional<PastMapping> Unwinding::find(uint32_t process, uint64_t address) {
  const bool can_read = engine_ != nullptr && maps_ && !inside_;
  const bool was_read = past_batch_ == batch_;
  if (can_read && !was_read) read_past();
  const codegen::MappingEntry* found = past_at(process, address);
  if (found == nullptr && can_read && was_read) {
    read_past();
    found = past_at(process, address);
  }
  if (found == nullptr) found = inherited(address);
  if (found == nullptr) return std::nullopt;
  for (Image& image : images_) {
    if (image.key != found->image) continue;
    if (std::exchange(image.batch, batch_) != batch_)
      image.is_written_anew |= is_written_anew(image.path, image.version);
    // Nobody knows which of the two the process had.
    if (image.is_written_anew) return std::nullopt;
    open(image);
    return PastMapping{image.symbols.get(), image.path, FileOffset{found->offset + (address - found->start)}};
  }
  return std::nullopt;
}

}  // namespace uscope::session
