#include "symbols/lookup.h"

#include <algorithm>
#include <cstring>

#include "image/demangle.h"

namespace uscope::symbols {
namespace {

constexpr size_t shown_candidates = 12;
constexpr std::string_view unnamed_prefix = "sub_";  // see ImageSymbols::unnamed_functions

std::string place_text(const image::dwarf::SourceLine& line) {
  if (line.file.empty()) return "";
  size_t slash = line.file.rfind('/');
  std::string base = slash == std::string::npos ? line.file : line.file.substr(slash + 1);
  return line.line == 0 ? base : base + ":" + std::to_string(line.line);
}

// The first bytes of a name as a number that sorts like them.
uint64_t leading_bytes(std::string_view name, size_t from) {
  uint64_t key = 0;
  if (from + 8 <= name.size()) {
    std::memcpy(&key, name.data() + from, 8);
    return __builtin_bswap64(key);
  }
  for (size_t i = from; i < from + 8; ++i) key = key << 8 | (i < name.size() ? uint8_t(name[i]) : 0);
  return key;
}

// Names of one library begin alike (_ZN4llvm…): comparing sixteen bytes as two numbers settles most pairs
// without touching the names again.
void sort_by_name(std::vector<const FunctionSymbol*>& found) {
  struct Keyed {
    uint64_t first, second;
    const FunctionSymbol* function;
  };
  std::vector<Keyed> keyed;
  keyed.reserve(found.size());
  for (const FunctionSymbol* function : found)
    keyed.push_back({leading_bytes(function->name, 0), leading_bytes(function->name, 8), function});
  std::sort(keyed.begin(), keyed.end(), [](const Keyed& a, const Keyed& b) {
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
    int order = a.function->name.compare(b.function->name);
    return order != 0 ? order < 0 : a.function->address < b.function->address;
  });
  for (size_t i = 0; i < found.size(); ++i) found[i] = keyed[i].function;
}

}  // namespace

bool Lookup::is_unique() const {
  return !found.empty() && std::all_of(found.begin(), found.end(), [&](const FunctionSymbol* function) {
    return function->address == found[0]->address;
  });
}

std::string display_name(std::string_view name) {
  auto demangled = image::demangle(name);
  return demangled ? *demangled : std::string(name);
}

std::string bare_name(std::string_view name) {
  auto demangled = image::demangle_without_parameters(name);
  return demangled ? *demangled : std::string(name);
}

Lookup find_functions(const ImageSymbols& image, std::string_view pattern, Spelling spelling) {
  Lookup lookup;
  // A version may be asked for: memcpy@GLIBC_2.14, memcpy@@GLIBC_2.14.
  std::string_view name = pattern, version;
  if (size_t at = pattern.find('@'); at != std::string_view::npos && at > 0) {
    name = pattern.substr(0, at);
    version = pattern.substr(pattern.find_first_not_of('@', at) == std::string_view::npos
                                 ? pattern.size()
                                 : pattern.find_first_not_of('@', at));
  }
  NamePattern wanted(name, spelling);
  if (wanted.matches_all()) lookup.found.reserve(image.functions().size());
  for (const FunctionSymbol& function : image.functions()) {
    if (!version.empty() && function.version != version) continue;
    if (wanted.matches(function.name) ||
        (!function.short_name.empty() && wanted.matches(function.short_name)))
      lookup.found.push_back(&function);
  }
  if (name.starts_with(unnamed_prefix) && version.empty())
    for (const FunctionSymbol& function : image.unnamed_functions())
      if (wanted.matches(function.name)) lookup.found.push_back(&function);
  // A name that is a function's whole name means that one, even where it also reads as a glob over others.
  std::vector<const FunctionSymbol*> exact;
  if (wanted.is_glob())
    std::copy_if(lookup.found.begin(), lookup.found.end(), std::back_inserter(exact),
                 [name](const FunctionSymbol* function) { return function->name == name; });
  if (!exact.empty()) lookup.found = std::move(exact);
  sort_by_name(lookup.found);
  if (!lookup.found.empty() || wanted.is_glob()) return lookup;
  if (!image.debug_info().is_empty()) lookup.inlined = image.debug_info().inlined_copies(pattern, 50);
  if (lookup.inlined.empty()) {
    std::vector<std::string_view> names;
    names.reserve(image.functions().size());
    for (const FunctionSymbol& function : image.functions())
      names.push_back(function.short_name.empty() ? function.name : function.short_name);
    lookup.nearest = nearest_names(name, names);
  }
  return lookup;
}

std::string explain_missing(const ImageSymbols& image, std::string_view pattern, const Lookup& lookup) {
  std::string what = "no function `" + std::string(pattern) + "` in " + image.path();
  if (!lookup.inlined.empty()) {
    what = "`" + std::string(pattern) + "` has no code of its own in " + image.path() + ": it was inlined";
    for (size_t i = 0; i < std::min<size_t>(lookup.inlined.size(), 5); ++i) {
      const auto& copy = lookup.inlined[i];
      std::string place = place_text(copy.call_site);
      what += (i == 0 ? " into " : ", ") + copy.caller + (place.empty() ? "" : " at " + place);
    }
    if (lookup.inlined.size() > 5)
      what += " and " + std::to_string(lookup.inlined.size() - 5) + " more places";
    return what + "; probe one of those functions, or a line of them (FILE@SOURCE:LINE)";
  }
  if (image.functions().empty()) return what + ": the file names no functions at all";
  if (!lookup.nearest.empty()) {
    what += "; did you mean ";
    for (size_t i = 0; i < lookup.nearest.size(); ++i) {
      std::string separator = i == 0 ? "" : i + 1 == lookup.nearest.size() ? " or " : ", ";
      what += separator + "`" + lookup.nearest[i] + "`";
    }
    what += "?";
  } else if (NamePattern(pattern, Spelling::Any).is_glob()) {
    what = "no function matches `" + std::string(pattern) + "` in " + image.path();
  }
  if (image.is_stripped())
    what +=
        " (the file is stripped: only its exported functions are named; a debug package with build-id would "
        "name the rest)";
  return what;
}

std::string explain_ambiguous(const ImageSymbols& image, std::string_view pattern, const Lookup& lookup) {
  std::string what = "`" + std::string(pattern) + "` means " + std::to_string(lookup.found.size()) +
                     " functions in " + image.path() + ":";
  for (size_t i = 0; i < std::min(lookup.found.size(), shown_candidates); ++i)
    what += "\n  " + display_name(lookup.found[i]->name);
  if (lookup.found.size() > shown_candidates)
    what += "\n  … and " + std::to_string(lookup.found.size() - shown_candidates) + " more";
  return what + "\nname one of them with its parameters";
}

}  // namespace uscope::symbols
