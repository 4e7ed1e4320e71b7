#include "engine/kernel/uprobes.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include "base/mapped_file.h"
#include "engine/kernel/bpf_calls.h"
#include "engine/kernel/perf_event.h"
#include "engine/kernel/probed_instruction.h"

namespace uscope::engine::kernel {

namespace {

constexpr int kNotSupported = 524;  // ENOTSUPP, the kernel's own, which has no name outside

SiteFailure failure_at(const Attachment& attachment, size_t site, int error_number) {
  std::string doing =
      fmt::format("probing {} at offset 0x{:x}", attachment.file, attachment.sites[site].offset.value);
  if (error_number == kNotSupported || error_number == ENOEXEC)
    return {site, error_number, Error(doing + ": the kernel cannot probe the instruction there")};
  Error error = Error::from_errno(doing, error_number);
  if (error_number == EACCES || error_number == EPERM)
    error = std::move(error).with_hint("the kernel's uprobes need root or CAP_SYS_ADMIN");
  if (error_number == ESRCH)
    error = std::move(error).with_hint(fmt::format("is process {} still there?", attachment.pid.value_or(0)));
  if (error_number == EMFILE) error = std::move(error).with_hint("raise the limit of open files (ulimit -n)");
  return {site, error_number, std::move(error)};
}

// Would fewer sites fare better? Not when the process is gone or the whole way is closed.
bool concerns_all_sites(int error_number) {
  return error_number == ESRCH || error_number == EPERM || error_number == EACCES || error_number == EMFILE ||
         error_number == ENFILE || error_number == ENOENT || error_number == EBADF ||
         error_number == EOPNOTSUPP;
}

// The columns that a multi link takes, a row a site; a link uses a stretch of them.
struct Columns {
  std::vector<size_t> sites;  // which of the attachment's
  std::vector<uint64_t> offsets, semaphores, cookies;
  bool has_semaphores = false;

  void add(size_t index, const Site& site) {
    sites.push_back(index);
    offsets.push_back(site.offset.value);
    semaphores.push_back(site.semaphore ? site.semaphore->value : 0);
    cookies.push_back(site.cookie);
    has_semaphores |= site.semaphore.has_value();
  }
};

OrErrno<Fd> link_rows(int program, const Attachment& attachment, const Columns& columns, size_t first,
                      size_t count) {
  UprobeMultiLink link;
  link.program = uint32_t(program);
  link.path = uint64_t(attachment.file.c_str());
  link.offsets = uint64_t(columns.offsets.data() + first);
  if (columns.has_semaphores) link.ref_ctr_offsets = uint64_t(columns.semaphores.data() + first);
  link.cookies = uint64_t(columns.cookies.data() + first);
  link.count = uint32_t(count);
  link.flags = attachment.kind == Attachment::Kind::UserReturn ? kUprobeMultiReturn : 0;
  link.pid = uint32_t(attachment.pid.value_or(0));
  for (;;) {
    auto made = create_uprobe_multi_link(link);
    if (made || made.error() != EINTR) return made;
  }
}

// Links a stretch; where the kernel refuses it, parts of it, down to the sites that are at fault. A refused
// link is slow (the kernel takes out again what it had put in, and waits), one that is made is fast: hence
// many parts.
void link_stretch(int program, const Attachment& attachment, const Columns& columns, size_t first,
                  size_t count, AttachedUprobes& attached) {
  constexpr size_t kParts = 16;
  auto link = link_rows(program, attachment, columns, first, count);
  if (link) {
    attached.links.push_back(std::move(*link));
    return;
  }
  if (count == 1 || concerns_all_sites(link.error())) {
    for (size_t row = first; row < first + count; row++)
      attached.failures.push_back(failure_at(attachment, columns.sites[row], link.error()));
    return;
  }
  size_t step = (count + kParts - 1) / kParts;
  for (size_t at = first; at < first + count; at += step)
    link_stretch(program, attachment, columns, at, std::min(step, first + count - at), attached);
}

void sort_failures(AttachedUprobes& attached) {
  std::sort(attached.failures.begin(), attached.failures.end(),
            [](const SiteFailure& a, const SiteFailure& b) { return a.site < b.site; });
}

// The tracefs way at work.
struct TracefsAttaching {
  int program;
  const Attachment& attachment;
  TracefsGroup* group;
  AttachedUprobes attached;

  bool is_return() const { return attachment.kind == Attachment::Kind::UserReturn; }

  OrErrno<Fd> run_at(uint64_t event_id, uint64_t cookie) const {
    auto event = open_tracepoint_event(event_id, attachment.pid);
    return event ? run_at_event(std::move(*event), program, cookie) : std::move(event);
  }

  void attach_alone(size_t site) {
    auto id = group->add(attachment.file, attachment.sites[site], is_return());
    if (!id) {
      attached.failures.push_back({site, EINVAL, id.error()});
      return;
    }
    if (auto link = run_at(*id, attachment.sites[site].cookie))
      attached.links.push_back(std::move(*link));
    else
      attached.failures.push_back(failure_at(attachment, site, link.error()));
  }

