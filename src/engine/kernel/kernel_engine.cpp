#include "engine/kernel/kernel_engine.h"

#include <fmt/format.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <set>

#include "engine/kernel/bpf_calls.h"
#include "engine/kernel/close_links.h"
#include "engine/kernel/cpus.h"
#include "engine/kernel/perf_event.h"

namespace uscope::engine::kernel {

namespace {

using codegen::CodeKind;
using codegen::MapKind;
using Kind = Attachment::Kind;
using Prefer = KernelOptions::Prefer;

CodeKind code_kind_for(Kind kind) {
  switch (kind) {
    case Kind::UserProbe:
    case Kind::UserReturn:
      return CodeKind::UserProbe;
    case Kind::Interval:
      return CodeKind::Timer;
    case Kind::Profile:
    case Kind::Software:
    case Kind::Hardware:
    case Kind::Watchpoint:
      return CodeKind::PerfEvent;
    case Kind::Tracepoint:
      return CodeKind::Tracepoint;
  }
  return CodeKind::RunOnce;
}

bool uses_cookies(const codegen::Code& code) {
  return std::any_of(code.instructions.begin(), code.instructions.end(), [](const bpf_insn& each) {
    return each.code == (BPF_JMP | BPF_CALL) && each.src_reg == 0 && each.imm == BPF_FUNC_get_attach_cookie;
  });
}

size_t count_cookies(const std::vector<Site>& sites) {
  std::set<uint64_t> cookies;
  for (const Site& site : sites) cookies.insert(site.cookie);
  return cookies.size();
}

bool run_once(int program) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.test.prog_fd = uint32_t(program);
  return bpf_call(BPF_PROG_TEST_RUN, &attributes, sizeof attributes.test) == 0;
}

bool is_user_probe(const Attachment& attachment) {
  return attachment.kind == Kind::UserProbe || attachment.kind == Kind::UserReturn;
}

}  // namespace

Status KernelEngine::load(const codegen::Program& program) {
  if (is_loaded_) return fail("a kernel engine loads one program");
  is_loaded_ = true;
  program_ = program;
  TRY_STATUS(make_maps());
  return load_codes();
}

Status KernelEngine::make_maps() {
  TRY(auto cpus, possible_cpus());
  for (const codegen::MapSpec& spec : program_.maps) {
    TRY(Map map, Map::create(spec, cpus.size()));
    maps_.push_back(std::move(map));
  }
  return open_rings();
}

Status KernelEngine::load_codes() {
  for (uint32_t i = 0; i < program_.codes.size(); i++) {
    Shape shape = Shape::TestRun;
    switch (program_.codes[i].kind) {
      case CodeKind::UserProbe: {
        // The shape that attaching will most likely want, so that a refusal is known now.
        bool is_multi = options_.prefer == Prefer::Multi;
        if (options_.prefer == Prefer::Auto && options_.without_multi) multi_support_ = MultiSupport();
        if (options_.prefer == Prefer::Auto && !options_.without_multi) {
          auto loaded = this->program(i, Shape::UprobeMulti);
          if (!multi_support_) multi_support_ = loaded ? find_multi_support(*loaded) : MultiSupport();
          is_multi = multi_support_->is_there;
        }
        shape = is_multi ? Shape::UprobeMulti : Shape::PerfUprobe;
        break;
      }
      case CodeKind::PerfEvent:
        shape = Shape::PerfEvent;
        break;
      case CodeKind::Tracepoint:
        shape = Shape::Tracepoint;
        break;
      case CodeKind::RunOnce:
      case CodeKind::Timer:
        shape = Shape::TestRun;
        break;
    }
    TRY([[maybe_unused]] int fd, this->program(i, shape));
  }
  return {};
}

Result<int> KernelEngine::program(uint32_t code, Shape shape, std::optional<pid_t> only_pid) {
  auto key = std::tuple(code, shape, only_pid.value_or(0));
  if (auto found = programs_.find(key); found != programs_.end()) return found->second.get();
  std::vector<bpf_insn> prefix;
  if (only_pid) {
    TRY(prefix, only_process(*only_pid));
  }
  TRY(Fd loaded, load_code(program_.codes[code], maps_, shape, prefix));
  return programs_.emplace(key, std::move(loaded)).first->second.get();
}

