// A name or glob as a user types it, ready to be held against many function names. Knows mangling: `ns::f`
// and `ns::f(int)` match `_ZN2ns1fEi`. Built once per query; matching costs a demangling only for names that
// could match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace uscope::symbols {

enum class Spelling {
  Any,       // as the table has it, or demangled with or without parameters
  Exact,     // as the table has it only: bpftrace's rule for uprobe:FILE:NAME
  Demangled  // demangled only: bpftrace's cpp:"NAME"
};

class NamePattern {
 public:
  NamePattern(std::string_view pattern, Spelling spelling);

  // `name` as a symbol table spells it.
  bool matches(std::string_view name) const;
  bool is_glob() const { return is_glob_; }
  // `*`: everything matches.
  bool matches_all() const { return matches_all_; }
  const std::string& text() const { return pattern_; }

 private:
  bool matches_text(std::string_view text) const;
  bool may_match_demangled(std::string_view mangled) const;

  std::string pattern_;
  std::string cpp_pattern_;  // pattern_ with the blanks as the demangler puts them
  Spelling spelling_;
  bool is_glob_;
  bool matches_all_;
  // Identifiers that every mangled form of a match must hold.
  std::vector<std::string> required_;
};

// The names nearest to `wanted` by edit distance on the part a user would mistype, best first.
std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string_view>& names,
                                       size_t limit = 3);

}  // namespace uscope::symbols
