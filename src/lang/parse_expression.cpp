#include <fmt/format.h>

#include <algorithm>

#include "lang/parser_impl.h"
#include "lang/words.h"

namespace uscope::lang {
namespace {

std::optional<BinaryOp> binary_op(Tok kind) {
  switch (kind) {
    case Tok::kOrOr:
      return BinaryOp::kOr;
    case Tok::kAndAnd:
      return BinaryOp::kAnd;
    case Tok::kOr:
      return BinaryOp::kBitOr;
    case Tok::kXor:
      return BinaryOp::kBitXor;
    case Tok::kAnd:
      return BinaryOp::kBitAnd;
    case Tok::kEqual:
      return BinaryOp::kEqual;
    case Tok::kNotEqual:
      return BinaryOp::kNotEqual;
    case Tok::kLess:
      return BinaryOp::kLess;
    case Tok::kLessEqual:
      return BinaryOp::kLessEqual;
    case Tok::kGreater:
      return BinaryOp::kGreater;
    case Tok::kGreaterEqual:
      return BinaryOp::kGreaterEqual;
    case Tok::kShiftLeft:
      return BinaryOp::kShiftLeft;
    case Tok::kShiftRight:
      return BinaryOp::kShiftRight;
    case Tok::kPlus:
      return BinaryOp::kAdd;
    case Tok::kMinus:
      return BinaryOp::kSubtract;
    case Tok::kStar:
      return BinaryOp::kMultiply;
    case Tok::kSlash:
      return BinaryOp::kDivide;
    case Tok::kPercent:
      return BinaryOp::kModulo;
    default:
      return std::nullopt;
  }
}

std::optional<UnaryOp> unary_op(Tok kind) {
  switch (kind) {
    case Tok::kMinus:
      return UnaryOp::kNegate;
    case Tok::kBang:
      return UnaryOp::kNot;
    case Tok::kTilde:
      return UnaryOp::kBitNot;
    case Tok::kStar:
      return UnaryOp::kDereference;
    case Tok::kAnd:
      return UnaryOp::kAddressOf;
    default:
      return std::nullopt;
  }
}

uint32_t height_of(const ExprPtr& expr) { return expr ? expr->height : 0; }

uint32_t height_of(const std::vector<ExprPtr>& all) {
  uint32_t most = 0;
  for (const ExprPtr& one : all) most = std::max(most, one->height);
  return most;
}

uint32_t height_below(const ExprNode& node) {
  if (const auto* n = std::get_if<Binary>(&node)) return std::max(height_of(n->left), height_of(n->right));
  if (const auto* n = std::get_if<Field>(&node)) return height_of(n->object);
  if (const auto* n = std::get_if<TupleIndex>(&node)) return height_of(n->object);
  if (const auto* n = std::get_if<Index>(&node)) return std::max(height_of(n->object), height_of(n->index));
  if (const auto* n = std::get_if<Unary>(&node)) return height_of(n->operand);
  if (const auto* n = std::get_if<Cast>(&node)) return height_of(n->operand);
  if (const auto* n = std::get_if<Increment>(&node)) return height_of(n->target);
  if (const auto* n = std::get_if<MapAccess>(&node)) return height_of(n->key);
  if (const auto* n = std::get_if<Call>(&node)) return height_of(n->arguments);
  if (const auto* n = std::get_if<Tuple>(&node)) return height_of(n->elements);
  if (const auto* n = std::get_if<Ternary>(&node)) {
    return std::max({height_of(n->condition), height_of(n->then), height_of(n->otherwise)});
  }
  if (const auto* n = std::get_if<BlockExpr>(&node)) return n->block.height;
  if (const auto* n = std::get_if<If>(&node)) {
    return std::max({height_of(n->condition), n->then.height, height_of(n->otherwise)});
  }
  if (const auto* n = std::get_if<Record>(&node)) {
    uint32_t most = 0;
    for (const RecordField& field : n->fields) most = std::max(most, field.value->height);
    return most;
  }
  if (const auto* n = std::get_if<SizeOf>(&node)) return height_of(n->operand);
  if (const auto* n = std::get_if<OffsetOf>(&node)) return height_of(n->operand);
  if (const auto* n = std::get_if<TypeInfo>(&node)) return height_of(n->operand);
  if (const auto* n = std::get_if<Comptime>(&node)) return height_of(n->operand);
  return 0;
}

}  // namespace

ExprPtr Parser::make(uint32_t begin, ExprNode node) {
  uint32_t height = height_below(node) + 1;
  ExprPtr expr = make_expr(span_from(begin), std::move(node));
  expr->height = height;
  tallest_ = std::max(tallest_, height);
  if (height > kMaxHeight) fail(Span{begin, begin, source_}, "expression too long");
  return expr;
}

ExprPtr Parser::expression() {
  Nested nested(*this);
  return ternary();
}

ExprPtr Parser::ternary() {
  Nested nested(*this);
  uint32_t begin = begin_of_next();
  ExprPtr condition = binary(1);
  if (!accept(Tok::kQuestion)) return condition;
  Ternary out;
  out.condition = std::move(condition);
  if (!at(Tok::kColon)) out.then = ternary();
  expect(Tok::kColon, "':'");
  out.otherwise = ternary();
  return make(begin, std::move(out));
}

ExprPtr Parser::binary(int lowest) {
  uint32_t begin = begin_of_next();
  return binary_rest(unary(), begin, lowest);
}

// In `/a / b/ {` the slash before the body ends the predicate.
bool Parser::at_predicate_end() {
  if (!in_predicate_ || !at(Tok::kSlash)) return false;
  Token slash = take();
  bool end = at(Tok::kLeftBrace);
  seek(slash.span.begin);
  return end;
}

ExprPtr Parser::binary_rest(ExprPtr left, uint32_t begin, int lowest) {
  Nested nested(*this);
  while (!failed_) {
    auto op = binary_op(peek().kind);
    if (!op || precedence(*op) < lowest || at_predicate_end()) break;
    take();
    ExprPtr right = binary(precedence(*op) + 1);
    left = make(begin, Binary{*op, std::move(left), std::move(right)});
  }
  return left;
}

bool Parser::can_be_increment_target(const Expr& expr) const {
  return expr.as<Variable>() || expr.as<MapAccess>();
}

ExprPtr Parser::prefix_increment() {
  Token op = take();
  ExprPtr target = unary();
  if (!failed_ && !can_be_increment_target(*target)) {
    fail(op.span, "increment/decrement requires a variable or map");
  }
  return make(op.span.begin, Increment{std::move(target), op.kind == Tok::kDecrement, true});
}

ExprPtr Parser::unary() {
  Nested nested(*this);
  if (at(Tok::kIncrement) || at(Tok::kDecrement)) return prefix_increment();
  auto op = unary_op(peek().kind);
  if (!op) return postfix();
  uint32_t begin = take().span.begin;
  ExprPtr operand = unary();
  if (*op == UnaryOp::kAddressOf && !can_be_increment_target(*operand)) {
    fail(operand->span, "address-of operator (&) can only be used on a map or variable");
  }
  return make(begin, Unary{*op, std::move(operand)});
}

ExprPtr Parser::postfix() {
  uint32_t begin = begin_of_next();
  return postfix_rest(primary(), begin);
}

ExprPtr Parser::postfix_rest(ExprPtr object, uint32_t begin) {
  while (!failed_) {
    if (at(Tok::kDot) || at(Tok::kArrow)) {
      object = member(std::move(object), begin);
    } else if (at(Tok::kLeftBracket)) {
      take();
      ExprPtr index = expression();
      expect(Tok::kRightBracket, "']'");
      object = make(begin, Index{std::move(object), std::move(index)});
    } else if (at(Tok::kIncrement) || at(Tok::kDecrement)) {
      Token op = take();
      if (!can_be_increment_target(*object)) fail(op.span, "increment/decrement requires a variable or map");
      object = make(begin, Increment{std::move(object), op.kind == Tok::kDecrement, false});
    } else {
      break;
    }
  }
  return object;
}

ExprPtr Parser::member(ExprPtr object, uint32_t begin) {
  Token op = take();
  lexer_.skip_space();
  char next = lexer_.peek();
  if (op.kind == Tok::kDot && next >= '0' && next <= '9') {
    Token index = lexer_.next_tuple_index();
    if (index.kind == Tok::kError) {
      fail(index.error_span, index.text);
      return object;
    }
    last_end_ = index.span.end;
    return make(begin, TupleIndex{std::move(object), index.integer});
  }
  if (!at(Tok::kIdent)) {
    fail_here(fmt::format("expected field name after '{}'", op.kind == Tok::kDot ? "." : "->"));
    return object;
  }
  Token field = take();
  return make(begin, Field{std::move(object), field.text, field.span});
}

ExprPtr Parser::primary() {
  uint32_t begin = begin_of_next();
  switch (peek().kind) {
    case Tok::kInt: {
      Token token = take();
      return make(begin, IntLiteral{token.integer, false, token.text});
    }
    case Tok::kFloat: {
      Token token = take();
      return make(begin, FloatLiteral{token.real, token.text});
    }
    case Tok::kString:
      return make(begin, StringLiteral{take().text});
    case Tok::kVariable:
      return make(begin, Variable{take().text, 0});
    case Tok::kPositional:
      return make(begin, Positional{take().integer});
    case Tok::kPositionalCount:
      take();
      return make(begin, PositionalCount{});
    case Tok::kMap:
      return map_access();
    case Tok::kLeftParen:
      return parenthesized();
    case Tok::kLeftBrace: {
      Block inner = block();
      return make(begin, BlockExpr{std::move(inner)});
    }
    case Tok::kIdent:
      return name();
    default:
      fail_here("expected expression");
      return placeholder();
  }
}

ExprPtr Parser::name() {
  uint32_t begin = begin_of_next();
  const std::string& word = peek().text;
  if (word == "if") return if_expression();
  if (word == "sizeof") return size_of();
  if (word == "offsetof") return offset_of();
  if (word == "typeof" || word == "typeinfo") return type_info();
  Token token = take();
  if (token.text == "comptime" && !at(Tok::kRightParen) && !at(Tok::kSemicolon)) {
    ExprPtr operand = unary();
    return make(begin, Comptime{std::move(operand)});
  }
  if (token.text == "true" || token.text == "false") return make(begin, BoolLiteral{token.text == "true"});
  if (at(Tok::kLeftParen)) return call(token);
  return make(begin, Identifier{token.text});
}

std::vector<ExprPtr> Parser::arguments(Tok close) {
  std::vector<ExprPtr> out;
  while (!failed_ && !at(close)) {
    out.push_back(expression());
    if (!accept(Tok::kComma)) break;
    if (at(close)) fail_here("expected expression");
  }
  return out;
}

ExprPtr Parser::call(const Token& name) {
  take();
  Call out{name.text, name.span, {}};
  out.arguments = arguments(Tok::kRightParen);
  expect(Tok::kRightParen, "')'");
  return make(name.span.begin, std::move(out));
}

ExprPtr Parser::map_access() {
  Token map = take();
  MapAccess out{map.text, nullptr};
  if (accept(Tok::kLeftBracket)) {
    uint32_t begin = begin_of_next();
    std::vector<ExprPtr> keys = arguments(Tok::kRightBracket);
    if (keys.empty()) {
      fail_here("expected expression");
      keys.push_back(placeholder());
    }
    out.key = keys.size() == 1 ? std::move(keys[0]) : make(begin, Tuple{std::move(keys)});
    expect(Tok::kRightBracket, "']'");
  }
  return make(map.span.begin, std::move(out));
}

bool Parser::at_record() {
  uint32_t begin = begin_of_next();
  bool record = false;
  if (at(Tok::kIdent)) {
    take();
    record = at(Tok::kAssign);
  }
  seek(begin);
  return record;
}

// `(name) x` is a cast where x can start an operand. A name that is a value, like pid, is none.
bool Parser::at_cast() {
  uint32_t begin = begin_of_next();
  bool value = at(Tok::kIdent) && is_value_word(peek().text);
  bool cast = false;
  if (!value && scan_type() && at(Tok::kRightParen)) {
    take();
    switch (peek().kind) {
      case Tok::kInt:
      case Tok::kFloat:
      case Tok::kString:
      case Tok::kVariable:
      case Tok::kPositional:
      case Tok::kPositionalCount:
      case Tok::kMap:
      case Tok::kIdent:
      case Tok::kLeftParen:
      case Tok::kMinus:
      case Tok::kBang:
      case Tok::kTilde:
      case Tok::kStar:
      case Tok::kAnd:
      case Tok::kIncrement:
      case Tok::kDecrement:
        cast = true;
        break;
      default:
        break;
    }
  }
  seek(begin);
  return cast;
}

ExprPtr Parser::parenthesized() {
  Nested nested(*this);
  uint32_t begin = take().span.begin;
  bool outer = in_predicate_;
  in_predicate_ = false;
  ExprPtr out;
  if (accept(Tok::kRightParen)) {
    out = make(begin, Tuple{});
  } else if (at_record()) {
    out = record(begin);
  } else if (at_cast()) {
    in_predicate_ = outer;
    return cast(begin);
  } else {
    ExprPtr first = expression();
    if (accept(Tok::kComma)) {
      Tuple tuple;
      tuple.elements.push_back(std::move(first));
      while (!failed_ && !at(Tok::kRightParen)) {
        tuple.elements.push_back(expression());
        if (!accept(Tok::kComma)) break;
      }
      expect(Tok::kRightParen, "')'");
      out = make(begin, std::move(tuple));
    } else {
      expect(Tok::kRightParen, "')'");
      out = std::move(first);
    }
  }
  in_predicate_ = outer;
  return out;
}

ExprPtr Parser::record(uint32_t begin) {
  Record out;
  do {
    Token name = expect(Tok::kIdent, "identifier");
    expect(Tok::kAssign, "'='");
    ExprPtr value = expression();
    out.fields.push_back(RecordField{name.text, name.span, std::move(value)});
  } while (!failed_ && accept(Tok::kComma));
  expect(Tok::kRightParen, "')'");
  return make(begin, std::move(out));
}

ExprPtr Parser::cast(uint32_t begin) {
  Cast out;
  out.type = type();
  expect(Tok::kRightParen, "')'");
  out.operand = unary();
  return make(begin, std::move(out));
}

ExprPtr Parser::if_expression() {
  Nested nested(*this);
  uint32_t begin = take().span.begin;
  If out;
  out.condition = expression();
  out.then = block();
  if (at_word("else")) {
    take();
    uint32_t otherwise = begin_of_next();
    if (at_word("if")) {
      out.otherwise = if_expression();
    } else {
      if (!at(Tok::kLeftBrace)) fail_here("expected '{' or 'if' after 'else'");
      Block inner = block();
      out.otherwise = make(otherwise, BlockExpr{std::move(inner)});
    }
  }
  return make(begin, std::move(out));
}

// The parenthesis of sizeof and its like, up to `next`.
void Parser::type_or_expression(Tok next, std::optional<TypeSpec>& type_out, ExprPtr& operand) {
  expect(Tok::kLeftParen, "'('");
  if (type_then(next))
    type_out = type();
  else
    operand = expression();
}

ExprPtr Parser::size_of() {
  uint32_t begin = take().span.begin;
  SizeOf out;
  type_or_expression(Tok::kRightParen, out.type, out.operand);
  expect(Tok::kRightParen, "')'");
  return make(begin, std::move(out));
}

ExprPtr Parser::offset_of() {
  uint32_t begin = take().span.begin;
  OffsetOf out;
  type_or_expression(Tok::kComma, out.type, out.operand);
  expect(Tok::kComma, "','");
  do {
    out.path.push_back(expect(Tok::kIdent, "field name").text);
  } while (!failed_ && accept(Tok::kDot));
  expect(Tok::kRightParen, "')'");
  return make(begin, std::move(out));
}

ExprPtr Parser::type_info() {
  Token word = take();
  TypeInfo out;
  out.only_type = word.text == "typeof";
  type_or_expression(Tok::kRightParen, out.type, out.operand);
  expect(Tok::kRightParen, "')'");
  return make(word.span.begin, std::move(out));
}

}  // namespace uscope::lang
