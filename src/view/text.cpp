#include "view/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "event/render.h"
#include "view/failure_text.h"
#include "view/histogram.h"
#include "view/map_order.h"
#include "view/series.h"

namespace uscope::view {
namespace {

bool is_drawn(const event::Value& value) {
  return value.is<event::Histogram>() || value.is<event::TimeSeries>();
}

std::string with_newline(std::string_view text) { return std::string(text) + "\n"; }

}  // namespace

void TextOutput::attached_probes(uint64_t count) {
  diagnostics_(fmt::format("Attached {} probe{}\n", count, count == 1 ? "" : "s"));
}

void TextOutput::join(std::string_view text) { out_(with_newline(text)); }

void TextOutput::system(std::string_view text) { out_(with_newline(text)); }

void TextOutput::append_value(std::string& text, const event::Value& value, uint64_t last_epoch) {
  if (auto* histogram = value.get_if<event::Histogram>()) {
    append_histogram(text, *histogram);
  } else if (auto* series = value.get_if<event::TimeSeries>()) {
    append_series(text, *series, last_epoch, names_.boot_to_wall_ns());
  } else {
    event::append_text(text, value, names_);
  }
}

void TextOutput::value(const event::Value& value) {
  std::string text;
  append_value(text, value, 0);
  text += '\n';
  out_(text);
}

void TextOutput::map(const event::MapContents& map, uint64_t top, uint64_t divisor) {
  std::string text;
  uint64_t last_epoch = newest_epoch(map);
  for (const event::MapEntry* entry : ordered_entries(map, top)) {
    text += map.name;
    if (entry->key) {
      text += '[';
      event::append_key(text, *entry->key, names_);
      text += ']';
    }
    text += is_drawn(entry->value) ? ":\n" : ": ";
    if (divisor > 1 || last_epoch != 0) {
      append_value(text, within_window(divided(entry->value, divisor), last_epoch), last_epoch);
    } else {
      append_value(text, entry->value, last_epoch);
    }
    text += '\n';
  }
  if (!text.empty()) out_(text);
}

void TextOutput::script_message(Severity severity, std::string_view place, std::string_view text,
                                std::string_view context) {
  std::string line(place);
  if (!line.empty()) line += ": ";
  line += severity == Severity::Error ? "ERROR: " : "WARNING: ";
  line += text;
  if (!line.ends_with('\n')) line += '\n';
  line += context;
  if (!line.ends_with('\n')) line += '\n';
  diagnostics_(line);
}

void TextOutput::helper_error(const HelperFailure& failure) {
  std::string text = failure.place.empty() ? "" : failure.place + ": ";
  text += fmt::format("WARNING: {}\nAdditional Info - helper: {}, retcode: {}\n", failure_text(failure),
                      failure.helper, failure.result);
  text += failure.context;
  if (!text.ends_with('\n')) text += '\n';
  diagnostics_(text);
}

void TextOutput::lost_events(uint64_t count) { diagnostics_(fmt::format("Lost {} events\n", count)); }

void TextOutput::benchmark_results(const std::vector<Benchmark>& results) {
  std::string text = fmt::format("{:<41}{:<15}{}\n{:-<66}\n", "Benchmark", "Time(ns)", "Iterations", "");
  for (const Benchmark& result : results)
    text += fmt::format("{:<41}{:<15}{}\n", result.name, result.average_ns, result.iterations);
  out_(text);
}

}  // namespace uscope::view
