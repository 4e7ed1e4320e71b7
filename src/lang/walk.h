// Going over a tree without knowing every node: what passes that care for a few nodes only are made of.
#pragma once

#include <functional>

#include "lang/ast.h"

namespace uscope::lang {

// Calls `visit` for each direct child expression; for statements inside, for the expressions they hold.
void for_each_child(Expr& expr, const std::function<void(ExprPtr&)>& visit);
void for_each_child(Stmt& stmt, const std::function<void(ExprPtr&)>& visit);
void for_each_child(Block& block, const std::function<void(ExprPtr&)>& visit);

// Every expression below, children before parents. `visit` may replace the node of what it is given.
void rewrite(ExprPtr& expr, const std::function<void(Expr&)>& visit);
void rewrite(Block& block, const std::function<void(Expr&)>& visit);
// In all probes, functions and macros.
void rewrite(Program& program, const std::function<void(Expr&)>& visit);

// Every statement in a block and in the blocks inside it, outer ones first.
void for_each_statement(Block& block, const std::function<void(Stmt&)>& visit);

}  // namespace uscope::lang
