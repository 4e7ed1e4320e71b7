// Syntax tree -> script text: what `--fmt` and `-d ast` print, in bpftrace's layout. Printing what was parsed
// and parsing it again gives the same tree; formatting twice gives the same text. Comments stay where they
// were, at the granularity of a statement; one inside an expression moves behind its statement.
#pragma once

#include <string>

#include "lang/ast.h"
#include "lang/source.h"

namespace uscope::lang {

struct PrintOptions {
  bool comments = true;
  bool types = false;  // append the resolved type of each expression's statement, for `-d types`
};

std::string print(const Program& program, const SourceSet& sources, PrintOptions options = {});
// One expression on one line.
std::string print(const Expr& expr);
std::string print(const TypeSpec& type);
std::string quote(std::string_view text);

}  // namespace uscope::lang
