#include "image/dwarf/go_attributes.h"

namespace uscope::image::dwarf {

std::string_view unqualified_go_name(std::string_view name) {
  if (name.starts_with('*') || name.starts_with('[') || name.starts_with("func(") ||
      name.starts_with("map[") || name.starts_with("chan ") || name.starts_with("struct {") ||
      name.starts_with("interface {")) {
    return name;
  }
  // Type arguments have dots and slashes of their own.
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == ']') depth++;
    if (name[i] == '[') depth--;
    if (depth > 0) continue;
    if (name[i] == '/') return name;
    if (name[i] == '.') return name.substr(i + 1);
  }
  return name;
}

}  // namespace uscope::image::dwarf
