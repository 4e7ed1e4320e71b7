#include "lang/config.h"

#include <gtest/gtest.h>

#include "parsing.h"

namespace uscope::lang {
namespace {

struct Read {
  Settings settings;
  std::string error;
};

Read read(const std::string& block, std::map<std::string, std::string> environment = {}) {
  Parsed parsed("config = { " + block + " } BEGIN { }");
  Diagnostics diagnostics;
  Read out;
  out.settings = read_settings(
      *parsed.program,
      [&](const std::string& name) -> std::optional<std::string> {
        auto found = environment.find(name);
        if (found == environment.end()) return std::nullopt;
        return found->second;
      },
      diagnostics);
  out.error = first_error(diagnostics);
  return out;
}

TEST(Config, Defaults) {
  Settings settings = read("").settings;
  EXPECT_EQ(settings.max_map_keys, 4096u);
  EXPECT_EQ(settings.max_strlen, 1024u);
  EXPECT_FALSE(settings.max_probes);
  EXPECT_EQ(settings.missing_probes, MissingProbes::kError);
  EXPECT_EQ(settings.str_trunc_trailer, "..");
}

TEST(Config, NamesInAllTheirSpellings) {
  EXPECT_EQ(read("max_map_keys=10").settings.max_map_keys, 10u);
  EXPECT_EQ(read("MAX_MAP_KEYS=11").settings.max_map_keys, 11u);
  EXPECT_EQ(read("BPFTRACE_MAX_MAP_KEYS=12").settings.max_map_keys, 12u);
}

TEST(Config, EveryKindOfValue) {
  Settings settings =
      read(
          "stack_mode=perf; missing_probes=\"warn\"; lazy_symbolication=1; print_maps_on_exit=false; "
          "unstable_tseries=enable; cache_user_symbols=PER_PID; license=\"Dual BSD/GPL\"; max_probes=5")
          .settings;
  EXPECT_EQ(settings.stack_mode, StackMode::kPerf);
  EXPECT_EQ(settings.missing_probes, MissingProbes::kWarn);
  EXPECT_TRUE(settings.lazy_symbolication);
  EXPECT_FALSE(settings.print_maps_on_exit);
  EXPECT_EQ(settings.unstable_tseries, UnstableFeature::kEnable);
  EXPECT_EQ(settings.cache_user_symbols, SymbolCache::kPerPid);
  EXPECT_EQ(settings.license, "Dual BSD/GPL");
  EXPECT_EQ(settings.max_probes, 5u);
}

TEST(Config, TheEnvironmentWins) {
  EXPECT_EQ(read("max_strlen=10", {{"BPFTRACE_MAX_STRLEN", "20"}}).settings.max_strlen, 20u);
  EXPECT_EQ(read("", {{"BPFTRACE_STACK_MODE", "raw"}}).settings.stack_mode, StackMode::kRaw);
  EXPECT_EQ(read("", {{"BPFTRACE_MAX_STRLEN", "many"}}).error,
            "BPFTRACE_MAX_STRLEN: expecting a number, got many");
}

TEST(Config, Mistakes) {
  EXPECT_EQ(read("foo=1").error, "foo: not a known configuration option");
  EXPECT_EQ(read("max_map_keys=\"a\"").error, "max_map_keys: expecting a number, got a");
  EXPECT_EQ(read("stack_mode=foo").error,
            "stack_mode: Invalid value for stack_mode: valid values are bpftrace, raw, perf, and build_id.");
}

}  // namespace
}  // namespace uscope::lang
