#include "session/tracepoints.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>

#include "base/fd.h"
#include "base/glob.h"
#include "engine/kernel/tracefs.h"

namespace uscope::session {
namespace {

constexpr size_t kMostFields = 256;

// Folders only: what can hold an id.
std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return names;
  while (dirent* entry = ::readdir(dir))
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "offset:8" among the parts of a line.
std::optional<uint32_t> number_of(std::string_view line, std::string_view key) {
  size_t at = line.find(key);
  if (at == line.npos) return std::nullopt;
  line.remove_prefix(at + key.size());
  uint32_t value = 0;
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// `unsigned int fd`, `char * buf`, `char comm[16]`, `__data_loc char[] name`.
std::optional<TracepointField> parse_declaration(std::string_view declaration) {
  TracepointField field;
  field.declaration = declaration;
  field.is_dynamic = declaration.starts_with("__data_loc ");
  if (field.is_dynamic) declaration.remove_prefix(11);
  size_t bracket = declaration.rfind('[');
  if (!field.is_dynamic && bracket != declaration.npos && declaration.ends_with(']')) {
    uint32_t count = 0;
    std::string_view inside = declaration.substr(bracket + 1, declaration.size() - bracket - 2);
    auto [end, error] = std::from_chars(inside.data(), inside.data() + inside.size(), count);
    field.count = error == std::errc() ? count : 0;
    declaration = declaration.substr(0, bracket);
  }
  size_t name = declaration.find_last_of(" *");
  if (name == declaration.npos || name + 1 == declaration.size()) return std::nullopt;
  field.name = declaration.substr(name + 1);
  std::string_view type = trimmed(declaration.substr(0, name + 1));
  if (field.is_dynamic && type.ends_with("[]")) type.remove_suffix(2);
  field.type = trimmed(type);
  return field;
}

}  // namespace

std::vector<TracepointName> find_tracepoints(std::string_view category, std::string_view event) {
  std::vector<TracepointName> found;
  auto tracefs = engine::kernel::find_tracefs();
  if (!tracefs) return found;
  std::string events = *tracefs + "/events/";
  for (const std::string& folder : folders_in(events)) {
    if (folder == "ftrace" || !glob_match(category, folder)) continue;  // the function tracer's own
    for (const std::string& name : folders_in(events + folder))
      if (glob_match(event, name)) found.push_back({folder, name});
  }
  return found;
}

std::vector<TracepointField> parse_tracepoint_format(std::string_view text) {
  std::vector<TracepointField> fields;
  while (!text.empty() && fields.size() < kMostFields) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with("field:")) continue;
    line.remove_prefix(6);
    size_t semicolon = line.find(';');
    if (semicolon == line.npos) continue;
    auto field = parse_declaration(trimmed(line.substr(0, semicolon)));
    auto offset = number_of(line, "offset:"), size = number_of(line, "size:");
    if (!field || !offset || !size || field->name.starts_with("common_")) continue;
    field->offset = *offset;
    field->size = *size;
    field->is_signed = number_of(line, "signed:").value_or(0) != 0;
    fields.push_back(std::move(*field));
  }
  return fields;
}

std::vector<TracepointField> tracepoint_fields(const std::string& category, const std::string& event) {
  auto tracefs = engine::kernel::find_tracefs();
  if (!tracefs) return {};
  auto text = read_text_file(*tracefs + "/events/" + category + "/" + event + "/format");
  return text ? parse_tracepoint_format(*text) : std::vector<TracepointField>();
}

}  // namespace uscope::session
