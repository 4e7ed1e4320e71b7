#include "lang/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "lang/int_literal.h"

namespace uscope::lang {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }
uint32_t hex_value(char c) { return static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10); }

std::string trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

struct Punctuation {
  std::string_view text;
  Tok kind;
};

// Longer ones first, so that the first match is the longest.
constexpr std::array kPunctuation = {
    Punctuation{"<<=", Tok::kShiftLeftAssign},
    Punctuation{">>=", Tok::kShiftRightAssign},
    Punctuation{"..", Tok::kDotDot},
    Punctuation{"->", Tok::kArrow},
    Punctuation{"+=", Tok::kPlusAssign},
    Punctuation{"-=", Tok::kMinusAssign},
    Punctuation{"*=", Tok::kStarAssign},
    Punctuation{"/=", Tok::kSlashAssign},
    Punctuation{"%=", Tok::kPercentAssign},
    Punctuation{"&=", Tok::kAndAssign},
    Punctuation{"|=", Tok::kOrAssign},
    Punctuation{"^=", Tok::kXorAssign},
    Punctuation{"&&", Tok::kAndAnd},
    Punctuation{"||", Tok::kOrOr},
    Punctuation{"==", Tok::kEqual},
    Punctuation{"!=", Tok::kNotEqual},
    Punctuation{"<=", Tok::kLessEqual},
    Punctuation{">=", Tok::kGreaterEqual},
    Punctuation{"<<", Tok::kShiftLeft},
    Punctuation{">>", Tok::kShiftRight},
    Punctuation{"++", Tok::kIncrement},
    Punctuation{"--", Tok::kDecrement},
    Punctuation{"{", Tok::kLeftBrace},
    Punctuation{"}", Tok::kRightBrace},
    Punctuation{"(", Tok::kLeftParen},
    Punctuation{")", Tok::kRightParen},
    Punctuation{"[", Tok::kLeftBracket},
    Punctuation{"]", Tok::kRightBracket},
    Punctuation{",", Tok::kComma},
    Punctuation{";", Tok::kSemicolon},
    Punctuation{":", Tok::kColon},
    Punctuation{"?", Tok::kQuestion},
    Punctuation{".", Tok::kDot},
    Punctuation{"=", Tok::kAssign},
    Punctuation{"+", Tok::kPlus},
    Punctuation{"-", Tok::kMinus},
    Punctuation{"*", Tok::kStar},
    Punctuation{"/", Tok::kSlash},
    Punctuation{"%", Tok::kPercent},
    Punctuation{"&", Tok::kAnd},
    Punctuation{"|", Tok::kOr},
    Punctuation{"^", Tok::kXor},
    Punctuation{"~", Tok::kTilde},
    Punctuation{"!", Tok::kBang},
    Punctuation{"<", Tok::kLess},
    Punctuation{">", Tok::kGreater},
};

}  // namespace

bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_word_start(c) || is_digit(c); }

Lexer::Lexer(const Source& source, uint32_t index) : text_(source.text()), index_(index) {}

std::string_view Lexer::word() const {
  uint32_t end = position_;
  if (end < text_.size() && is_word_start(text_[end])) {
    while (end < text_.size() && is_word(text_[end])) ++end;
  }
  return text_.substr(std::min<size_t>(position_, text_.size()), end - position_);
}

Span Lexer::here() const {
  uint32_t end = position_;
  if (at_end()) return Span{end, end, index_};
  if ((text_[end] == '$' || text_[end] == '@') && end + 1 < text_.size() && is_word(text_[end + 1])) ++end;
  if (!is_word(text_[end])) return Span{position_, position_ + 1, index_};
  while (end < text_.size() && is_word(text_[end])) ++end;
  return Span{position_, end, index_};
}

void Lexer::skip_space() {
  while (!at_end()) {
    if (is_space(peek())) {
      ++position_;
    } else if (looking_at("//")) {
      comment(false);
    } else if (looking_at("/*")) {
      comment(true);
    } else {
      return;
    }
  }
}

