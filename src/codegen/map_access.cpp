// Maps that hold plain values: reading, assigning, counting up, deleting.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::BinaryOp;
using lang::TypeKind;

namespace {

// Above this, the kernel copies.
constexpr uint64_t kMaxUnrolled = 64;

}  // namespace

Place CodeGenerator::map_key(const Unit::ScriptMap& map, const Expr* key) {
  Place place = frame_.allocate(map.key_size);
  if (!key || !map.info->key)
    clear(place, map.key_size);
  else
    store(*key, *map.info->key, place);
  return place;
}

void CodeGenerator::lookup(const Unit::ScriptMap& map, Place key) {
  address(R2, key);
  asm_.load_map(R1, map.program_map);
  asm_.call(BPF_FUNC_map_lookup_elem);
}

// R3 = a value of zeroes. Large ones lie in a map of their own, so that hist() needs no scratch memory.
void CodeGenerator::zero_value(uint64_t size, Label if_failed) {
  if (size > kMaxUnrolled) {
    asm_.store(Width::B4, R10, Frame::kBrief.offset, 0);
    address(R2, Frame::kBrief);
    asm_.load_map(R1, unit_.zeroes_map(size));
    asm_.call(BPF_FUNC_map_lookup_elem);
    asm_.jump_if(Cond::Eq, R0, 0, if_failed);
    return asm_.mov(R3, R0);
  }
  Temporaries temporaries(frame_);
  Place zeroes = frame_.allocate(size);
  clear(zeroes, size);
  address(R3, zeroes);
}

// R0 = the value at the key, made of zeroes if there was none.
void CodeGenerator::lookup_or_add(const Unit::ScriptMap& map, Place key, lang::Span span, Label if_failed) {
  Label found = asm_.label();
  lookup(map, key);
  asm_.jump_if(Cond::Ne, R0, 0, found);
  {
    zero_value(map.value_size, if_failed);
    address(R2, key);
    asm_.load_map(R1, map.program_map);
    asm_.mov(R4, BPF_NOEXIST);
    asm_.call(BPF_FUNC_map_update_elem);
    Label there = asm_.label();
    asm_.jump_if(Cond::Eq, R0, 0, there);
    asm_.jump_if(Cond::Eq, R0, -17, there);  // EEXIST: someone else was faster
    report_error("map_update_elem", span);
    asm_.bind(there);
  }
  lookup(map, key);
  asm_.jump_if(Cond::Eq, R0, 0, if_failed);
  asm_.bind(found);
}

void CodeGenerator::report_error(const std::string& helper, lang::Span span) {
  report(unit_.add_error_place(helper, span));
}

void CodeGenerator::warn(const std::string& message, lang::Span span) {
  asm_.mov(R0, 0);
  report(unit_.add_warning_place(message, span));
}

void CodeGenerator::report(uint32_t error_place) {
  Temporaries temporaries(frame_);
  Place result = keep(R0);
  Place record = begin_record(event::RecordKind::HelperError, error_place, 8);
  copy(record.at(8), result, 8);
  send(record, 16);
}

void CodeGenerator::read_map(const Expr& expr, const lang::MapAccess& node) {
  Temporaries temporaries(frame_);
  const Unit::ScriptMap& map = unit_.script_map(node.name);
  Place key = map_key(map, node.key.get());
  const Type& type = map.info->value;
  if (type.casts_to_integer()) return read_aggregate(map, key);
  if (!type.is_scalar()) return unsupported(expr.span, node.name + " (" + type.spell() + ") as a number");
  Label none = asm_.label(), done = asm_.label();
  lookup(map, key);
  asm_.jump_if(Cond::Eq, R0, 0, none);
  asm_.load(width_of(type.size()), R0, R0, 0);
  if (type.is_signed()) extend(R0, type);
  asm_.jump(done);
  asm_.bind(none);
  report_missing_entry(expr.span);
  asm_.mov(R0, 0);
  asm_.bind(done);
}

