#include "engine/kernel/perf_event.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <charconv>

#include "engine/kernel/cpus.h"

namespace uscope::engine::kernel {

namespace {

constexpr unsigned kRetprobeBit = 0;       // format/retprobe: config:0, the same since 4.17
constexpr unsigned kRefCounterShift = 32;  // format/ref_ctr_offset: config:32-63

perf_event_attr blank_attributes() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.sample_period = 1;
  return attributes;
}

// Programs at uprobes and tracepoints run on whichever processor the event happens, and whichever thread of
// the mm; perf's own notion of a processor only has to name one that is online.
OrErrno<Fd> open_anywhere(const perf_event_attr& attributes, std::optional<pid_t> pid) {
  if (pid) return open_perf_event(attributes, *pid, -1);
  auto cpus = online_cpus();
  return open_perf_event(attributes, -1, cpus ? cpus->front() : 0);
}

}  // namespace

std::optional<uint32_t> uprobe_event_type() {
  auto text = read_text_file("/sys/bus/event_source/devices/uprobe/type", 64);
  if (!text) return std::nullopt;
  uint32_t type = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), type);
  if (error != std::errc()) return std::nullopt;
  return type;
}

OrErrno<Fd> open_uprobe_event(const UprobeEvent& event) {
  perf_event_attr attributes = blank_attributes();
  attributes.type = event.type;
  if (event.is_return) attributes.config |= uint64_t(1) << kRetprobeBit;
  if (event.semaphore) {
    if (event.semaphore->value > UINT32_MAX) return std::unexpected(ERANGE);
    attributes.config |= event.semaphore->value << kRefCounterShift;
  }
  attributes.config1 = uint64_t(event.file.c_str());
  attributes.config2 = event.offset.value;
  return open_anywhere(attributes, event.pid);
}

OrErrno<Fd> open_tracepoint_event(uint64_t id, std::optional<pid_t> pid) {
  perf_event_attr attributes = blank_attributes();
  attributes.type = PERF_TYPE_TRACEPOINT;
  attributes.config = id;
  return open_anywhere(attributes, pid);
}

OrErrno<Fd> run_at_event(Fd event, int program, uint64_t cookie) {
  auto link = create_perf_link(program, event.get(), cookie);
  if (link) {
    // The link holds the event: one fd a site is enough.
    if (::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) return std::unexpected(errno);
    return link;
  }
  // Linux before 5.15 has no such links, and no cookies: rather no probe than a probe that is taken for
  // another.
  if (link.error() != EINVAL || cookie != 0) return std::unexpected(link.error());
  if (::ioctl(event.get(), PERF_EVENT_IOC_SET_BPF, program) != 0) return std::unexpected(errno);
  if (::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) return std::unexpected(errno);
  return event;
}

namespace {

Error refused(std::string_view what, int error_number) {
  Error error = Error::from_errno(what, error_number);
  if (error_number == EACCES || error_number == EPERM)
    return std::move(error).with_hint("it needs root or CAP_PERFMON");
  if (error_number == ENOENT || error_number == EOPNOTSUPP)
    return std::move(error).with_hint(
        "this machine does not count that event; virtual machines often lack it");
  if (error_number == ENOSPC) return std::move(error).with_hint("No more HW registers left");
  return error;
}

Status start_event(const Fd& event, int program) {
  if (::ioctl(event.get(), PERF_EVENT_IOC_SET_BPF, program) != 0 ||
      ::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0)
    return fail(Error::from_errno("starting a perf event", errno));
  return {};
}

Result<std::vector<Fd>> run_on_every_processor(const perf_event_attr& attributes, int program) {
  TRY(auto cpus, online_cpus());
  std::vector<Fd> events;
  for (int cpu : cpus) {
    auto event = open_perf_event(attributes, -1, cpu);
    if (!event && event.error() == ENODEV) continue;  // went offline meanwhile
    if (!event) return fail(refused(fmt::format("opening a perf event on processor {}", cpu), event.error()));
    TRY_STATUS(start_event(*event, program));
    events.push_back(std::move(*event));
  }
  if (events.empty()) return fail("no processor takes the event");
  return events;
}

}  // namespace

Result<std::vector<Fd>> run_sampled(const SampledEvent& event, int program) {
  if (event.period == 0) return fail("an event with a period of zero");
  perf_event_attr attributes = blank_attributes();
  attributes.type = event.type;
  attributes.config = event.event;
  attributes.sample_period = event.period;
  attributes.disabled = 1;
  return run_on_every_processor(attributes, program);
}

Result<std::vector<Fd>> run_watching(const Watch& watch, int program) {
  perf_event_attr attributes = blank_attributes();
  attributes.type = PERF_TYPE_BREAKPOINT;
  attributes.bp_addr = watch.address;
  attributes.bp_len = watch.length;
  attributes.bp_type = watch.accesses;
  attributes.disabled = 1;
  if (!watch.pid) return run_on_every_processor(attributes, program);
  attributes.inherit = 1;  // threads and children that come later
  auto event = open_perf_event(attributes, *watch.pid, -1);
  if (!event) return fail(refused("watching memory", event.error()));
  TRY_STATUS(start_event(*event, program));
  std::vector<Fd> events;
  events.push_back(std::move(*event));
  return events;
}

}  // namespace uscope::engine::kernel
