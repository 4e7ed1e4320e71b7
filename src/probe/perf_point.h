// A probe as perf probe's users spell it, taken apart:
//   [[GROUP:]EVENT=]FUNC[@SRC][:LINE|+OFFS|%return|;PATTERN] [ARG…]   |   SRC:LINE …   |   0xOFFSET …   |
//   sdt_PROV:EVENT
// Plain data and its parser; no file is opened here. Names may hold what C++, Go and Rust put into them
// (`::`, `(*T)`,
// `<int>`, parameter lists with spaces); a name in double quotes is taken as it stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace uscope::probe {

// [NAME=]EXPRESSION[:TYPE]; EXPRESSION is a variable with fields, `$retval`, `$vars`, `$params`, or the
// kernel's own fetch syntax (%reg, @addr, $stackN, +OFFS(…)), which is passed on as it is.
struct PerfArgument {
  std::string name;
  std::string expression;
  std::string type;
  bool is_raw() const {
    return !expression.empty() && std::string_view("%@$+-\\").find(expression[0]) != std::string_view::npos;
  }
};

struct PerfPoint {
  std::string group, event;
  // A function's name; with `line`, it may turn out to be a source file instead: whoever resolves it tries
  // both.
  std::string place;
  std::string source_file;  // after @
  std::optional<uint32_t> line;
  uint64_t offset = 0;
  bool is_return = false;
  std::string pattern;              // ;PATTERN, a glob over source text
  std::optional<uint64_t> address;  // 0xOFFSET: an address as the image's tables spell it
  bool is_sdt = false;              // place is PROVIDER, event the probe's name
  std::vector<PerfArgument> arguments;
};

Result<PerfPoint> parse_perf_point(std::string_view text);
Result<PerfArgument> parse_perf_argument(std::string_view text);

// What -L takes: FUNC[:FIRST[-LAST|+COUNT]] or SRC:FIRST[-LAST|+COUNT] or SRC.
struct LineSpan {
  std::string place;
  std::string source_file;  // FUNC@SRC
  uint32_t first = 0;
  std::optional<uint32_t> last;
  bool has_lines = false;
};
Result<LineSpan> parse_line_span(std::string_view text);

// One step into a variable: `.name` or `->name`, or `[index]`.
struct Accessor {
  std::string field;
  std::optional<int64_t> index;
};
struct VariablePath {
  std::string variable;
  std::vector<Accessor> accessors;
  unsigned dereferences = 0;  // leading stars
};
// `r->Question[0].Name`, `*p`, `this->x`.
Result<VariablePath> parse_variable_path(std::string_view text);

}  // namespace uscope::probe
