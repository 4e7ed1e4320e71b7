#include "lang/parser_impl.h"
#include "lang/words.h"

namespace uscope::lang {

// Moves over what looks like a type; false, the position then being anywhere, if nothing does.
bool Parser::scan_type() {
  if (!at(Tok::kIdent)) return false;
  bool composite = at_word("struct") || at_word("union") || at_word("enum");
  bool of_expression = at_word("typeof");
  take();
  if (of_expression) {
    if (!accept(Tok::kLeftParen)) return false;
    uint32_t parens = 1;
    while (parens > 0 && !at(Tok::kEnd) && !at(Tok::kError)) {
      if (at(Tok::kLeftParen)) ++parens;
      if (at(Tok::kRightParen)) --parens;
      take();
    }
    if (parens > 0) return false;
  }
  if (composite && !accept(Tok::kIdent)) return false;
  while (at(Tok::kStar) || at(Tok::kLeftBracket)) {
    if (accept(Tok::kStar)) continue;
    take();
    accept(Tok::kInt);
    if (!accept(Tok::kRightBracket)) return false;
  }
  return true;
}

// A type here, followed by `next`? A bare name that is not known as a type counts as an expression.
bool Parser::type_then(Tok next) {
  if (at_word("struct") || at_word("union") || at_word("enum")) return true;
  uint32_t begin = begin_of_next();
  bool known = at(Tok::kIdent) && is_type_word(peek().text);
  bool value = at(Tok::kIdent) && is_value_word(peek().text);
  bool found = !value && scan_type() && at(next);
  if (found && !known) {
    // `foo` may be a typedef or a constant: later passes see an Identifier either way and decide.
    found = last_end_ != begin &&
            lexer_.text().substr(begin, last_end_ - begin).find_first_of(" *[") != std::string_view::npos;
  }
  seek(begin);
  return found;
}

TypeSpec Parser::type() {
  Nested nested(*this);
  TypeSpec out;
  uint32_t begin = begin_of_next();
  if (!at(Tok::kIdent)) {
    fail_here("expected type name");
    return out;
  }
  Token word = take();
  if (word.text == "typeof" && at(Tok::kLeftParen)) {
    take();
    if (type_then(Tok::kRightParen)) {
      out = type();
    } else {
      out.of = expression();
    }
    expect(Tok::kRightParen, "')'");
  } else if (word.text == "struct" || word.text == "union" || word.text == "enum") {
    out.name = word.text + " " + expect(Tok::kIdent, "type name").text;
  } else {
    out.name = word.text;
  }
  while (!failed_ && (at(Tok::kStar) || at(Tok::kLeftBracket))) {
    if (accept(Tok::kStar)) {
      // A pointer to an array has no use in the language; `[N]` always is the outer part.
      if (++out.pointers > 16) fail_here("too many levels of pointers");
      continue;
    }
    take();
    out.sized = true;
    if (out.dimensions.size() >= 8) fail_here("too many array dimensions");
    out.dimensions.push_back(at(Tok::kInt) ? take().integer : 0);
    expect(Tok::kRightBracket, "']'");
  }
  out.span = span_from(begin);
  return out;
}

}  // namespace uscope::lang
