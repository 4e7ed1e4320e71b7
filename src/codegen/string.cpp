// Strings and buffers.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

// The address of text in the program's memory -> R0.
void CodeGenerator::text_address(const Expr& expr) {
  if (expr.type.is_scalar()) {
    return scalar(expr);
  }
  Located located = locate(expr);
  if (!located.is_outside) return unsupported(expr.span, "the address of " + expr.type.spell());
  user_address(located);
}

void CodeGenerator::store_str(const Expr& expr, const lang::Call& node, Place to, uint64_t size) {
  const Expr& source = *node.arguments[0];
  const auto* literal = node.arguments.size() > 1 ? node.arguments[1]->as<lang::IntLiteral>() : nullptr;
  bool has_length = node.arguments.size() > 1 && !literal;
  // What str() itself may give, however large the place is.
  uint64_t most = std::min(size, size_of(expr.type));
  if (most == 0) return;
  if (source.type.is(TypeKind::kString)) {
    if (has_length) return unsupported(expr.span, "str() of a string with a computed length");
    Place text = place_of(source);
    if (literal && literal->value == 0) return clear(to, size);
    uint64_t have = std::min(literal ? std::min(most, literal->value) : most, size_of(source.type));
    if (have < size) clear(to, size);
    copy(to, text, have);
    return asm_.store(Width::B1, to.base, to.offset + int32_t(have) - 1, 0);
  }
  text_address(source);
  Place at = keep(R0);
  clear(to, size);
  bool is_kernel = source.type.address_space() == lang::AddressSpace::kKernel;
  reading_ = expr.span;
  if (!has_length) {
    if (literal) most = std::min(most, literal->value);  // with the NUL
    if (most == 0) return;
    load_slot(R0, at);
    return read_user_text(to, most, is_kernel);
  }
  scalar(*node.arguments[1]);
  asm_.mov(R2, R0);
  clamp(R2, int32_t(most));
  load_slot(R3, at);
  address(R1, to);
  call_text_read(is_kernel);
}

void CodeGenerator::store_buf(const Expr& expr, const lang::Call& node, Place to) {
  const Expr& source = *node.arguments[0];
  auto most = int32_t(expr.type.size());
  const auto* literal = node.arguments.size() > 1 ? node.arguments[1]->as<lang::IntLiteral>() : nullptr;
  bool has_length = node.arguments.size() > 1 && !literal;
  Located located;
  if (source.type.is_scalar()) {
    scalar(source);
    located.is_outside = true;
  } else {
    located = locate(source);
  }
  // Of an array of the program's characters its bytes, as many as it has.
  if (source.type.is(TypeKind::kString) && (located.is_outside || located.is_copied))
    most = std::min(most, int32_t(user_size(source.type)));
  Place at;
  if (located.is_outside) {
    user_address(located);
    at = keep(R0);
    clear(to, size_of(expr.type));
  }
  if (has_length)
    scalar(*node.arguments[1]);
  else
    asm_.mov(R0, most);
  clamp(R0, most);
  asm_.store(Width::B4, to.base, to.offset, R0);
  if (!located.is_outside) {
    uint64_t have = std::min<uint64_t>(uint64_t(most), size_of(source.type));
    if (have < expr.type.size()) clear(to.at(4), expr.type.size());
    return copy(to.at(4), located.place.at(located.offset), have);
  }
  asm_.mov(R2, R0);
  load_slot(R3, at);
  address(R1, to.at(4));
  reading_ = expr.span;
  if (located.is_kernel) {
    asm_.call(BPF_FUNC_probe_read_kernel);
    return report_failed_read("probe_read_kernel");
  }
  asm_.call(site_.kind == CodeKind::UserProbe ? BPF_FUNC_probe_read_user : BPF_FUNC_probe_read);
  report_failed_read("probe_read_user");
}

// A string of the script, wherever it is.
Place CodeGenerator::text_place(const Expr& expr, uint64_t& size) {
  if (expr.type.is(TypeKind::kString)) {
    size = size_of(expr.type);
    return place_of(expr);
  }
  size = std::max<uint64_t>(unit_.typed.settings.max_strlen, 1);
  Place place = frame_.allocate(size);
  text_address(expr);
  Place at = keep(R0);
  clear(place, size);
  load_slot(R0, at);
  read_user_text(place, size);
  return place;
}

void CodeGenerator::text_length(const lang::Call& node) {
  uint64_t size = 0;
  Place text = text_place(*node.arguments[0], size);
  Place copied = frame_.allocate(size);
  address(R1, copied);
  asm_.mov(R2, int64_t(size));
  address(R3, text);
  asm_.call(BPF_FUNC_probe_read_kernel_str);
  Label failed = asm_.label(), done = asm_.label();
  asm_.jump_if(Cond::SLe, R0, 0, failed);
  asm_.alu(Alu::Add, R0, -1);  // the NUL
  asm_.jump(done);
  asm_.bind(failed);
  asm_.mov(R0, 0);
  asm_.bind(done);
}

// Goes to `if_false` unless the texts are in the order that `op` says.
void CodeGenerator::order_bytes(Place left, Place right, uint64_t size, lang::BinaryOp op, Label if_false) {
  bool or_equal = op == lang::BinaryOp::kLessEqual || op == lang::BinaryOp::kGreaterEqual;
  bool is_less = op == lang::BinaryOp::kLess || op == lang::BinaryOp::kLessEqual;
  Label is_true = asm_.label();
  for (uint64_t done = 0; done < size; done++) {
    Label same = asm_.label();
    asm_.load(Width::B1, R0, left.base, left.offset + int32_t(done));
    asm_.load(Width::B1, R1, right.base, right.offset + int32_t(done));
    asm_.jump_if(Cond::Eq, R0, R1, same);
    asm_.jump_if(is_less ? Cond::Lt : Cond::Gt, R0, R1, is_true);
    asm_.jump(if_false);
    asm_.bind(same);
  }
  if (!or_equal) asm_.jump(if_false);
  asm_.bind(is_true);
}

void CodeGenerator::equal_bytes(Place left, Place right, uint64_t size, Label if_different) {
  for (uint64_t done = 0; done < size;) {
    uint64_t step = 8;
    auto misfits = [&](Place place) { return uint64_t(place.offset + int32_t(done)) % step != 0; };
    while (step > size - done || misfits(left) || misfits(right)) step /= 2;
    asm_.load(width_of(step), R0, left.base, left.offset + int32_t(done));
    asm_.load(width_of(step), R1, right.base, right.offset + int32_t(done));
    asm_.jump_if(Cond::Ne, R0, R1, if_different);
    done += step;
  }
}

// Strings are zero-padded: the first bytes are equal exactly if the strings are, so far.
void CodeGenerator::text_compare(const lang::Call& node) {
  const auto* literal = node.arguments[2]->as<lang::IntLiteral>();
  uint64_t left_size = 0, right_size = 0;
  Place left = text_place(*node.arguments[0], left_size);
  Place right = text_place(*node.arguments[1], right_size);
  uint64_t size = std::min({literal ? literal->value : 0, left_size, right_size});
  Label different = asm_.label(), done = asm_.label();
  equal_bytes(left, right, size, different);
  asm_.mov(R0, 0);
  asm_.jump(done);
  asm_.bind(different);
  asm_.mov(R0, 1);
  asm_.bind(done);
}

}  // namespace uscope::codegen
