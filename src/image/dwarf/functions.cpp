#include "image/dwarf/functions.h"

#include <dwarf.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "image/abi_sysv.h"
#include "image/dwarf/entry_places.h"
#include "image/dwarf/frame_places.h"
#include "image/dwarf/go_attributes.h"
#include "image/dwarf/ranges.h"
#include "image/dwarf/variables.h"

namespace uscope::image::dwarf {
namespace {

constexpr size_t max_parameters = 1000;
constexpr size_t max_variables = 10000;
constexpr int max_block_depth = 200;

bool covers(const Die& die, uint64_t address) {
  bool inside = false;
  for_each_range(die, [&](uint64_t low, uint64_t high) { inside |= low <= address && address < high; });
  return inside;
}

// A function's own parameters in order. gcc has those of a C++ parameter pack together in a DIE of their own.
template <typename Visit>
void for_each_parameter(const Die& function, Visit&& visit) {
  for_each_child(function, [&](const Die& child) {
    if (child.tag() == DW_TAG_formal_parameter) return visit(child);
    bool goes_on = true;
    if (child.tag() == DW_TAG_GNU_formal_parameter_pack) {
      for_each_child(child, [&](const Die& one) {
        if (one.tag() == DW_TAG_formal_parameter) goes_on = visit(one);
        return goes_on;
      });
    }
    return goes_on;
  });
}

}  // namespace

Die FunctionReader::find(const Unit& unit, uint64_t address) const {
  const auto& functions = unit.index().functions;
  auto after = std::upper_bound(functions.begin(), functions.end(), address,
                                [](uint64_t at, const FunctionRange& range) { return at < range.low; });
  // Nested ranges do not occur but in broken files; a few steps back are enough for those.
  for (int steps = 0; after != functions.begin() && steps < 64; steps++) {
    --after;
    if (address < after->high) return unit.die_at(after->die);
  }
  return {};
}

Function FunctionReader::read(const Die& die, bool with_parameters) const {
  Function function;
  function.name = name_of(die);
  function.language = die.unit->facts().language;
  function.qualified = qualified_name(die);
  if (function.language == Language::Go) function.name = unqualified_go_name(function.name);
  function.linkage_name = die.inherited_string(DW_AT_linkage_name);
  if (function.linkage_name.empty()) function.linkage_name = die.inherited_string(DW_AT_MIPS_linkage_name);
  uint64_t entry = entry_of(die).value_or(0);
  function.entry = {entry};
  for_each_range(die, [&](uint64_t low, uint64_t high) { function.ranges.push_back({{low}, {high}}); });
  std::stable_partition(function.ranges.begin(), function.ranges.end(),
                        [&](const AddressRange& range) { return range.contains({entry}); });
  function.return_type = TypeReader::type_attr(die);
  auto flag = [&](uint16_t name) {
    auto attr = die.inherited(name);
    return attr && attr->value != 0;
  };
  function.is_external = flag(DW_AT_external);
  function.compiler = compiler_of(die.unit->facts().producer);
  function.is_noreturn = flag(DW_AT_noreturn);
  // The standard's own say nothing of registers; those of vendors are all other conventions.
  auto convention = die.inherited(DW_AT_calling_convention);
  function.has_other_convention = convention && convention->value >= DW_CC_lo_user;
  if (auto line = die.inherited(DW_AT_decl_line)) {
    function.declared = {types_.decl_file(die), uint32_t(line->value),
                         uint32_t(die.inherited(DW_AT_decl_column).value_or(Attr{}).value)};
  }
  for_each_child(die, [&](const Die& child) {
    // They come first, but for those of a template.
    function.has_parameters =
        child.tag() == DW_TAG_formal_parameter || child.tag() == DW_TAG_GNU_formal_parameter_pack;
    return child.tag() == DW_TAG_template_type_parameter || child.tag() == DW_TAG_template_value_parameter;
  });
  if (with_parameters) function.parameters = parameters_at_entry(die, function);
  return function;
}

std::vector<Variable> FunctionReader::parameters_at_entry(const Die& die, const Function& function) const {
  EntryPlaces places(store_, types_, frames_, prologue_ends_, die, function);
  std::unordered_set<std::string_view> results;
  for_each_parameter(die, [&](const Die& child) {
    // Go before 1.20 lists the results of a function with defer twice. A blank name (_) may well repeat.
    std::string_view name = child.inherited_string(DW_AT_name);
    bool is_result = child.flag(DW_AT_variable_parameter);
    if (is_result && name != "_" && !results.insert(name).second) return true;
    places.add(child);
    return places.size() < max_parameters;
  });
  return places.finish();
}

std::vector<Variable> FunctionReader::parameters_at(const Die& function, uint64_t address) const {
  VariableReader reader(types_, frames_, *function.unit, function, address, true);
  if (reader.at_entry()) return read(function).parameters;
  FramePlaces places(store_, types_, frames_, prologue_ends_, reader, function, address);
  std::vector<Variable> parameters;
  for_each_parameter(function, [&](const Die& child) {
    Variable variable = reader.read(child);
    places.settle(variable, reader.is_from_list(child), true);
    if (!variable.name.empty()) parameters.push_back(std::move(variable));
    return parameters.size() < max_parameters;
  });
  return parameters;
}

std::vector<Variable> FunctionReader::variables_at(const Die& function, uint64_t address) const {
  std::vector<Variable> result;
  std::vector<std::vector<Variable>> levels;
  VariableReader reader(types_, frames_, *function.unit, function, address, true);
  FramePlaces places(store_, types_, frames_, prologue_ends_, reader, function, address);
  // Inner blocks hide outer ones, so the innermost level comes first in the answer.
  Die at = function;
  bool in_inlined = false;
  for (int depth = 0; at && depth < max_block_depth; depth++) {
    Die inner;
    std::vector<Variable> level;
    if (depth == 0) level = parameters_at(function, address);
    for_each_child(at, [&](const Die& child) {
      bool is_parameter = child.tag() == DW_TAG_formal_parameter;
      if ((is_parameter && depth != 0) || child.tag() == DW_TAG_variable) {
        Variable variable = reader.read(child);
        places.settle(variable, reader.is_from_list(child), false);
        variable.in_inlined = in_inlined;
        if (!variable.name.empty()) level.push_back(std::move(variable));
      } else if ((child.tag() == DW_TAG_lexical_block || child.tag() == DW_TAG_inlined_subroutine ||
                  child.tag() == DW_TAG_try_block || child.tag() == DW_TAG_catch_block) &&
                 covers(child, address)) {
        inner = child;
      }
      return level.size() < max_variables;
    });
    levels.push_back(std::move(level));
    if (inner && inner.tag() == DW_TAG_inlined_subroutine) in_inlined = true;
    at = inner;
  }
  std::unordered_set<std::string> seen;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    for (Variable& variable : *level) {
      if (seen.insert(variable.name).second) result.push_back(std::move(variable));
    }
  }
  return result;
}

