#include "image/perfmap/perf_map.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/glob.h"
#include "image/perfmap/managed_name.h"

namespace uscope::image {
namespace {

constexpr size_t kRememberedLines = 8;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A hexadecimal number, "0x" or not, and the one space behind it; false for anything else or more than 64
// bits.
bool take_hex(std::string_view& line, uint64_t& value) {
  if (line.starts_with("0x") || line.starts_with("0X")) line.remove_prefix(2);
  value = 0;
  size_t i = 0;
  for (; i < line.size(); ++i) {
    int digit = hex_digit(line[i]);
    if (digit < 0) break;
    if (value >> 60 != 0) return false;
    value = value << 4 | uint64_t(digit);
  }
  if (i == 0 || i >= line.size() || line[i] != ' ') return false;
  line.remove_prefix(i + 1);
  return true;
}

bool is_stub(std::string_view name) { return name.starts_with("stub ") || name.starts_with("stub<"); }

struct TierName {
  std::string_view text;
  PerfMapTier tier;
};
constexpr TierName kDotnetTiers[] = {
    {"QuickJitted", PerfMapTier::kBaseline},
    {"MinOptJitted", PerfMapTier::kBaseline},
    {"Optimized", PerfMapTier::kOptimized},
    {"OptimizedTier1", PerfMapTier::kOptimized},
    {"OptimizedTier1OSR", PerfMapTier::kOnStack},
    {"InstrumentedTier", PerfMapTier::kInstrumented},
    {"InstrumentedTierOptimized", PerfMapTier::kInstrumented},
    {"PreJIT", PerfMapTier::kPrecompiled},
    {"PreJit-cold", PerfMapTier::kPrecompiled},
    {"ReadyToRun", PerfMapTier::kPrecompiled},
    {"Unknown", PerfMapTier::kUnknown},
};

// Prefixes of lines that are functions of a JavaScript program; the others (Builtin:, Stub: …) are the
// runtime's own.
constexpr std::string_view kScriptKinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
constexpr std::string_view kRuntimeKinds[] = {"Builtin:", "BytecodeHandler:", "Stub:", "Handler:", "RegExp:"};

PerfMapTier script_tier(char mark) {
  switch (mark) {
    case '~':
      return PerfMapTier::kInterpreted;
    case '^':
      return PerfMapTier::kBaseline;
    case '+':
      return PerfMapTier::kMiddle;
    case '*':
      return PerfMapTier::kOptimized;
    default:
      return PerfMapTier::kUnknown;
  }
}

bool ends_in_position(std::string_view text) {
  for (int part = 0; part < 2; ++part) {
    size_t digits = 0;
    while (digits < text.size() && text[text.size() - 1 - digits] >= '0' &&
           text[text.size() - 1 - digits] <= '9') {
      ++digits;
    }
    if (digits == 0 || digits == text.size() || text[text.size() - 1 - digits] != ':') return false;
    text.remove_suffix(digits + 1);
  }
  return true;
}

// "name file:line:col": function names may hold spaces ("get x"), paths too, so look for where a path begins.
void split_source(PerfMapName& parts) {
  std::string_view text = parts.function;
  if (!ends_in_position(text)) return;
  size_t at = std::string_view::npos;
  for (std::string_view begin : {" file://", " node:", " /", " evalmachine.", " wasm://"}) {
    at = std::min(at, text.find(begin));
  }
  if (at == std::string_view::npos) at = text.rfind(' ');
  if (at == std::string_view::npos) return;
  parts.source = text.substr(at + 1);
  parts.function = text.substr(0, at);
}

bool take_apart_script(std::string_view name, PerfMapName& parts) {
  for (std::string_view kind : kScriptKinds) {
    if (!name.starts_with(kind)) continue;
    parts.function = name.substr(kind.size());
    if (!parts.function.empty()) parts.tier = script_tier(parts.function[0]);
    if (parts.tier != PerfMapTier::kUnknown) parts.function.remove_prefix(1);
    split_source(parts);
    return true;
  }
  for (std::string_view kind : kRuntimeKinds) {
    if (!name.starts_with(kind)) continue;
    parts.function = name.substr(kind.size());
    parts.tier = PerfMapTier::kStub;
    return true;
  }
  return false;
}

// "int Main.fib(int)" -> "Main.fib". Only the JVM writes a type, a space, and parentheses.
std::string_view java_name(std::string_view name) {
  size_t parenthesis = name.find('(');
  if (parenthesis == std::string_view::npos || !name.ends_with(')')) return name;
  size_t space = name.rfind(' ', parenthesis);
  if (space == std::string_view::npos) return name;
  return name.substr(space + 1, parenthesis - space - 1);
}

}  // namespace

std::string_view name_of(PerfMapTier tier) {
  switch (tier) {
    case PerfMapTier::kInterpreted:
      return "interpreted";
    case PerfMapTier::kBaseline:
      return "baseline";
    case PerfMapTier::kInstrumented:
      return "instrumented";
    case PerfMapTier::kMiddle:
      return "middle tier";
    case PerfMapTier::kOptimized:
      return "optimized";
    case PerfMapTier::kOnStack:
      return "on-stack replacement";
    case PerfMapTier::kPrecompiled:
      return "precompiled";
    case PerfMapTier::kStub:
      return "stub";
    case PerfMapTier::kUnknown:
      break;
  }
  return "unknown";
}

PerfMapName take_apart(std::string_view name) {
  PerfMapName parts;
  parts.function = name;
  if (is_stub(name)) {
    parts.tier = PerfMapTier::kStub;
  } else if (!take_apart_script(name, parts) && name.ends_with(']')) {
    size_t bracket = name.rfind('[');
    for (const TierName& tier : kDotnetTiers) {
      if (bracket == std::string_view::npos ||
          name.substr(bracket + 1, name.size() - bracket - 2) != tier.text)
        continue;
      parts.tier = tier.tier;
      parts.function = name.substr(0, bracket);
    }
  }
  parts.qualified = parts.function;
  if (parts.tier == PerfMapTier::kStub || !parts.source.empty()) return parts;
  if (auto span = managed_name_span(parts.function)) {
    parts.qualified = parts.function.substr(span->first, span->second - span->first);
  } else {
    parts.qualified = java_name(parts.function);
  }
  return parts;
}

PerfMap PerfMap::parse(std::string text) {
  PerfMap map;
  map.append(std::move(text));
  map.finish();
  return map;
}

void PerfMap::append(std::string text) {
  size_t end = text.rfind('\n');
  if (end == std::string::npos) {
    unfinished_ += text;
    return;
  }
  std::string rest = text.substr(end + 1);
  text.resize(end + 1);
  if (!unfinished_.empty()) text.insert(0, unfinished_);
  unfinished_ = std::move(rest);
  texts_.push_back(std::move(text));
  add_lines(texts_.back());
}

void PerfMap::finish() {
  if (unfinished_.empty()) return;
  texts_.push_back(std::exchange(unfinished_, {}));
  add_lines(texts_.back());
}

void PerfMap::add_lines(std::string_view text) {
  entries_.reserve(entries_.size() + text.size() / 80);
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) add_line(line);
  }
  indexed_ = false;
}

