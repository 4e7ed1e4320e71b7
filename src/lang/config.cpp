#include "lang/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "lang/int_literal.h"

namespace uscope::lang {
namespace {

using Target = std::variant<uint64_t Settings::*, std::optional<uint64_t> Settings::*, bool Settings::*,
                            std::optional<bool> Settings::*, std::string Settings::*, StackMode Settings::*,
                            MissingProbes Settings::*, UnstableFeature Settings::*, SymbolCache Settings::*>;

struct Option {
  std::string_view name;
  Target target;
};

const std::array kOptions = {
    Option{"cache_user_symbols", &Settings::cache_user_symbols},
    Option{"cpp_demangle", &Settings::cpp_demangle},
    Option{"kernel_return_probes", &Settings::kernel_return_probes},
    Option{"lazy_symbolication", &Settings::lazy_symbolication},
    Option{"license", &Settings::license},
    Option{"log_size", &Settings::log_size},
    Option{"max_bpf_progs", &Settings::max_bpf_progs},
    Option{"max_cat_bytes", &Settings::max_cat_bytes},
    Option{"max_map_keys", &Settings::max_map_keys},
    Option{"max_probes", &Settings::max_probes},
    Option{"max_strlen", &Settings::max_strlen},
    Option{"missing_probes", &Settings::missing_probes},
    Option{"on_stack_limit", &Settings::on_stack_limit},
    Option{"perf_rb_pages", &Settings::perf_rb_pages},
    Option{"print_maps_on_exit", &Settings::print_maps_on_exit},
    Option{"show_debug_info", &Settings::show_debug_info},
    Option{"stack_mode", &Settings::stack_mode},
    Option{"str_trunc_trailer", &Settings::str_trunc_trailer},
    Option{"unstable_addr", &Settings::unstable_addr},
    Option{"unstable_dw_ustack", &Settings::unstable_dw_ustack},
    Option{"unstable_map_decl", &Settings::unstable_map_decl},
    Option{"unstable_tseries", &Settings::unstable_tseries},
    Option{"use_blazesym", &Settings::use_blazesym},
};

constexpr std::array<std::string_view, 6> kLicenses = {
    "GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return out;
}

const Option* find_option(std::string_view spelled) {
  std::string name = lower_case(spelled);
  if (name.starts_with("bpftrace_")) name.erase(0, 9);
  auto found = std::ranges::find(kOptions, std::string_view(name), &Option::name);
  return found == kOptions.end() ? nullptr : &*found;
}

// Sets one option; a message if the value does not suit it.
class Setter {
 public:
  Setter(Settings& settings, const Option& option, const ConfigValue& value)
      : settings_(settings), option_(option), value_(value) {}

  std::string run() {
    return std::visit([this](auto member) { return this->set(settings_.*member); }, option_.target);
  }

 private:
  bool is_text() const {
    return value_.kind == ConfigValue::Kind::kString || value_.kind == ConfigValue::Kind::kWord;
  }
  std::string wrong(std::string_view wanted) const {
    return fmt::format("Invalid value for {}: valid values are {}.", option_.name, wanted);
  }

  std::string set(uint64_t& into) {
    if (value_.kind != ConfigValue::Kind::kInt) return fmt::format("expecting a number, got {}", value_.text);
    into = value_.integer;
    return "";
  }
  std::string set(std::optional<uint64_t>& into) {
    uint64_t number = 0;
    std::string problem = set(number);
    if (problem.empty()) into = number;
    return problem;
  }
  std::string set(std::optional<bool>& into) {
    bool on = false;
    std::string problem = set(on);
    if (problem.empty()) into = on;
    return problem;
  }
  std::string set(bool& into) {
    if (value_.kind == ConfigValue::Kind::kBool || value_.kind == ConfigValue::Kind::kInt) {
      if (value_.integer > 1) return "Invalid value, valid values are true or false";
      into = value_.integer != 0;
      return "";
    }
    return fmt::format("expecting a boolean, got {}", value_.text);
  }
  std::string set(std::string& into) {
    if (!is_text()) return fmt::format("expecting a string, got {}", value_.text);
    if (option_.name == "license" && std::ranges::find(kLicenses, value_.text) == kLicenses.end()) {
      return fmt::format(
          "Invalid value for license. Found: {}. Valid values: Dual MIT/GPL, Dual BSD/GPL, Dual MPL/GPL, GPL "
          "and "
          "additional rights, GPL v2, GPL. Read more about BPF programs and licensing: "
          "https://docs.kernel.org/bpf/bpf_licensing.html#using-bpf-programs-in-the-linux-kernel",
          value_.text);
    }
    into = value_.text;
    return "";
  }
  std::string set(StackMode& into) {
    auto mode = find_stack_mode(value_.text);
    if (!mode) return wrong("bpftrace, raw, perf, and build_id");
    into = *mode;
    return "";
  }
  std::string set(MissingProbes& into) {
    if (value_.text == "error")
      into = MissingProbes::kError;
    else if (value_.text == "warn")
      into = MissingProbes::kWarn;
    else if (value_.text == "ignore")
      into = MissingProbes::kIgnore;
    else
      return wrong("ignore, warn, and error");
    return "";
  }
  std::string set(UnstableFeature& into) {
    if (value_.text == "error")
      into = UnstableFeature::kError;
    else if (value_.text == "warn")
      into = UnstableFeature::kWarn;
    else if (value_.text == "enable")
      into = UnstableFeature::kEnable;
    else
      return wrong("error, warn, and enable");
    return "";
  }
  std::string set(SymbolCache& into) {
    if (value_.text == "PER_PID")
      into = SymbolCache::kPerPid;
    else if (value_.text == "PER_PROGRAM")
      into = SymbolCache::kPerProgram;
    else if (value_.text == "NONE" || value_.text == "0" || value_.text == "false")
      into = SymbolCache::kNone;
    else if (value_.text == "1" || value_.text == "true")
      into = SymbolCache::kPerProgram;
    else
      return wrong("PER_PID, PER_PROGRAM, and NONE");
    return "";
  }

