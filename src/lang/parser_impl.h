// The parser's insides, shared by the files that implement it: parser.cpp (top level), parse_statement.cpp,
// parse_expression.cpp and parse_type.cpp. Not for others.
//
// After an error the token is kEnd for good: every loop ends, every function returns a well-formed
// placeholder, and nobody has to check for null.
#pragma once

#include <string>
#include <string_view>

#include "lang/ast.h"
#include "lang/diagnostics.h"
#include "lang/lexer.h"
#include "lang/parser.h"

namespace uscope::lang {

class Parser {
 public:
  Parser(const SourceSet& sources, uint32_t source, Diagnostics& diagnostics);

  std::optional<Program> program();
  ExprPtr lone_expression();

 private:
  // Parts of program(), in parser.cpp.
  void shebang(Program& program);
  void c_definition(Program& program);
  void skip_c_declaration();
  void skip_attribute();
  void preprocessor_line(Program& program);
  bool at_c_definition();
  bool at_keyword(std::string_view word);
  void top_item(Program& program);
  Config config();
  ConfigSetting config_setting();
  TopImport top_import();
  MapDeclaration map_declaration();
  Macro macro();
  Function function();
  Probe probe();
  AttachPoint attach_point();
  ExprPtr predicate();
  Block body();

  // parse_statement.cpp
  Block block();
  void statement(Block& into);
  void expression_statement(Block& into);
  Stmt assignment(ExprPtr target);
  Stmt declaration();
  Stmt while_loop();
  Stmt unroll_loop();
  Stmt for_loop();
  Stmt jump();
  Stmt import();
  bool simple_statement(Block& into);
  void end_statement();

  // parse_expression.cpp
  ExprPtr expression();
  ExprPtr ternary();
  ExprPtr binary(int lowest);
  ExprPtr binary_rest(ExprPtr left, uint32_t begin, int lowest);
  ExprPtr unary();
  ExprPtr prefix_increment();
  ExprPtr postfix();
  ExprPtr postfix_rest(ExprPtr object, uint32_t begin);
  ExprPtr member(ExprPtr object, uint32_t begin);
  ExprPtr primary();
  ExprPtr name();
  ExprPtr call(const Token& name);
  ExprPtr map_access();
  ExprPtr parenthesized();
  ExprPtr record(uint32_t begin);
  ExprPtr cast(uint32_t begin);
  ExprPtr if_expression();
  void type_or_expression(Tok next, std::optional<TypeSpec>& type_out, ExprPtr& operand);
  ExprPtr size_of();
  ExprPtr offset_of();
  ExprPtr type_info();
  std::vector<ExprPtr> arguments(Tok close);
  bool at_cast();
  bool at_record();
  bool at_predicate_end();
  bool can_be_increment_target(const Expr& expr) const;

  // parse_type.cpp
  TypeSpec type();
  bool scan_type();
  bool scan_known_type();
  bool type_then(Tok next);

  // Tokens.
  const Token& peek();
  Token take();
  bool at(Tok kind) { return peek().kind == kind; }
  bool at_word(std::string_view word) { return at(Tok::kIdent) && peek().text == word; }
  bool accept(Tok kind);
  Token expect(Tok kind, std::string_view spelled);
  void seek(uint32_t position);
  uint32_t begin_of_next() { return peek().span.begin; }
  Span span_from(uint32_t begin) const { return Span{begin, last_end_, source_}; }
  Span here();

  void fail(Span span, std::string message);
  void fail_here(std::string message);
  ExprPtr placeholder();
  ExprPtr make(uint32_t begin, ExprNode node);

  // Counts nesting; past the bound it fails the parse.
  class Nested {
   public:
    explicit Nested(Parser& parser);
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  Lexer lexer_;
  uint32_t source_;
  Diagnostics& diagnostics_;
  std::optional<Token> token_;  // looked at but not taken
  uint32_t last_end_ = 0;       // end of the token taken last
  uint32_t depth_ = 0;
  uint32_t tallest_ = 0;  // expression in the block being parsed
  bool failed_ = false;
  bool in_predicate_ = false;
};

}  // namespace uscope::lang
