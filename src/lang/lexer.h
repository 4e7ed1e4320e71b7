// Script text -> tokens, one at a time and from any offset, because what a character means depends on where
// the parser is: a `/` may open a predicate, and attach points are not made of tokens at all. Owns nothing;
// comments and blank lines seen on the way are remembered for the formatter. A bad token is a token too
// (kError), reported only if the parser takes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lang/source.h"

namespace uscope::lang {

// grouped by meaning
// clang-format off
enum class Tok : uint8_t {
  kEnd,
  kError,
  kIdent,
  kInt,
  kFloat,
  kString,
  kVariable,
  kPositional,
  kPositionalCount,
  kMap,
  kLeftBrace,
  kRightBrace,
  kLeftParen,
  kRightParen,
  kLeftBracket,
  kRightBracket,
  kComma,
  kSemicolon,
  kColon,
  kQuestion,
  kDot,
  kDotDot,
  kArrow,
  kAssign,
  kPlusAssign,
  kMinusAssign,
  kStarAssign,
  kSlashAssign,
  kPercentAssign,
  kAndAssign,
  kOrAssign,
  kXorAssign,
  kShiftLeftAssign,
  kShiftRightAssign,
  kPlus,
  kMinus,
  kStar,
  kSlash,
  kPercent,
  kAnd,
  kOr,
  kXor,
  kTilde,
  kBang,
  kAndAnd,
  kOrOr,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kShiftLeft,
  kShiftRight,
  kIncrement,
  kDecrement,
};
// clang-format on

struct Token {
  Tok kind = Tok::kEnd;
  Span span;
  std::string text;      // identifier, variable ("$x"), map ("@x"), decoded string, or kError's message
  uint64_t integer = 0;  // kInt, kPositional
  double real = 0;       // kFloat
  Span error_span;       // kError: what to underline
};

struct Comment {
  Span span;
  std::string text;    // as written, marks and all; may hold newlines
  bool block = false;  // /* */ rather than //
};

class Lexer {
 public:
  Lexer(const Source& source, uint32_t index);

  uint32_t position() const { return position_; }
  void seek(uint32_t position) { position_ = position; }
  Token next();
  void skip_space();

  bool at_end() const { return position_ >= text_.size(); }
  char peek(uint32_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  bool looking_at(std::string_view what) const { return text_.substr(position_).starts_with(what); }
  // An identifier at the position, not consumed; empty if there is none.
  std::string_view word() const;
  std::string_view text() const { return text_; }

  // What an error here underlines: a word (with its $ or @), one character, or nothing at the end.
  Span here() const;
  Span span_from(uint32_t begin) const { return Span{begin, position_, index_}; }

  // The digits of `.0`; one token of a tuple access, so that `.0.1` is no float.
  Token next_tuple_index();

  const std::vector<Comment>& comments() const { return comments_; }

 private:
  Token number();
  Token real_number(uint32_t begin);
  Token string();
  Token character();
  Token sigil();
  Token punctuation();
  bool escape(char quote, std::string& out, Token& token);
  Token error(Span span, std::string message);
  void comment(bool block);

  std::string_view text_;
  uint32_t index_;
  uint32_t position_ = 0;
  std::vector<Comment> comments_;  // in order; each once, however often the parser backs up over it
};

bool is_word_start(char c);
bool is_word(char c);

}  // namespace uscope::lang
