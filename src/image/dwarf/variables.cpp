#include "image/dwarf/variables.h"

#include <dwarf.h>

#include <cstdlib>
#include <string>

#include "image/dwarf/location_list.h"
#include "image/dwarf/padding.h"
#include "image/dwarf/ranges.h"

namespace uscope::image::dwarf {
namespace {
constexpr uint32_t rsp = 7;

// Compilers describe only the pieces that are there, up to the last one.
void add_missing_end(Location& location, uint64_t size) {
  uint64_t bits = 0;
  for (const LocPiece& piece : location.pieces) {
    if (piece.bit_size == 0) return;
    bits += piece.bit_size;
  }
  if (bits >= size * 8 || bits == 0) return;
  location.pieces.push_back(
      {.kind = LocPiece::Kind::OptimizedOut, .bit_size = size * 8 - bits, .reason = "optimized out here"});
}

}  // namespace

bool follows_variables(std::string_view producer) {
  return producer.find(" -O") != std::string_view::npos && producer.find(" -O0") == std::string_view::npos &&
         producer.find("-fno-var-tracking") == std::string_view::npos;
}

bool lists_what_is_passed(std::string_view producer) {
  if (!producer.starts_with("GNU ") || producer.starts_with("GNU GIMPLE")) return false;
  if (!follows_variables(producer)) return false;
  for (const char* option : {"-gno-", "-gstrict-dwarf", "-flto"}) {
    if (producer.find(option) != std::string_view::npos) return false;
  }
  // "GNU C++17 12.2.0 -O2": these are since 8.
  size_t version = producer.find(' ', 4);
  return version != std::string_view::npos &&
         std::atoi(std::string(producer.substr(version + 1)).c_str()) >= 8;
}

VariableReader::VariableReader(TypeReader& types, const FrameTable& frames, const Unit& unit,
                               const Die& function, uint64_t address, bool symbolic_cfa)
    : types_(types),
      frames_(frames),
      unit_(unit),
      function_(function),
      address_(address),
      symbolic_cfa_(symbolic_cfa) {
  at_entry_ = function && entry_of(function) == address;
}

std::optional<std::vector<LocOp>> VariableReader::cfa() const {
  if (symbolic_cfa_) return std::vector<LocOp>{{LocOp::Code::Register, cfa_register, 0}};
  return real_cfa();
}

std::optional<std::vector<LocOp>> VariableReader::real_cfa() const {
  // On entry the return address is on top of the stack, and the frame address is right above it.
  if (at_entry_) return std::vector<LocOp>{{LocOp::Code::Register, rsp, 0}, {LocOp::Code::AddConst, 0, 8}};
  auto rule = frames_.cfa_at(address_);
  if (!rule) return {};
  if (!rule->expression.empty()) {
    ExpressionContext plain{.unit = &unit_};
    return to_computation(rule->expression, plain);
  }
  if (rule->base > 16) return {};
  return std::vector<LocOp>{{LocOp::Code::Register, rule->base, 0}, {LocOp::Code::AddConst, 0, rule->offset}};
}

std::optional<std::vector<LocOp>> VariableReader::frame_base() const {
  if (!function_) return {};
  Die holder;
  auto attr = function_.inherited(DW_AT_frame_base, &holder);
  if (!attr) return {};
  auto found = expression_at(*holder.unit, *attr, address_);
  if (!found || found->expression.empty()) return {};
  ExpressionContext inner{.unit = holder.unit, .at_entry = at_entry_, .cfa = [this] { return cfa(); }};
  auto ops = to_computation(found->expression, inner);
  // A list is exact for each address, so its stack pointer is the one at the entry.
  bool counts_from_entry = symbolic_cfa_ && at_entry_ && found->from_list && ops && ops->size() == 2 &&
                           (*ops)[0].code == LocOp::Code::Register && (*ops)[0].number == rsp &&
                           (*ops)[1].code == LocOp::Code::AddConst;
  if (counts_from_entry) {
    (*ops)[0].number = cfa_register;
    (*ops)[1].value -= 8;
  }
  return ops;
}

ExpressionContext VariableReader::context() const {
  return {.unit = &unit_,
          .at_entry = at_entry_,
          .cfa = [this] { return cfa(); },
          .frame_base = [this] { return frame_base(); }};
}

Location VariableReader::constant_of(const Die& die, const Attr& value) const {
  LocPiece piece{.kind = LocPiece::Kind::Bytes};
  if (value.is_block() || value.form == DW_FORM_data16) {
    piece.bytes.assign(value.block.begin(), value.block.end());
  } else if (value.is_string()) {
    std::string_view text = die.unit->string(value);
    piece.bytes.assign(text.begin(), text.end());
  } else if (value.is_constant()) {
    uint64_t size = TypeReader::size_of(die.inherited_reference(DW_AT_type));
    if (size == 0 || size > 8) size = 8;
    piece.bytes.resize(size);
    std::memcpy(piece.bytes.data(), &value.value, size);
  } else {
    return optimized_out("its constant value is in a form that is not read");
  }
  Location location;
  location.pieces.push_back(std::move(piece));
  return location;
}

Location VariableReader::location_of(const Die& die, bool as_passed) const {
  Die holder;
  if (auto attr = die.inherited(DW_AT_location, &holder)) {
    auto found =
        as_passed ? expression_passed(holder, *attr, address_) : expression_at(*holder.unit, *attr, address_);
    if (!found) return optimized_out("not available at this instruction");
    if (found->expression.empty()) return optimized_out("optimized out");
    ExpressionContext here = context();
    here.unit = holder.unit;
    Location location = to_location(found->expression, here);
    add_missing_end(location, types_.get(TypeReader::type_attr(die)).size);
    if (location.pieces.size() > 1) {
      mark_padding(location, TypeReader::type_attr(die),
                   [this](TypeId id) -> const Type& { return types_.get(id); });
    }
    return location;
  }
  if (auto value = die.inherited(DW_AT_const_value, &holder)) return constant_of(die, *value);
  return optimized_out("optimized out");
}

bool VariableReader::is_from_list(const Die& die) {
  Die holder;
  auto attr = die.inherited(DW_AT_location, &holder);
  return attr && is_location_list(*holder.unit, *attr);
}

Variable VariableReader::read(const Die& die, bool as_passed) const {
  Variable variable;
  variable.name = name_of(die);
  variable.type = TypeReader::type_attr(die);
  variable.is_parameter = die.tag() == DW_TAG_formal_parameter;
  if (variable.is_parameter) {
    auto result = die.inherited(DW_AT_variable_parameter);
    variable.is_result = result && result->value != 0;
  }
  auto artificial = die.inherited(DW_AT_artificial);
  variable.is_artificial = artificial && artificial->value != 0;
  if (auto line = die.inherited(DW_AT_decl_line)) {
    variable.declared.line = uint32_t(line->value);
    variable.declared.file = types_.decl_file(die);
    variable.declared.column = uint32_t(die.inherited(DW_AT_decl_column).value_or(Attr{}).value);
  }
  variable.location = location_of(die, as_passed);
  return variable;
}

}  // namespace uscope::image::dwarf
