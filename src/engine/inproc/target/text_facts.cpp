#include "engine/inproc/target/text_facts.h"

namespace uscope::engine::inproc {

std::optional<x86::CodeRange> TextFacts::code_around(ImageAddr address) {
  auto facts = function_at(address);
  if (!facts) return std::nullopt;
  for (const x86::CodeRange& part : facts->code.parts)
    if (part.contains(address.value)) return part;
  return std::nullopt;
}

}  // namespace uscope::engine::inproc
