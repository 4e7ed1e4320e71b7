#include "symbols/overloads.h"

#include <algorithm>
#include <cctype>

#include "image/demangle.h"
#include "symbols/lookup.h"

namespace uscope::symbols {
namespace {

// More than these share a word with the name: then the whole name is shown without looking at them all.
constexpr size_t most_candidates = 5000;

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The last word of a bare name as a mangled name spells it, with its length before it: ns::f<int> -> "1f".
// Empty: none (an operator, a lambda).
std::string mangled_word(std::string_view bare) {
  for (int depth = 0; !bare.empty() && (depth > 0 || bare.back() == '>'); bare.remove_suffix(1)) {
    if (bare.back() == '>') ++depth;
    if (bare.back() == '<' && --depth == 0) {
      bare.remove_suffix(1);
      break;
    }
  }
  auto end = std::find_if_not(bare.rbegin(), bare.rend(), is_word_character);
  std::string_view word = bare.substr(bare.size() - static_cast<size_t>(end - bare.rbegin()));
  return word.empty() ? "" : std::to_string(word.size()) + std::string(word);
}

}  // namespace

std::string distinct_name(std::string_view name, std::span<const FunctionSymbol> all) {
  auto full = image::demangle(name);
  if (!full) return std::string(name);
  std::string bare = bare_name(name);
  if (bare == *full) return bare;
  std::string word = mangled_word(bare);
  // Substitutions may hide the word.
  if (word.empty() || name.find(word) == std::string_view::npos) return *full;
  size_t candidates = 0;
  for (const FunctionSymbol& other : all) {
    if (other.name == name || other.name.find(word) == std::string_view::npos) continue;
    if (++candidates > most_candidates) return *full;
    // Constructors and clones have several symbols of one name: that does not tell them apart.
    if (bare_name(other.name) == bare && display_name(other.name) != *full) return *full;
  }
  return bare;
}

}  // namespace uscope::symbols
