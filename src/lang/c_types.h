// The C definitions of a script -> layouts as an x86-64 System V compiler makes them: structs, unions,
// bitfields, arrays, pointers, function pointers, enums, typedefs; and the #define constants. A small parser
// of declarations, no preprocessor beyond #define, #undef and #ifdef, no headers: #include lines are listed
// for whoever can read them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostics.h"
#include "lang/type_source.h"

namespace uscope::lang {

// The C names of plain types: "unsigned long", "uint32_t". Nothing if it is none.
std::optional<Type> find_c_base_type(std::string_view name);

class CTypes {
 public:
  // Reads the definitions in order. Types they name without defining come from `program`.
  static CTypes read(const Program& script, const SourceSet& sources, const TypeSource& program,
                     Diagnostics& diagnostics);

  const StructLayout* find_struct(std::string_view name) const;  // "struct foo", or a typedef of one
  std::optional<Type> find_type(std::string_view name) const;    // typedefs, "enum e", "struct s"
  std::optional<Constant> find_constant(std::string_view name) const;
  const std::vector<Enumerator>* enumerators(std::string_view enum_name) const;
  // The text that a #define puts in the name's place.
  const std::map<std::string, std::string, std::less<>>& defines() const { return defines_; }
  // Headers that the script asks for, as it spells them: <a.h> or "a.h". What they define is not read.
  struct Include {
    std::string spelled;
    Span span;
  };
  const std::vector<Include>& includes() const { return includes_; }

 private:
  friend class CParser;

  std::map<std::string, StructLayout, std::less<>> structs_;
  std::map<std::string, Type, std::less<>> types_;
  std::map<std::string, std::vector<Enumerator>, std::less<>> enums_;
  std::map<std::string, Constant, std::less<>> constants_;
  std::map<std::string, std::string, std::less<>> defines_;
  std::vector<Include> includes_;
};

// Pass: names that #define gave a value become that value.
void expand_defines(Program& program, const CTypes& types, SourceSet& sources);

}  // namespace uscope::lang