std::vector<InlinedCopy> FunctionReader::inlined_at(const Die& function, uint64_t address) const {
  std::vector<InlinedCopy> copies;
  std::string caller = qualified_name(function);
  Die at = function;
  for (int depth = 0; at && depth < max_block_depth; depth++) {
    Die inner;
    for_each_child(at, [&](const Die& child) {
      bool is_block = child.tag() == DW_TAG_lexical_block || child.tag() == DW_TAG_inlined_subroutine;
      if (is_block && covers(child, address)) inner = child;
      return !inner;
    });
    if (inner && inner.tag() == DW_TAG_inlined_subroutine) copies.push_back(read_inlined(inner, caller));
    at = inner;
  }
  std::reverse(copies.begin(), copies.end());
  return copies;
}

InlinedCopy FunctionReader::read_inlined(const Die& inlined, const std::string& caller) const {
  InlinedCopy copy;
  copy.callee = qualified_name(inlined);
  copy.caller = caller;
  copy.address = {entry_of(inlined).value_or(0)};
  if (auto line = inlined.number(DW_AT_call_line)) copy.call_site.line = uint32_t(*line);
  if (auto column = inlined.number(DW_AT_call_column)) copy.call_site.column = uint32_t(*column);
  if (auto file = inlined.number(DW_AT_call_file))
    copy.call_site.file = types_.file_name(*inlined.unit, *file);
  return copy;
}

void FunctionReader::for_each_inlined(const Die& function,
                                      const std::function<bool(const Die&)>& visit) const {
  // One pass in file order over all that the function holds.
  const Unit& unit = *function.unit;
  Bytes bytes = unit.section();
  uint64_t end = function.end_of_subtree();
  uint64_t position = function.end_of_attrs();
  while (position < end && position < bytes.size()) {
    if (bytes[position] == 0) {
      position++;
      continue;
    }
    Die die = unit.die_at(position);
    if (!die) return;
    if (die.tag() == DW_TAG_inlined_subroutine && !visit(die)) return;
    position = die.end_of_attrs();
  }
}

std::vector<Variable> FunctionReader::globals_of(const Unit& unit) const {
  std::vector<Variable> result;
  VariableReader reader(types_, frames_, unit, Die(), 0);
  // Namespaces hold globals too.
  std::vector<std::pair<Die, int>> holders{{unit.root(), 0}};
  while (!holders.empty() && result.size() < max_variables) {
    auto [holder, depth] = holders.back();
    holders.pop_back();
    for_each_child(holder, [&](const Die& child) {
      if (child.tag() == DW_TAG_namespace && depth < 32) holders.emplace_back(child, depth + 1);
      if (child.tag() == DW_TAG_variable && child.attr(DW_AT_location)) {
        Variable variable = reader.read(child);
        variable.name = qualified_name(child);
        variable.is_global = true;
        result.push_back(std::move(variable));
      }
      return result.size() < max_variables;
    });
  }
  return result;
}

}  // namespace uscope::image::dwarf
