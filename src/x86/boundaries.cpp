#include "x86/boundaries.h"

#include <fmt/format.h>

#include <algorithm>

namespace uscope::x86 {

std::string Boundary::text(uint64_t address) const {
  switch (answer) {
    case Answer::start:
      return fmt::format("{:#x} is the start of a {}-byte instruction", address, instruction.length);
    case Answer::inside:
      return fmt::format("{:#x} is inside the {}-byte instruction at {:#x}", address, instruction.length,
                         instruction.address);
    case Answer::unknown:
      return fmt::format(
          "whether an instruction starts at {:#x} cannot be known: there is data among the code", address);
    case Answer::outside:
      return fmt::format("{:#x} is outside of the function", address);
  }
  return {};
}

Boundaries::Boundaries(const FunctionCode& code) : flow_(analyze(code)) {
  for (const CodeRange& part : flow_.parts()) sweeps_.push_back(sweep(part, flow_));
}

Boundaries::Sweep Boundaries::sweep(const CodeRange& part, const Flow& flow) {
  Sweep result{.part = part};
  if (part.bytes.size() > UINT32_MAX) {
    result.consistent = false;
    return result;
  }
  Decoder decoder(part.bytes, part.address);
  while (auto instruction = decoder.next())
    result.starts.push_back(uint32_t(instruction->address - part.address));
  if (!decoder.at_end()) result.consistent = false;
  // Execution that begins an instruction where the sweep does not shows that the sweep went through data.
  // Jumping over a prefix is no such sign: both readings end together.
  for (const Instruction& reached : flow.instructions()) {
    if (!part.contains(reached.address)) continue;
    const auto offset = uint32_t(reached.address - part.address);
    auto after = std::upper_bound(result.starts.begin(), result.starts.end(), offset);
    if (after == result.starts.begin()) continue;
    const uint32_t start = *(after - 1);
    const uint64_t end = after == result.starts.end() ? decoder.position() : part.address + *after;
    if (start != offset && end != reached.end()) result.consistent = false;
  }
  return result;
}

Boundary Boundaries::at(uint64_t address) const {
  if (const Instruction* reached = flow_.find(address)) return {Boundary::Answer::start, *reached};
  for (unsigned back = 1; back < max_instruction_length; ++back) {
    const Instruction* before = flow_.find(address - back);
    if (before && before->covers(address)) return {Boundary::Answer::inside, *before};
  }
  for (const Sweep& sweep : sweeps_) {
    if (!sweep.part.contains(address)) continue;
    if (!sweep.consistent) return {};
    const auto offset = uint32_t(address - sweep.part.address);
    auto after = std::upper_bound(sweep.starts.begin(), sweep.starts.end(), offset);
    if (after == sweep.starts.begin()) return {};
    const uint32_t start = *(after - 1);
    const auto instruction = decode(sweep.part.bytes.subspan(start), sweep.part.address + start);
    if (!instruction || !instruction->covers(address)) return {};
    return {start == offset ? Boundary::Answer::start : Boundary::Answer::inside, *instruction};
  }
  return {Boundary::Answer::outside, {}};
}

}  // namespace uscope::x86