void CodeGenerator::report_missing_entry(lang::Span span) {
  if (!unit_.inputs.report_reads) return;
  asm_.mov(R0, 0);
  report_error("map_lookup_elem", span);
}

void CodeGenerator::store_map_value(const Expr& expr, const lang::MapAccess& node, Place to,
                                    const Type& want) {
  const Unit::ScriptMap& map = unit_.script_map(node.name);
  const Type& type = map.info->value;
  if (type.is_aggregate()) return unsupported(expr.span, "the value of " + node.name + " here");
  if (!(type == want)) {
    Place own = frame_.allocate(size_of(type));
    store_map_value(expr, node, own, type);
    return convert(own, type, to, want);
  }
  Place key = map_key(map, node.key.get());
  clear(to, map.value_size);
  lookup(map, key);
  Label none = asm_.label();
  asm_.jump_if(Cond::Eq, R0, 0, none);
  asm_.mov(R3, R0);
  if (map.value_size > kMaxUnrolled) {
    address(R1, to);
    asm_.mov(R2, int64_t(map.value_size));
    asm_.call(BPF_FUNC_probe_read_kernel);
  } else {
    copy(to, {R3, 0}, map.value_size);
  }
  if (!unit_.inputs.report_reads) return asm_.bind(none);
  Label done = asm_.label();
  asm_.jump(done);
  asm_.bind(none);
  report_missing_entry(expr.span);
  asm_.bind(done);
}

void CodeGenerator::update(const Unit::ScriptMap& map, Place key, Place value, lang::Span span) {
  address(R2, key);
  address(R3, value);
  asm_.load_map(R1, map.program_map);
  asm_.mov(R4, BPF_ANY);
  asm_.call(BPF_FUNC_map_update_elem);
  Label fine = asm_.label();
  asm_.jump_if(Cond::Eq, R0, 0, fine);
  report_error("map_update_elem", span);
  asm_.bind(fine);
}

void CodeGenerator::assign_map(const lang::Stmt& stmt, const lang::AssignMap& node) {
  Temporaries temporaries(frame_);
  const auto& access = *node.target->as<lang::MapAccess>();
  const Unit::ScriptMap& map = unit_.script_map(access.name);
  const Type& type = map.info->value;
  if (type.is_aggregate() && !node.op) return aggregate_value(stmt, access, *node.value);
  if (!node.op) {
    Place value = frame_.allocate(map.value_size);
    store(*node.value, type, value);
    Place key = map_key(map, access.key.get());
    return update(map, key, value, stmt.span);
  }
  if (!type.is_scalar()) return unsupported(stmt.span, "this assignment to " + type.spell());
  scalar(*node.value);
  if (type.is(TypeKind::kPointer))
    asm_.alu(Alu::Mul, R0, int32_t(std::max<uint64_t>(user_size(type.pointee()), 1)));
  Place operand = keep(R0);
  Place key = map_key(map, access.key.get());
  Label failed = asm_.label();
  lookup_or_add(map, key, stmt.span, failed);
  load_slot(R1, operand);
  bool adds = *node.op == BinaryOp::kAdd || *node.op == BinaryOp::kSubtract;
  if (adds && type.size() == 8) {
    if (*node.op == BinaryOp::kSubtract) asm_.neg(R1);
    asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
  } else {
    asm_.mov(R7, R0);
    asm_.load(width_of(type.size()), R0, R7, 0);
    if (type.is_signed()) extend(R0, type);
    arithmetic(*node.op, type, type, *node.value, stmt.span);
    asm_.store(width_of(type.size()), R7, 0, R0);
  }
  asm_.bind(failed);
}

