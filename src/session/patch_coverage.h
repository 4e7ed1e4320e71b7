// How much of a file the in-process engine can patch: every function's entry, and every exit of every
// function, all planned at once, as if everything were to be traced. Touches no process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace uscope::session {

struct PatchCoverage {
  std::string file;
  size_t functions = 0;  // by address: aliases are one
  size_t unnamed = 0;    // of them, those that only the unwinder's tables know of

  using Counts = std::map<std::string, size_t>;
  struct Part {
    size_t covered = 0;              // functions
    size_t sites = 0;                // probed instructions of all functions
    Counts tactics;                  // sites, by the way in which they are reached
    Counts refused;                  // functions, by the first reason
    std::vector<std::string> cases;  // the refused functions: name and reason in full
  };
  Part entries, exits;
  // Functions whose first instruction stays as it is for a script that reads their arguments: where other
  // tools can set and remove breakpoints meanwhile.
  size_t beside = 0;
};

// `progress` is told now and then what share is done.
Result<PatchCoverage> patch_coverage(const std::string& file, const std::function<void(double)>& progress);

}  // namespace uscope::session
