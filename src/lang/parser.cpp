#include "lang/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/parser_impl.h"

namespace uscope::lang {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v' || c == '\0';
}

}  // namespace

std::optional<Program> parse(const SourceSet& sources, uint32_t source, Diagnostics& diagnostics) {
  return Parser(sources, source, diagnostics).program();
}

ExprPtr parse_expression(const SourceSet& sources, uint32_t source, Diagnostics& diagnostics) {
  return Parser(sources, source, diagnostics).lone_expression();
}

Parser::Parser(const SourceSet& sources, uint32_t source, Diagnostics& diagnostics)
    : lexer_(sources.at(source), source), source_(source), diagnostics_(diagnostics) {}

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxNesting) parser_.fail_here("nested too deeply");
}

// --- tokens ---

const Token& Parser::peek() {
  if (failed_) {
    token_ = Token{};
    token_->span = Span{last_end_, last_end_, source_};
  } else if (!token_) {
    token_ = lexer_.next();
  }
  return *token_;
}

Token Parser::take() {
  Token token = peek();
  if (token.kind == Tok::kError) {
    Span span = token.error_span;
    fail(span, token.text.empty() ? "unexpected input" : token.text);
    return Token{};
  }
  token_.reset();
  last_end_ = token.span.end;
  return token;
}

bool Parser::accept(Tok kind) {
  if (!at(kind)) return false;
  take();
  return true;
}

Token Parser::expect(Tok kind, std::string_view spelled) {
  if (at(kind)) return take();
  fail_here(fmt::format("expected {}", spelled));
  return Token{};
}

void Parser::seek(uint32_t position) {
  lexer_.seek(position);
  token_.reset();
}

Span Parser::here() {
  if (failed_) return Span{last_end_, last_end_, source_};
  lexer_.seek(token_ ? token_->span.begin : lexer_.position());
  token_.reset();
  lexer_.skip_space();
  return lexer_.here();
}

void Parser::fail(Span span, std::string message) {
  if (!failed_) diagnostics_.error(span, "syntax: " + message);
  failed_ = true;
}

// A token that is wrong in itself has the better message.
void Parser::fail_here(std::string message) {
  if (failed_) return;
  if (peek().kind == Tok::kError && !peek().text.empty()) {
    Span span = peek().error_span;
    fail(span, peek().text);
    return;
  }
  fail(here(), std::move(message));
}

ExprPtr Parser::placeholder() { return make_expr(Span{last_end_, last_end_, source_}, IntLiteral{}); }

// --- program ---

std::optional<Program> Parser::program() {
  Program program;
  program.source = source_;
  shebang(program);
  while (!failed_ && !at(Tok::kEnd)) {
    seek(begin_of_next());
    lexer_.skip_space();
    if (at_c_definition()) {
      c_definition(program);
    } else {
      top_item(program);
    }
  }
  if (failed_) return std::nullopt;
  program.comments = lexer_.comments();
  return program;
}

ExprPtr Parser::lone_expression() {
  ExprPtr expr = expression();
  if (!at(Tok::kEnd)) fail_here("expected end of expression");
  return failed_ ? nullptr : std::move(expr);
}

void Parser::shebang(Program& program) {
  if (!lexer_.looking_at("#!")) return;
  std::string_view text = lexer_.text();
  std::string_view line = text.substr(0, text.find('\n'));
  program.shebang = line;
  while (program.shebang.ends_with('\r')) program.shebang.pop_back();
  seek(static_cast<uint32_t>(line.size()));
}

// A keyword is one only when no attach point can start with it: `config` could be a provider, `config =` not.
bool Parser::at_keyword(std::string_view word) { return lexer_.word() == word; }

bool Parser::at_c_definition() {
  if (lexer_.peek() == '#') return true;
  return at_keyword("struct") || at_keyword("union") || at_keyword("enum") || at_keyword("typedef");
}

void Parser::preprocessor_line(Program& program) {
  uint32_t begin = lexer_.position();
  uint32_t end = begin;
  std::string_view text = lexer_.text();
  while (end < text.size() && (text[end] != '\n' || text[end - 1] == '\\')) ++end;
  uint32_t shown = end;
  while (shown > begin && is_blank(text[shown - 1])) --shown;
  program.c_definitions.push_back(
      CDefinition{Span{begin, shown, source_}, std::string(text.substr(begin, shown - begin))});
  last_end_ = end;
  seek(end);
}

// `__attribute__((...))`, of any content.
void Parser::skip_attribute() {
  take();
  uint32_t parens = 0;
  do {
    if (at(Tok::kLeftParen)) ++parens;
    if (at(Tok::kRightParen) && parens > 0) --parens;
    if (at(Tok::kEnd)) return fail_here("expected ')'");
    last_end_ = peek().span.end;
    seek(last_end_);
  } while (parens > 0);
}

