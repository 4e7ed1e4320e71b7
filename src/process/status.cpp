#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "process/info.h"

namespace uscope::process {
namespace {

std::string_view trimmed(std::string_view text) {
  size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(first);
  size_t last = text.find_last_not_of(" \t");
  return text.substr(0, last == text.npos ? 0 : last + 1);
}

// Takes the next number of a blank-separated list; nothing at its end or at anything else.
template <typename T>
std::optional<T> next_number(std::string_view& list, int base = 10) {
  list.remove_prefix(std::min(list.find_first_not_of(" \t"), list.size()));
  T value{};
  auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), value, base);
  if (error != std::errc()) return std::nullopt;
  list.remove_prefix(size_t(end - list.data()));
  return value;
}

template <typename T>
T number_or(std::string_view text, T otherwise, int base = 10) {
  return next_number<T>(text, base).value_or(otherwise);
}

// status writes a newline in a name as \n and a backslash as two.
std::string decode_name(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    bool escape = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'n' || text[i + 1] == '\\');
    if (escape) ++i;
    name += escape && text[i] == 'n' ? '\n' : text[i];
  }
  return name;
}

template <typename T>
void read_ids(std::string_view list, T& real, T& effective, T& saved) {
  for (T* id : {&real, &effective, &saved}) *id = next_number<T>(list).value_or(*id);
}

void read_field(StatusFile& status, std::string_view key, std::string_view value) {
  if (key == "Name") status.name = decode_name(value);
  if (key == "State" && !value.empty()) status.state = value.front();
  if (key == "Tgid") status.tgid = number_or<pid_t>(value, 0);
  if (key == "TracerPid") status.tracer = number_or<pid_t>(value, 0);
  if (key == "Uid") read_ids(value, status.real_uid, status.effective_uid, status.saved_uid);
  if (key == "Gid") read_ids(value, status.real_gid, status.effective_gid, status.saved_gid);
  if (key == "Threads") status.threads = number_or<unsigned>(value, 0);
  if (key == "VmLck") status.locked_kb = number_or<uint64_t>(value, 0);
  if (key == "VmLib") status.library_kb = number_or<uint64_t>(value, 0);
  if (key == "CapEff") status.effective_capabilities = number_or<uint64_t>(value, 0, 16);
  if (key == "SigPnd" || key == "ShdPnd") status.pending_signals |= number_or<uint64_t>(value, 0, 16);
  if (key == "SigBlk") status.blocked_signals = number_or<uint64_t>(value, 0, 16);
  if (key == "NSpid")
    while (auto pid = next_number<pid_t>(value)) status.ns_pids.push_back(*pid);
  if (key == "Seccomp") {
    unsigned mode = number_or<unsigned>(value, 0);
    status.seccomp = mode == 0 ? Seccomp::Off : mode == 1 ? Seccomp::Strict : Seccomp::Filter;
  }
  if (key == "Seccomp_filters") status.seccomp_filters = next_number<unsigned>(value);
}

}  // namespace

Result<StatusFile> parse_status(std::string_view text) {
  StatusFile status;
  bool named = false;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t colon = line.find(':');
    if (colon == line.npos) continue;
    std::string_view key = line.substr(0, colon);
    // Only one tab belongs to the format: a name may begin or end with blanks.
    std::string_view value = line.substr(colon + 1);
    if (key == "Name" && value.starts_with('\t')) value.remove_prefix(1);
    read_field(status, key, key == "Name" ? value : trimmed(value));
    named |= key == "State";
  }
  if (!named) return fail("the process status has no State line");
  return status;
}

Result<StatFile> parse_stat(std::string_view text) {
  // "pid (comm) state ppid ...": comm may hold blanks and parentheses, so the last one ends it.
  size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open || close + 2 >= text.size())
    return fail("the process stat line is malformed");
  StatFile stat;
  stat.comm = text.substr(open + 1, close - open - 1);
  stat.state = text[close + 2];
  std::string_view rest = text.substr(close + 3);
  // Fields 4 (ppid) to 22 (starttime) as proc(5) counts them; some are negative.
  std::array<int64_t, 19> fields{};
  for (int64_t& field : fields) {
    auto value = next_number<int64_t>(rest);
    if (!value) return fail("the process stat line is cut short");
    field = *value;
  }
  stat.flags = uint64_t(fields[9 - 4]);
  stat.start_time = uint64_t(fields[22 - 4]);
  return stat;
}

}  // namespace uscope::process
