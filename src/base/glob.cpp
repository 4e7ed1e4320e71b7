#include "base/glob.h"

namespace uscope {
namespace {

// Matches one character of text against the bracket set at pattern[at] == '['. Sets `next` behind the set.
// An unterminated set stands for the character '[' itself.
bool match_set(std::string_view pattern, size_t at, char c, size_t& next) {
  size_t i = at + 1;
  bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (size_t first = i; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found |= pattern[i] <= c && c <= pattern[i + 2];
      i += 2;
    } else {
      found |= pattern[i] == c;
    }
  }
  if (i >= pattern.size()) {
    next = at + 1;
    return c == '[';
  }
  next = i + 1;
  return found != negated;
}

}  // namespace

bool has_glob(std::string_view pattern) { return pattern.find_first_of("*?[") != std::string_view::npos; }

bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr size_t none = std::string_view::npos;
  size_t p = 0, t = 0, star = none, star_text = 0;
  while (t < text.size()) {
    size_t next = p + 1;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    bool matches = p < pattern.size() && (pattern[p] == '?'   ? true
                                          : pattern[p] == '[' ? match_set(pattern, p, text[t], next)
                                                              : pattern[p] == text[t]);
    if (matches) {
      p = next;
      ++t;
    } else if (star != none) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace uscope
