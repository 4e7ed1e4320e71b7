// An attach point's text -> its parts: which kind of probe, which file, which function, which offset, how
// often. Knows the spellings and their limits; whether a file or a function exists is for others
// (ProbeMatcher in compile.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/diagnostics.h"
#include "lang/source.h"

namespace uscope::lang {

// grouped by meaning
// clang-format off
enum class ProbeKind : uint8_t {
  kBegin, kEnd, kSelf, kTest, kBench,
  kUprobe, kUretprobe, kUsdt,
  kInterval, kProfile, kSoftware, kHardware,
  kTracepoint, kRawTracepoint, kKprobe, kKretprobe, kFentry, kFexit, kIter, kWatchpoint, kAsyncWatchpoint,
};
// clang-format on

// The full name: "uprobe". As messages and the probe builtin print it.
std::string_view spell(ProbeKind kind);
// The name of its class, as the probetype builtin and messages print it: begin and end are "special".
std::string_view probe_type(ProbeKind kind);
// By full name (in any case) or short name (exactly); nothing if there is no such kind.
std::optional<ProbeKind> find_probe_kind(std::string_view word);

// The events that software and hardware probes may name.
std::span<const std::string_view> event_names(ProbeKind kind);

struct AttachSpec {
  Span span;
  std::string text;  // as written
  std::string name;  // of `name=`
  ProbeKind kind = ProbeKind::kBegin;

  std::string target;    // file of uprobe, uretprobe, usdt; category of a tracepoint; module of a kprobe
  std::string function;  // may hold wildcards; event of a usdt or tracepoint
  bool cpp = false;      // `:cpp:`: the name is a demangled one
  std::string provider;  // of a usdt, if given
  uint64_t offset = 0;   // FUNC+offset
  std::optional<uint64_t> address;  // FILE:0xADDR

  std::string source_file;  // FILE@source:line:column
  uint64_t line = 0, column = 0;

  std::string event;       // of software and hardware; signal of self; name of a test
  uint64_t period_ns = 0;  // of interval and profile
  uint64_t frequency = 0;  // in hertz, where that was given
  uint64_t count = 0;      // of software and hardware; 0: the default

  bool user_space() const {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kUretprobe || kind == ProbeKind::kUsdt;
  }
};

// `positional` replaces $1 and so on. Nothing, with a diagnostic, if the text is wrong.
std::optional<AttachSpec> parse_attach_point(const std::string& text, Span span,
                                             const std::vector<std::string>& positional,
                                             Diagnostics& diagnostics);

}  // namespace uscope::lang
