// Statements: assignments, loops, jumps, and functions of the script, which are inlined.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

// Where the verifier walks every round of a loop, it looks again at all later rounds for most branches of a
// round, and gives up after a million instructions in all; rounds are cut so that a loop stays below.
constexpr uint64_t kLoopBudget = 200000, kInnerLoopBudget = 4000;
constexpr uint64_t kMinRounds = 4;
// Of each branch that it cannot decide one side waits while the other is walked to the probe's end, and it
// gives up when more than 8192 wait. Some are kept for what follows the loops.
constexpr uint64_t kMaxBranches = 8192 - 1024, kInnerLoopBranches = 256;
constexpr size_t kMaxCallDepth = 8;
// Loops that are unrolled and functions that are inlined, inside each other, make any amount of code of a few
// lines. The kernel takes a million instructions.
constexpr size_t kMostInstructions = 1'000'000, kMostSteps = 1'000'000;

}  // namespace

void CodeGenerator::statements(const lang::Block& block) {
  for (const lang::Stmt& stmt : block.statements) statement(stmt);
}

void CodeGenerator::block(const lang::Block& block) {
  statements(block);
  if (block.value) discard(*block.value);
}

bool CodeGenerator::has_room(lang::Span span) {
  if (++steps_ <= kMostSteps && asm_.size() <= kMostInstructions) return true;
  unit_.problem(span, "what is unrolled and inlined here is more code than the kernel takes");
  return false;
}

void CodeGenerator::statement(const lang::Stmt& stmt) {
  if (!has_room(stmt.span)) return;
  Temporaries temporaries(frame_);
  if (const auto* node = stmt.as<lang::ExprStmt>()) return discard(*node->expression);
  if (const auto* node = stmt.as<lang::Discard>()) return discard(*node->expression);
  if (const auto* node = stmt.as<lang::AssignVariable>()) return assign_variable(stmt, *node);
  if (const auto* node = stmt.as<lang::AssignMap>()) return assign_map(stmt, *node);
  if (const auto* node = stmt.as<lang::While>()) return while_loop(stmt, *node);
  if (const auto* node = stmt.as<lang::For>()) return for_loop(stmt, *node);
  if (const auto* node = stmt.as<lang::Unroll>()) return unroll(*node);
  if (const auto* node = stmt.as<lang::Jump>()) return jump(stmt, *node);
  if (const auto* node = stmt.as<lang::Declare>()) {
    const Scope& scope = scopes_.back();
    if (node->slot >= scope.slots.size()) return;
    const Type& type = (*scope.variables)[node->slot].type;
    if (node->value) return set_variable(node->slot, *node->value);
    if (type.known()) clear(scope.slots[node->slot], std::max<uint64_t>(8, size_of(type)));
    return;
  }
  unsupported(stmt.span, "this statement");
}

// Scalars take a whole slot, so that the verifier can follow what is in it.
void CodeGenerator::set_variable(uint32_t slot, const Expr& value) {
  const Scope& scope = scopes_.back();
  if (slot >= scope.slots.size()) return;
  const Type& type = (*scope.variables)[slot].type;
  Place place = scope.slots[slot];
  if (type.is_scalar()) {
    scalar_as(value, type);
    store_slot(place, R0);
    return;
  }
  // The value may be made of what the variable holds.
  Place made = frame_.allocate(size_of(type));
  store(value, type, made);
  copy(place, made, size_of(type));
}

void CodeGenerator::assign_variable(const lang::Stmt& stmt, const lang::AssignVariable& node) {
  if (!node.op) return set_variable(node.slot, *node.value);
  const Scope& scope = scopes_.back();
  if (node.slot >= scope.slots.size()) return;
  const Type& type = (*scope.variables)[node.slot].type;
  if (!type.is_scalar()) return unsupported(stmt.span, "this assignment to " + type.spell());
  scalar(*node.value);
  if (type.is(TypeKind::kPointer))
    asm_.alu(Alu::Mul, R0, int32_t(std::max<uint64_t>(user_size(type.pointee()), 1)));
  asm_.mov(R1, R0);
  load_slot(R0, scope.slots[node.slot]);
  arithmetic(*node.op, type, type, *node.value, stmt.span);
  extend(R0, type);
  store_slot(scope.slots[node.slot], R0);
}

// Makes the verifier forget what it knows of the variables: where it knows each round's numbers it takes
// every round for another one. Adds zero, which it cannot know: the random number has 32 bits.
void CodeGenerator::blur_variables() {
  asm_.call(BPF_FUNC_get_prandom_u32);
  asm_.alu(Alu::Rsh, R0, 32);
  const Scope& scope = scopes_.back();
  for (size_t i = 0; i < scope.slots.size(); i++) {
    if (!(*scope.variables)[i].type.is_scalar()) continue;
    load_slot(R1, scope.slots[i]);
    asm_.alu(Alu::Add, R1, R0);
    store_slot(scope.slots[i], R1);
  }
}

