// From a name as a user types it to the functions it means. A name may be spelled as the table has it
// (mangled), demangled with or without its parameter list, or as a glob over either; a Go method may leave
// out its package path. A name that is not there yields the reason: inlined (and where), or not found (and
// the nearest names).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "symbols/image_symbols.h"
#include "symbols/name_pattern.h"

namespace uscope::symbols {

struct Lookup {
  // The matches, by name; aliases at one address appear once each. Empty: see below.
  std::vector<const FunctionSymbol*> found;
  // Only when nothing was found.
  std::vector<image::dwarf::InlinedCopy> inlined;
  std::vector<std::string> nearest;

  // One code address, whatever it is called?
  bool is_unique() const;
};

Lookup find_functions(const ImageSymbols& image, std::string_view pattern, Spelling spelling = Spelling::Any);

// The sentence for a Lookup that found nothing: "no function `wrok` in ./t; did you mean `work`?"
std::string explain_missing(const ImageSymbols& image, std::string_view pattern, const Lookup& lookup);
// The sentence for a name that means several functions: lists each with its parameters.
std::string explain_ambiguous(const ImageSymbols& image, std::string_view pattern, const Lookup& lookup);

// The name a user reads: demangled where it is mangled, else as it is.
std::string display_name(std::string_view name);
// The same without a parameter list; Go's (*T) stays.
std::string bare_name(std::string_view name);

}  // namespace uscope::symbols
