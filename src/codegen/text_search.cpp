// strcontains(), strstr(), memcmp() and str_concat(): what walks along two texts.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

constexpr int64_t kNotFound = -2;  // what strstr() gives then, as bpftrace has it
// Where the verifier follows every step of a search: what it can follow.
constexpr uint64_t kMaxWalkedSteps = 40000;
constexpr uint64_t kMaxBranches = 8000;  // that it keeps to come back to: 8192 in Linux 6.18
constexpr uint64_t kMaxCompared = 1024;

}  // namespace

// R0 = where the one text lies in the other, or whether it does.
void CodeGenerator::text_search(const Expr& expr, const lang::Call& node, bool wants_position) {
  uint64_t size = 0, wanted_size = 0;
  Place text = text_place(*node.arguments[0], size);
  Label found = asm_.label(), not_found = asm_.label(), done = asm_.label();
  const auto* literal = node.arguments[1]->as<lang::StringLiteral>();
  if (literal && literal->value.empty()) {
    asm_.mov(R0, wants_position ? 0 : 1);
    return;
  }
  if (literal && literal->value.size() * size <= kMaxBranches) {
    search_literal(text, size, literal->value, found, not_found);
  } else {
    Place wanted = text_place(*node.arguments[1], wanted_size);
    bool walks = unit_.inputs.loops == Loops::Walked;
    if (walks && size * wanted_size > kMaxWalkedSteps)
      return unsupported(expr.span, node.name + "() of texts this long, on this kernel");
    search_text(text, size, wanted, wanted_size, found);
  }
  asm_.bind(not_found);
  asm_.mov(R0, wants_position ? kNotFound : 0);
  asm_.jump(done);
  asm_.bind(found);
  if (wants_position)
    asm_.mov(R0, R2);
  else
    asm_.mov(R0, 1);
  asm_.bind(done);
}

// To `found`, with R2 the place, or on.
void CodeGenerator::search_literal(Place text, uint64_t size, const std::string& wanted, Label found,
                                   Label not_found) {
  if (wanted.size() >= size) return asm_.jump(not_found);
  Label again = asm_.label(), next = asm_.label();
  asm_.mov(R2, 0);
  address(R1, text);
  asm_.bind(again);
  for (size_t i = 0; i < wanted.size(); i++) {
    asm_.load(Width::B1, R0, R1, int32_t(i));
    asm_.jump_if(Cond::Ne, R0, uint8_t(wanted[i]), next);
  }
  asm_.jump(found);
  asm_.bind(next);
  asm_.alu(Alu::Add, R1, 1);
  asm_.alu(Alu::Add, R2, 1);
  asm_.jump_if(Cond::Lt, R2, int32_t(size - wanted.size()), again);
}

// The same for a text that is known only when the probe runs. R2 and R3 count through the two texts; where
// the kernel counts the rounds itself they are numbers that the verifier cannot know, so that it takes one
// round for all.
void CodeGenerator::search_text(Place text, uint64_t size, Place wanted, uint64_t wanted_size, Label found) {
  Label again = asm_.label(), compare = asm_.label(), next = asm_.label(), out = asm_.label();
  bool counts = unit_.inputs.loops == Loops::MayGoto;
  Place at = frame_.allocate_stack(8), zero = frame_.allocate_stack(8);
  // Each from a number of its own: what the verifier learns of one it takes for true of its copies.
  for (Place counter : {zero, at}) {
    asm_.mov(R0, 0);
    if (counts) {
      asm_.call(BPF_FUNC_get_prandom_u32);
      asm_.alu(Alu::Rsh, R0, 32);
    }
    store_slot(counter, R0);
  }
  asm_.bind(again);
  if (counts) asm_.may_goto(out);
  load_slot(R2, at);
  asm_.jump_if(Cond::Ge, R2, int32_t(size), out);
  load_slot(R3, zero);
  asm_.bind(compare);
  if (counts) asm_.may_goto(out);
  asm_.jump_if(Cond::Ge, R3, int32_t(wanted_size), found);
  address(R4, wanted);
  asm_.alu(Alu::Add, R4, R3);
  asm_.load(Width::B1, R4, R4, 0);
  asm_.jump_if(Cond::Eq, R4, 0, found);
  asm_.mov(R5, R2);
  asm_.alu(Alu::Add, R5, R3);
  asm_.jump_if(Cond::Ge, R5, int32_t(size), next);
  address(R1, text);
  asm_.alu(Alu::Add, R1, R5);
  asm_.load(Width::B1, R1, R1, 0);
  asm_.alu(Alu::Add, R3, 1);
  asm_.jump_if(Cond::Eq, R1, R4, compare);
  asm_.bind(next);
  asm_.alu(Alu::Add, R2, 1);
  store_slot(at, R2);
  asm_.jump(again);
  asm_.bind(out);
}

// R0 = the difference of the first bytes that differ, 0 if none do.
void CodeGenerator::memory_compare(const Expr& expr, const lang::Call& node) {
  const auto* literal = node.arguments[2]->as<lang::IntLiteral>();
  if (!literal || literal->negative || literal->value > kMaxCompared)
    return unsupported(expr.span, "memcmp() with a computed length, or of more than 1024 bytes");
  uint64_t size = literal->value;
  Place left = frame_.allocate(size), right = frame_.allocate(size);
  const Expr* sides[] = {node.arguments[0].get(), node.arguments[1].get()};
  for (int i = 0; i < 2; i++) {
    Place to = i == 0 ? left : right;
    const Type& type = sides[i]->type;
    uint64_t have = type.is(TypeKind::kPointer) ? size : std::min<uint64_t>(size, type.size());
    clear(to, size);
    if (type.is_integer()) return unsupported(sides[i]->span, "memcmp() of a number");
    store_bytes(*sides[i], have, to);
  }
  Label done = asm_.label();
  asm_.mov(R0, 0);
  for (uint64_t i = 0; i < size; i++) {
    asm_.load(Width::B1, R0, left.base, left.offset + int32_t(i));
    asm_.load(Width::B1, R1, right.base, right.offset + int32_t(i));
    asm_.alu(Alu::Sub, R0, R1);
    asm_.jump_if(Cond::Ne, R0, 0, done);
  }
  asm_.bind(done);
}

// Both texts into room for both, the second where the first one ends; then what fits of that.
void CodeGenerator::store_concatenation(const Expr&, const lang::Call& node, Place to, uint64_t size) {
  uint64_t first_size = 0, second_size = 0;
  Place first = text_place(*node.arguments[0], first_size);
  Place second = text_place(*node.arguments[1], second_size);
  Place both = frame_.allocate(first_size + second_size);
  clear(both, first_size + second_size);
  address(R1, both);
  asm_.mov(R2, int64_t(first_size));
  address(R3, first);
  asm_.call(BPF_FUNC_probe_read_kernel_str);
  Label fine = asm_.label();
  asm_.jump_if(Cond::SGt, R0, 0, fine);
  asm_.mov(R0, 1);
  asm_.bind(fine);
  asm_.alu(Alu::Add, R0, -1);  // the NUL
  clamp(R0, int32_t(first_size - 1));
  address(R1, both);
  asm_.alu(Alu::Add, R1, R0);
  asm_.mov(R2, int64_t(second_size));
  address(R3, second);
  asm_.call(BPF_FUNC_probe_read_kernel_str);
  uint64_t have = std::min(size, first_size + second_size);
  if (have < size) clear(to, size);
  copy(to, both, have);
  asm_.store(Width::B1, to.base, to.offset + int32_t(have) - 1, 0);
}

}  // namespace uscope::codegen
