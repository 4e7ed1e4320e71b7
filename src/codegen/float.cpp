// Floating-point numbers of the program, with integer instructions: eBPF has no others. They are read,
// stored, compared, negated and turned into integers and back; sums and products of them are refused. A
// number that is being worked on is in R0 as the bits of a double, whatever its size in memory.
#include <fmt/format.h>

#include <bit>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::BinaryOp;
using lang::TypeKind;

namespace {

constexpr int64_t kSignBit = INT64_MIN;
constexpr int32_t kDoubleBias = 1023, kFractionBits = 52;

}  // namespace

// The value of `expr`, an integer or a float -> R0.
void CodeGenerator::real(const Expr& expr) {
  if (!expr.type.is(TypeKind::kFloat)) {
    scalar(expr);
    return int_to_double(plain_type(expr.type).is_signed());
  }
  if (is_choice(expr)) return choose(expr, [&](const Expr& taken) { real(taken); });
  if (const auto* node = expr.as<lang::Comptime>()) return real(*node->operand);
  if (const auto* node = expr.as<lang::FloatLiteral>())
    return asm_.mov(R0, std::bit_cast<int64_t>(node->value));
  if (const auto* node = expr.as<lang::Cast>()) {
    if (expr.type.size() == 8 || node->operand->type == expr.type) return real(*node->operand);
    return unsupported(expr.span, "a cast to float; a cast to double is,");
  }
  if (const auto* node = expr.as<lang::Unary>(); node && node->op == lang::UnaryOp::kNegate) {
    real(*node->operand);
    asm_.mov(R1, kSignBit);
    return asm_.alu(Alu::Xor, R0, R1);
  }
  if (expr.as<lang::Binary>() || expr.as<lang::Increment>())
    return unit_.problem(
        expr.span,
        "arithmetic with floating-point numbers is not possible in a probe; cast them to integers");
  Place place = place_of(expr);
  if (expr.type.size() == 8) return load_slot(R0, place);
  if (expr.type.size() != 4) return unsupported(expr.span, "a number of type " + expr.type.spell());
  asm_.load(Width::B4, R0, place.base, place.offset);
  float_to_double();
}

// What is not just copied.
void CodeGenerator::store_real(const Expr& expr, const Type& want, Place to) {
  if (want.size() != 8) return unsupported(expr.span, "this value as a float of 4 bytes");
  real(expr);
  asm_.store(Width::B8, to.base, to.offset, R0);
}

// R0, an integer, rounded to the nearest double.
void CodeGenerator::int_to_double(bool is_signed) {
  Label positive = asm_.label(), done = asm_.label();
  asm_.mov(R5, 0);  // the sign
  if (is_signed) {
    asm_.jump_if(Cond::SGe, R0, 0, positive);
    asm_.mov(R5, kSignBit);
    asm_.neg(R0);
    asm_.bind(positive);
  }
  asm_.jump_if(Cond::Eq, R0, 0, done);
  asm_.mov(R2, 0);  // how far it is shifted until its first one is at the top
  for (int32_t step : {32, 16, 8, 4, 2, 1}) {
    asm_.mov(R1, R0);
    asm_.alu(Alu::Rsh, R1, 64 - step);
    asm_.neg(R1);
    asm_.alu(Alu::Rsh, R1, 63);
    asm_.alu(Alu::Xor, R1, 1);  // 1 if the top bits are zeroes
    asm_.alu(Alu::Mul, R1, step);
    asm_.alu(Alu::Lsh, R0, R1);
    asm_.alu(Alu::Add, R2, R1);
  }
  asm_.mov(R1, kDoubleBias + 62);  // one less: the fraction below still has its first one
  asm_.alu(Alu::Sub, R1, R2);
  asm_.alu(Alu::Lsh, R1, kFractionBits);
  asm_.mov(R3, R0);
  asm_.alu(Alu::And, R3, 0x7ff);  // what does not fit
  asm_.alu(Alu::Rsh, R0, 11);
  asm_.mov(R4, R0);
  asm_.alu(Alu::And, R4, 1);
  asm_.alu(Alu::Add, R3, R4);
  asm_.alu(Alu::Add, R3, 0x3ff);
  asm_.alu(Alu::Rsh, R3, 11);  // 1 if it rounds up, halves to even
  asm_.alu(Alu::Add, R0, R3);
  asm_.alu(Alu::Add, R0, R1);
  asm_.alu(Alu::Or, R0, R5);
  asm_.bind(done);
}

