#include "lang/walk.h"

namespace uscope::lang {
namespace {

using Visit = std::function<void(ExprPtr&)>;

void maybe(ExprPtr& expr, const Visit& visit) {
  if (expr) visit(expr);
}

struct Children {
  const Visit& visit;

  template <typename Leaf>
  void operator()(Leaf&) {}
  void operator()(MapAccess& n) { maybe(n.key, visit); }
  void operator()(Unary& n) { visit(n.operand); }
  void operator()(Increment& n) { visit(n.target); }
  void operator()(Binary& n) {
    visit(n.left);
    visit(n.right);
  }
  void operator()(Ternary& n) {
    visit(n.condition);
    maybe(n.then, visit);
    visit(n.otherwise);
  }
  void operator()(Cast& n) {
    maybe(n.type.of, visit);
    visit(n.operand);
  }
  void operator()(Field& n) { visit(n.object); }
  void operator()(TupleIndex& n) { visit(n.object); }
  void operator()(Index& n) {
    visit(n.object);
    visit(n.index);
  }
  void operator()(Call& n) {
    for (ExprPtr& argument : n.arguments) visit(argument);
  }
  void operator()(SizeOf& n) { maybe(n.operand, visit); }
  void operator()(OffsetOf& n) { maybe(n.operand, visit); }
  void operator()(TypeInfo& n) { maybe(n.operand, visit); }
  void operator()(Comptime& n) { visit(n.operand); }
  void operator()(Tuple& n) {
    for (ExprPtr& element : n.elements) visit(element);
  }
  void operator()(Record& n) {
    for (RecordField& field : n.fields) visit(field.value);
  }
  void operator()(BlockExpr& n) { for_each_child(n.block, visit); }
  void operator()(If& n) {
    visit(n.condition);
    for_each_child(n.then, visit);
    maybe(n.otherwise, visit);
  }
  // Statements.
  void operator()(ExprStmt& n) { visit(n.expression); }
  void operator()(Discard& n) { visit(n.expression); }
  void operator()(AssignVariable& n) { visit(n.value); }
  void operator()(AssignMap& n) {
    visit(n.target);
    visit(n.value);
  }
  void operator()(Declare& n) {
    if (n.type) maybe(n.type->of, visit);
    maybe(n.value, visit);
  }
  void operator()(While& n) {
    visit(n.condition);
    for_each_child(n.body, visit);
  }
  void operator()(Unroll& n) {
    visit(n.count);
    for_each_child(n.body, visit);
  }
  void operator()(For& n) {
    maybe(n.map, visit);
    maybe(n.begin, visit);
    maybe(n.end, visit);
    for_each_child(n.body, visit);
  }
  void operator()(Jump& n) { maybe(n.value, visit); }
};

void statements_in(Expr& expr, const std::function<void(Stmt&)>& visit) {
  if (auto* block = expr.as<BlockExpr>()) return for_each_statement(block->block, visit);
  if (auto* branch = expr.as<If>()) {
    statements_in(*branch->condition, visit);
    for_each_statement(branch->then, visit);
    if (branch->otherwise) statements_in(*branch->otherwise, visit);
    return;
  }
  for_each_child(expr, [&](ExprPtr& child) { statements_in(*child, visit); });
}

}  // namespace

void for_each_child(Expr& expr, const Visit& visit) { std::visit(Children{visit}, expr.node); }
void for_each_child(Stmt& stmt, const Visit& visit) { std::visit(Children{visit}, stmt.node); }

void for_each_child(Block& block, const Visit& visit) {
  for (Stmt& stmt : block.statements) for_each_child(stmt, visit);
  maybe(block.value, visit);
}

void rewrite(ExprPtr& expr, const std::function<void(Expr&)>& visit) {
  for_each_child(*expr, [&](ExprPtr& child) { rewrite(child, visit); });
  visit(*expr);
}

void rewrite(Block& block, const std::function<void(Expr&)>& visit) {
  for_each_child(block, [&](ExprPtr& child) { rewrite(child, visit); });
}

void rewrite(Program& program, const std::function<void(Expr&)>& visit) {
  for (Item& item : program.items) {
    if (auto* probe = std::get_if<Probe>(&item)) {
      if (probe->predicate) rewrite(probe->predicate, visit);
      rewrite(probe->body, visit);
    } else if (auto* function = std::get_if<Function>(&item)) {
      rewrite(function->body, visit);
    } else if (auto* macro = std::get_if<Macro>(&item)) {
      rewrite(macro->body, visit);
    }
  }
}

void for_each_statement(Block& block, const std::function<void(Stmt&)>& visit) {
  for (Stmt& stmt : block.statements) {
    visit(stmt);
    if (auto* loop = stmt.as<While>()) for_each_statement(loop->body, visit);
    if (auto* loop = stmt.as<Unroll>()) for_each_statement(loop->body, visit);
    if (auto* loop = stmt.as<For>()) for_each_statement(loop->body, visit);
    bool own_blocks = stmt.as<While>() || stmt.as<Unroll>() || stmt.as<For>();
    if (!own_blocks) for_each_child(stmt, [&](ExprPtr& child) { statements_in(*child, visit); });
  }
  if (block.value) statements_in(*block.value, visit);
}

}  // namespace uscope::lang
