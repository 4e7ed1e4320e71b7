// Walking a map: `for ($kv : @map)` and len(). The kernel (5.13) calls back for each entry: the body becomes
// a function of its own, which works on the stack and scratch memory of the probe it stands in.
#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

// What the body left the loop by, when it wants more than the loop to end.
constexpr int32_t kReturned = 1, kEnded = 2;
constexpr Reg kCallerFrame = R8;

}  // namespace

// Calls `function` for each entry, with our stack as its argument.
void CodeGenerator::call_for_each(uint32_t map, Assembler function) {
  asm_.load_map(R1, map);
  asm_.load_function(R2, uint32_t(functions_.size()));
  functions_.push_back(std::move(function));
  asm_.mov(R3, R10);
  asm_.mov(R4, 0);
  asm_.call(BPF_FUNC_for_each_map_elem);
}

void CodeGenerator::map_loop(const lang::Stmt& stmt, const lang::For& node) {
  const auto& access = *node.map->as<lang::MapAccess>();
  const Unit::ScriptMap& map = unit_.script_map(access.name);
  if (scopes_.back().slots.size() <= node.slot) return;
  if (map.info->value.is_aggregate() && !map.info->value.casts_to_integer())
    return unsupported(stmt.span, "a loop over a map of " + map.info->value.spell());
  Place context = frame_.allocate_stack(8), scratch = frame_.allocate_stack(8);
  Place left_by = frame_.allocate_stack(8);
  store_slot(context, kContext);
  store_slot(scratch, kScratch);
  asm_.mov(R0, 0);
  store_slot(left_by, R0);
  if (unit_.inputs.loops == Loops::MayGoto) blur_variables();
  make_entry(node);

  Assembler outer = std::exchange(asm_, Assembler());
  asm_.use_frame(kCallerFrame);
  asm_.mov(kCallerFrame, R4);
  load_slot(kContext, context);
  load_slot(kScratch, scratch);
  load_entry(map, node);
  map_loop_body(node.body, left_by);
  Assembler function = std::exchange(asm_, std::move(outer));

  loop_branches_ += 2 * function.branches();  // the verifier looks whether a second round is like the first
  call_for_each(map.program_map, std::move(function));
  load_slot(R0, left_by);
  asm_.jump_if(Cond::Eq, R0, kReturned, scopes_.back().end);
  asm_.jump_if(Cond::Eq, R0, kEnded, end_);
}

// With room for a record's header before it: print() sends a large one from where it is.
void CodeGenerator::make_entry(const lang::For& node) {
  const Type& type = (*scopes_.back().variables)[node.slot].type;
  uint64_t size = size_of(type);
  Place place = frame_.allocate(kRecordHeader + size).at(kRecordHeader);
  if (place.base != kScratch || has_padding(type)) clear(place, std::max<uint64_t>(8, (size + 7) / 8 * 8));
  scopes_.back().slots[node.slot] = place;
}

// The loop's variable = (key, value); they are at R2 and R3.
void CodeGenerator::load_entry(const Unit::ScriptMap& map, const lang::For& node) {
  const Scope& scope = scopes_.back();
  const Type& type = (*scope.variables)[node.slot].type;
  Place entry = scope.slots[node.slot];
  auto offsets = field_offsets(type);
  if (offsets.size() != 2) return;
  Place key = entry.at(offsets[0]), value = entry.at(offsets[1]);
  asm_.mov(R7, R3);
  asm_.mov(R0, R2);
  copy(key, {R0, 0}, map.key_size);
  if (map.info->value.is_aggregate()) {
    read_aggregate(map, key);
    asm_.store(Width::B8, value.base, value.offset, R0);
    return;
  }
  copy(value, {R7, 0}, map.value_size);
}

// Ends with 0 for the next entry, 1 to stop.
void CodeGenerator::map_loop_body(const lang::Block& body, Place left_by) {
  Label next = asm_.label(), out = asm_.label(), returned = asm_.label(), ended = asm_.label();
  Label outer_end = std::exchange(end_, ended);
  size_t depth = scopes_.size() - 1;
  Label outer_return = std::exchange(scopes_[depth].end, returned);
  std::vector<Loop> outer_loops = std::exchange(scopes_[depth].loops, {{out, next}});
  block(body);
  scopes_[depth].loops = std::move(outer_loops);
  scopes_[depth].end = outer_return;
  end_ = outer_end;
  asm_.bind(next);
  asm_.mov(R0, 0);
  asm_.exit();
  asm_.bind(returned);
  asm_.mov(R0, kReturned);
  store_slot(left_by, R0);
  asm_.jump(out);
  asm_.bind(ended);
  asm_.mov(R0, kEnded);
  store_slot(left_by, R0);
  asm_.bind(out);
  asm_.mov(R0, 1);
  asm_.exit();
}

// R0 = how many entries a map has, or frames a stack.
void CodeGenerator::length(const Expr& expr, const lang::Call& node) {
  const Expr& of = *node.arguments[0];
  if (of.type.is_stack() && !of.as<lang::MapAccess>()) {
    Place stack = place_of(of);
    return asm_.load(Width::B8, R0, stack.base, stack.offset + 8);
  }
  const auto* access = of.as<lang::MapAccess>();
  if (!access || access->key) return unsupported(expr.span, "len() of this");
  // The kernel counts the calls. A count of our own, compared by the script, would make the verifier walk one
  // round for each number it could be.
  Assembler nothing;
  nothing.mov(R0, 0);
  nothing.exit();
  call_for_each(unit_.script_map(access->name).program_map, std::move(nothing));
}

}  // namespace uscope::codegen
