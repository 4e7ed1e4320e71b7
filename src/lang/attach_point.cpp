#include "lang/attach_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lang/int_literal.h"
#include "lang/lexer.h"

namespace uscope::lang {
namespace {

struct KindName {
  ProbeKind kind;
  std::string_view name;
  std::string_view short_name;
  size_t least, most;  // arguments
};

constexpr std::array kKinds = {
    KindName{ProbeKind::kBegin, "begin", "", 0, 0},
    KindName{ProbeKind::kEnd, "end", "", 0, 0},
    KindName{ProbeKind::kSelf, "self", "", 2, 2},
    KindName{ProbeKind::kTest, "test", "", 1, 1},
    KindName{ProbeKind::kBench, "bench", "", 1, 1},
    KindName{ProbeKind::kUprobe, "uprobe", "u", 2, 3},
    KindName{ProbeKind::kUretprobe, "uretprobe", "ur", 2, 3},
    KindName{ProbeKind::kUsdt, "usdt", "U", 2, 3},
    KindName{ProbeKind::kInterval, "interval", "i", 1, 2},
    KindName{ProbeKind::kProfile, "profile", "p", 1, 2},
    KindName{ProbeKind::kSoftware, "software", "s", 1, 2},
    KindName{ProbeKind::kHardware, "hardware", "h", 1, 2},
    KindName{ProbeKind::kTracepoint, "tracepoint", "t", 2, 2},
    KindName{ProbeKind::kRawTracepoint, "rawtracepoint", "rt", 1, 2},
    KindName{ProbeKind::kKprobe, "kprobe", "k", 1, 2},
    KindName{ProbeKind::kKretprobe, "kretprobe", "kr", 1, 2},
    KindName{ProbeKind::kFentry, "fentry", "f", 1, 3},
    KindName{ProbeKind::kFexit, "fexit", "fr", 1, 3},
    KindName{ProbeKind::kIter, "iter", "it", 1, 2},
    KindName{ProbeKind::kWatchpoint, "watchpoint", "w", 3, 3},
    KindName{ProbeKind::kAsyncWatchpoint, "asyncwatchpoint", "aw", 3, 3},
};

const KindName& row(ProbeKind kind) { return *std::ranges::find(kKinds, kind, &KindName::kind); }

constexpr std::array<std::string_view, 15> kSoftwareEvents = {
    "alignment-faults", "bpf-output", "context-switches", "cs",           "cpu-clock",    "cpu",
    "cpu-migrations",   "dummy",      "emulation-faults", "major-faults", "minor-faults", "page-faults",
    "faults",           "task-clock", "cgroup-switches"};

constexpr std::array<std::string_view, 12> kHardwareEvents = {
    "cpu-cycles",          "cycles",    "instructions",  "cache-references", "cache-misses",
    "branch-instructions", "branches",  "branch-misses", "bus-cycles",       "frontend-stalls",
    "backend-stalls",      "ref-cycles"};

// $1 -> the parameter, "" if it was not given.
std::string substitute(const std::string& text, const std::vector<std::string>& positional) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t digits = i + 1;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    if (text[i] != '$' || digits == i + 1) {
      out += text[i];
      continue;
    }
    auto number = parse_int_literal(text.substr(i + 1, digits - i - 1));
    if (number && *number > 0 && *number <= positional.size()) out += positional[*number - 1];
    i = digits - 1;
  }
  return out;
}

// At colons outside quotes and parentheses; quotes are taken off. In a function's name `::` does not
// separate.
std::vector<std::string> split(std::string_view text, bool scopes) {
  std::vector<std::string> parts(1);
  int parens = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted && c == '\\' && i + 1 < text.size()) {
      parts.back() += text[++i];
    } else if (!quoted && parens == 0 && c == ':') {
      bool scope =
          scopes && parts.size() >= 3 && i + 1 < text.size() && text[i + 1] == ':' && !parts.back().empty();
      if (scope) {
        parts.back() += "::";
        ++i;
      } else {
        parts.emplace_back();
      }
    } else {
      if (!quoted && c == '(') ++parens;
      if (!quoted && c == ')' && parens > 0) --parens;
      parts.back() += c;
    }
  }
  return parts;
}

class Reader {
 public:
  Reader(AttachSpec& out, std::vector<std::string> arguments, Diagnostics& diagnostics)
      : out_(out), arguments_(std::move(arguments)), diagnostics_(diagnostics) {}

  bool run();

 private:
  bool wrong(std::string message) {
    diagnostics_.error(out_.span, std::move(message));
    return false;
  }
  bool check_count();
  bool user_function();
  bool source_line();
  bool function_and_offset(const std::string& text);
  bool usdt();
  bool timer();
  bool event();
  bool self();
  bool watchpoint();
  bool number(const std::string& text, std::string_view what, uint64_t& into);

