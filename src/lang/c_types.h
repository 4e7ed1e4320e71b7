// The C definitions of a script -> layouts as an x86-64 System V compiler makes them: structs, unions,
// bitfields, arrays, pointers, function pointers, enums, typedefs; and the #define constants. A small parser
// of declarations. Headers that the script includes are read in their place (c_headers.h) where they are
// found.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/c_preprocessor.h"
#include "lang/diagnostics.h"
#include "lang/type_source.h"

namespace uscope::lang {

// The C names of plain types: "unsigned long", "uint32_t". Nothing if it is none.
std::optional<Type> find_c_base_type(std::string_view name);

class CTypes {
 public:
  struct Outside {
    HeaderFinder find_header;           // empty: nothing that is included is read
    std::vector<std::string> included;  // headers that are read before the script: --include
    bool knows_kernel_types = false;    // then BPFTRACE_HAVE_BTF is defined
  };
  // Reads the definitions in order. Types they name without defining come from `program`. `sources` gets the
  // headers.
  static CTypes read(const Program& script, SourceSet& sources, const TypeSource& program,
                     const Outside& outside, Diagnostics& diagnostics);

  const StructLayout* find_struct(std::string_view name) const;  // "struct foo", or a typedef of one
  std::optional<Type> find_type(std::string_view name) const;    // typedefs, "enum e", "struct s"
  std::optional<Constant> find_constant(std::string_view name) const;
  const std::vector<Enumerator>* enumerators(std::string_view enum_name) const;
  // The text that a #define puts in the name's place.
  const std::map<std::string, std::string, std::less<>>& defines() const { return defines_; }
  // Headers that the script asks for, as it spells them: <a.h> or "a.h".
  struct Include {
    std::string spelled;
    Span span;
  };
  const std::vector<Include>& includes() const { return includes_; }
  // A definition in a header that could not be taken, and the reason.
  void note_unread(const Source& source, Span definition, const std::string& why);
  // "struct x: …"; empty if nothing of that name was passed over.
  std::string why_unread(std::string_view name) const;

  // #pragma …: what it says of the layout of structs from here on.
  void pragma(std::string_view text);

 private:
  friend class CParser;

  void define(const CDefinition& definition, CPreprocessor& preprocessor, SourceSet& sources,
              const TypeSource& program, Diagnostics& diagnostics);
  void keep_defines(const CPreprocessor& preprocessor, const std::set<std::string>& own);

  struct Pack {
    uint64_t most = 0;  // that a member is aligned to; 0: as its type is
    bool is_known = true;
  };

  std::map<std::string, StructLayout, std::less<>> structs_;
  std::map<std::string, Type, std::less<>> types_;
  std::map<std::string, uint64_t, std::less<>> alignments_;  // of typedefs with another than their type's
  Pack pack_;
  std::vector<Pack> packs_;  // pushed
  std::map<std::string, std::vector<Enumerator>, std::less<>> enums_;
  std::map<std::string, Constant, std::less<>> constants_;
  std::map<std::string, std::string, std::less<>> defines_;
  std::vector<Include> includes_;
  std::map<std::string, std::string, std::less<>> unread_;
};

// Pass: names that #define gave a value become that value.
void expand_defines(Program& program, const CTypes& types, SourceSet& sources, Diagnostics& diagnostics);

}  // namespace uscope::lang
