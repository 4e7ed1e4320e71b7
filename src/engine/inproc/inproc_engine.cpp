#include "engine/inproc/inproc_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <thread>

#include "engine/inproc/hook_codes.h"
#include "engine/inproc/target/known_memory.h"
#include "process/memory_limit.h"
#include "process/surroundings.h"

namespace uscope::engine::inproc {
namespace {

using codegen::CodeKind;
using codegen::MapKind;
using AttachKind = Attachment::Kind;

// Nobody wakes the reader: a probe in the target makes no system call. So it looks often enough for a person.
constexpr std::chrono::milliseconds kLookEvery{5};
constexpr std::chrono::seconds kPublishEvery{1};
// A uscope that was stopped for an hour does not have to make up for every millisecond of it.
constexpr int kMostRunsAtOnce = 1000;

bool asks_for_ids(const codegen::Program& program) {
  return std::ranges::any_of(program.codes, [](const codegen::Code& code) {
    return std::ranges::any_of(code.instructions, [](const bpf_insn& each) {
      return each.code == (BPF_JMP | BPF_CALL) && each.imm == BPF_FUNC_get_current_pid_tgid;
    });
  });
}

SharedHeader& header_of(std::span<uint8_t> shared) { return *reinterpret_cast<SharedHeader*>(shared.data()); }

std::string why_not_here(AttachKind kind) {
  switch (kind) {
    case AttachKind::UserReturn:
      return "not every way out of it can be probed, and the in-process engine does not touch return "
             "addresses";
    case AttachKind::Profile:
    case AttachKind::Software:
    case AttachKind::Tracepoint:
      return "only the kernel sees such events; try --engine kernel";
    default:
      return "";
  }
}

bool calls(const codegen::Program& program, int32_t helper) {
  for (const codegen::Code& code : program.codes)
    for (const bpf_insn& each : code.instructions)
      if (each.code == (BPF_JMP | BPF_CALL) && each.src_reg == 0 && each.imm == helper) return true;
  return false;
}

}  // namespace

Status InprocEngine::load(const codegen::Program& program) {
  if (code_) return fail("an in-process engine loads one program");
  program_ = program;
  codegen::Program with_notices = program;
  const auto codes = uint32_t(program.codes.size());
  for (const codegen::Code& code :
       std::array{notice_code(kLibraryNotice), notice_code(kExecNotice), prctl_code(), syscall_code()})
    with_notices.codes.push_back(code);
  TRY(code_, TargetCode::compile(with_notices));
  const HookCodes hooks{codes, codes + 1, codes + 2, codes + 3, bool(life_options_.exec)};
  std::vector<Attachment> expected;
  if (!expected_.empty()) expected = with_hooks(pid_, expected_, hooks, facts_);
  TRY(deployment_, Deployment::start(pid_, *code_, expected, facts_));
  const std::span<uint8_t> shared = deployment_->shared();
  header_of(shared).most_waiting = uint32_t(std::clamp<uint64_t>(
      process::memory_limit_of(pid_) / kWaitingPart / kChunkBytes, kFewestWaiting, kMostWaiting));
  life_ = std::make_unique<TargetLife>(pid_, *deployment_, facts_, life_options_, hooks);
  if (asks_for_ids(program)) life_->set_shows_thread_ids();
  TRY_STATUS(publish());
  TRY(own_, OwnCode::place(*code_, shared));
  maps_.emplace(code_->shared_plan(), shared);
  for (uint32_t i = 0; i < program.maps.size(); ++i)
    if (program.maps[i].kind == MapKind::RingBuffer) rings_.emplace_back(code_->shared_plan(), i, shared);
  return {};
}

Status InprocEngine::publish() {
  published_ = Clock::now();
  SharedHeader& header = header_of(deployment_->shared());
  clock_.publish(header.clock);
  const bool wants_cgroup = calls(program_, BPF_FUNC_get_current_cgroup_id);
  if (!wants_cgroup && !calls(program_, codegen::kParentProcess)) return {};
  const auto around = process::surroundings_of(pid_);
  if (!around) return {};  // it has ended
  if (wants_cgroup && !around->cgroup)
    return fail(Error("the process's cgroup is not known: the unified hierarchy is not mounted here")
                    .with_hint("use --engine kernel"));
  header.cgroup_id = around->cgroup.value_or(0);
  const uint32_t next = header.parent_in_use + 1;
  auto& parent = header.parents[next & 1];
  parent.pid = uint64_t(around->parent);
  std::memset(parent.name, 0, sizeof parent.name);
  std::memcpy(parent.name, around->parent_name.data(), std::min<size_t>(around->parent_name.size(), 15));
  __atomic_store_n(&header.parent_in_use, next, __ATOMIC_RELEASE);
  return {};
}

Result<MapStore*> InprocEngine::maps() {
  if (!maps_) return fail("the engine has no program yet");
  return &*maps_;
}

Status InprocEngine::attach_event(const Attachment& attachment) {
  if (std::string why = why_not_here(attachment.kind); !why.empty()) return fail(why);
  if (attachment.period == 0) return fail("an interval of zero");
  const std::chrono::nanoseconds period(attachment.period);
  timers_.push_back({attachment.code, period, Clock::now() + period});
  return {};
}

Result<std::vector<AttachFailure>> InprocEngine::foresee() {
  if (!deployment_) return fail("planning without a program");
  TRY(std::vector<AttachFailure> failures, deployment_->foresee());
  // Those of our own hooks are nobody's business.
  std::erase_if(failures,
                [&](const AttachFailure& failure) { return failure.attachment >= expected_.size(); });
  for (size_t i = 0; i < expected_.size(); ++i)
    if (std::string why = why_not_here(expected_[i].kind); !why.empty())
      failures.push_back({i, 0, Error(why)});
  return failures;
}

Result<AttachReport> InprocEngine::attach(const std::vector<Attachment>& attachments) {
  if (!deployment_) return fail("attaching without a program");
  TRY(AttachReport report, life_->attach(attachments));
  if (deployment_->code().plan().reads_memory)
    report.remarks.push_back(how_memory_is_read(deployment_->places()));
  wakers_.push_back({life_->source().get(), POLLIN, 0});
  is_attached_ = true;
  for (size_t i = 0; i < attachments.size(); ++i) {
    if (attachments[i].kind == AttachKind::UserProbe) continue;
    if (auto status = attach_event(attachments[i]); !status) {
      const size_t sites = std::max<size_t>(1, attachments[i].sites.size());
      for (size_t site = 0; site < sites; ++site) report.failures.push_back({i, site, status.error()});
    } else {
      ++report.attached_sites;
    }
  }
  return report;
}

Status InprocEngine::run(uint32_t code) {
  if (!own_ || code >= program_.codes.size())
    return fail(fmt::format("running code {}: the program has {}", code, program_.codes.size()));
  const CodeKind kind = program_.codes[code].kind;
  if (kind != CodeKind::RunOnce && kind != CodeKind::Timer)
    return fail("running " + program_.codes[code].name + ": it is compiled for an event");
  own_->run(code);
  return {};
}

Status InprocEngine::run_due_timers() {
  for (Timer& timer : timers_) {
    // Each period counts, also when the reader came late: interval:ms:10 { @++ } is 100 after a second.
    for (int runs = 0; Clock::now() >= timer.next; ++runs) {
      if (runs == kMostRunsAtOnce) {
        timer.next = Clock::now() + timer.period;
        break;
      }
      timer.next += timer.period;
      TRY_STATUS(run(timer.code));
    }
  }
  return {};
}

size_t InprocEngine::read_records(const std::function<void(Bytes)>& on_record) {
  size_t count = 0;
  for (RingReader& ring : rings_) count += ring.read(on_record, !is_attached_);
  return count;
}

Result<size_t> InprocEngine::poll(std::chrono::milliseconds timeout,
                                  const std::function<void(Bytes)>& on_record) {
  if (!own_) return fail("polling an engine that has no program");
  const Clock::time_point give_up = Clock::now() + timeout;
  for (;;) {
    TRY_STATUS(run_due_timers());
    if (Clock::now() - published_ >= kPublishEvery) TRY_STATUS(publish());
    if (is_attached_) life_->look();
    if (size_t count = read_records(on_record); count > 0) return count;
    Clock::time_point until = std::min(give_up, Clock::now() + kLookEvery);
    for (const Timer& timer : timers_) until = std::min(until, timer.next);
    const auto left = until - Clock::now();
    if (Clock::now() >= give_up) return 0;
    // A signal is the caller's business: back to it at once.
    timespec pause{0, std::max<int64_t>(left.count(), 1000)};
    if (::ppoll(wakers_.data(), wakers_.size(), &pause, nullptr) == 0) continue;
    if (is_attached_) life_->look();
    return read_records(on_record);
  }
}

Status InprocEngine::wake_on(const Fd& source) {
  if (source.is_open()) wakers_.push_back({source.get(), POLLIN, 0});
  return {};
}

std::vector<std::string> InprocEngine::take_news() {
  std::vector<std::string> news = life_ ? life_->take_news() : std::vector<std::string>();
  std::ranges::move(std::exchange(last_news_, {}), std::back_inserter(news));
  return news;
}

Result<uint64_t> InprocEngine::cost_of_run() {
  if (!own_) return fail("measuring an engine that has no program");
  return 0;
}

uint64_t InprocEngine::lost() {
  if (!maps_) return 0;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < program_.maps.size(); ++i) {
    const codegen::MapSpec& spec = program_.maps[i];
    if (spec.name != "lost" || spec.kind != MapKind::PerCpuArray || spec.value_size != 8) continue;
    (void)maps_->for_each_entry(i, [&](const MapEntry& entry) {
      for (const auto& value : entry.values) sum += ByteReader(value).u64();
    });
  }
  const MapStore::Losses losses = maps_->losses();
  return sum + losses.nested_hits + losses.threadless_hits + losses.busy_updates;
}