// count() and its like, perhaps at the end of a block.
void CodeGenerator::aggregate_value(const lang::Stmt& stmt, const lang::MapAccess& access,
                                    const Expr& value) {
  if (is_choice(value))
    return choose(value, [&](const Expr& taken) { aggregate_value(stmt, access, taken); });
  const auto* call = value.as<lang::Call>();
  if (!call) return unsupported(stmt.span, "assigning a map that aggregates");
  aggregate(value.span, access, *call);
}

void CodeGenerator::increment_map(const Expr& expr, const lang::Increment& node,
                                  const lang::MapAccess& access) {
  Temporaries temporaries(frame_);
  const Unit::ScriptMap& map = unit_.script_map(access.name);
  const Type& type = map.info->value;
  if (!type.is_scalar() || type.size() != 8) return unsupported(expr.span, "counting up " + type.spell());
  uint64_t step = type.is(TypeKind::kPointer) ? std::max<uint64_t>(user_size(type.pointee()), 1) : 1;
  int64_t amount = node.down ? -int64_t(step) : int64_t(step);
  Place key = map_key(map, access.key.get());
  Label failed = asm_.label(), done = asm_.label();
  lookup_or_add(map, key, expr.span, failed);
  asm_.mov(R1, amount);
  asm_.atomic(BPF_ADD | BPF_FETCH, Width::B8, R0, 0, R1);
  asm_.mov(R0, R1);
  if (node.prefix) {
    asm_.mov(R1, amount);
    asm_.alu(Alu::Add, R0, R1);
  }
  asm_.jump(done);
  asm_.bind(failed);
  asm_.mov(R0, 0);
  asm_.bind(done);
}

// R0 = whether there was one.
void CodeGenerator::delete_key(const Expr& expr, const lang::Call& node) {
  const auto* access = node.arguments[0]->as<lang::MapAccess>();
  if (!access) return unsupported(expr.span, "delete() of this");
  const Unit::ScriptMap& map = unit_.script_map(access->name);
  const Expr* key = node.arguments.size() > 1 ? node.arguments[1].get() : access->key.get();
  Place place = map_key(map, key);
  address(R2, place);
  asm_.load_map(R1, map.program_map);
  asm_.call(BPF_FUNC_map_delete_elem);
  Label done = asm_.label();
  asm_.mov(R1, R0);
  asm_.mov(R0, 0);
  asm_.jump_if(Cond::Ne, R1, 0, done);
  asm_.mov(R0, 1);
  asm_.bind(done);
}

// has_key(@m, k); find(@m, k, $x) also sets $x.
void CodeGenerator::find_key(const Expr& expr, const lang::Call& node) {
  const auto* access = node.arguments[0]->as<lang::MapAccess>();
  if (!access) return unsupported(expr.span, node.name + "() of this");
  const Unit::ScriptMap& map = unit_.script_map(access->name);
  Place key = map_key(map, node.arguments[1].get());
  lookup(map, key);
  Label none = asm_.label(), done = asm_.label();
  asm_.jump_if(Cond::Eq, R0, 0, none);
  if (node.name == "find") {
    const auto* variable = node.arguments[2]->as<lang::Variable>();
    const Scope& scope = scopes_.back();
    if (!variable || variable->slot >= scope.slots.size()) return unsupported(expr.span, "find() into this");
    const Type& into = (*scope.variables)[variable->slot].type;
    const Type& type = map.info->value;
    if (type.is_aggregate() || size_of(type) > kMaxUnrolled)
      return unsupported(expr.span, "find() in a map of " + type.spell());
    asm_.mov(R3, R0);
    Place own = frame_.allocate(size_of(type));
    copy(own, {R3, 0}, size_of(type));
    if (into.is_scalar()) {
      load_scalar(R1, own, type);
      store_slot(scope.slots[variable->slot], R1);
    } else {
      convert(own, type, scope.slots[variable->slot], into);
    }
  }
  asm_.mov(R0, 1);
  asm_.jump(done);
  asm_.bind(none);
  asm_.mov(R0, 0);
  asm_.bind(done);
}

}  // namespace uscope::codegen
