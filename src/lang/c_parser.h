// The parser behind c_types.h: one definition of a script's C text. Not for others.
#pragma once

#include <string>

#include "lang/c_types.h"
#include "lang/c_value.h"
#include "lang/lexer.h"

namespace uscope::lang {

class CParser {
 public:
  CParser(CTypes& into, const Source& source, Span definition, const TypeSource& program,
          Diagnostics& diagnostics);
  void run();

 private:
  // Those that have a say in the layout.
  struct Attributes {
    bool packed = false;
    uint64_t aligned = 0;
    std::string mode;
  };

  struct Declarator {
    std::string name;
    Span span;
    Type type;
    std::optional<uint64_t> bits;
    Attributes attributes;
    uint64_t alignment = 0;  // where a typedef gave the type another than its own
  };

  // A struct being laid out.
  struct Layout {
    StructLayout out;
    bool is_union = false;
    bool packed = false;
    uint64_t bit = 0;  // the next free one
  };

  std::optional<Type> specifier(Attributes& own);
  std::optional<Type> composite(const std::string& tag);
  std::optional<Type> enumeration();
  std::optional<Type> named_type();
  bool body(Layout& layout);
  bool member(Layout& layout);
  Declarator declarator(Type base, const Attributes& own);
  void parenthesized(Declarator& out, Type base);
  bool array_suffix(Type& type);
  void place(Layout& layout, const Declarator& field);
  void place_bits(Layout& layout, const Declarator& field);
  void place_anonymous(Layout& layout, const Type& type);
  void skip_parens();
  bool attributes(Attributes& into);
  void attribute(Attributes& into);
  Attributes attributes_behind_body(uint32_t& end);
  void apply_mode(Declarator& field);
  void type_definition();
  std::optional<CValue> constant();
  std::optional<CValue> binary_constant(int least);
  std::optional<CValue> unary_constant();
  std::optional<CValue> size_constant();
  std::optional<CValue> parenthesized_constant();
  bool is_incomplete(const Type& type) const;
  Type whole(Type type) const;
  uint64_t alignment_of(const Type& type, uint32_t depth = 0) const;
  uint64_t alignment_of(const StructLayout& outside, uint32_t depth) const;

  bool at(Tok kind) const { return token_.kind == kind; }
  bool at_word(std::string_view word) const { return token_.kind == Tok::kIdent && token_.text == word; }
  void next();
  bool accept(Tok kind);
  bool expect(Tok kind, std::string_view spelled);
  void fail(std::string message);

  CTypes& into_;
  Lexer lexer_;
  uint32_t end_;
  const TypeSource& program_;
  Diagnostics& diagnostics_;
  Token token_;
  uint32_t depth_ = 0;
  bool failed_ = false;
  bool plain_char_ = false;   // the type specified last is `char`, whose arrays are text
  bool is_untagged_ = false;  // it is a struct or union that has no name
  uint64_t alignment_ = 0;    // that a typedef gave it, or 0
};

}  // namespace uscope::lang