Status InprocEngine::for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) {
  TRY(MapStore * store, maps());
  return store->for_each_entry(map, visit);
}

Result<std::optional<MapEntry>> InprocEngine::find_entry(uint32_t map, Bytes key) {
  TRY(MapStore * store, maps());
  return store->find_entry(map, key);
}

Status InprocEngine::set_entry(uint32_t map, Bytes key, Bytes value) {
  TRY(MapStore * store, maps());
  return store->set_entry(map, key, value);
}

Status InprocEngine::set_elements(uint32_t map, uint32_t first, Bytes values) {
  TRY(MapStore * store, maps());
  return store->set_elements(map, first, values);
}

Status InprocEngine::remove_entry(uint32_t map, Bytes key) {
  TRY(MapStore * store, maps());
  return store->remove_entry(map, key);
}

Status InprocEngine::clear(uint32_t map) {
  TRY(MapStore * store, maps());
  return store->clear(map);
}

void InprocEngine::detach() {
  timers_.clear();
  if (life_) life_->end();
  is_attached_ = false;
  if (deployment_ && !std::exchange(has_left_, true)) leave();
}

void InprocEngine::leave() {
  const auto removed = deployment_->detach();
  if (!removed && life_ && life_->has_left())
    last_news_.push_back(
        fmt::format("the memory of the probes stays in process {}: {}", pid_, removed.error().message()));
  else if (!removed)
    last_news_.push_back(
        fmt::format("the probes are still in process {}: {}; `uscope detach {}` takes them out", pid_,
                    removed.error().message(), pid_));
  else if (!removed->is_clean)
    last_news_.push_back(fmt::format(
        "the probes are out of process {}, but thread {} has not left uscope's code, so its memory "
        "stays; `uscope detach {}` takes it out later",
        pid_, removed->thread, pid_));
}

}  // namespace uscope::engine::inproc
