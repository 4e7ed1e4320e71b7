// Expressions as text, on one line where they fit and broken after commas and operators where they do not.
// Used by the printer alone; statements inside expressions come back to it through BlockPrinter.
#pragma once

#include <functional>
#include <string>

#include "lang/ast.h"

namespace uscope::lang {

class ExpressionPrinter {
 public:
  static constexpr size_t kWidth = 80;

  // Prints a block over lines, from its `{`, at the given indentation.
  using BlockPrinter = std::function<void(const Block&, size_t indent, std::string& out)>;
  // Whether a comment keeps a block from standing on one line.
  using BlockIsOpen = std::function<bool(const Block&)>;

  ExpressionPrinter(BlockPrinter block, BlockIsOpen commented)
      : block_(std::move(block)), commented_(std::move(commented)) {}

  // The expression from `column` on; `after` more characters follow it on its last line.
  std::string print(const Expr& expr, size_t column, size_t after = 0);
  // The same if it fits on one line; false, with rubbish in `out`, if not.
  bool one_line(const Expr& expr, size_t column, std::string& out) {
    return flat(expr, out, out.size() + (kWidth > column ? kWidth - column : 0));
  }
  // As the condition of if, while and unroll: bare if simple, else in parentheses.
  std::string condition(const Expr& expr, size_t column);
  // The end of a range.
  std::string range_end(const Expr& expr, size_t column);
  // `{ value }` or `{ one statement; }` on one line of at most `limit` characters in all; false, with rubbish
  // in `out`, if that cannot be.
  bool flat_block(const Block& block, std::string& out, size_t limit);

 private:
  // On one line into `out`; false when that would pass `limit` characters in all or cannot be.
  bool flat(const Expr& expr, std::string& out, size_t limit);
  bool flat_operand(const Expr& expr, bool parens, std::string& out, size_t limit);
  bool flat_list(const std::vector<ExprPtr>& all, size_t from, std::string& out, size_t limit);
  bool flat_node(const Expr& expr, std::string& out, size_t limit);
  bool flat_if(const If& node, std::string& out, size_t limit);

  void broken(const Expr& expr, size_t column, size_t after, std::string& out);
  void broken_operand(const Expr& expr, bool parens, size_t column, size_t after, std::string& out);
  void broken_list(const std::vector<ExprPtr>& all, size_t column, size_t after, std::string& out);
  void broken_record(const Record& record, size_t column, size_t after, std::string& out);
  void broken_binary(const Binary& node, size_t column, size_t after, std::string& out);
  void broken_if(const If& node, size_t column, std::string& out);

  BlockPrinter block_;
  BlockIsOpen commented_;
};

}  // namespace uscope::lang