// Up to the `;` outside braces, or the closing brace and what attributes follow it.
void Parser::skip_c_declaration() {
  uint32_t braces = 0;
  bool type_definition = at_word("typedef"), closed = false;
  while (!at(Tok::kEnd)) {
    if (braces == 0 && at(Tok::kSemicolon)) return;
    if (braces == 0 && closed) {
      if (!at_word("__attribute__")) return;
      skip_attribute();
      continue;
    }
    if (at(Tok::kLeftBrace)) ++braces;
    if (at(Tok::kRightBrace)) {
      if (braces == 0) break;
      closed = --braces == 0 && !type_definition;
    }
    last_end_ = peek().span.end;
    seek(last_end_);
  }
  if (!closed) fail_here(braces > 0 ? "expected '}'" : "expected '{'");
}

void Parser::c_definition(Program& program) {
  if (lexer_.looking_at("#!")) return fail(lexer_.here(), "a #! line must be the script's first");
  if (lexer_.peek() == '#') {
    preprocessor_line(program);
  } else {
    uint32_t begin = begin_of_next();
    skip_c_declaration();
    Span span = span_from(begin);
    program.c_definitions.push_back(
        CDefinition{span, std::string(lexer_.text().substr(span.begin, span.end - span.begin))});
    accept(Tok::kSemicolon);
  }
  if (!program.items.empty()) {
    fail(program.c_definitions.back().span, "C definitions must appear before probes and functions");
  }
}

void Parser::top_item(Program& program) {
  auto only_preamble = std::ranges::all_of(program.items, [](const Item& item) {
    return std::holds_alternative<Config>(item) || std::holds_alternative<TopImport>(item);
  });
  auto has_config = std::ranges::any_of(
      program.items, [](const Item& item) { return std::holds_alternative<Config>(item); });
  uint32_t start = lexer_.position();
  Span word = lexer_.here();
  bool assigned = false;
  if (at_keyword("config")) {
    take();
    assigned = at(Tok::kAssign);
    seek(start);
  }
  if (assigned) {
    if (has_config) return fail(word, "duplicate config block");
    if (!only_preamble) return fail(word, "config must appear before probes and functions");
    program.items.emplace_back(config());
  } else if (at_keyword("import")) {
    if (!only_preamble) return fail(word, "root imports must appear before probes and functions");
    program.items.emplace_back(top_import());
  } else if (at_keyword("macro")) {
    program.items.emplace_back(macro());
  } else if (at_keyword("fn")) {
    program.items.emplace_back(function());
  } else if (at_keyword("let")) {
    program.items.emplace_back(map_declaration());
  } else {
    program.items.emplace_back(probe());
  }
}

Config Parser::config() {
  Config out;
  uint32_t begin = begin_of_next();
  take();
  expect(Tok::kAssign, "'='");
  expect(Tok::kLeftBrace, "'{'");
  while (!failed_ && !at(Tok::kRightBrace)) {
    if (accept(Tok::kSemicolon)) continue;
    if (at(Tok::kEnd)) {
      fail_here("expected '}'");
      break;
    }
    out.settings.push_back(config_setting());
    if (!at(Tok::kRightBrace)) expect(Tok::kSemicolon, "';'");
  }
  expect(Tok::kRightBrace, "'}'");
  out.span = span_from(begin);
  return out;
}

ConfigSetting Parser::config_setting() {
  ConfigSetting out;
  uint32_t begin = begin_of_next();
  out.name = expect(Tok::kIdent, "identifier").text;
  expect(Tok::kAssign, "'='");
  Token value = at(Tok::kIdent) || at(Tok::kInt) || at(Tok::kString) ? take() : Token{};
  if (value.kind == Tok::kInt) {
    out.value = ConfigValue{ConfigValue::Kind::kInt, fmt::to_string(value.integer), value.integer};
  } else if (value.kind == Tok::kString) {
    out.value = ConfigValue{ConfigValue::Kind::kString, value.text, 0};
  } else if (value.kind == Tok::kIdent) {
    bool boolean = value.text == "true" || value.text == "false";
    out.value = ConfigValue{boolean ? ConfigValue::Kind::kBool : ConfigValue::Kind::kWord, value.text,
                            value.text == "true"};
  } else {
    fail_here("expected string, int, boolean, or ident");
  }
  out.span = span_from(begin);
  return out;
}

TopImport Parser::top_import() {
  uint32_t begin = begin_of_next();
  take();
  std::string path = expect(Tok::kString, "string after 'import'").text;
  expect(Tok::kSemicolon, "';' after import");
  return TopImport{span_from(begin), std::move(path)};
}

