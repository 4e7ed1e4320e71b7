#include "view/json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <unordered_map>

#include "event/render.h"
#include "view/failure_text.h"
#include "view/histogram.h"
#include "view/json_string.h"
#include "view/map_order.h"
#include "view/series.h"

namespace uscope::view {
namespace {

using event::Integer;
using event::Value;

// A number where a double holds it exactly, else text: readers of JSON have doubles.
void append_number(std::string& out, const Integer& number) {
  bool is_exact =
      number.is_signed
          ? number.as_signed() != INT64_MAX &&
                static_cast<int64_t>(static_cast<double>(number.as_signed())) == number.as_signed()
          : number.bits <= uint64_t{1} << 63 &&
                static_cast<uint64_t>(static_cast<double>(number.bits)) == number.bits;
  if (!is_exact) out += '"';
  event::append_integer(out, number);
  if (!is_exact) out += '"';
}

// One less than a bound: JSON's buckets are closed.
Integer one_less(Integer number) {
  number.is_signed = true;
  --number.bits;
  return number;
}

void append_buckets(std::string& out, const event::Histogram& histogram) {
  out += '[';
  bool first = true;
  for (const HistogramRow& row : histogram_rows(histogram)) {
    if (!first) out += ',';
    first = false;
    out += '{';
    if (row.low) {
      out += "\"min\": ";
      append_number(out, *row.low);
      out += ", ";
    }
    if (row.high) {
      out += "\"max\": ";
      append_number(out, one_less(*row.high));
      out += ", ";
    }
    fmt::format_to(std::back_inserter(out), "\"count\": {}}}", row.count);
  }
  out += ']';
}

void append_points(std::string& out, const event::TimeSeries& series, int64_t boot_to_wall_ns) {
  out += '[';
  bool first = true;
  for (const auto& point : series.points) {
    if (!first) out += ',';
    first = false;
    int64_t start = interval_start_ns(series, point.epoch, boot_to_wall_ns);
    int64_t rest = ((start % 1000000000) + 1000000000) % 1000000000;
    fmt::format_to(std::back_inserter(out), "{{\"interval_start\":\"{}.{:09}\",\"value\":",
                   event::time_text("%Y-%m-%d %H:%M:%S", start), rest);
    append_number(out, point.value);
    out += '}';
  }
  out += ']';
}

class Emitter {
 public:
  Emitter(std::string& out, event::SymbolNames& names) : out_(out), names_(names) {}

  void emit(const Value& value) { std::visit(*this, value.data); }

  void operator()(std::monostate) { out_ += "null"; }
  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(const Integer& number) { append_number(out_, number); }
  void operator()(const event::Float& value) {
    if (!std::isfinite(value.number)) {
      out_ += "null";
    } else {
      event::append_text(out_, Value{value}, names_);
    }
  }
  // By number: programs that read this were written before names were shown.
  void operator()(const event::EnumValue& value) { append_number(out_, value.number); }
  void operator()(const event::Pointer& pointer) { append_number(out_, Integer{pointer.address, false, 8}); }
  void operator()(const std::string& text) { append_json_string(out_, text); }
  void operator()(const event::Buffer& buffer) {
    out_ += '[';
    for (size_t i = 0; i < buffer.bytes.size(); ++i) {
      fmt::format_to(std::back_inserter(out_), "{}{}", i == 0 ? "" : ",",
                     static_cast<int8_t>(buffer.bytes[i]));
    }
    out_ += ']';
  }
  void operator()(const event::Tuple& tuple) { list(tuple.elements); }
  void operator()(const event::Array& array) { list(array.elements); }
  void operator()(const event::Record& record) {
    out_ += '{';
    bool first = true;
    for (const auto& [name, value] : record.fields) {
      if (!first) out_ += ", ";
      first = false;
      append_json_string(out_, name);
      out_ += ": ";
      emit(value);
    }
    out_ += '}';
  }
  void operator()(const event::Average& average) { append_number(out_, average.value); }
  void operator()(const event::Stats& stats) {
    out_ += "{\"count\": ";
    append_number(out_, Integer{stats.count, false, 8});
    out_ += ", \"average\": ";
    append_number(out_, stats.average);
    out_ += ", \"total\": ";
    append_number(out_, stats.total);
    out_ += '}';
  }
  void operator()(const event::Histogram& histogram) { append_buckets(out_, histogram); }
  void operator()(const event::TimeSeries& series) { append_points(out_, series, names_.boot_to_wall_ns()); }
  // Stacks, symbols, addresses, times: as their text.
  template <typename T>
  void operator()(const T& value) {
    append_json_string(out_, event::to_text(Value{value}, names_));
  }

 private:
  void list(const std::vector<Value>& values) {
    out_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out_ += ',';
      emit(values[i]);
    }
    out_ += ']';
  }

