// The types of a program, from its debug info: the list of them, or the definitions that a name or glob
// means. Plain data for the command to print. A name that is not there gives the nearest ones; a file without
// debug info gives where it was looked for and what would bring it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/target.h"
#include "symbols/type_layout.h"

namespace uscope::session {

struct TypesRequest {
  Target target;
  std::string pattern;  // empty: list them all
  int depth = 0;        // how many levels of member types to write out
};

struct TypeSummary {
  std::string kind;  // struct, class, union, enum, typedef; slice, map …
  uint64_t size = 0;
  std::string name;
};

struct TypesAnswer {
  std::string debug_source;                      // the file that told
  std::vector<TypeSummary> listed;               // by name; pattern was empty
  std::vector<symbols::TypeLayout> definitions;  // in order of name, then of where they are declared
  std::vector<std::string> problems;             // what could not be read
};

Result<TypesAnswer> explore_types(const TypesRequest& request);

}  // namespace uscope::session