  AttachSpec& out_;
  std::vector<std::string> arguments_;
  Diagnostics& diagnostics_;
};

bool Reader::number(const std::string& text, std::string_view what, uint64_t& into) {
  auto value = parse_int_literal(text);
  if (!value) {
    bool not_a_number = text.empty() || text[0] < '0' || text[0] > '9';
    return wrong(
        fmt::format("{}: {}", what, not_a_number ? "invalid integer: " + text : value.error().message));
  }
  into = *value;
  return true;
}

bool Reader::check_count() {
  const KindName& kind = row(out_.kind);
  if (arguments_.size() >= kind.least && arguments_.size() <= kind.most) return true;
  std::string wanted = kind.least == kind.most ? fmt::to_string(kind.least)
                       : kind.most == kind.least + 1
                           ? fmt::format("{} or {}", kind.least, kind.most)
                           : fmt::format("{}, {} or {}", kind.least, kind.least + 1, kind.most);
  return wrong(
      fmt::format("{} probe type requires {} arguments, found {}", kind.name, wanted, arguments_.size()));
}

bool Reader::source_line() {
  std::string& target = arguments_[0];
  size_t at = target.rfind('@');
  if (at + 1 == target.size() || arguments_.size() < 2 || arguments_.size() > 3) {
    return wrong(
        fmt::format("Invalid {0} arguments, expected format: {0}:TARGET@FILE:LINE[:COL]", spell(out_.kind)));
  }
  if (out_.kind == ProbeKind::kUretprobe)
    return wrong("Source code locations are not allowed for uretprobes");
  out_.source_file = target.substr(at + 1);
  out_.target = target.substr(0, at);
  if (!number(arguments_[1], "Invalid line number", out_.line)) return false;
  return arguments_.size() < 3 || number(arguments_[2], "Invalid column number", out_.column);
}

bool Reader::function_and_offset(const std::string& text) {
  if (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    uint64_t address = 0;
    if (!number(text, "Invalid offset", address)) return false;
    out_.address = address;
    return true;
  }
  // `operator+` is a name; an offset is what follows the last plus and is no end.
  size_t plus = text.rfind('+');
  bool in_name = plus == std::string::npos || plus == 0 || text.substr(0, plus).ends_with("operator") ||
                 text.substr(0, plus).ends_with("operator+") ||
                 text.find_first_of(")\"", plus) != std::string::npos;
  if (in_name) {
    out_.function = text;
    return true;
  }
  out_.function = text.substr(0, plus);
  if (!number(text.substr(plus + 1), "Invalid offset", out_.offset)) return false;
  if (out_.kind == ProbeKind::kUretprobe && out_.offset != 0) return wrong("Offset not allowed");
  return true;
}

bool Reader::user_function() {
  if (!arguments_.empty() && arguments_[0].find('@') != std::string::npos) return source_line();
  if (!check_count()) return false;
  out_.target = arguments_[0];
  if (out_.target.empty()) return wrong(fmt::format("{} should have a target", spell(out_.kind)));
  if (arguments_.size() == 3) {
    if (arguments_[1] != "cpp") return wrong(fmt::format("unsupported language type: {}", arguments_[1]));
    out_.cpp = true;
  }
  return function_and_offset(arguments_.back());
}

bool Reader::usdt() {
  if (!check_count()) return false;
  out_.target = arguments_[0];
  if (arguments_.size() == 3) out_.provider = arguments_[1];
  out_.function = arguments_.back();
  return true;
}

bool Reader::timer() {
  if (!check_count()) return false;
  std::string_view kind = spell(out_.kind);
  std::string what = fmt::format("Invalid rate of {} probe", kind);
  uint64_t value = 0;
  if (arguments_.size() == 1) {
    if (!number(arguments_[0], what, value)) return false;
    if (value < 1000) {
      return wrong(fmt::format("{}. Minimum is 1000 or 1us. Found: {} nanoseconds", what, value));
    }
    out_.period_ns = value;
    return true;
  }
  const std::string& unit = arguments_[0];
  uint64_t factor = unit == "s"    ? 1000000000
                    : unit == "ms" ? 1000000
                    : unit == "us" ? 1000
                    : unit == "hz" ? 1
                                   : 0;
  if (factor == 0) return wrong(fmt::format("{} is not an accepted unit of time", unit));
  if (arguments_[1].starts_with('-'))
    return wrong(fmt::format("{} frequency should be a positive integer", kind));
  if (!number(arguments_[1], what, value)) return false;
  if (value == 0) return wrong(fmt::format("{} frequency should be a positive integer", kind));
  if (unit == "hz") {
    out_.frequency = value;
    out_.period_ns = std::max<uint64_t>(1000000000 / value, 1);
    return true;
  }
  if (__builtin_mul_overflow(value, factor, &out_.period_ns)) return wrong(what + ": it is too long");
  return true;
}