void Lexer::comment(bool block) {
  uint32_t begin = position_;
  size_t end = text_.find(block ? "*/" : "\n", begin + 2);
  if (end == std::string_view::npos) {
    position_ = static_cast<uint32_t>(text_.size());
  } else {
    position_ = static_cast<uint32_t>(block ? end + 2 : end);
  }
  if (comments_.empty() || comments_.back().span.begin < begin) {
    // One that the script's end cuts off ends where its text does.
    std::string text = trim(text_.substr(begin, position_ - begin));
    Span span{begin, begin + static_cast<uint32_t>(text.size()), index_};
    comments_.push_back(Comment{span, std::move(text), block});
  }
}

Token Lexer::error(Span span, std::string message) {
  Token token;
  token.kind = Tok::kError;
  token.span = token.error_span = span;
  token.text = std::move(message);
  return token;
}

Token Lexer::next() {
  skip_space();
  if (at_end()) {
    Token end;
    end.span = Span{position_, position_, index_};
    return end;
  }
  char c = peek();
  if (is_word_start(c)) {
    Token token;
    token.kind = Tok::kIdent;
    token.text = word();
    token.span = Span{position_, position_ + static_cast<uint32_t>(token.text.size()), index_};
    position_ = token.span.end;
    return token;
  }
  if (is_digit(c)) return number();
  if (c == '"') return string();
  if (c == '\'') return character();
  if (c == '$' || c == '@') return sigil();
  return punctuation();
}

Token Lexer::punctuation() {
  for (const Punctuation& one : kPunctuation) {
    if (!looking_at(one.text)) continue;
    Token token;
    token.kind = one.kind;
    token.span = Span{position_, position_ + static_cast<uint32_t>(one.text.size()), index_};
    position_ = token.span.end;
    return token;
  }
  Span bad = here();
  ++position_;
  return error(bad, "");
}

Token Lexer::number() {
  uint32_t begin = position_;
  while (is_word(peek())) ++position_;
  if (peek() == '.' && is_digit(peek(1))) return real_number(begin);
  std::string_view spelled = text_.substr(begin, position_ - begin);
  auto value = parse_int_literal(spelled);
  if (!value) {
    auto wrong = begin + static_cast<uint32_t>(value.error().suffix_begin);
    return error(Span{wrong, position_, index_}, value.error().message);
  }
  Token token;
  token.kind = Tok::kInt;
  token.span = span_from(begin);
  token.text = spelled;
  token.integer = *value;
  return token;
}

Token Lexer::real_number(uint32_t begin) {
  ++position_;
  while (is_word(peek()) || ((peek() == '-' || peek() == '+') && (text_[position_ - 1] | 0x20) == 'e'))
    ++position_;
  std::string spelled(text_.substr(begin, position_ - begin));
  char* end = nullptr;
  double value = std::strtod(spelled.c_str(), &end);
  if (*end != '\0' || spelled.starts_with("0x")) {
    return error(span_from(begin), fmt::format("invalid trailing bytes: {}", spelled));
  }
  Token token;
  token.kind = Tok::kFloat;
  token.span = span_from(begin);
  token.text = std::move(spelled);
  token.real = value;
  return token;
}

Token Lexer::next_tuple_index() {
  skip_space();
  uint32_t begin = position_;
  while (is_word(peek())) ++position_;
  Token token;
  token.kind = Tok::kInt;
  token.span = span_from(begin);
  token.text = text_.substr(begin, position_ - begin);
  auto value = parse_int_literal(token.text);
  if (!value) return error(token.span, value.error().message);
  token.integer = *value;
  return token;
}

