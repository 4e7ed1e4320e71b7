// The functions and builtin values of the language: how many arguments of which sort, whether --unsafe is
// needed, and where they may stand. Types of results are decided by type resolution. A function without
// required arguments is also a value: `pid` and `pid()` are the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::lang {

enum class ArgumentSort : uint8_t {
  kAny,
  kInt,
  kText,  // a string, a pointer or an address
  kIntLiteral,
  kTextLiteral,
  kMap,       // the map itself
  kVariable,  // a scratch variable to be set
  kMode,      // a bare word: perf, monotonic, curr_ns
};

struct FunctionSpec {
  std::string_view name;
  uint32_t least = 0;
  uint32_t most = 0;  // kMany: any number
  // One letter an argument, the last one for all that follow: a any, i int, t text, I int literal, T text
  // literal, m map, v variable, w word.
  std::string_view sorts;
  bool unsafe = false;
  bool aggregate = false;  // may only be assigned to a map
  bool formats = false;    // printf and its like
  bool value = false;      // may stand without parentheses

  static constexpr uint32_t kMany = UINT32_MAX;

  ArgumentSort sort(size_t argument) const;
};

const FunctionSpec* find_function(std::string_view name);
// arg0, arg1, ...: its number, or -1.
int argument_number(std::string_view name);
// What is wrong with this many arguments; empty if nothing is.
std::string arity_problem(const FunctionSpec& spec, size_t given);
std::vector<std::string_view> function_names();

}  // namespace uscope::lang