  Settings& settings_;
  const Option& option_;
  const ConfigValue& value_;
};

// One setting, spelled as a script would.
struct Getter {
  ConfigValue word(std::string_view text) const { return {ConfigValue::Kind::kString, std::string(text), 0}; }
  ConfigValue operator()(uint64_t value) const {
    return {ConfigValue::Kind::kInt, std::to_string(value), value};
  }
  ConfigValue operator()(const std::optional<uint64_t>& value) const { return (*this)(value.value_or(0)); }
  ConfigValue operator()(bool value) const {
    return {ConfigValue::Kind::kBool, value ? "true" : "false", value ? 1u : 0u};
  }
  ConfigValue operator()(const std::string& value) const { return word(value); }
  ConfigValue operator()(StackMode value) const {
    constexpr std::array<std::string_view, 4> kWords = {"bpftrace", "perf", "raw", "build_id"};
    return word(kWords[static_cast<size_t>(value)]);
  }
  ConfigValue operator()(MissingProbes value) const {
    constexpr std::array<std::string_view, 3> kWords = {"error", "warn", "ignore"};
    return word(kWords[static_cast<size_t>(value)]);
  }
  ConfigValue operator()(UnstableFeature value) const {
    constexpr std::array<std::string_view, 3> kWords = {"error", "warn", "enable"};
    return word(kWords[static_cast<size_t>(value)]);
  }
  ConfigValue operator()(SymbolCache value) const {
    constexpr std::array<std::string_view, 4> kWords = {"PER_PID", "PER_PROGRAM", "PER_PID", "NONE"};
    return word(kWords[static_cast<size_t>(value)]);
  }
};

// The environment knows only text.
ConfigValue value_of(const std::string& text) {
  if (text == "true" || text == "false") return {ConfigValue::Kind::kBool, text, text == "true" ? 1u : 0u};
  if (auto number = parse_int_literal(text)) return {ConfigValue::Kind::kInt, text, *number};
  return {ConfigValue::Kind::kString, text, 0};
}

}  // namespace

std::optional<StackMode> find_stack_mode(std::string_view word) {
  if (word == "bpftrace") return StackMode::kBpftrace;
  if (word == "perf") return StackMode::kPerf;
  if (word == "raw") return StackMode::kRaw;
  if (word == "build_id") return StackMode::kBuildId;
  return std::nullopt;
}

std::optional<ConfigValue> setting_text(const Settings& settings, std::string_view name) {
  const Option* option = find_option(name);
  if (option == nullptr) return std::nullopt;
  return std::visit([&](auto member) { return Getter()(settings.*member); }, option->target);
}

Settings read_settings(const Program& program, const Environment& environment, Diagnostics& diagnostics) {
  Settings out;
  for (const Item& item : program.items) {
    const auto* config = std::get_if<Config>(&item);
    if (config == nullptr) continue;
    for (const ConfigSetting& setting : config->settings) {
      const Option* option = find_option(setting.name);
      if (option == nullptr) {
        diagnostics.error(setting.span, fmt::format("{}: not a known configuration option", setting.name));
        continue;
      }
      std::string problem = Setter(out, *option, setting.value).run();
      bool names_itself = problem.starts_with("Invalid value for license");
      if (!problem.empty()) {
        diagnostics.error(setting.span,
                          names_itself ? problem : fmt::format("{}: {}", setting.name, problem));
      }
    }
  }
  for (const Option& option : kOptions) {
    std::string name = "BPFTRACE_";
    for (char c : option.name) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    auto text = environment(name);
    if (!text) continue;
    std::string problem = Setter(out, option, value_of(*text)).run();
    Span nowhere{0, 0, UINT32_MAX};
    if (!problem.empty()) diagnostics.error(nowhere, fmt::format("{}: {}", name, problem));
  }
  out.series_clock_map = environment("BPFTRACE_DUMMY_TS_MAP").value_or("");
  return out;
}

}  // namespace uscope::lang
