#include "engine/inproc/target/offspring.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>

#include "engine/inproc/target/journal.h"
#include "engine/inproc/target/remove.h"
#include "process/info.h"
#include "process/proc_dir.h"
#include "process/surroundings.h"

namespace uscope::engine::inproc {
namespace {

// Most children end or execute something else long before; to stop those would cost more than it gives.
constexpr std::chrono::milliseconds kLivesOn{100};
constexpr std::chrono::milliseconds kPatience{300};  // with one of them
constexpr size_t kMostMembers = 4096;

// True also where it cannot be told.
bool share_memory(pid_t one, pid_t other) {
  const long order =
      ::syscall(SYS_kcmp, process::living_thread(one), process::living_thread(other), KCMP_VM, 0, 0);
  return order == 0 || (order < 0 && errno != ESRCH);
}

// A child by vfork is in its parent's memory: what is taken out of one is taken from under the other. The
// parent cannot be stopped meanwhile, so nothing happens to it; the child must be left alone.
bool is_in_memory_of(pid_t pid, pid_t other) {
  if (pid == other || !share_memory(pid, other)) return false;
  const auto around = process::surroundings_of(other);
  return around && around->parent != pid;
}

}  // namespace

void Offspring::add(pid_t pid, Probes probes) {
  auto info = process::read_process(pid);
  if (!info || info->is_zombie || members_.size() >= kMostMembers) return;
  const bool is_known = std::ranges::any_of(
      members_, [&](const Member& m) { return m.pid == pid && m.start_time == info->start_time; });
  if (is_known) return;
  Member member{pid, info->start_time, std::nullopt};
  if (probes == Probes::Off) member.due = Clock::now() + kLivesOn;
  members_.push_back(member);
}

std::optional<Offspring::Clock::time_point> Offspring::next_due() const {
  std::optional<Clock::time_point> first;
  for (const Member& member : members_)
    if (member.due) first = first ? std::min(*first, *member.due) : *member.due;
  return first;
}

void Offspring::heal_due() {
  const Clock::time_point now = Clock::now();
  std::erase_if(members_, [&](const Member& member) {
    if (!member.due || *member.due > now) return false;
    heal(member, now + kPatience);
    return true;
  });
}

void Offspring::heal_all(Clock::time_point until) {
  for (const Member& member : members_) heal(member, std::min(until, Clock::now() + kPatience));
  members_.clear();
}

// They may fork as well until they are healed.
void Offspring::heal_untold(uint64_t inode, pid_t parent, Clock::time_point until) {
  std::set<pid_t> found = {::getppid()};  // uscope, which maps it as well
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (pid_t pid : processes_that_map(inode, parent)) {
      if (!found.insert(pid).second) continue;
      add(pid, Probes::On);
      is_new = true;
    }
    heal_all(until);
    if (Clock::now() >= until) return;
  }
}

// A child that has ended, executed another program or cannot be stopped is left alone: what is in it harms
// nobody.
void Offspring::heal(const Member& member, Clock::time_point until) {
  auto info = process::read_process(member.pid);
  if (!info || info->is_zombie || info->start_time != member.start_time) return;
  RemoveOptions options;
  options.patience = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  (void)remove_own(member.pid, options);
}

Result<RemoveReport> remove_own(pid_t pid, const RemoveOptions& options) {
  TRY(process::RemoteMemory memory, process::RemoteMemory::open(pid));
  TRY(process::Maps maps, process::Maps::of(pid));
  std::vector<JournalContents> journals = Journal::find_all(memory, maps);
  const Owner self = Owner::self();
  std::erase_if(journals, [&](const JournalContents& journal) { return !(journal.owner == self); });
  return inproc::remove(pid, journals, options);
}

std::optional<bool> maps_file(pid_t pid, uint64_t inode) {
  auto maps = process::Maps::of(pid);
  if (!maps) {
    auto info = process::read_process(pid);
    return info && !info->is_zombie ? std::nullopt : std::optional(false);
  }
  return std::ranges::any_of(maps->all(), [&](const process::Mapping& mapping) {
    return mapping.kind == process::MappingKind::Memfd && mapping.inode == inode && mapping.perms.shared &&
           mapping.path.find(area_name) != std::string::npos;
  });
}

// What we have made can only be in processes that are younger than we are; to read the maps of all would take
// many times as long.
std::vector<pid_t> processes_that_map(uint64_t inode, pid_t except) {
  const auto since = process::start_time_of(::getpid());
  std::vector<pid_t> found;
  struct Closing {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  std::unique_ptr<DIR, Closing> dir(::opendir("/proc"));
  if (!dir) return found;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size() || pid == except) continue;
    const auto started = process::start_time_of(pid);
    if (!started || (since && *started < *since)) continue;
    if (maps_file(pid, inode).value_or(false)) found.push_back(pid);
  }
  std::vector<pid_t> apart;
  std::ranges::copy_if(found, std::back_inserter(apart), [&](pid_t pid) {
    return !is_in_memory_of(pid, except) &&
           std::ranges::none_of(found, [&](pid_t other) { return is_in_memory_of(pid, other); });
  });
  return apart;
}

}  // namespace uscope::engine::inproc