bool Reader::event() {
  if (!check_count()) return false;
  out_.event = arguments_[0];
  std::string_view kind = spell(out_.kind);
  auto names = event_names(out_.kind);
  if (std::ranges::find(names, out_.event) == names.end()) {
    return wrong(fmt::format("{} is not a {} probe", out_.event, kind));
  }
  if (arguments_.size() == 1 || arguments_[1].empty()) return true;
  return number(arguments_[1], fmt::format("Invalid count for {} probe", kind), out_.count);
}

bool Reader::self() {
  if (!check_count()) return false;
  if (arguments_[0] != "signal") return wrong(fmt::format("{} is not a supported trigger", arguments_[0]));
  if (arguments_[1] != "SIGUSR1") return wrong(fmt::format("{} is not a supported signal", arguments_[1]));
  out_.event = arguments_[1];
  return true;
}

bool Reader::watchpoint() {
  if (!check_count()) return false;
  uint64_t address = 0;
  if (!number(arguments_[0], "Invalid function/address argument", address)) return false;
  if (!number(arguments_[1], "Invalid length argument", out_.count)) return false;
  if (out_.count != 1 && out_.count != 2 && out_.count != 4 && out_.count != 8)
    return wrong("invalid watchpoint length, must be one of (1, 2, 4, 8)");
  const std::string& mode = arguments_[2];
  bool is_known = mode == "r" || mode == "w" || mode == "x" || mode == "rw" || mode == "wr";
  if (!is_known) return wrong("watchpoint mode must be combination of (r,w,x)");
  if (address % out_.count != 0) return wrong("watchpoint address must be aligned to its length");
  out_.address = address;
  out_.event = mode;
  return true;
}

bool Reader::run() {
  switch (out_.kind) {
    case ProbeKind::kUprobe:
    case ProbeKind::kUretprobe:
      return user_function();
    case ProbeKind::kUsdt:
      return usdt();
    case ProbeKind::kInterval:
    case ProbeKind::kProfile:
      return timer();
    case ProbeKind::kSoftware:
    case ProbeKind::kHardware:
      return event();
    case ProbeKind::kSelf:
      return self();
    case ProbeKind::kWatchpoint:
      return watchpoint();
    default:
      break;
  }
  if (!check_count()) return false;
  if (arguments_.size() > 1) out_.target = arguments_[0];
  if (!arguments_.empty()) out_.function = out_.event = arguments_.back();
  return true;
}

}  // namespace

std::string_view spell(ProbeKind kind) { return row(kind).name; }

std::string_view probe_type(ProbeKind kind) {
  return kind == ProbeKind::kBegin || kind == ProbeKind::kEnd || kind == ProbeKind::kSelf ? "special"
                                                                                          : spell(kind);
}

std::span<const std::string_view> event_names(ProbeKind kind) {
  if (kind == ProbeKind::kSoftware) return kSoftwareEvents;
  if (kind == ProbeKind::kHardware) return kHardwareEvents;
  return {};
}

std::optional<ProbeKind> find_probe_kind(std::string_view word) {
  for (const KindName& kind : kKinds) {
    if (!kind.short_name.empty() && word == kind.short_name) return kind.kind;
  }
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (lower == "kfunc") return ProbeKind::kFentry;
  if (lower == "kretfunc") return ProbeKind::kFexit;
  for (const KindName& kind : kKinds) {
    if (lower == kind.name) return kind.kind;
  }
  return std::nullopt;
}

std::optional<AttachSpec> parse_attach_point(const std::string& text, Span span,
                                             const std::vector<std::string>& positional,
                                             Diagnostics& diagnostics) {
  AttachSpec out;
  out.span = span;
  out.text = substitute(text, positional);
  std::string_view rest = out.text;
  size_t name_end = 0;
  while (name_end < rest.size() && is_word(rest[name_end])) ++name_end;
  if (name_end > 0 && name_end < rest.size() && rest[name_end] == '=') {
    out.name = rest.substr(0, name_end);
    rest.remove_prefix(name_end + 1);
  }
  std::string_view provider = rest.substr(0, rest.find(':'));
  auto kind = find_probe_kind(provider);
  if (!kind) {
    diagnostics.error(span, fmt::format("Invalid probe type: {}", provider));
    return std::nullopt;
  }
  out.kind = *kind;
  bool scopes = *kind == ProbeKind::kUprobe || *kind == ProbeKind::kUretprobe;
  std::vector<std::string> parts = split(rest, scopes);
  parts.erase(parts.begin());
  if (!Reader(out, std::move(parts), diagnostics).run()) return std::nullopt;
  return out;
}

}  // namespace uscope::lang
