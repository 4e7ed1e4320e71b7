// The half of ScriptProbes for what is no place in a program: timers, events of the machine and the kernel,
// watched memory.
#include <fmt/format.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <array>

#include "session/script_probes.h"

namespace uscope::session {
namespace {

using engine::Attachment;
using lang::AttachSpec;
using lang::ProbeKind;

struct Event {
  std::string_view name;
  uint64_t number;
  uint64_t period;  // one in so many, unless the script says
};

constexpr std::array kSoftware = {
    Event{"alignment-faults", PERF_COUNT_SW_ALIGNMENT_FAULTS, 1},
    Event{"bpf-output", PERF_COUNT_SW_BPF_OUTPUT, 1},
    Event{"context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES, 1000},
    Event{"cs", PERF_COUNT_SW_CONTEXT_SWITCHES, 1000},
    Event{"cpu-clock", PERF_COUNT_SW_CPU_CLOCK, 1000000},
    Event{"cpu", PERF_COUNT_SW_CPU_CLOCK, 1000000},
    Event{"cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS, 1},
    Event{"dummy", PERF_COUNT_SW_DUMMY, 1},
    Event{"emulation-faults", PERF_COUNT_SW_EMULATION_FAULTS, 1},
    Event{"major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
    Event{"minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN, 100},
    Event{"page-faults", PERF_COUNT_SW_PAGE_FAULTS, 100},
    Event{"faults", PERF_COUNT_SW_PAGE_FAULTS, 100},
    Event{"task-clock", PERF_COUNT_SW_TASK_CLOCK, 1},
    Event{"cgroup-switches", PERF_COUNT_SW_CGROUP_SWITCHES, 1},
};

constexpr std::array kHardware = {
    Event{"cpu-cycles", PERF_COUNT_HW_CPU_CYCLES, 1000000},
    Event{"cycles", PERF_COUNT_HW_CPU_CYCLES, 1000000},
    Event{"instructions", PERF_COUNT_HW_INSTRUCTIONS, 1000000},
    Event{"cache-references", PERF_COUNT_HW_CACHE_REFERENCES, 1000000},
    Event{"cache-misses", PERF_COUNT_HW_CACHE_MISSES, 1000000},
    Event{"branch-instructions", PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 100000},
    Event{"branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 100000},
    Event{"branch-misses", PERF_COUNT_HW_BRANCH_MISSES, 100000},
    Event{"bus-cycles", PERF_COUNT_HW_BUS_CYCLES, 100000},
    Event{"frontend-stalls", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 1000000},
    Event{"backend-stalls", PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 1000000},
    Event{"ref-cycles", PERF_COUNT_HW_REF_CPU_CYCLES, 1000000},
};

template <typename Events>
Status take_event(const Events& events, const AttachSpec& spec, Attachment& attachment) {
  auto found = std::ranges::find(events, spec.event, &Event::name);
  if (found == events.end()) return fail(spec.text + ": no such event");
  attachment.perf_event = found->number;
  attachment.period = spec.count != 0 ? spec.count : found->period;
  return {};
}

Status take_watch(const AttachSpec& spec, Attachment& attachment) {
  attachment.watched_address = spec.address.value_or(0);
  attachment.watched_length = uint32_t(spec.count);
  for (char c : spec.event) {
    uint32_t bit = c == 'r' ? HW_BREAKPOINT_R : c == 'w' ? HW_BREAKPOINT_W : HW_BREAKPOINT_X;
    attachment.watched_accesses |= bit;
  }
  return {};
}

}  // namespace

Status ScriptProbes::add_event(const CodeAtPoint& point, std::vector<Attachment>& attachments) const {
  const AttachSpec& spec = *point.point;
  Attachment attachment;
  attachment.code = point.code;
  attachment.pid = scope_.pid;
  attachment.sites.push_back({FileOffset{0}, point.cookie, std::nullopt});
  switch (spec.kind) {
    case ProbeKind::kInterval:
    case ProbeKind::kProfile:
      attachment.kind =
          spec.kind == ProbeKind::kInterval ? Attachment::Kind::Interval : Attachment::Kind::Profile;
      attachment.period = spec.frequency != 0 ? 1'000'000'000 / spec.frequency : spec.period_ns;
      break;
    case ProbeKind::kSoftware:
      attachment.kind = Attachment::Kind::Software;
      TRY_STATUS(take_event(kSoftware, spec, attachment));
      break;
    case ProbeKind::kHardware:
      attachment.kind = Attachment::Kind::Hardware;
      TRY_STATUS(take_event(kHardware, spec, attachment));
      break;
    case ProbeKind::kTracepoint:
      attachment.kind = Attachment::Kind::Tracepoint;
      attachment.tracepoint = spec.target + "/" + spec.function;
      break;
    case ProbeKind::kWatchpoint:
      attachment.kind = Attachment::Kind::Watchpoint;
      TRY_STATUS(take_watch(spec, attachment));
      break;
    default:
      return fail(fmt::format("uscope traces user programs; it has no {} probes", lang::spell(spec.kind)));
  }
  attachments.push_back(std::move(attachment));
  return {};
}

}  // namespace uscope::session
