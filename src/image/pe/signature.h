// Signatures as text, in the two spellings that .NET's own maps mix:
//   IL style          valuetype [System.Runtime]System.Span`1<uint8>   return and parameter types
//   reflection style  System.Collections.Generic.List`1[System.__Canon]   a method's owner, generic arguments
// so that a name built from an image equals the name the runtime writes into perf-PID.map for the same
// method. Pure functions over bounded input: depth, steps and length are limited, and what exceeds them is no
// text at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "image/pe/metadata.h"

namespace uscope::image {

// Where ReadyToRun signatures find the modules they name by index. The spelling code only asks.
class ModuleLookup {
 public:
  virtual ~ModuleLookup() = default;
  // Null: that module's metadata is not at hand.
  virtual const Metadata* module(uint32_t index) const = 0;
};

// "Ns.Outer`1+Inner" of a TypeDef row.
std::string spell_type_def(const Metadata& metadata, uint32_t row);
// "Ns.Outer+Inner" of a TypeDef or TypeRef; a TypeSpec in reflection style.
std::optional<std::string> spell_type(const Metadata& metadata, MetadataToken type);

// "instance string NAME(string,int32)": the method signature `signature`, IL style, around `name`.
std::optional<std::string> spell_method(const Metadata& metadata, Bytes signature, std::string_view name);

struct SpelledType {
  std::string text;
  // Part of the text is a bare token, because the metadata of its module was not at hand.
  bool unresolved = false;
};
// One type of a ReadyToRun signature, reflection style, read from `reader`; nothing (and a reader somewhere
// inside) when it is malformed. `metadata` is the module the tokens belong to, null when not at hand.
std::optional<SpelledType> spell_ready_to_run_type(ByteReader& reader, const Metadata* metadata,
                                                   const ModuleLookup& modules);

}  // namespace uscope::image