Status KernelEngine::check(const Attachment& attachment) const {
  if (attachment.code >= program_.codes.size())
    return fail(fmt::format("attaching code {}: the program has {}", attachment.code, program_.codes.size()));
  const codegen::Code& code = program_.codes[attachment.code];
  if (code.kind != code_kind_for(attachment.kind))
    return fail("attaching " + code.name + ": it was compiled for another kind of event");
  return {};
}

Result<AttachReport> KernelEngine::attach(const std::vector<Attachment>& attachments) {
  for (const Attachment& attachment : attachments) TRY_STATUS(check(attachment));
  AttachReport report;
  // The kernel runs what was attached last to a place first: backwards, so that probes run in the script's
  // order.
  for (size_t i = attachments.size(); i-- > 0;) {
    const Attachment& attachment = attachments[i];
    if (!is_user_probe(attachment) || attachment.sites.empty()) continue;
    TRY(AttachedUprobes attached, attach_probeable(attachment));
    report.attached_sites += attachment.sites.size() - attached.failures.size();
    for (SiteFailure& failure : attached.failures)
      report.failures.push_back({i, failure.site, std::move(failure.error)});
    attached.failures.clear();
    uprobes_.push_back(std::move(attached));
  }
  for (size_t i = 0; i < attachments.size(); i++) {
    if (is_user_probe(attachments[i])) continue;
    if (auto status = attach_event(attachments[i]); !status)
      report.failures.push_back({i, 0, std::move(status).error()});
    else
      report.attached_sites++;
  }
  return report;
}

Result<AttachedUprobes> KernelEngine::attach_probeable(const Attachment& attachment) {
  std::vector<SiteFailure> refused = unprobeable_sites(attachment);
  if (refused.empty()) return attach_uprobes(attachment);
  Attachment rest = attachment;
  rest.sites.clear();
  std::vector<size_t> numbers;
  for (size_t i = 0, next = 0; i < attachment.sites.size(); i++) {
    if (next < refused.size() && refused[next].site == i) {
      next++;
      continue;
    }
    rest.sites.push_back(attachment.sites[i]);
    numbers.push_back(i);
  }
  AttachedUprobes attached;
  if (!rest.sites.empty()) {
    TRY(attached, attach_uprobes(rest));
  }
  for (SiteFailure& failure : attached.failures) failure.site = numbers[failure.site];
  std::ranges::move(refused, std::back_inserter(attached.failures));
  return attached;
}

Result<AttachedUprobes> KernelEngine::attach_uprobes(const Attachment& attachment) {
  bool is_auto = options_.prefer == Prefer::Auto;
  if (options_.prefer == Prefer::Multi || (is_auto && multi_support_ && multi_support_->is_there)) {
    TRY(int code, program(attachment.code, Shape::UprobeMulti));
    if (!multi_support_) multi_support_ = find_multi_support(code);
    bool is_usable = multi_support_->is_there && (!attachment.pid || multi_support_->filters_by_process);
    if (!is_usable && !is_auto) return fail("this kernel has no uprobe_multi links that can be used here");
    if (is_usable) {
      AttachedUprobes attached = attach_multi(code, attachment);
      if (!is_auto || !attached.is_refused_whole(attachment.sites.size())) return attached;
    }
  }
  return attach_without_multi(attachment);
}

Result<AttachedUprobes> KernelEngine::attach_without_multi(const Attachment& attachment) {
  TRY(int code, program(attachment.code, Shape::PerfUprobe));
  if (options_.prefer == Prefer::PerfEvents) return attach_perf_events(code, attachment);
  // Only what the code can tell apart has to be apart.
  Attachment shared = attachment;
  if (!uses_cookies(program_.codes[attachment.code]))
    for (Site& site : shared.sites) site.cookie = 0;
  if (options_.prefer == Prefer::Tracefs) return attach_tracefs(code, shared);
  size_t sites = attachment.sites.size();
  if (count_cookies(shared.sites) * 2 <= sites) {
    // Ending a perf event takes some 100 ms, whether it is one site or thousands.
    AttachedUprobes attached = attach_tracefs(code, shared);
    if (attached.failures.size() < sites) return attached;
  }
  AttachedUprobes attached = attach_perf_events(code, attachment);
  if (!attached.is_refused_whole(sites)) return attached;
  return attach_tracefs(code, shared);
}