  // Sites of one cookie as one event. What cannot be part of it gets an event of its own, or a failure there.
  void attach_together(const std::vector<size_t>& sites) {
    if (sites.size() == 1) return attach_alone(sites[0]);
    std::optional<uint64_t> id;
    std::vector<size_t> together, alone;
    for (size_t site : sites) {
      bool is_in = false;
      if (id) {
        is_in = group->extend(attachment.file, attachment.sites[site], is_return()).has_value();
      } else if (auto added = group->add(attachment.file, attachment.sites[site], is_return())) {
        id = *added;
        is_in = true;
      }
      (is_in ? together : alone).push_back(site);
    }
    if (id) {
      if (auto link = run_at(*id, attachment.sites[together[0]].cookie))
        attached.links.push_back(std::move(*link));
      else
        alone.insert(alone.end(), together.begin(), together.end());
    }
    for (size_t site : alone) attach_alone(site);
  }
};

int refusal_of(int program, uint32_t pid) {
  uint64_t offset = 0;
  UprobeMultiLink link;
  link.program = uint32_t(program);
  link.path = uint64_t("/");
  link.offsets = uint64_t(&offset);
  link.count = 1;
  link.pid = pid;
  auto made = create_uprobe_multi_link(link);
  return made ? 0 : made.error();
}

}  // namespace

AttachedUprobes& AttachedUprobes::operator=(AttachedUprobes&& other) noexcept {
  if (this != &other) {
    links = std::move(other.links);
    groups = std::move(other.groups);
    failures = std::move(other.failures);
  }
  return *this;
}

bool AttachedUprobes::is_refused_whole(size_t sites) const {
  auto is_closed_way = [](const SiteFailure& failure) {
    return failure.error_number == EPERM || failure.error_number == EACCES ||
           failure.error_number == EOPNOTSUPP;
  };
  return sites > 0 && failures.size() == sites &&
         std::all_of(failures.begin(), failures.end(), is_closed_way);
}

MultiSupport find_multi_support(int program) {
  MultiSupport support;
  // A folder cannot be probed: EBADF from a kernel that knows these links, EINVAL from others.
  support.is_there = refusal_of(program, 0) == EBADF;
  // A negative pid is refused first since the filter was corrected; before, the folder was.
  support.filters_by_process = support.is_there && refusal_of(program, uint32_t(-1)) == EINVAL;
  return support;
}

std::vector<SiteFailure> unprobeable_sites(const Attachment& attachment) {
  std::vector<SiteFailure> refused;
  auto file = MappedFile::open(attachment.file);
  if (!file) return refused;  // attaching will say why
  for (size_t i = 0; i < attachment.sites.size(); i++)
    if (!can_probe(slice_from(file->bytes(), attachment.sites[i].offset.value)))
      refused.push_back(failure_at(attachment, i, kNotSupported));
  return refused;
}

AttachedUprobes attach_multi(int program, const Attachment& attachment) {
  constexpr size_t kMostSites = size_t(1) << 20;  // MAX_UPROBE_MULTI_CNT
  AttachedUprobes attached;
  Columns columns;
  struct stat info {};
  bool has_size = ::stat(attachment.file.c_str(), &info) == 0;
  for (size_t i = 0; i < attachment.sites.size(); i++) {
    // The one fault that can be told beforehand, and cheaply.
    if (has_size && attachment.sites[i].offset.value >= uint64_t(info.st_size))
      attached.failures.push_back(failure_at(attachment, i, EINVAL));
    else
      columns.add(i, attachment.sites[i]);
  }
  size_t count = columns.sites.size();
  for (size_t first = 0; first < count; first += kMostSites)
    link_stretch(program, attachment, columns, first, std::min(kMostSites, count - first), attached);
  sort_failures(attached);
  return attached;
}

AttachedUprobes attach_perf_events(int program, const Attachment& attachment) {
  AttachedUprobes attached;
  auto type = uprobe_event_type();
  make_room_for_fds(attachment.sites.size());
  for (size_t i = 0; i < attachment.sites.size(); i++) {
    const Site& site = attachment.sites[i];
    if (!type) {
      attached.failures.push_back(failure_at(attachment, i, EOPNOTSUPP));
      continue;
    }
    auto event = open_uprobe_event({*type, attachment.file, site.offset, site.semaphore,
                                    attachment.kind == Attachment::Kind::UserReturn, attachment.pid});
    auto link = event ? run_at_event(std::move(*event), program, site.cookie) : std::move(event);
    if (link)
      attached.links.push_back(std::move(*link));
    else
      attached.failures.push_back(failure_at(attachment, i, link.error()));
  }
  return attached;
}

AttachedUprobes attach_tracefs(int program, const Attachment& attachment) {
  TracefsAttaching attaching{program, attachment, {}, {}};
  auto fail_all = [&](const Error& error) {
    for (size_t i = 0; i < attachment.sites.size(); i++)
      attaching.attached.failures.push_back({i, EOPNOTSUPP, error});
    return std::move(attaching.attached);
  };
  auto tracefs = find_tracefs();
  if (!tracefs) return fail_all(tracefs.error());
  auto group = TracefsGroup::create(*tracefs);
  if (!group) return fail_all(group.error());
  attaching.group = &*group;
  std::map<uint64_t, std::vector<size_t>> by_cookie;
  for (size_t i = 0; i < attachment.sites.size(); i++) by_cookie[attachment.sites[i].cookie].push_back(i);
  make_room_for_fds(by_cookie.size());
  for (const auto& [cookie, sites] : by_cookie) attaching.attach_together(sites);
  attaching.attached.groups.push_back(std::move(*group));
  sort_failures(attaching.attached);
  return std::move(attaching.attached);
}

}  // namespace uscope::engine::kernel