  std::string& out_;
  event::SymbolNames& names_;
};

std::string_view type_of(const Value& value) {
  if (value.is<event::Average>() || value.is<event::Stats>()) return "stats";
  if (value.is<event::Histogram>()) return "hist";
  if (value.is<event::TimeSeries>()) return "tseries";
  return "map";
}

// A part of a key with what its usual text leaves out.
void append_whole_part(std::string& out, const Value& part, event::SymbolNames& names) {
  if (auto* text = part.get_if<std::string>()) {
    out += '"';
    event::append_bytes(out, *text, event::BytesStyle::Escaped);
    out += '"';
    return;
  }
  event::append_key(out, part, names, event::Spacing::Compact);
  auto to = std::back_inserter(out);
  if (auto* symbol = part.get_if<event::Symbol>()) {
    if (!symbol->is_kernel) fmt::format_to(to, " (process {})", symbol->pid);
    fmt::format_to(to, " (0x{:x})", symbol->address);
  } else if (auto* stack = part.get_if<event::Stack>()) {
    if (!stack->is_kernel) fmt::format_to(to, "(process {})", stack->pid);
  }
}

std::string whole_key(const Value& key, event::SymbolNames& names) {
  std::string out;
  auto* tuple = key.get_if<event::Tuple>();
  if (tuple == nullptr) {
    append_whole_part(out, key, names);
    return out;
  }
  for (const Value& part : tuple->elements) {
    if (!out.empty()) out += ',';
    append_whole_part(out, part, names);
  }
  return out;
}

// The keys of a map as JSON strings, no two of them the same: of equal ones a reader keeps the last.
std::vector<std::string> json_keys(const std::vector<const event::MapEntry*>& entries,
                                   event::SymbolNames& names) {
  std::vector<std::string> keys;
  std::unordered_map<std::string, size_t> uses;
  std::string text;
  for (const event::MapEntry* entry : entries) {
    text.clear();
    if (entry->key) event::append_key(text, *entry->key, names, event::Spacing::Compact);
    keys.emplace_back();
    append_json_string(keys.back(), text);
    ++uses[keys.back()];
  }
  if (uses.size() == keys.size()) return keys;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!entries[i]->key || uses[keys[i]] == 1) continue;
    const std::string whole = whole_key(*entries[i]->key, names);
    std::string key;
    append_json_string(key, whole);
    for (size_t number = 1; ++uses[key] > 1; ++number) {
      key.clear();
      append_json_string(key, fmt::format("{} ({})", whole, number));
    }
    keys[i] = std::move(key);
  }
  return keys;
}

void append_place(std::string& line, std::string_view where) {
  Place place = parse_place(where);
  line += ", \"filename\": ";
  append_json_string(line, place.file);
  fmt::format_to(std::back_inserter(line), ", \"line\": {}, \"col\": {}", place.line, place.column);
}

}  // namespace

void JsonOutput::attached_probes(uint64_t count) {
  out_(fmt::format("{{\"type\": \"attached_probes\", \"count\": {0}, \"data\": {{\"probes\": {0}}}}}\n",
                   count));
}

void JsonOutput::typed_text(std::string_view type, std::string_view text) {
  std::string line = fmt::format("{{\"type\": \"{}\", \"data\": ", type);
  append_json_string(line, text);
  line += "}\n";
  out_(line);
}

void JsonOutput::append_value(std::string& line, const event::Value& value) {
  Emitter(line, names_).emit(value);
}

void JsonOutput::value(const event::Value& value) {
  std::string line = "{\"type\": \"value\", \"data\": ";
  append_value(line, value);
  line += "}\n";
  out_(line);
}

void JsonOutput::map(const event::MapContents& map, uint64_t top, uint64_t divisor) {
  auto entries = ordered_entries(map, top);
  if (entries.empty()) return;
  bool is_keyed = entries.front()->key.has_value();
  uint64_t last_epoch = newest_epoch(map);
  std::string line = fmt::format("{{\"type\": \"{}\", \"data\": {{", type_of(entries.front()->value));
  append_json_string(line, map.name);
  line += is_keyed ? ": {" : ": ";
  const std::vector<std::string> keys = is_keyed ? json_keys(entries, names_) : std::vector<std::string>();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i != 0) line += ", ";
    if (is_keyed) line.append(keys[i]).append(": ");
    if (divisor > 1 || last_epoch != 0) {
      append_value(line, within_window(divided(entries[i]->value, divisor), last_epoch));
    } else {
      append_value(line, entries[i]->value);
    }
  }
  line += is_keyed ? "}}}\n" : "}}\n";
  out_(line);
}

void JsonOutput::script_message(Severity severity, std::string_view place, std::string_view text,
                                std::string_view) {
  const char* type = severity == Severity::Error     ? "errorf"
                     : severity == Severity::Warning ? "warnf"
                                                     : "runtime_error";
  std::string line = fmt::format("{{\"type\": \"{}\", \"msg\": ", type);
  append_json_string(line, text);
  append_place(line, place);
  line += "}\n";
  out_(line);
}

void JsonOutput::helper_error(const HelperFailure& failure) {
  std::string line = "{\"type\": \"helper_error\", \"msg\": ";
  append_json_string(line, errno_message(failure.result));
  line += ", \"helper\": ";
  append_json_string(line, failure.helper);
  fmt::format_to(std::back_inserter(line), ", \"retcode\": {}", failure.result);
  append_place(line, failure.place);
  line += "}\n";
  out_(line);
}

void JsonOutput::lost_events(uint64_t count) {
  out_(fmt::format("{{\"type\": \"lost_events\", \"count\": {0}, \"data\": {{\"events\": {0}}}}}\n", count));
}

void JsonOutput::benchmark_results(const std::vector<Benchmark>& results) {
  std::string lines;
  for (const Benchmark& result : results) {
    lines += "{\"type\": \"benchmark_result\", \"data\": {";
    append_json_string(lines, result.name);
    lines += fmt::format(": {{\"average\": {}, \"iters\": {}}}}}}}\n", result.average_ns, result.iterations);
  }
  out_(lines);
}

}  // namespace uscope::view