// R0, the 32 bits of a float.
void CodeGenerator::float_to_double() {
  Label normal = asm_.label(), finite = asm_.label(), done = asm_.label();
  Place sign = frame_.allocate(8);
  asm_.mov(R1, R0);
  asm_.alu(Alu::Rsh, R1, 31);
  asm_.alu(Alu::Lsh, R1, 63);
  store_slot(sign, R1);
  asm_.mov(R1, R0);
  asm_.alu(Alu::Rsh, R1, 23);
  asm_.alu(Alu::And, R1, 0xff);
  asm_.alu(Alu::And, R0, 0x7fffff);
  asm_.jump_if(Cond::Ne, R1, 0, normal);
  asm_.jump_if(Cond::Eq, R0, 0, done);
  int_to_double(false);  // smaller than the smallest normal one: so many times 2^-149
  asm_.mov(R1, int64_t(149) << kFractionBits);
  asm_.alu(Alu::Sub, R0, R1);
  asm_.jump(done);
  asm_.bind(normal);
  asm_.alu(Alu::Lsh, R0, 29);
  asm_.alu(Alu::Add, R1, kDoubleBias - 127);
  asm_.jump_if(Cond::Ne, R1, 255 + kDoubleBias - 127, finite);
  asm_.mov(R1, 0x7ff);
  asm_.bind(finite);
  asm_.alu(Alu::Lsh, R1, kFractionBits);
  asm_.alu(Alu::Or, R0, R1);
  asm_.bind(done);
  load_slot(R1, sign);
  asm_.alu(Alu::Or, R0, R1);
}

// R0, a double, cut to an integer; what does not fit gives INT64_MIN, as the processor does it.
void CodeGenerator::double_to_int() {
  Label small = asm_.label(), large = asm_.label(), done = asm_.label();
  asm_.mov(R1, R0);
  asm_.mov(R2, R0);
  asm_.alu(Alu::Lsh, R2, 1);
  asm_.alu(Alu::Rsh, R2, 53);
  asm_.jump_if(Cond::Lt, R2, kDoubleBias, small);
  asm_.jump_if(Cond::Gt, R2, kDoubleBias + 63, large);
  asm_.alu(Alu::Lsh, R0, 11);
  asm_.mov(R3, kSignBit);
  asm_.alu(Alu::Or, R0, R3);  // the fraction with its first one, at the top
  asm_.mov(R3, kDoubleBias + 63);
  asm_.alu(Alu::Sub, R3, R2);
  asm_.alu(Alu::And, R3, 63);
  asm_.alu(Alu::Rsh, R0, R3);
  asm_.jump_if(Cond::SGe, R1, 0, done);
  asm_.neg(R0);
  asm_.jump(done);
  asm_.bind(small);
  asm_.mov(R0, 0);
  asm_.jump(done);
  asm_.bind(large);
  asm_.mov(R0, kSignBit);
  asm_.bind(done);
}

void CodeGenerator::compare_real(const lang::Binary& node, Label if_false) {
  Temporaries temporaries(frame_);
  real(*node.left);
  Place left = keep(R0);
  real(*node.right);
  asm_.mov(R1, R0);
  load_slot(R0, left);
  Label is_true = asm_.label();
  for (Reg side : {R0, R1}) {
    // No number equals or exceeds what is none.
    asm_.mov(R2, side);
    asm_.alu(Alu::Lsh, R2, 1);
    asm_.mov(R3, int64_t(0xffe0000000000000));
    asm_.jump_if(Cond::Gt, R2, R3, node.op == BinaryOp::kNotEqual ? is_true : if_false);
    // In this order integers compare as the numbers do, and both zeroes are one.
    Label positive = asm_.label();
    asm_.jump_if(Cond::SGe, side, 0, positive);
    asm_.mov(R2, kSignBit);
    asm_.alu(Alu::Sub, R2, side);
    asm_.mov(side, R2);
    asm_.bind(positive);
  }
  asm_.jump_if(inverse(condition_of(node.op, true)), R0, R1, if_false);
  asm_.bind(is_true);
}

}  // namespace uscope::codegen
