#include "session/test_probes.h"

#include <fmt/format.h>
#include <regex.h>

#include <chrono>

namespace uscope::session {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough to tell nanoseconds, short enough to wait for.
constexpr auto kBenchmarkTime = std::chrono::milliseconds(100);
constexpr uint64_t kMostRuns = 1'000'000;

const char* plural(size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

Result<std::vector<NamedCode>> filter_by_name(std::vector<NamedCode> codes, const std::string& pattern) {
  if (pattern.empty()) return codes;
  regex_t regex;
  if (::regcomp(&regex, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    return fail("--probe-filter: `" + pattern + "` is not a regular expression");
  std::erase_if(
      codes, [&](const NamedCode& code) { return ::regexec(&regex, code.name.c_str(), 0, nullptr, 0) != 0; });
  ::regfree(&regex);
  return codes;
}

Result<int> run_tests(const std::vector<NamedCode>& tests, engine::Engine& engine,
                      const std::function<Status()>& drain, const TestFailed& failed,
                      const view::Writer& report) {
  report(fmt::format("[==========] Running {} tests.\n", tests.size()));
  std::vector<std::string> broken;
  for (const NamedCode& test : tests) {
    report(fmt::format("[ RUN      ] {}\n", test.name));
    auto start = Clock::now();
    TRY_STATUS(engine.run(test.code));
    auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
    TRY_STATUS(drain());
    bool is_broken = failed();
    if (is_broken) broken.push_back(test.name);
    report(fmt::format("{} {} ({} μs)\n", is_broken ? "[  FAILED  ]" : "[       OK ]", test.name, took));
  }
  size_t passed = tests.size() - broken.size();
  report(fmt::format("[==========] {} test{} ran.\n", tests.size(), plural(tests.size())));
  report(fmt::format("[  PASSED  ] {} test{}.\n", passed, plural(passed)));
  if (broken.empty()) return 0;
  report(fmt::format("[  FAILED  ] {} test{}, listed below:\n", broken.size(), plural(broken.size())));
  for (const std::string& name : broken) report(fmt::format("[  FAILED  ] {}\n", name));
  return 1;
}

Status run_benchmarks(const std::vector<NamedCode>& benchmarks, engine::Engine& engine,
                      view::Output& output) {
  std::vector<view::Benchmark> results;
  for (const NamedCode& benchmark : benchmarks) {
    TRY_STATUS(engine.run(benchmark.code));
    uint64_t runs = 0;
    auto start = Clock::now();
    while (runs < kMostRuns && Clock::now() - start < kBenchmarkTime) {
      for (int i = 0; i < 100; ++i) TRY_STATUS(engine.run(benchmark.code));
      runs += 100;
    }
    auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    // Asking the kernel to run a program takes longer than most programs: what it takes by itself is no part
    // of the answer.
    TRY(uint64_t overhead, engine.cost_of_run());
    uint64_t average = uint64_t(took) / std::max<uint64_t>(runs, 1);
    results.push_back({benchmark.name, average > overhead ? average - overhead : 0, runs});
  }
  output.benchmark_results(results);
  return {};
}

}  // namespace uscope::session
