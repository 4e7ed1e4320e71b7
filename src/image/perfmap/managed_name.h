// The part of a .NET method's full name that a user types:
//   "instance string [app] Ns.Type::Method(string)[OptimizedTier1]"  ->  "Ns.Type::Method"
// Shared by native images, their maps, and perf maps, which all carry such names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace uscope::image {

// Begin and end within `name`; nothing when the name is not of that shape.
inline std::optional<std::pair<size_t, size_t>> managed_name_span(std::string_view name) {
  size_t colons = name.find("::");
  if (colons == std::string_view::npos) return std::nullopt;
  // Return types may hold brackets too, but only "[assembly]" is followed by a space and the owner.
  size_t bracket = name.rfind("] ", colons);
  if (bracket == std::string_view::npos) return std::nullopt;
  size_t parenthesis = name.find('(', colons);
  return std::pair(bracket + 2, parenthesis == std::string_view::npos ? name.size() : parenthesis);
}

// A glob for such names, in which brackets stand for themselves: List`1[System.Int32]::*. Only * and ? are
// special.
inline std::string managed_glob(std::string_view pattern) {
  std::string glob;
  for (char c : pattern) glob += c == '[' ? std::string("[[]") : std::string(1, c);
  return glob;
}

}  // namespace uscope::image
