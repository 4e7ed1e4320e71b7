#include "lang/ast.h"

#include <algorithm>

namespace uscope::lang {
namespace {

ExprPtr clone_optional(const ExprPtr& expr) { return expr ? clone(*expr) : nullptr; }

std::optional<TypeSpec> clone_optional(const std::optional<TypeSpec>& type) {
  if (!type) return std::nullopt;
  return clone(*type);
}

std::vector<ExprPtr> clone_all(const std::vector<ExprPtr>& all) {
  std::vector<ExprPtr> out;
  for (const ExprPtr& one : all) out.push_back(clone(*one));
  return out;
}

// One overload a node; leaves copy themselves.
template <typename Leaf>
ExprNode copy(const Leaf& leaf) {
  return leaf;
}
ExprNode copy(const MapAccess& n) { return MapAccess{n.name, clone_optional(n.key)}; }
ExprNode copy(const Unary& n) { return Unary{n.op, clone(*n.operand)}; }
ExprNode copy(const Increment& n) { return Increment{clone(*n.target), n.down, n.prefix}; }
ExprNode copy(const Binary& n) { return Binary{n.op, clone(*n.left), clone(*n.right)}; }
ExprNode copy(const Ternary& n) {
  return Ternary{clone(*n.condition), clone_optional(n.then), clone(*n.otherwise)};
}
ExprNode copy(const Cast& n) { return Cast{clone(n.type), clone(*n.operand)}; }
ExprNode copy(const Field& n) { return Field{clone(*n.object), n.name, n.name_span, n.is_reference}; }
ExprNode copy(const TupleIndex& n) { return TupleIndex{clone(*n.object), n.index}; }
ExprNode copy(const Index& n) { return Index{clone(*n.object), clone(*n.index)}; }
ExprNode copy(const Call& n) { return Call{n.name, n.name_span, clone_all(n.arguments)}; }
ExprNode copy(const SizeOf& n) { return SizeOf{clone_optional(n.type), clone_optional(n.operand)}; }
ExprNode copy(const OffsetOf& n) {
  return OffsetOf{clone_optional(n.type), clone_optional(n.operand), n.path};
}
ExprNode copy(const TypeInfo& n) {
  return TypeInfo{clone_optional(n.type), clone_optional(n.operand), n.only_type};
}
ExprNode copy(const Comptime& n) { return Comptime{clone(*n.operand)}; }
ExprNode copy(const Tuple& n) { return Tuple{clone_all(n.elements)}; }
ExprNode copy(const Record& n) {
  Record out;
  for (const RecordField& field : n.fields) {
    out.fields.push_back(RecordField{field.name, field.name_span, clone(*field.value)});
  }
  return out;
}
ExprNode copy(const BlockExpr& n) { return BlockExpr{clone(n.block), n.is_expansion}; }
ExprNode copy(const If& n) { return If{clone(*n.condition), clone(n.then), clone_optional(n.otherwise)}; }

StmtNode copy(const ExprStmt& n) { return ExprStmt{clone(*n.expression)}; }
StmtNode copy(const Discard& n) { return Discard{clone(*n.expression)}; }
StmtNode copy(const AssignVariable& n) {
  return AssignVariable{n.name, n.name_span, n.op, clone(*n.value), n.slot};
}
StmtNode copy(const AssignMap& n) { return AssignMap{clone(*n.target), n.op, clone(*n.value)}; }
StmtNode copy(const Declare& n) {
  return Declare{n.name, n.name_span, clone_optional(n.type), clone_optional(n.value), n.slot};
}
StmtNode copy(const While& n) { return While{clone(*n.condition), clone(n.body)}; }
StmtNode copy(const Unroll& n) { return Unroll{clone(*n.count), clone(n.body)}; }
StmtNode copy(const For& n) {
  return For{
      n.variable,   n.variable_span, clone_optional(n.map), clone_optional(n.begin), clone_optional(n.end),
      clone(n.body)};
}
StmtNode copy(const Jump& n) { return Jump{n.kind, clone_optional(n.value)}; }
StmtNode copy(const Import& n) { return Import{n.path}; }

}  // namespace

int precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::kOr:
      return 1;
    case BinaryOp::kAnd:
      return 2;
    case BinaryOp::kBitOr:
      return 3;
    case BinaryOp::kBitXor:
      return 4;
    case BinaryOp::kBitAnd:
      return 5;
    case BinaryOp::kEqual:
    case BinaryOp::kNotEqual:
      return 6;
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual:
      return 7;
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
      return 8;
    case BinaryOp::kAdd:
    case BinaryOp::kSubtract:
      return 9;
    case BinaryOp::kMultiply:
    case BinaryOp::kDivide:
    case BinaryOp::kModulo:
      return 10;
  }
  return 0;
}

std::string_view spell(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kModulo:
      return "%";
    case BinaryOp::kBitAnd:
      return "&";
    case BinaryOp::kBitOr:
      return "|";
    case BinaryOp::kBitXor:
      return "^";
    case BinaryOp::kShiftLeft:
      return "<<";
    case BinaryOp::kShiftRight:
      return ">>";
    case BinaryOp::kEqual:
      return "==";
    case BinaryOp::kNotEqual:
      return "!=";
    case BinaryOp::kLess:
      return "<";
    case BinaryOp::kLessEqual:
      return "<=";
    case BinaryOp::kGreater:
      return ">";
    case BinaryOp::kGreaterEqual:
      return ">=";
    case BinaryOp::kAnd:
      return "&&";
    case BinaryOp::kOr:
      return "||";
  }
  return "?";
}

std::string_view spell(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNegate:
      return "-";
    case UnaryOp::kNot:
      return "!";
    case UnaryOp::kBitNot:
      return "~";
    case UnaryOp::kDereference:
      return "*";
    case UnaryOp::kAddressOf:
      return "&";
  }
  return "?";
}

ExprPtr make_expr(Span span, ExprNode node) {
  auto expr = std::make_unique<Expr>();
  expr->span = span;
  expr->node = std::move(node);
  return expr;
}

ExprPtr clone(const Expr& expr) {
  auto out = make_expr(expr.span, std::visit([](const auto& node) { return copy(node); }, expr.node));
  out->type = expr.type;
  out->height = expr.height;
  return out;
}

Stmt clone(const Stmt& stmt) {
  return Stmt{stmt.span, std::visit([](const auto& node) { return copy(node); }, stmt.node)};
}

Block clone(const Block& block) {
  Block out;
  out.span = block.span;
  for (const Stmt& stmt : block.statements) out.statements.push_back(clone(stmt));
  out.value = clone_optional(block.value);
  out.height = block.height;
  return out;
}

TypeSpec clone(const TypeSpec& type) {
  TypeSpec out;
  out.span = type.span;
  out.name = type.name;
  out.of = clone_optional(type.of);
  out.pointers = type.pointers;
  out.sized = type.sized;
  out.dimensions = type.dimensions;
  return out;
}

}  // namespace uscope::lang
