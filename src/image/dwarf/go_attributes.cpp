#include "image/dwarf/go_attributes.h"

#include <cstdlib>
#include <string>

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

bool go_passes_in_registers(std::string_view producer) {
  size_t at = producer.find("go1.");
  // A development build names no version; it is newer than 1.17.
  if (at == std::string_view::npos) return true;
  unsigned long minor = std::strtoul(std::string(producer.substr(at + 4, 8)).c_str(), nullptr, 10);
  // The first two versions that could could also be told not to.
  if (minor == 17 || minor == 18) return producer.find("regabi") != std::string_view::npos;
  return minor > 18;
}

}  // namespace uscope::image::dwarf