void CodeGenerator::loop(lang::Span span, const std::function<void(Label out)>& condition,
                         const lang::Block& body, const std::function<void()>& step) {
  Label again = asm_.label(), next = asm_.label(), out = asm_.label(), stopped = asm_.label();
  Place rounds = frame_.allocate_stack(8);
  bool is_inner = !scopes_.back().loops.empty() || scopes_.size() > 1;
  bool may_goto = unit_.inputs.loops != Loops::Walked;
  if (!may_goto) {
    asm_.mov(R0, 0);
    store_slot(rounds, R0);
  } else if (unit_.inputs.loops == Loops::MayGoto) {
    blur_variables();
  }
  size_t start = asm_.size();
  size_t branches_before = asm_.branches();
  uint64_t outer_weight = std::exchange(loop_weight_, 0), outer_branches = std::exchange(loop_branches_, 0);
  asm_.bind(again);
  if (may_goto) asm_.may_goto(stopped);
  condition(out);
  scopes_.back().loops.push_back({out, next});
  block(body);
  scopes_.back().loops.pop_back();
  asm_.bind(next);
  step();
  if (may_goto) {
    asm_.jump(again);
    asm_.bind(stopped);
    warn("This loop was stopped: it ran for too long.", span);
    return asm_.bind(out);
  }
  uint64_t weight = asm_.size() - start + 5 + loop_weight_;
  uint64_t branches = asm_.branches() - branches_before + 1 + loop_branches_;
  uint64_t used = branches_before + outer_branches;
  uint64_t left = kMaxBranches - std::min(used, kMaxBranches);
  double budget = double(is_inner ? kInnerLoopBudget : kLoopBudget);
  // Half of what is left, so that a later loop has some.
  uint64_t most_branching = (is_inner ? std::min(kInnerLoopBranches, left) : left / 2) / branches;
  uint64_t most =
      std::max(kMinRounds, std::min(most_branching, uint64_t(std::sqrt(budget / double(weight)))));
  if (branches * most > left)
    unit_.problem(span, "this loop has more branches than this kernel can check (6.9 and later ones can)");
  loop_weight_ = outer_weight + weight * most;
  loop_branches_ = outer_branches + branches * most;
  load_slot(R0, rounds);
  asm_.alu(Alu::Add, R0, 1);
  store_slot(rounds, R0);
  asm_.jump_if(Cond::Lt, R0, int32_t(most), again);
  warn(fmt::format("This loop was stopped after {} rounds, the most that this kernel takes.", most), span);
  asm_.bind(out);
}

void CodeGenerator::while_loop(const lang::Stmt& stmt, const lang::While& node) {
  loop(
      stmt.span, [&](Label out) { condition(*node.condition, out); }, node.body, [] {});
}

void CodeGenerator::for_loop(const lang::Stmt& stmt, const lang::For& node) {
  if (node.map) return map_loop(stmt, node);
  const Scope& scope = scopes_.back();
  if (node.slot >= scope.slots.size()) return;
  const Type& type = (*scope.variables)[node.slot].type;
  Place variable = scope.slots[node.slot];
  Place current = frame_.allocate_stack(8), end = frame_.allocate_stack(8);
  scalar(*node.end);
  store_slot(end, R0);
  scalar(*node.begin);
  store_slot(current, R0);
  if (unit_.inputs.loops == Loops::MayGoto) {
    asm_.call(BPF_FUNC_get_prandom_u32);  // as in blur_variables()
    asm_.alu(Alu::Rsh, R0, 32);
    load_slot(R1, current);
    asm_.alu(Alu::Add, R1, R0);
    store_slot(current, R1);
  }
  bool is_signed = type.is_signed();
  auto condition = [&](Label out) {
    load_slot(R0, current);
    load_slot(R1, end);
    asm_.jump_if(is_signed ? Cond::SGe : Cond::Ge, R0, R1, out);
    store_slot(variable, R0);
  };
  loop(stmt.span, condition, node.body, [&] {
    load_slot(R0, current);
    asm_.alu(Alu::Add, R0, 1);
    store_slot(current, R0);
  });
}

void CodeGenerator::unroll(const lang::Unroll& node) {
  const auto* count = node.count->as<lang::IntLiteral>();
  if (!count) return unsupported(node.count->span, "this count");
  Label out = asm_.label();
  for (uint64_t i = 0; i < std::min<uint64_t>(count->value, 100) && has_room(node.count->span); i++) {
    Label next = asm_.label();
    scopes_.back().loops.push_back({out, next});
    block(node.body);
    scopes_.back().loops.pop_back();
    asm_.bind(next);
  }
  asm_.bind(out);
}

void CodeGenerator::jump(const lang::Stmt& stmt, const lang::Jump& node) {
  Scope& scope = scopes_.back();
  if (node.kind != lang::JumpKind::kReturn) {
    if (scope.loops.empty()) return unsupported(stmt.span, "this jump");
    const Loop& loop = scope.loops.back();
    return asm_.jump(node.kind == lang::JumpKind::kBreak ? loop.on_break : loop.on_continue);
  }
  if (node.value && scope.function && !scope.function->result.is(TypeKind::kVoid))
    store(*node.value, scope.function->result, scope.result);
  asm_.jump(scopes_.back().end);
}

Place CodeGenerator::call_function(const Expr& expr, const lang::Call& node,
                                   const lang::TypedFunction& function) {
  if (scopes_.size() > kMaxCallDepth) {
    unsupported(expr.span, "a function that calls itself");
    return {};
  }
  if (!has_room(expr.span)) return {};
  uint64_t result_size = std::max<uint64_t>(8, size_of(function.result));
  Place result = frame_.allocate(result_size);
  clear(result, result_size);
  Scope inner = make_scope(function.variables);
  for (size_t i = 0; i < function.parameters.size() && i < node.arguments.size(); i++) {
    uint32_t slot = function.parameters[i];
    const Type& type = function.variables[slot].type;
    if (type.is_scalar()) {
      scalar_as(*node.arguments[i], type);
      store_slot(inner.slots[slot], R0);
    } else {
      store(*node.arguments[i], type, inner.slots[slot]);
    }
  }
  inner.function = &function;
  inner.result = result;
  inner.end = asm_.label();
  Label end = inner.end;
  scopes_.push_back(std::move(inner));
  block(function.body);
  scopes_.pop_back();
  asm_.bind(end);
  return result;
}

}  // namespace uscope::codegen
