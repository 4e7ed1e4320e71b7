#include "x86/jump_table.h"

#include <algorithm>
#include <cstring>

namespace uscope::x86 {
namespace {

constexpr uint32_t max_bounded_entries = 65'536;
constexpr uint32_t max_guessed_entries = 4'096;
constexpr unsigned max_copies_followed = 6;
constexpr uint32_t max_cases_outside = 16;  // in a row

template <typename T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

JumpTargets JumpResolver::resolve(const Instruction& jump) {
  jump_ = &jump;
  targets_ = {};
  if (exhausted()) {
    targets_.unknown = true;
    return std::move(targets_);
  }
  --jumps_left_;
  const auto operands = operands_of(graph_.bytes_of(jump));
  if (!operands) {
    targets_.unknown = true;
  } else if (operands->first.is_memory()) {
    resolve_memory(jump, operands->first);
  } else {
    resolve_register(jump.address, operands->first.reg, 0);
  }
  sort_unique(targets_.inside);
  return std::move(targets_);
}

void JumpResolver::resolve_register(uint64_t at, Register reg, unsigned depth) {
  if (reg == Register::none || depth > max_copies_followed) {
    targets_.unknown = true;
    return;
  }
  const Definitions definitions = definitions_.definitions(at, reg);
  if (definitions.cut) targets_.unknown = true;
  if (definitions.from_outside) targets_.pointer = true;
  for (const Instruction* definition : definitions.found) {
    if (definition->kind == Kind::call || definition->kind == Kind::indirect_call) {
      targets_.pointer = true;
      continue;
    }
    const auto operands = operands_of(graph_.bytes_of(*definition));
    if (!operands) {
      targets_.unknown = true;
    } else if (auto value = constant_of(*definition, *operands)) {
      if (graph_.contains(*value)) {
        targets_.inside.push_back(*value);
      } else {
        targets_.pointer = true;
      }
    } else if (operands->operation == Operation::mov && operands->second.is_memory()) {
      resolve_memory(*definition, operands->second);
    } else if (operands->operation == Operation::mov && operands->second.is_register()) {
      resolve_register(definition->address, operands->second.reg, depth + 1);
    } else if (operands->operation == Operation::add) {
      resolve_sum(*definition, *operands);
    } else if (operands->operation == Operation::pop) {
      targets_.pointer = true;
    } else {
      targets_.computed = true;  // pointers that glibc encrypts, conditional moves
    }
  }
}

void JumpResolver::resolve_memory(const Instruction& load, const Operand& memory) {
  if (memory.segment || memory.rip_base || memory.index == Register::none) {
    targets_.pointer = true;
    return;
  }
  std::vector<uint64_t> tables;
  if (memory.reg == Register::none) {
    tables.push_back(0);
  } else {
    auto constants = definitions_.constants(load.address, memory.reg);
    tables = std::move(constants.values);
    // Compilers use a switch's table by its own address. An array found through a pointer is the program's:
    // of functions, or of labels, and then their addresses are taken.
    if (!constants.complete || tables.empty()) targets_.computed = true;
  }
  if (memory.scale != 8) {
    (tables.empty() ? targets_.computed : targets_.unknown) = true;
    return;
  }
  for (uint64_t table : tables) {
    TableShape shape{.address = table + uint64_t(memory.value), .base = std::nullopt, .bound = {}};
    shape.bound = index_bound(load, memory.index);
    const auto first = read_entry(shape, 0);
    if (!first || *first == 0) {
      targets_.unknown = true;
    } else if (!graph_.contains(*first)) {
      targets_.pointer = true;  // a table of functions
    } else if (!read_table(shape)) {
      targets_.unknown = true;
    }
  }
}

// The loads of 32-bit offsets that a register's value comes from; empty if it can come from anything else.
std::vector<JumpResolver::Load> JumpResolver::offset_loads(uint64_t at, Register reg, unsigned depth) {
  std::vector<Load> loads;
  const Definitions definitions = definitions_.definitions(at, reg);
  if (definitions.cut || depth > max_copies_followed) return {};
  for (const Instruction* definition : definitions.found) {
    const auto operands = operands_of(graph_.bytes_of(*definition));
    if (!operands) return {};
    const Operand& source = operands->second;
    const bool extends = operands->operation == Operation::sign_extend;
    const bool moves = operands->operation == Operation::mov;
    const bool is_entry = (source.index != Register::none && source.scale == 4) || source.rip_base;
    if ((extends || moves) && source.is_memory() && source.bits == 32 && is_entry) {
      loads.push_back({definition, source});
    } else if ((extends || moves) && source.is_register()) {
      auto further = offset_loads(definition->address, source.reg, depth + 1);
      if (further.empty()) return {};
      loads.insert(loads.end(), further.begin(), further.end());
    } else {
      return {};
    }
  }
  return loads;
}

void JumpResolver::resolve_sum(const Instruction& sum, const Operands& operands) {
  if (!operands.first.is_register() || !operands.second.is_register()) {
    targets_.unknown = true;
    return;
  }
  Register offset = operands.first.reg, base = operands.second.reg;
  auto loads = offset_loads(sum.address, offset);
  if (loads.empty()) {
    std::swap(offset, base);
    loads = offset_loads(sum.address, offset);
  }
  if (loads.empty()) {
    targets_.unknown = true;
    return;
  }
  const auto bases = definitions_.constants(sum.address, base);
  for (const Load& load : loads)
    read_offset_tables(load, bases.complete ? bases.values : std::vector<uint64_t>(), base);
}

void JumpResolver::read_offset_tables(const Load& load, const std::vector<uint64_t>& bases,
                                      Register base_register) {
  std::vector<uint64_t> tables;
  bool certain = true;
  Operand memory = load.memory;
  IndexBound bound;
  if (memory.rip_base) {
    // The compiler worked out the index: one entry of a table.
    tables.push_back(load.instruction->memory_target);
    memory.value = 0;
    bound.exactly = 1;
  } else if (memory.reg == Register::none) {
    tables.push_back(0);
  } else {
    auto constants = definitions_.constants(load.instruction->address, load.memory.reg);
    tables = std::move(constants.values);
    certain = constants.complete;
  }
  // A base that was spilt to the stack, or merged from too many places: it can only come from one of the
  // function's own lea instructions, and what is no table of this function does not read as one.
  if (!certain || tables.empty()) {
    certain = false;
    tables = addresses_taken();
  }
  const bool same_register = memory.reg == base_register;
  if (!memory.rip_base) bound = index_bound(*load.instruction, memory.index);
  bool any = false;
  for (uint64_t table : tables) {
    TableShape shape{.address = table + uint64_t(memory.value), .base = table, .bound = bound};
    if (same_register || bases.empty()) {
      any |= read_table(shape);
      continue;
    }
    for (uint64_t base : bases) {
      shape.base = base;
      any |= read_table(shape);
    }
  }
  if (!any) targets_.unknown = true;
}

const std::vector<uint64_t>& JumpResolver::addresses_taken() {
  if (addresses_taken_of_ == graph_.instructions().size()) return addresses_taken_;
  addresses_taken_of_ = graph_.instructions().size();
  std::vector<uint64_t>& taken = addresses_taken_;
  taken.clear();
  for (const Instruction& i : graph_.instructions()) {
    if (!i.rip_relative || graph_.contains(i.memory_target)) continue;
    const auto operands = operands_of(graph_.bytes_of(i));
    if (operands && operands->operation == Operation::lea) taken.push_back(i.memory_target);
  }
  sort_unique(taken);
  constexpr size_t enough = 512;
  if (taken.size() > enough) taken.resize(enough);
  return taken;
}

std::optional<uint64_t> JumpResolver::read_entry(const TableShape& shape, uint32_t number) {
  if (!code_.read_image) return std::nullopt;
  const uint64_t size = shape.base ? 4 : 8;
  const Bytes bytes = code_.read_image(shape.address + number * size, size);
  if (bytes.size() < size) return std::nullopt;
  if (!shape.base) {
    uint64_t address;
    std::memcpy(&address, bytes.data(), sizeof address);
    return address;
  }
  int32_t offset;
  std::memcpy(&offset, bytes.data(), sizeof offset);
  return *shape.base + uint64_t(int64_t(offset));
}

// An empty block for the impossible case, placed last by the compiler, is the address of the function's end.
bool JumpResolver::is_end_of_part(uint64_t address) const {
  return std::ranges::any_of(graph_.parts(), [&](const CodeRange& part) { return part.end() == address; });
}

// Reads the entries that the code allows, or, where its bound is not known, as many as make sense. False:
// this is no table of this function.
bool JumpResolver::read_table(const TableShape& shape) {
  std::vector<uint64_t> inside;
  bool leaves = false;
  uint32_t outside = 0;  // the last entries that may lead out
  const bool exact = shape.bound.exactly.has_value();
  const uint32_t limit =
      exact ? std::min(*shape.bound.exactly, max_bounded_entries)
            : std::min(shape.bound.at_most.value_or(max_guessed_entries), max_guessed_entries);
  uint32_t number = 0;
  for (; number < limit && entries_left_ > 0; ++number) {
    --entries_left_;
    const auto target = read_entry(shape, number);
    if (!target) break;
    if (graph_.contains(*target)) {
      // Without a bound, what follows the table is read too; it shows by pointing between instructions.
      if (!exact && !graph_.at(*target) && !graph_.is_linear_start(*target)) break;
      inside.push_back(*target);
      leaves |= outside != 0;
      outside = 0;
      continue;
    }
    if (is_end_of_part(*target)) continue;
    if (exact) {
      leaves = true;
      continue;
    }
    // Or by pointing to where no case can be.
    const OutsideCase what =
        code_.case_outside && !inside.empty() ? code_.case_outside(*target) : OutsideCase::none;
    leaves |= what == OutsideCase::part;
    if (what == OutsideCase::none || ++outside > max_cases_outside) break;
  }
  if (inside.empty() || (exact && number < *shape.bound.exactly)) return false;
  targets_.inside.insert(targets_.inside.end(), inside.begin(), inside.end());
  targets_.leaves |= leaves;
  targets_.tables.push_back({.jump = jump_->address,
                             .address = shape.address,
                             .entries = number,
                             .entry_size = uint8_t(shape.base ? 4 : 8),
                             .bounded = exact});
  return true;
}

}  // namespace uscope::x86