MapDeclaration Parser::map_declaration() {
  MapDeclaration out;
  uint32_t begin = begin_of_next();
  take();
  out.name = expect(Tok::kMap, "map after 'let'").text;
  expect(Tok::kAssign, "'='");
  out.kind = expect(Tok::kIdent, "map type name").text;
  expect(Tok::kLeftParen, "'('");
  out.max_entries = expect(Tok::kInt, "positive integer for map declaration max entries").integer;
  expect(Tok::kRightParen, "')'");
  accept(Tok::kSemicolon);
  out.span = span_from(begin);
  return out;
}

// The body of a probe or function: a last expression there is a statement like any other.
Block Parser::body() {
  Block out = block();
  if (out.value) {
    Span span = out.value->span;
    out.statements.push_back(Stmt{span, ExprStmt{std::move(out.value)}});
  }
  return out;
}

Macro Parser::macro() {
  Macro out;
  uint32_t begin = begin_of_next();
  take();
  Token name = expect(Tok::kIdent, "macro name");
  out.name = name.text;
  out.name_span = name.span;
  expect(Tok::kLeftParen, "'('");
  while (!failed_ && !at(Tok::kRightParen)) {
    if (!at(Tok::kVariable) && !at(Tok::kMap) && !at(Tok::kIdent)) {
      fail_here("expected macro argument ($var, @map, or identifier)");
      break;
    }
    Token parameter = take();
    out.parameters.push_back(MacroParameter{parameter.span, parameter.text});
    if (!accept(Tok::kComma)) break;
  }
  expect(Tok::kRightParen, "')'");
  out.body = block();
  out.span = span_from(begin);
  return out;
}

Function Parser::function() {
  Function out;
  uint32_t begin = begin_of_next();
  take();
  Token name = expect(Tok::kIdent, "function name");
  out.name = name.text;
  out.name_span = name.span;
  expect(Tok::kLeftParen, "'('");
  while (!failed_ && !at(Tok::kRightParen)) {
    uint32_t from = begin_of_next();
    Parameter parameter;
    parameter.name = expect(Tok::kVariable, "variable").text;
    expect(Tok::kColon, "':'");
    parameter.type = type();
    parameter.span = span_from(from);
    out.parameters.push_back(std::move(parameter));
    if (!accept(Tok::kComma)) break;
  }
  expect(Tok::kRightParen, "')'");
  expect(Tok::kColon, "':'");
  out.result = type();
  out.body = body();
  out.span = span_from(begin);
  return out;
}

Probe Parser::probe() {
  Probe out;
  uint32_t begin = begin_of_next();
  do {
    if (!out.attach_points.empty() && at(Tok::kLeftBrace)) break;  // a comma before the body
    out.attach_points.push_back(attach_point());
  } while (!failed_ && accept(Tok::kComma));
  out.head = span_from(begin);
  if (at(Tok::kSlash)) out.predicate = predicate();
  out.body = body();
  out.span = span_from(begin);
  return out;
}

// Everything up to white space, a comma or the body. Quoted parts are taken whole, and so are parameter
// lists: `uprobe:./a:add(int, int)`.
AttachPoint Parser::attach_point() {
  seek(begin_of_next());
  lexer_.skip_space();
  uint32_t begin = lexer_.position();
  std::string_view text = lexer_.text();
  uint32_t end = begin, parens = 0;
  while (end < text.size()) {
    char c = text[end];
    if (c == '"') {
      size_t close = end + 1;
      while (close < text.size() && text[close] != '"') close += text[close] == '\\' ? 2 : 1;
      if (close >= text.size()) {
        auto size = static_cast<uint32_t>(text.size());
        fail(Span{size, size, source_}, "unterminated string");
        return {};
      }
      end = static_cast<uint32_t>(close) + 1;
      continue;
    }
    if (c == '{' || c == '}' || (parens == 0 && (c == ',' || is_blank(c)))) break;
    if (c == '(') ++parens;
    if (c == ')' && parens > 0) --parens;
    ++end;
  }
  while (end > begin && is_blank(text[end - 1])) --end;  // an unbalanced parenthesis took too much
  if (end == begin) {
    fail(lexer_.here(), "expected attach point");
    return {};
  }
  last_end_ = end;
  seek(end);
  return AttachPoint{Span{begin, end, source_}, std::string(text.substr(begin, end - begin))};
}

ExprPtr Parser::predicate() {
  take();
  in_predicate_ = true;
  ExprPtr expr = expression();
  in_predicate_ = false;
  expect(Tok::kSlash, "'/' to close predicate");
  return expr;
}

}  // namespace uscope::lang
