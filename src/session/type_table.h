// The types of one program or of the kernel, whatever format they are in: what ScriptTypes asks of them.
// Refers to the image (or shares the BTF) that it was made of. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "image/types.h"
#include "lang/types.h"

namespace uscope::symbols {
class ImageSymbols;
}

namespace uscope::session {

struct TypeTable {
  image::TypeLookup type;
  std::function<image::TypeId(image::TypeId)> definition_of;
  // Up to some number of types of that name, without C's tag.
  std::function<std::vector<image::TypeId>(std::string_view)> find;
  // The enum that an enumerator is of. Empty: enums are only found by what leads to them.
  std::function<std::optional<image::TypeId>(std::string_view)> find_enum_with;
  // Where its pointers point to.
  lang::AddressSpace pointers = lang::AddressSpace::kUser;

  bool is_kernel() const { return pointers == lang::AddressSpace::kKernel; }
};

TypeTable types_of_image(const symbols::ImageSymbols& image);
// An empty table (no functions) if the running kernel does not tell its types.
TypeTable types_of_kernel();

}  // namespace uscope::session
