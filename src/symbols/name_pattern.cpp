#include "symbols/name_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/glob.h"
#include "image/demangle.h"

namespace uscope::symbols {
namespace {

bool is_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("_R") || name.starts_with("__Z");
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Words that a demangler writes out though the mangled name abbreviates or never holds them: a run of letters
// that is part of one of these says nothing about the mangled name.
constexpr std::array demangler_words = {"std",
                                        "allocator",
                                        "basic_string",
                                        "string",
                                        "istream",
                                        "ostream",
                                        "iostream",
                                        "basic_istream",
                                        "basic_ostream",
                                        "basic_iostream",
                                        "char_traits",
                                        "void",
                                        "wchar_t",
                                        "bool",
                                        "char",
                                        "signed",
                                        "unsigned",
                                        "short",
                                        "int",
                                        "long",
                                        "__int128",
                                        "float",
                                        "double",
                                        "__float128",
                                        "char8_t",
                                        "char16_t",
                                        "char32_t",
                                        "auto",
                                        "decltype",
                                        "nullptr_t",
                                        "const",
                                        "volatile",
                                        "restrict",
                                        "operator",
                                        "new",
                                        "delete",
                                        "co_await",
                                        "lambda",
                                        "anonymous",
                                        "namespace",
                                        "unnamed",
                                        "type",
                                        "vtable",
                                        "for",
                                        "typeinfo",
                                        "name",
                                        "guard",
                                        "variable",
                                        "virtual",
                                        "thunk",
                                        "to",
                                        "non",
                                        "covariant",
                                        "return",
                                        "construction",
                                        "in",
                                        "complex",
                                        "noexcept",
                                        "throw",
                                        "sizeof",
                                        "alignof",
                                        "true",
                                        "false",
                                        "clone",
                                        "this",
                                        "typename",
                                        "template",
                                        "parameter",
                                        "object",
                                        "initializer",
                                        "default",
                                        "arg",
                                        "reference",
                                        "temporary",
                                        "transaction",
                                        "abi",
                                        "cxx11",
                                        "impl",
                                        "closure",
                                        "shim",
                                        "str",
                                        "dyn",
                                        "mut",
                                        "as",
                                        "core",
                                        "alloc"};

bool is_demangler_word_part(std::string_view run) {
  return std::any_of(demangler_words.begin(), demangler_words.end(),
                     [run](std::string_view word) { return word.find(run) != std::string_view::npos; });
}

// Runs of identifier characters in the literal parts of a glob.
std::vector<std::string> required_words(std::string_view pattern) {
  std::vector<std::string> words;
  std::string run;
  bool in_set = false;
  auto finish = [&] {
    // Operators and numbers (template arguments, lambda indexes) are mangled in their own ways.
    bool starts_with_digit = !run.empty() && std::isdigit(static_cast<unsigned char>(run[0]));
    if (!run.empty() && !starts_with_digit && !is_demangler_word_part(run)) words.push_back(run);
    run.clear();
  };
  for (char c : pattern) {
    if (in_set) {
      in_set = c != ']';
    } else if (is_word(c)) {
      run += c;
    } else {
      finish();
      in_set = c == '[';
    }
  }
  finish();
  return words;
}

// The demangler writes `f(int, char const*)`, users also `f(int,char const *)`: blanks that separate no two
// words go.
std::string without_idle_blanks(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool idle =
        text[i] == ' ' && (i == 0 || i + 1 == text.size() || !is_word(text[i - 1]) || !is_word(text[i + 1]));
    if (!idle) out += text[i];
  }
  return out;
}

// Insertions, deletions, substitutions and swaps of neighbours, up to `limit`; more than that yields limit
// + 1.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit) return limit + 1;
  std::vector<size_t> two_ago(a.size() + 1), one_ago(a.size() + 1), row(a.size() + 1);
  for (size_t i = 0; i <= a.size(); ++i) row[i] = i;
  for (size_t j = 1; j <= b.size(); ++j) {
    std::swap(two_ago, one_ago);
    std::swap(one_ago, row);
    size_t best = row[0] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
      row[i] = std::min({one_ago[i] + 1, row[i - 1] + 1, one_ago[i - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[i] = std::min(row[i], two_ago[i - 2] + 1);
      best = std::min(best, row[i]);
    }
    if (best > limit) return limit + 1;
  }
  return row[a.size()];
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

NamePattern::NamePattern(std::string_view pattern, Spelling spelling)
    : pattern_(pattern),
      cpp_pattern_(without_idle_blanks(pattern)),
      spelling_(spelling),
      is_glob_(has_glob(pattern)),
      matches_all_(!pattern.empty() && pattern.find_first_not_of('*') == std::string_view::npos),
      required_(required_words(pattern)) {}

bool NamePattern::matches_text(std::string_view text) const {
  if (text == pattern_) return true;
  // Go's `main.(*T).f` and `f[go.shape.int]` are names that look like globs: equality came first.
  return is_glob_ && glob_match(pattern_, text);
}

bool NamePattern::may_match_demangled(std::string_view mangled) const {
  return std::all_of(required_.begin(), required_.end(), [mangled](const std::string& word) {
    return mangled.find(word) != std::string_view::npos;
  });
}

bool NamePattern::matches(std::string_view name) const {
  if (matches_all_) return true;
  if (spelling_ != Spelling::Demangled && matches_text(name)) return true;
  if (spelling_ == Spelling::Exact) return false;
  if (!is_mangled(name)) return spelling_ == Spelling::Demangled && matches_text(name);
  if (!may_match_demangled(name)) return false;
  auto demangled = image::demangle(name);
  if (!demangled) return false;
  if (matches_text(*demangled) || matches_text(image::strip_parameters(*demangled))) return true;
  std::string tight = without_idle_blanks(*demangled);
  return tight == cpp_pattern_ || (is_glob_ && glob_match(cpp_pattern_, tight));
}

std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string_view>& names,
                                       size_t limit) {
  struct Candidate {
    size_t distance;
    std::string_view name;
  };
  std::string target = lowered(wanted);
  size_t reach = std::max<size_t>(1, target.size() / 3);
  std::vector<Candidate> candidates;
  for (std::string_view name : names) {
    // Long mangled names are compared by what they demangle to; too far apart in length is too far apart.
    if (!is_mangled(name) && (name.size() > target.size() + reach + 64)) continue;
    std::string readable(name);
    if (is_mangled(name)) {
      // Each name costs a demangling: only those that share the first letters of the last word are worth it.
      size_t colon = target.rfind("::");
      std::string head = target.substr(colon == std::string::npos ? 0 : colon + 2).substr(0, 2);
      if (lowered(name).find(head) == std::string::npos) continue;
      auto demangled = image::demangle(name);
      if (!demangled) continue;
      readable = image::strip_parameters(*demangled);
    }
    std::string low = lowered(readable);
    // `handle` should find `Server::handle` and `main.handle` too.
    size_t cut = low.find_last_of(":.");
    std::string tail = cut == std::string::npos ? low : low.substr(cut + 1);
    size_t distance = std::min(edit_distance(target, low, reach), edit_distance(target, tail, reach));
    if (distance <= reach) candidates.push_back({distance, name});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.name.size() < b.name.size();
  });
  std::vector<std::string> nearest;
  for (const Candidate& candidate : candidates) {
    std::string name(candidate.name);
    if (auto demangled = image::demangle(name)) name = *demangled;
    if (std::find(nearest.begin(), nearest.end(), name) == nearest.end()) nearest.push_back(name);
    if (nearest.size() == limit) break;
  }
  return nearest;
}

}  // namespace uscope::symbols
