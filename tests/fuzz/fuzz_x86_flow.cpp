// Arbitrary bytes as a function's code, parts, landing pads and tables: nothing may crash, hang or contradict
// itself.
#include <cstdlib>
#include <cstring>

#include "x86/boundaries.h"
#include "x86/effects.h"
#include "x86/entry_site.h"
#include "x86/go_prologue.h"
#include "x86/liveness.h"
#include "x86/relocate.h"
#include "x86/window.h"

using namespace uscope;
using namespace uscope::x86;

namespace {

constexpr uint64_t code_address = 0x10000;
constexpr uint64_t cold_address = 0x20000;
constexpr uint64_t data_address = 0x30000;

void require(bool holds) {
  if (!holds) std::abort();
}

// The first bytes choose the sizes; the rest is the function, its cold part and its data.
FunctionCode split(Bytes input) {
  ByteReader reader(input);
  const uint64_t hot = reader.u16() % 4096, cold = reader.u8(), pads = reader.u8() % 4;
  FunctionCode code;
  for (uint64_t n = 0; n < pads; ++n) code.landing_pads.push_back(code_address + reader.u16() % 4096);
  if (reader.u8() & 1) code.code_pointers.push_back(code_address + reader.u16() % 4096);
  const Bytes rest = slice_from(input, reader.position());
  const Bytes hot_bytes = rest.first(std::min<uint64_t>(hot, rest.size()));
  const Bytes after = rest.subspan(hot_bytes.size());
  const Bytes cold_bytes = after.first(std::min<uint64_t>(cold, after.size()));
  code.parts.push_back({code_address, hot_bytes});
  if (!cold_bytes.empty()) code.parts.push_back({cold_address, cold_bytes});
  const Bytes data = after.subspan(cold_bytes.size());
  code.read_image = [data](uint64_t address, uint64_t size) {
    return address < data_address ? Bytes() : slice(data, address - data_address, size).value_or(Bytes());
  };
  return code;
}

void check_instruction(const Flow& flow, const Instruction& i) {
  require(i.length > 0 && i.length <= max_instruction_length);
  require(flow.find(i.address) != nullptr);
  const Bytes bytes = flow.bytes_at(i.address);
  require(bytes.size() >= i.length);
  const auto effects = effects_of(bytes.first(i.length));
  require(effects && (effects->overwritten & ~effects->written) == 0);
  require(operands_of(bytes.first(i.length)).has_value());
  kernel_handling(bytes, i.address);
}

void check_move(const CodeRange& run, uint64_t to, const RelocateOptions& options) {
  const auto copy = relocate(run, to, options);
  if (!copy) return require(!copy.error().text().empty());
  uint32_t original = 0, place = 0;
  for (const auto& p : copy->places) {
    require(p.original >= original && p.copy >= place && p.copy <= copy->bytes.size());
    require(copy->copy_of(p.original) == p.copy);
    require(decode(Bytes(copy->bytes).subspan(p.copy), to + p.copy).has_value());
    original = p.original, place = p.copy;
  }
}

void check_site(const Flow& flow, uint64_t address) {
  const auto window = window_at(flow, address, near_jump_size, 3);
  if (window) {
    require(window->size() >= near_jump_size && window->start == address);
    const Bytes bytes = flow.bytes_at(window->start).first(window->end - window->start);
    check_move({window->start, bytes}, code_address + 0x100000, {});
  } else {
    require(!window.error().text().empty());
  }
  if (const auto before = window_before(flow, address)) require(before->start < before->end);
  liveness_at(flow, address);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const FunctionCode code = split({data, size});
  const Boundaries boundaries(code);
  const Flow& flow = boundaries.flow();
  require(flow.complete() == flow.gap_text().empty());
  for (const Instruction& i : flow.instructions()) check_instruction(flow, i);
  for (const Exit& exit : flow.exits()) require(flow.find(exit.address) != nullptr);
  size_t sites = 0;
  for (const Instruction& i : flow.instructions()) {
    if (++sites > 8) break;
    check_site(flow, i.address);
  }
  for (uint64_t a = code_address; a < code_address + std::min<uint64_t>(size, 256); ++a) {
    const Boundary boundary = boundaries.at(a);
    require(!boundary.text(a).empty());
    require(boundary.is_start() || flow.find(a) == nullptr);
  }
  const EntrySite site =
      cheapest_entry_site(flow, {.keep = go_argument_registers, .go = true, .new_nops = true});
  require(flow.instructions().empty() || flow.find(site.address) || site.address == flow.entry());
  find_go_stack_check(flow);
  for (const CodeRange& part : code.parts) {
    check_move(part, 0x7f00'0000'0000, {.calls = CallStyle::return_to_copy, .start_stays_in_copy = true});
    check_move(part, part.address + 0x1000, {});
  }
  return 0;
}
