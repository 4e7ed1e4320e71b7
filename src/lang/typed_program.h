// What the front end hands to a code generator: every expression has its type, every variable its slot, every
// map its key and value, every probe its attach points. Owns the trees; refers to nothing outside.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/attach_point.h"
#include "lang/c_types.h"
#include "lang/config.h"
#include "lang/parameters.h"
#include "lang/types.h"

namespace uscope::lang {

struct VariableInfo {
  std::string name;
  Type type;
  Span span;              // where it was first set or declared
  bool is_entry = false;  // an entry of a map, of which only the loop's body knows
};

struct MapInfo {
  std::string name;
  Span span;                // first use
  std::optional<Type> key;  // nothing: a scalar map
  Type value;
  std::string kind = "hash";            // hash, lruhash, percpuhash, percpulruhash
  std::optional<uint64_t> max_entries;  // where declared; else the setting
  bool declared = false;

  // What the aggregation was asked for.
  bool aggregate_set = false;
  uint64_t hist_bits = 0;
  int64_t lhist_min = 0, lhist_max = 0, lhist_step = 0;
  uint64_t tseries_interval_ns = 0, tseries_intervals = 0;
  std::string tseries_aggregation;  // "", "avg", "max", "min", "sum"
};

struct TypedProbe {
  Span span;
  std::vector<AttachSpec> attach_points;
  ExprPtr predicate;  // may be null
  Block body;
  std::vector<VariableInfo> variables;  // by slot
  // What `retval` is, where the functions of the script's probe return different numbers.
  std::optional<Type> result;
};

struct TypedFunction {
  Span span;
  std::string name;
  std::vector<uint32_t> parameters;  // slots
  Type result;
  Block body;
  std::vector<VariableInfo> variables;
};

struct TypedProgram {
  Settings settings;
  CTypes c_types;
  std::vector<TypedProbe> probes;
  std::vector<TypedFunction> functions;
  std::map<std::string, MapInfo> maps;
  std::vector<NamedOption> options;
};

}  // namespace uscope::lang