Status KernelEngine::attach_event(const Attachment& attachment) {
  if (attachment.kind == Kind::Interval) return start_timer(attachment);
  // The kernel filters these by thread, if at all; the program looks at the process itself.
  if (attachment.kind == Kind::Tracepoint) {
    TRY(int code, program(attachment.code, Shape::Tracepoint, attachment.pid));
    TRY(std::string tracefs, find_tracefs());
    TRY(uint64_t id, tracepoint_id(tracefs, attachment.tracepoint));
    auto event = open_tracepoint_event(id, std::nullopt);
    auto link = event ? run_at_event(std::move(*event), code, 0) : std::move(event);
    if (!link)
      return fail(Error::from_errno("attaching to the tracepoint " + attachment.tracepoint, link.error()));
    events_.push_back(std::move(*link));
    return {};
  }
  if (attachment.kind == Kind::Watchpoint) {
    TRY(int code, program(attachment.code, Shape::PerfEvent));
    Watch watch{attachment.watched_address, attachment.watched_length, attachment.watched_accesses,
                attachment.pid};
    TRY(auto events, run_watching(watch, code));
    for (Fd& each : events) events_.push_back(std::move(each));
    return {};
  }
  TRY(int code, program(attachment.code, Shape::PerfEvent, attachment.pid));
  SampledEvent event;
  event.type = attachment.kind == Kind::Hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE;
  event.event = attachment.kind == Kind::Profile ? uint64_t(PERF_COUNT_SW_CPU_CLOCK) : attachment.perf_event;
  event.period = attachment.period;
  TRY(auto events, run_sampled(event, code));
  for (Fd& each : events) events_.push_back(std::move(each));
  return {};
}

Status KernelEngine::run(uint32_t code) {
  if (code >= program_.codes.size())
    return fail(fmt::format("running code {}: the program has {}", code, program_.codes.size()));
  CodeKind kind = program_.codes[code].kind;
  if (kind != CodeKind::RunOnce && kind != CodeKind::Timer)
    return fail("running " + program_.codes[code].name + ": it is compiled for an event");
  TRY(int fd, program(code, Shape::TestRun));
  if (!run_once(fd)) return fail(Error::from_errno("running " + program_.codes[code].name, errno));
  return {};
}

Result<uint64_t> KernelEngine::cost_of_run() {
  constexpr int kRuns = 2000;
  codegen::Code nothing;
  nothing.name = "nothing";
  nothing.kind = CodeKind::RunOnce;
  nothing.instructions = {bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
                          bpf_insn{BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  TRY(Fd program, load_code(nothing, maps_, Shape::TestRun));
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; i++)
    if (!run_once(program.get())) return fail(Error::from_errno("running a program", errno));
  auto took = std::chrono::steady_clock::now() - start;
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()) / kRuns;
}

Result<const Map*> KernelEngine::map_at(uint32_t index) const {
  if (index >= maps_.size()) return fail(fmt::format("map {}: the program has {}", index, maps_.size()));
  return &maps_[index];
}

Status KernelEngine::for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) {
  TRY(const Map* found, map_at(map));
  return found->for_each(visit);
}

Result<std::optional<MapEntry>> KernelEngine::find_entry(uint32_t map, Bytes key) {
  TRY(const Map* found, map_at(map));
  return found->find(key);
}

Status KernelEngine::set_entry(uint32_t map, Bytes key, Bytes value) {
  TRY(const Map* found, map_at(map));
  return found->set(key, value);
}

Status KernelEngine::set_elements(uint32_t map, uint32_t first, Bytes values) {
  TRY(const Map* found, map_at(map));
  return found->set_elements(first, values);
}

Status KernelEngine::remove_entry(uint32_t map, Bytes key) {
  TRY(const Map* found, map_at(map));
  return found->remove(key);
}

Status KernelEngine::clear(uint32_t map) {
  TRY(const Map* found, map_at(map));
  return found->clear();
}

uint64_t KernelEngine::lost() {
  uint64_t sum = 0;
  for (const Map& map : maps_) {
    if (map.spec().name != "lost" || map.spec().kind != MapKind::PerCpuArray || map.spec().value_size != 8)
      continue;
    (void)map.for_each([&](const MapEntry& entry) {
      for (const auto& value : entry.values) sum += ByteReader(value).u64();
    });
  }
  return sum;
}

void KernelEngine::detach() {
  timers_.clear();
  std::vector<Fd> all = std::move(events_);
  events_.clear();
  for (AttachedUprobes& attached : uprobes_) {
    for (Fd& link : attached.links) all.push_back(std::move(link));
    attached.links.clear();
  }
  close_all(std::move(all));
  uprobes_.clear();  // the events of the tracefs way, which nobody uses any more
}

}  // namespace uscope::engine::kernel