void PerfMap::add_line(std::string_view line) {
  PerfMapEntry entry;
  bool good = take_hex(line, entry.address.value) && take_hex(line, entry.size) && !line.empty();
  if (!good || entry.size > UINT64_MAX - entry.address.value || entries_.size() >= UINT32_MAX) {
    ++malformed_count_;
    if (malformed_lines_.size() < kRememberedLines) malformed_lines_.push_back(line_);
    return;
  }
  entry.name = line;
  entries_.push_back(entry);
}

const std::vector<PerfMapEntry>& PerfMap::entries() const {
  if (!indexed_) index();
  return entries_;
}

// One sweep over the entries by address. Of those that cover a place, the newest (the highest number) wins;
// where it begins above others they are superseded, and where it begins below a newer one it is itself.
void PerfMap::index() const {
  // Sorted by value rather than through the entries: a map of a million lines is then several times faster.
  struct Range {
    uint64_t begin, end;
    uint32_t entry;
    // The sweep's queue: the newest on top.
    bool operator<(const Range& other) const { return entry < other.entry; }
  };
  segments_.clear();
  indexed_ = true;
  std::vector<Range> ranges;
  ranges.reserve(entries_.size());
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    entries_[i].superseded = false;
    uint64_t begin = entries_[i].address.value;
    if (entries_[i].size != 0) ranges.push_back({begin, begin + entries_[i].size, i});
  }
  auto before = [](const Range& a, const Range& b) { return a.begin != b.begin ? a.begin < b.begin : a < b; };
  if (!std::is_sorted(ranges.begin(), ranges.end(), before)) std::sort(ranges.begin(), ranges.end(), before);
  segments_.reserve(ranges.size());

  std::priority_queue<Range> active;
  uint64_t position = 0;
  auto supersede = [&](const Range& old) {
    if (!is_stub(entries_[old.entry].name)) entries_[old.entry].superseded = true;
  };
  // Gives each place up to `limit` to the newest active entry.
  auto advance = [&](uint64_t limit) {
    while (!active.empty() && position < limit) {
      const Range& top = active.top();
      if (top.end > position) {
        uint64_t until = std::min(limit, top.end);
        segments_.push_back({position, until, top.entry});
        position = until;
      } else {
        active.pop();
      }
    }
  };
  for (const Range& range : ranges) {
    advance(range.begin);
    position = range.begin;
    while (!active.empty() && active.top().end <= position) active.pop();
    // Below the top every active entry is superseded already: it was on top before, or began below something
    // newer.
    if (!active.empty()) supersede(range.entry > active.top().entry ? active.top() : range);
    active.push(range);
  }
  advance(UINT64_MAX);
}

const PerfMapEntry* PerfMap::find(ProcessAddr address) const {
  if (!indexed_) index();
  auto after = std::upper_bound(segments_.begin(), segments_.end(), address.value,
                                [](uint64_t value, const Segment& segment) { return value < segment.begin; });
  if (after == segments_.begin() || address.value >= (after - 1)->end) return nullptr;
  return &entries_[(after - 1)->entry];
}

std::vector<const PerfMapEntry*> PerfMap::match(std::string_view pattern) const {
  if (!indexed_) index();
  std::vector<const PerfMapEntry*> matching;
  std::string glob = managed_glob(pattern);
  for (size_t i = entries_.size(); i-- > 0;) {
    const PerfMapEntry& entry = entries_[i];
    if (entry.superseded) continue;
    PerfMapName parts = take_apart(entry.name);
    if (glob_match(glob, parts.qualified) || glob_match(glob, parts.function) ||
        glob_match(glob, entry.name)) {
      matching.push_back(&entry);
    }
  }
  return matching;
}

}  // namespace uscope::image
