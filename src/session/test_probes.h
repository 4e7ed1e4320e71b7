// `--test` and `--bench`: runs a script's test: probes as tests, its bench: probes as benchmarks, one after
// the other, and says how they fared. The engine has the program loaded; nothing is attached.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "view/output.h"

namespace uscope::session {

struct NamedCode {
  std::string name;
  uint32_t code = 0;
};

// Only the probes whose name the regular expression matches; empty: all. An Error says what is wrong with it.
Result<std::vector<NamedCode>> filter_by_name(std::vector<NamedCode> codes, const std::string& regex);

// What a test left behind: exit()'s code, or an errorf.
using TestFailed = std::function<bool()>;
// Yields the exit code: 0 if all passed.
Result<int> run_tests(const std::vector<NamedCode>& tests, engine::Engine& engine,
                      const std::function<Status()>& drain, const TestFailed& failed,
                      const view::Writer& report);
Status run_benchmarks(const std::vector<NamedCode>& benchmarks, engine::Engine& engine, view::Output& output);

}  // namespace uscope::session
