#include <fmt/format.h>

#include <algorithm>

#include "lang/parser_impl.h"

namespace uscope::lang {
namespace {

std::optional<BinaryOp> compound_op(Tok kind) {
  switch (kind) {
    case Tok::kPlusAssign:
      return BinaryOp::kAdd;
    case Tok::kMinusAssign:
      return BinaryOp::kSubtract;
    case Tok::kStarAssign:
      return BinaryOp::kMultiply;
    case Tok::kSlashAssign:
      return BinaryOp::kDivide;
    case Tok::kPercentAssign:
      return BinaryOp::kModulo;
    case Tok::kAndAssign:
      return BinaryOp::kBitAnd;
    case Tok::kOrAssign:
      return BinaryOp::kBitOr;
    case Tok::kXorAssign:
      return BinaryOp::kBitXor;
    case Tok::kShiftLeftAssign:
      return BinaryOp::kShiftLeft;
    case Tok::kShiftRightAssign:
      return BinaryOp::kShiftRight;
    default:
      return std::nullopt;
  }
}

bool ends_with_block(const Expr& expr) { return expr.as<If>() != nullptr || expr.as<BlockExpr>() != nullptr; }

bool starts_with_sigil(const Expr& expr) {
  if (expr.as<Variable>() || expr.as<MapAccess>()) return true;
  if (const auto* field = expr.as<Field>()) return starts_with_sigil(*field->object);
  if (const auto* index = expr.as<TupleIndex>()) return starts_with_sigil(*index->object);
  if (const auto* index = expr.as<Index>()) return starts_with_sigil(*index->object);
  return false;
}

}  // namespace

Block Parser::block() {
  Nested nested(*this);
  Block out;
  uint32_t begin = begin_of_next();
  bool outer = in_predicate_;
  in_predicate_ = false;
  uint32_t outer_tallest = tallest_;
  tallest_ = 0;
  expect(Tok::kLeftBrace, "'{'");
  while (!failed_ && !at(Tok::kRightBrace)) {
    if (at(Tok::kEnd)) {
      fail_here("expected '}'");
    } else {
      statement(out);
    }
  }
  expect(Tok::kRightBrace, "'}'");
  in_predicate_ = outer;
  out.height = tallest_ + 1;
  tallest_ = std::max(outer_tallest, out.height);
  if (out.height > kMaxHeight) fail(Span{begin, begin, source_}, "nested too deeply");
  out.span = span_from(begin);
  return out;
}

// After a statement that needs one: `;`, which may be left out before `}`.
void Parser::end_statement() {
  if (!at(Tok::kRightBrace)) expect(Tok::kSemicolon, "';'");
}

void Parser::statement(Block& into) {
  if (at(Tok::kIdent)) {
    const std::string& word = peek().text;
    bool loop = true;
    if (word == "while") {
      into.statements.push_back(while_loop());
    } else if (word == "unroll") {
      into.statements.push_back(unroll_loop());
    } else if (word == "for") {
      into.statements.push_back(for_loop());
    } else {
      loop = false;
    }
    if (loop) {
      accept(Tok::kSemicolon);
      return;
    }
    bool jump = at_word("break") || at_word("continue") || at_word("return");
    if (simple_statement(into)) {
      end_statement();
      // bpftrace counts the `;` in.
      if (jump) into.statements.back().span.end = last_end_;
      return;
    }
  }
  expression_statement(into);
}

bool Parser::simple_statement(Block& into) {
  const std::string word = peek().text;
  if (word == "let") {
    into.statements.push_back(declaration());
  } else if (word == "break" || word == "continue" || word == "return") {
    into.statements.push_back(jump());
  } else if (word == "import") {
    into.statements.push_back(import());
  } else if (word == "_") {
    Token underscore = take();
    if (!accept(Tok::kAssign)) {
      seek(underscore.span.begin);
      return false;
    }
    ExprPtr value = expression();
    into.statements.push_back(Stmt{span_from(underscore.span.begin), Discard{std::move(value)}});
  } else {
    return false;
  }
  return true;
}

void Parser::expression_statement(Block& into) {
  uint32_t begin = begin_of_next();
  ExprPtr expr;
  if (at_word("if") || at(Tok::kLeftBrace)) {
    // As a statement of its own it ends at its brace; only an operator that cannot start a statement goes on.
    expr = primary();
    if (at(Tok::kStar) || at(Tok::kAnd) || at(Tok::kMinus) || at(Tok::kIncrement) || at(Tok::kDecrement)) {
      into.statements.push_back(Stmt{span_from(begin), ExprStmt{std::move(expr)}});
      return;
    }
    expr = binary_rest(postfix_rest(std::move(expr), begin), begin, 1);
  } else {
    expr = expression();
  }
  if (at(Tok::kAssign) || compound_op(peek().kind)) {
    if (starts_with_sigil(*expr)) {
      into.statements.push_back(assignment(std::move(expr)));
      end_statement();
      return;
    }
  }
  bool block_like = ends_with_block(*expr);
  if (at(Tok::kRightBrace) && !failed_) {
    into.value = std::move(expr);
    return;
  }
  into.statements.push_back(Stmt{span_from(begin), ExprStmt{std::move(expr)}});
  if (block_like) {
    accept(Tok::kSemicolon);
  } else {
    expect(Tok::kSemicolon, "';'");
  }
}

Stmt Parser::assignment(ExprPtr target) {
  Token op = take();
  uint32_t begin = target->span.begin;
  ExprPtr value = expression();
  Span span = span_from(begin);
  if (auto* variable = target->as<Variable>()) {
    return Stmt{span,
                AssignVariable{variable->name, target->span, compound_op(op.kind), std::move(value), 0}};
  }
  if (target->as<MapAccess>()) {
    return Stmt{span, AssignMap{std::move(target), compound_op(op.kind), std::move(value)}};
  }
  if (target->as<Field>() || target->as<TupleIndex>()) {
    fail(span,
         "Tuples and records are immutable once created. Consider creating a new value and assigning it "
         "instead.");
  } else {
    fail(span, "invalid assignment target");
  }
  return Stmt{span, ExprStmt{placeholder()}};
}

Stmt Parser::declaration() {
  uint32_t begin = take().span.begin;
  Declare out;
  Token name = expect(Tok::kVariable, "variable after 'let'");
  out.name = name.text;
  out.name_span = name.span;
  if (accept(Tok::kColon)) out.type = type();
  if (accept(Tok::kAssign)) out.value = expression();
  return Stmt{span_from(begin), std::move(out)};
}

Stmt Parser::while_loop() {
  uint32_t begin = take().span.begin;
  While out;
  out.condition = expression();
  out.body = block();
  return Stmt{span_from(begin), std::move(out)};
}

Stmt Parser::unroll_loop() {
  uint32_t begin = take().span.begin;
  Unroll out;
  out.count = expression();
  out.body = block();
  return Stmt{span_from(begin), std::move(out)};
}

Stmt Parser::for_loop() {
  uint32_t begin = take().span.begin;
  For out;
  bool parens = accept(Tok::kLeftParen);
  Token variable = expect(Tok::kVariable, "variable in for loop");
  out.variable = variable.text;
  out.variable_span = variable.span;
  expect(Tok::kColon, "':'");
  ExprPtr first = unary();
  if (accept(Tok::kDotDot)) {
    out.begin = std::move(first);
    out.end = unary();
    if (parens) expect(Tok::kRightParen, "')'");
  } else {
    if (parens) expect(Tok::kRightParen, "')'");
    const auto* map = first->as<MapAccess>();
    if (map == nullptr || map->key != nullptr) fail_here("expected map or range in for loop");
    out.map = std::move(first);
  }
  out.body = block();
  return Stmt{span_from(begin), std::move(out)};
}

Stmt Parser::jump() {
  Token word = take();
  Jump out{};
  out.kind = word.text == "break"      ? JumpKind::kBreak
             : word.text == "continue" ? JumpKind::kContinue
                                       : JumpKind::kReturn;
  if (out.kind == JumpKind::kReturn && !at(Tok::kSemicolon) && !at(Tok::kRightBrace))
    out.value = expression();
  return Stmt{span_from(word.span.begin), std::move(out)};
}

Stmt Parser::import() {
  uint32_t begin = take().span.begin;
  std::string path = expect(Tok::kString, "string after 'import'").text;
  return Stmt{span_from(begin), Import{std::move(path)}};
}

}  // namespace uscope::lang
