// Settings of a script: its config block and the BPFTRACE_* environment variables, checked and with their
// defaults. The environment wins over the script, as in bpftrace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lang/ast.h"
#include "lang/diagnostics.h"

namespace uscope::lang {

enum class MissingProbes : uint8_t { kError, kWarn, kIgnore };
enum class UnstableFeature : uint8_t { kError, kWarn, kEnable };
enum class SymbolCache : uint8_t { kDefault, kPerProgram, kPerPid, kNone };

std::optional<StackMode> find_stack_mode(std::string_view word);

struct Settings {
  SymbolCache cache_user_symbols = SymbolCache::kDefault;
  bool cpp_demangle = true;
  bool kernel_return_probes = false;  // uretprobe by the kernel's return addresses, not by exits
  bool lazy_symbolication = false;
  std::string license = "GPL";
  uint64_t log_size = 1000000;
  uint64_t max_bpf_progs = 1024;
  uint64_t max_cat_bytes = 10240;
  uint64_t max_map_keys = 4096;
  std::optional<uint64_t> max_probes;  // unlimited unless set
  uint64_t max_strlen = 1024;
  MissingProbes missing_probes = MissingProbes::kError;
  uint64_t on_stack_limit = 32;
  std::optional<uint64_t> perf_rb_pages;
  std::optional<bool> show_debug_info;  // inlined calls and source lines in stacks
  StackMode stack_mode = StackMode::kBpftrace;
  std::string str_trunc_trailer = "..";
  bool print_maps_on_exit = true;
  bool use_blazesym = true;
  UnstableFeature unstable_dw_ustack = UnstableFeature::kEnable;
  UnstableFeature unstable_map_decl = UnstableFeature::kWarn;
  UnstableFeature unstable_tseries = UnstableFeature::kWarn;
  UnstableFeature unstable_addr = UnstableFeature::kWarn;
  // From the environment alone: a map whose value tseries() takes for the time, for tests.
  std::string series_clock_map;
  // Not the script's to say: floats are not read, and what the standard library says comes from its files.
  bool as_bpftrace = false;
};

// The value of an environment variable, nothing if it is not set. Given by the caller: nothing here reads the
// process.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// A setting's value by its name; nothing if there is no such setting.
std::optional<ConfigValue> setting_text(const Settings& settings, std::string_view name);

Settings read_settings(const Program& program, const Environment& environment, Diagnostics& diagnostics);

}  // namespace uscope::lang
