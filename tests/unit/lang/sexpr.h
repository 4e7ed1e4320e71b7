// Syntax trees as one-line S-expressions, so that tests can compare structure without the printer's help.
#pragma once

#include <string>

#include "lang/ast.h"

namespace uscope::lang {

std::string sexpr(const Expr& expr);
std::string sexpr(const Stmt& stmt);
std::string sexpr(const Block& block);
std::string sexpr(const Program& program);

}  // namespace uscope::lang
