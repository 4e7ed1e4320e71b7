#include "session/type_table.h"

#include <memory>

#include "image/btf/btf.h"
#include "symbols/image_symbols.h"

namespace uscope::session {
namespace {

constexpr size_t kMostOfAName = 50;

}  // namespace

TypeTable types_of_image(const symbols::ImageSymbols& image) {
  TypeTable table;
  table.type = [&image](image::TypeId id) -> const image::Type& { return image.debug_info().type(id); };
  table.definition_of = [&image](image::TypeId id) { return image.debug_info().definition_of(id); };
  table.find = [&image](std::string_view name) { return image.debug_info().find_types(name, kMostOfAName); };
  return table;
}

TypeTable types_of_kernel() {
  TypeTable table;
  table.pointers = lang::AddressSpace::kKernel;
  auto read = image::Btf::of_running_kernel();
  if (!read) return table;
  auto btf = std::make_shared<image::Btf>(std::move(*read));
  table.type = [btf](image::TypeId id) -> const image::Type& { return btf->type(id); };
  table.definition_of = [btf](image::TypeId id) {
    const image::Type& declared = btf->type(id);
    if (!declared.is_declaration) return id;
    for (image::TypeId other : btf->find_types(declared.name, kMostOfAName))
      if (btf->type(other).kind == declared.kind && !btf->type(other).is_declaration) return other;
    return id;
  };
  table.find = [btf](std::string_view name) { return btf->find_types(name, kMostOfAName); };
  table.find_enum_with = [btf](std::string_view name) { return btf->find_enum_with(name); };
  return table;
}

}  // namespace uscope::session