// One escape sequence, the position behind the backslash. False when it is wrong; `token` is then the error.
bool Lexer::escape(char quote, std::string& out, Token& token) {
  char c = peek();
  switch (c) {
    case 'n':
      out += '\n';
      break;
    case 't':
      out += '\t';
      break;
    case 'r':
      out += '\r';
      break;
    case '\\':
      out += '\\';
      break;
    case '"':
      out += '"';
      break;
    case 'x': {
      uint32_t digits = 0, value = 0;
      for (; digits < 2 && is_hex(peek(1 + digits)); ++digits)
        value = value * 16 + hex_value(peek(1 + digits));
      if (digits == 0) {
        ++position_;
        token = error(here(), "invalid hex escape sequence");
        return false;
      }
      out += static_cast<char>(value);
      position_ += digits;
      break;
    }
    default: {
      if (c == quote) {
        out += c;
        break;
      }
      if (!is_octal(c)) {
        token =
            error(Span{position_, position_ + 1, index_}, fmt::format("invalid escape character '\\{}'", c));
        return false;
      }
      uint32_t digits = 0, value = 0;
      for (; digits < 3 && is_octal(peek(digits)); ++digits) value = value * 8 + hex_value(peek(digits));
      if (value > 255) {
        Span bad{position_ - 1, position_ + digits, index_};
        token = error(bad, fmt::format("octal escape sequence out of range '{}'",
                                       text_.substr(bad.begin, bad.end - bad.begin)));
        return false;
      }
      out += static_cast<char>(value);
      position_ += digits - 1;
    }
  }
  ++position_;
  return true;
}

Token Lexer::string() {
  uint32_t begin = position_++;
  std::string value;
  Token bad;
  while (true) {
    if (at_end()) return error(Span{position_, position_, index_}, "unterminated string");
    char c = peek();
    ++position_;
    if (c == '"') break;
    if (c != '\\') {
      value += c;
    } else if (!escape('"', value, bad)) {
      return bad;
    }
  }
  Token token;
  token.kind = Tok::kString;
  token.span = span_from(begin);
  token.text = std::move(value);
  return token;
}

// 'a' and '\n' are integers, as in C.
Token Lexer::character() {
  uint32_t begin = position_++;
  std::string value;
  Token bad;
  if (peek() == '\\') {
    ++position_;
    if (!escape('\'', value, bad)) return bad;
  } else if (!at_end() && peek() != '\'' && peek() != '\n') {
    value = peek();
    ++position_;
  }
  if (value.empty() || peek() != '\'') {
    position_ = begin + 1;
    return error(Span{begin, begin + 1, index_}, "invalid character literal");
  }
  ++position_;
  Token token;
  token.kind = Tok::kInt;
  token.span = span_from(begin);
  token.text = text_.substr(begin, position_ - begin);
  token.integer = static_cast<uint64_t>(static_cast<int64_t>(static_cast<signed char>(value[0])));
  return token;
}

Token Lexer::sigil() {
  uint32_t begin = position_;
  bool map = peek() == '@';
  ++position_;
  Token token;
  token.kind = map ? Tok::kMap : Tok::kVariable;
  if (is_word_start(peek())) {
    position_ += static_cast<uint32_t>(word().size());
  } else if (!map && peek() == '#') {
    ++position_;
    token.kind = Tok::kPositionalCount;
  } else if (!map && is_digit(peek())) {
    while (is_digit(peek())) ++position_;
    std::string digits(text_.substr(begin + 1, position_ - begin - 1));
    errno = 0;
    token.kind = Tok::kPositional;
    token.integer = std::strtoull(digits.c_str(), nullptr, 10);
    if (errno != 0 || token.integer == 0 || token.integer > INT64_MAX) {
      return error(span_from(begin),
                   fmt::format("param ${} is out of integer range [1, {}]", digits, INT64_MAX));
    }
  } else if (!map) {
    return error(span_from(begin), "expected identifier after '$'");
  }
  token.span = span_from(begin);
  token.text = text_.substr(begin, position_ - begin);
  return token;
}

}  // namespace uscope::lang
