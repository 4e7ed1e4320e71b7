#include "session/reporter.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "event/aggregate.h"
#include "event/decode.h"
#include "session/shell_command.h"

namespace uscope::session {
namespace {

using event::RecordKind;

}  // namespace

Reporter::Reporter(const event::Plan& plan, engine::Engine& engine, event::SymbolNames& names,
                   view::Output& output, bool with_warnings)
    : plan_(plan), engine_(engine), names_(names), output_(output), with_warnings_(with_warnings) {
  for (const event::Format& format : plan.formats) {
    formats_.emplace_back(format.text);
    direct_formats_.push_back(event::DirectFormat::make(format, formats_.back()));
  }
}

void Reporter::complain(const std::string& what) {
  if (std::find(complaints_.begin(), complaints_.end(), what) != complaints_.end()) return;
  complaints_.push_back(what);
  output_.script_message(view::Severity::Error, "", what, "");
}

void Reporter::take(Bytes record) {
  ByteReader reader(record);
  auto kind = RecordKind(reader.u32());
  uint32_t id = reader.u32();
  if (reader.failed()) return complain("a probe reported a record that is too short");
  Bytes payload = record.subspan(8);
  switch (kind) {
    case RecordKind::Printf:
      return take_format(id, payload);
    case RecordKind::PrintValue: {
      if (id >= plan_.values.size()) break;
      auto value = event::decode(plan_.values[id], payload, plan_.formats);
      if (!value) return complain(value.error().message());
      return output_.value(*value);
    }
    case RecordKind::PrintMap: {
      uint64_t top = reader.u64(), divisor = reader.u64();
      if (id >= plan_.map_prints.size()) break;
      return print_map(plan_.map_prints[id].map, top, divisor, true);
    }
    case RecordKind::PrintEntry:
      if (id >= plan_.map_prints.size()) break;
      return print_entry(plan_.map_prints[id].map, payload);
    case RecordKind::ClearMap:
      if (id >= plan_.maps.size()) break;
      if (auto cleared = engine_.clear(plan_.maps[id].program_map); !cleared)
        complain(cleared.error().message());
      return;
    case RecordKind::ZeroMap:
      if (id >= plan_.maps.size()) break;
      return zero_map(id);
    case RecordKind::Exit:
      exit_code_ = int(id);
      return;
    case RecordKind::Join: {
      if (id >= plan_.formats.size()) break;
      uint32_t count = reader.u32();
      uint64_t each = plan_.formats[id].arguments.size;
      std::string text;
      for (uint32_t i = 0; i < count && each != 0 && reader.remaining() >= each; ++i)
        text += (i == 0 ? "" : plan_.formats[id].text) + std::string(cstring_at(reader.take(each), 0));
      return output_.join(text);
    }
    case RecordKind::HelperError:
      return take_helper_error(id, payload);
    case RecordKind::UnknownImage:
      return;  // the unwinder's
  }
  complain("a probe reported a record that uscope does not know");
}

std::string Reporter::now_as(const std::string& format) const {
  time_t now = ::time(nullptr);
  tm local{};
  ::localtime_r(&now, &local);
  // Never empty, so that nothing means that there was no room.
  const std::string marked = format + ' ';
  std::string text(256, '\0');
  size_t length = 0;
  while ((length = ::strftime(text.data(), text.size(), marked.c_str(), &local)) == 0)
    text.resize(2 * text.size());
  text.resize(length - 1);
  return text;
}

void Reporter::take_format(uint32_t id, Bytes payload) {
  if (id >= plan_.formats.size()) return complain("a probe reported a format that uscope does not know");
  text_.clear();
  if (direct_formats_[id] && direct_formats_[id]->append(text_, payload)) return output_.printf(text_);
  const event::Format& format = plan_.formats[id];
  if (format.kind == event::FormatKind::Time) return output_.time(now_as(format.text));
  auto arguments = event::decode_arguments(format, payload, plan_.formats);
  if (!arguments) return complain(arguments.error().message());
  std::string text;
  auto written = formats_[id].append(text, *arguments, names_);
  if (!written) return complain(written.error().message());
  switch (format.kind) {
    case event::FormatKind::Errorf:
      return output_.script_message(view::Severity::Error, format.place, text, format.context);
    case event::FormatKind::Warnf:
      if (!with_warnings_) return;
      return output_.script_message(view::Severity::Warning, format.place, text, format.context);
    case event::FormatKind::System:
      return run_command(text);
    case event::FormatKind::Cat:
      return print_file(text);
    default:
      return output_.printf(text);
  }
}

// A script can ask for commands faster than they run. Once the end is wanted, those still waiting are not
// run.
void Reporter::run_command(const std::string& command) {
  if (wants_end_()) {
    ++commands_left_out_;
    return;
  }
  auto printed = output_of_shell(command, wants_end_);
  if (!printed) return complain(printed.error().message());
  output_.system(*printed);
}

void Reporter::print_file(const std::string& path) {
  auto file = open_for_reading(path);
  if (!file) {
    return output_.script_message(view::Severity::Error, "",
                                  "failed to open file '" + path + "' (" + ::strerror(errno) + ")", "");
  }
  std::string text(plan_.max_cat_bytes, '\0');
  size_t have = 0;
  while (have < text.size()) {
    ssize_t got = ::read(file->get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += size_t(got);
  }
  text.resize(have);
  output_.cat(text);
}

void Reporter::take_helper_error(uint32_t id, Bytes payload) {
  if (id >= plan_.errors.size() || !with_warnings_) return;
  const event::HelperErrorPlace& error = plan_.errors[id];
  if (!error.message.empty())
    return output_.script_message(view::Severity::RuntimeError, error.place, error.message, error.context);
  view::HelperFailure failure;
  failure.helper = error.helper;
  failure.place = error.place;
  failure.context = error.context;
  failure.result = int64_t(ByteReader(payload).u64());
  output_.helper_error(failure);
}

namespace {

// A map without keys has a value before anything was stored in it, as far as that can be shown.
bool shows_when_empty(const event::MapPlan& plan) {
  using Kind = event::Layout::Kind;
  return !plan.key && plan.value.kind != Kind::Hist && plan.value.kind != Kind::Lhist &&
         plan.value.kind != Kind::Tseries;
}

}  // namespace

void Reporter::print_map(uint32_t map, uint64_t top, uint64_t divisor, bool is_asked_for) {
  const event::MapPlan& plan = plan_.maps[map];
  std::vector<event::RawEntry> entries;
  auto read = engine_.for_each_entry(plan.program_map, [&](const engine::MapEntry& entry) {
    // At once: a thousand threads' copies of all values would take gigabytes.
    entries.push_back({entry.key, {event::merge_copies(plan.value, entry.values)}});
  });
  if (!read) return complain(read.error().message());
  if (entries.empty() && is_asked_for && shows_when_empty(plan))
    entries.push_back({{}, {std::vector<uint8_t>(event::value_size(plan.value))}});
  auto contents = event::decode_map(plan, entries, plan_.formats);
  if (!contents) return complain(contents.error().message());
  if (!contents->entries.empty()) output_.map(*contents, top, divisor);
}

void Reporter::print_entry(uint32_t map, Bytes key) {
  const event::MapPlan& plan = plan_.maps[map];
  auto entry = engine_.find_entry(plan.program_map, key);
  if (!entry) return complain(entry.error().message());
  if (!*entry) return;
  std::vector<event::RawEntry> entries = {{(*entry)->key, (*entry)->values}};
  auto contents = event::decode_map(plan, entries, plan_.formats);
  if (!contents) return complain(contents.error().message());
  output_.map(*contents);
}

void Reporter::zero_map(uint32_t map) {
  uint32_t program_map = plan_.maps[map].program_map;
  std::vector<std::vector<uint8_t>> keys;
  size_t size = 0;
  auto read = engine_.for_each_entry(program_map, [&](const engine::MapEntry& entry) {
    keys.push_back(entry.key);
    if (!entry.values.empty()) size = entry.values.front().size();
  });
  if (!read) return complain(read.error().message());
  std::vector<uint8_t> zeros(size);
  for (const auto& key : keys)
    if (auto set = engine_.set_entry(program_map, key, zeros); !set) return complain(set.error().message());
}

void Reporter::print_maps() {
  for (uint32_t map = 0; map < plan_.maps.size(); ++map) print_map(map, 0, 1, false);
}

}  // namespace uscope::session
