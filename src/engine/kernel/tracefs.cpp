#include "engine/kernel/tracefs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "base/fd.h"

namespace uscope::engine::kernel {

namespace {

constexpr long kTracefsMagic = 0x74726163;
constexpr std::string_view kGroupPrefix = "uscope_";

// One command, appended: 0 or errno. O_TRUNC would take out everybody's probes.
int write_command(const std::string& tracefs, const std::string& line) {
  Fd file(::open((tracefs + "/uprobe_events").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.is_open()) return errno;
  ssize_t written = ::write(file.get(), line.data(), line.size());
  return written == ssize_t(line.size()) ? 0 : written < 0 ? errno : EIO;
}

// An event whose last user has just closed it may be busy for a moment.
int remove_event(const std::string& tracefs, const std::string& event) {
  int error = 0;
  for (int tries = 0; tries < 20; tries++) {
    error = write_command(tracefs, "-:" + event + "\n");
    if (error != EBUSY) return error;
    ::usleep(1000);
  }
  return error;
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Result<std::string> find_tracefs() {
  for (const char* path : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    struct statfs info {};
    if (::statfs(path, &info) == 0 && info.f_type == kTracefsMagic) return std::string(path);
  }
  return fail(Error("tracefs is not mounted, or not visible to this user")
                  .with_hint("try: mount -t tracefs tracefs /sys/kernel/tracing"));
}

Result<uint64_t> tracepoint_id(const std::string& tracefs, const std::string& tracepoint) {
  // The name comes from a script and must not lead out of events/.
  if (tracepoint.find("..") != std::string::npos || tracepoint.find('/') == std::string::npos)
    return fail("\"" + tracepoint + "\" is no tracepoint: category/name is expected");
  auto text = read_text_file(tracefs + "/events/" + tracepoint + "/id", 64);
  if (!text) return fail(std::move(text).error().while_doing("looking for the tracepoint " + tracepoint));
  while (!text->empty() && text->back() == '\n') text->pop_back();
  auto id = parse_decimal(*text);
  if (!id) return fail("the id of the tracepoint " + tracepoint + " is no number");
  return *id;
}

std::optional<pid_t> pid_of_group(std::string_view group) {
  if (!group.starts_with(kGroupPrefix)) return std::nullopt;
  group.remove_prefix(kGroupPrefix.size());
  size_t separator = group.find('_');
  if (separator == std::string_view::npos || !parse_decimal(group.substr(separator + 1))) return std::nullopt;
  auto pid = parse_decimal(group.substr(0, separator));
  if (!pid || *pid == 0 || *pid > INT32_MAX) return std::nullopt;
  return pid_t(*pid);
}

void remove_stale_groups(const std::string& tracefs) {
  auto text = read_text_file(tracefs + "/uprobe_events");
  if (!text) return;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // "p:GROUP/EVENT PATH:OFFSET"
    size_t colon = line.find(':');
    size_t slash = line.find('/');
    if (colon == std::string_view::npos || slash == std::string_view::npos || slash < colon) continue;
    auto pid = pid_of_group(line.substr(colon + 1, slash - colon - 1));
    if (!pid || ::kill(*pid, 0) == 0 || errno != ESRCH) continue;
    // A maker in another pid namespace only seems dead; its events are busy, and the kernel keeps them.
    std::string_view event = line.substr(colon + 1, line.find(' ') - colon - 1);
    write_command(tracefs, "-:" + std::string(event) + "\n");
  }
}

TracefsGroup::TracefsGroup(std::string tracefs, std::string name)
    : tracefs_(std::move(tracefs)), name_(std::move(name)) {}

TracefsGroup::TracefsGroup(TracefsGroup&& other) noexcept
    : tracefs_(std::move(other.tracefs_)),
      name_(std::move(other.name_)),
      events_(std::exchange(other.events_, {})) {}

TracefsGroup& TracefsGroup::operator=(TracefsGroup&& other) noexcept {
  if (this != &other) {
    remove_all();
    tracefs_ = std::move(other.tracefs_);
    name_ = std::move(other.name_);
    events_ = std::exchange(other.events_, {});
  }
  return *this;
}

TracefsGroup::~TracefsGroup() { remove_all(); }

void TracefsGroup::remove_all() {
  for (const std::string& event : events_) remove_event(tracefs_, event);
  events_.clear();
}

Result<TracefsGroup> TracefsGroup::create(const std::string& tracefs) {
  remove_stale_groups(tracefs);
  // Several engines in one process have one pid: take the first number that nobody uses.
  for (int number = 0; number < 10000; number++) {
    std::string name = fmt::format("{}{}_{}", kGroupPrefix, ::getpid(), number);
    if (::access((tracefs + "/events/" + name).c_str(), F_OK) != 0) return TracefsGroup(tracefs, name);
  }
  return fail("too many groups of probes in " + tracefs);
}

Status TracefsGroup::define(const std::string& event, const std::string& file, const Site& site,
                            bool is_return) const {
  std::string path = file;
  Fd opened;
  // The kernel splits the line at white space; such a file is named by its descriptor while it is looked up.
  if (path.find_first_of(" \t\n#") != std::string::npos || path.size() > 1024) {
    TRY(opened, open_for_reading(file));
    path = fmt::format("/proc/self/fd/{}", opened.get());
  }
  std::string line = fmt::format("{}:{} {}:0x{:x}", is_return ? 'r' : 'p', event, path, site.offset.value);
  if (site.semaphore) line += fmt::format("(0x{:x})", site.semaphore->value);
  if (int error = write_command(tracefs_, line + "\n"); error != 0)
    return fail(Error::from_errno("defining \"" + line + "\" in " + tracefs_ + "/uprobe_events", error));
  return {};
}

Result<uint64_t> TracefsGroup::add(const std::string& file, const Site& site, bool is_return) {
  std::string event = fmt::format("{}/s{}", name_, events_.size());
  TRY_STATUS(define(event, file, site, is_return));
  events_.push_back(event);
  return tracepoint_id(tracefs_, event);
}

Status TracefsGroup::extend(const std::string& file, const Site& site, bool is_return) {
  if (events_.empty()) return fail("extending a group that has no event");
  return define(events_.back(), file, site, is_return);
}

}  // namespace uscope::engine::kernel
