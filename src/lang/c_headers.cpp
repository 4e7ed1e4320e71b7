#include "lang/c_headers.h"

#include <array>
#include <optional>

#include "lang/c_parser.h"
#include "lang/c_types.h"
#include "lang/lexer.h"

namespace uscope::lang {
namespace {

struct Predefined {
  const char* name;
  const char* text;
};
constexpr std::array kPredefined = {
    Predefined{"__x86_64__", "1"},
    Predefined{"__amd64__", "1"},
    Predefined{"__LP64__", "1"},
    Predefined{"_LP64", "1"},
    Predefined{"__linux__", "1"},
    Predefined{"__unix__", "1"},
    Predefined{"__gnu_linux__", "1"},
    Predefined{"__ELF__", "1"},
    Predefined{"__STDC__", "1"},
    Predefined{"__STDC_VERSION__", "201710L"},
    Predefined{"__STDC_HOSTED__", "1"},
    Predefined{"__GNUC__", "12"},
    Predefined{"__GNUC_MINOR__", "2"},
    Predefined{"__CHAR_BIT__", "8"},
    Predefined{"__BYTE_ORDER__", "1234"},
    Predefined{"__ORDER_LITTLE_ENDIAN__", "1234"},
    Predefined{"__ORDER_BIG_ENDIAN__", "4321"},
    Predefined{"__SIZEOF_POINTER__", "8"},
    Predefined{"__SIZEOF_LONG__", "8"},
    Predefined{"__SIZEOF_INT__", "4"},
    Predefined{"__SIZE_TYPE__", "unsigned long"},
    Predefined{"__PTRDIFF_TYPE__", "long"},
    Predefined{"__WCHAR_TYPE__", "int"},
    Predefined{"__WINT_TYPE__", "unsigned int"},
    Predefined{"__INTMAX_TYPE__", "long"},
    Predefined{"__UINTMAX_TYPE__", "unsigned long"},
    Predefined{"__INT_MAX__", "2147483647"},
    Predefined{"__LONG_MAX__", "9223372036854775807L"},
    Predefined{"_GNU_SOURCE", "1"},
    Predefined{"__extension__", ""},
    Predefined{"__inline", "inline"},
    Predefined{"__inline__", "inline"},
    Predefined{"__const", "const"},
    Predefined{"__volatile__", "volatile"},
    Predefined{"__signed__", "signed"},
};

bool is_word(const Token& token, std::string_view word) {
  return token.kind == Tok::kIdent && token.text == word;
}

// One declaration at a time out of a preprocessed text: up to its `;`, or the end of a function's body.
class Declarations {
 public:
  Declarations(const Source& source, uint32_t number) : lexer_(source, number) { token_ = lexer_.next(); }

  struct Found {
    Span span;
    bool defines = false;  // a typedef, or something with a tag and a body
  };

  std::optional<Found> next() {
    while (token_.kind == Tok::kSemicolon) advance();
    if (token_.kind == Tok::kEnd) return std::nullopt;
    Found found;
    found.span = token_.span;
    uint32_t open = 0;
    bool has_tag = false, is_typedef = is_word(token_, "typedef");
    Tok last = Tok::kEnd;
    for (; token_.kind != Tok::kEnd; advance()) {
      found.span.end = token_.span.end;
      if (token_.kind == Tok::kLeftBrace && open == 0 && last == Tok::kRightParen && !has_tag) {
        skip_body();
        found.defines = false;
        return found;
      }
      has_tag |= is_word(token_, "struct") || is_word(token_, "union") || is_word(token_, "enum");
      if (token_.kind == Tok::kLeftBrace && has_tag) found.defines = true;
      if (token_.kind == Tok::kLeftBrace || token_.kind == Tok::kLeftParen) ++open;
      if ((token_.kind == Tok::kRightBrace || token_.kind == Tok::kRightParen) && open > 0) --open;
      if (token_.kind == Tok::kSemicolon && open == 0) break;
      last = token_.kind;
    }
    found.defines |= is_typedef;
    if (token_.kind != Tok::kEnd) advance();
    return found;
  }

 private:
  void advance() {
    uint32_t before = token_.span.end;
    token_ = lexer_.next();
    // A character that scripts have no use for must not stop us.
    if (token_.kind != Tok::kEnd && token_.span.end <= before) lexer_.seek(before + 1);
  }
  void skip_body() {
    uint32_t open = 0;
    do {
      if (token_.kind == Tok::kLeftBrace) ++open;
      if (token_.kind == Tok::kRightBrace) --open;
      advance();
    } while (open > 0 && token_.kind != Tok::kEnd);
  }

  Lexer lexer_;
  Token token_;
};

}  // namespace

void define_usual_macros(CPreprocessor& preprocessor) {
  for (const Predefined& each : kPredefined) preprocessor.define(each.name, each.text);
}

void read_header(const HeaderFile& header, CPreprocessor& preprocessor, CTypes& into, SourceSet& sources,
                 const TypeSource& program) {
  size_t before = preprocessor.text().size();
  preprocessor.read(header);
  uint32_t number = sources.add(header.path, preprocessor.text().substr(before));
  Declarations declarations(sources.at(number), number);
  while (auto found = declarations.next()) {
    std::string_view text = sources.at(number).text().substr(found->span.begin);
    if (text.starts_with(CPreprocessor::kPragma)) {
      text = text.substr(0, text.find(';'));
      into.pragma(text.substr(CPreprocessor::kPragma.size()));
    }
    if (!found->defines) continue;
    Diagnostics wrong;
    CParser(into, sources.at(number), found->span, program, wrong).run();
    if (wrong.has_errors()) into.note_unread(sources.at(number), found->span, wrong.all().front().message);
  }
}

}  // namespace uscope::lang
