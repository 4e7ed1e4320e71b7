#include "engine/inproc/target/remove.h"

#include <algorithm>
#include <thread>

#include "engine/inproc/target/signal_frames.h"
#include "engine/inproc/target/text_writer.h"
#include "process/info.h"
#include "process/maps.h"
#include "process/ptrace.h"
#include "process/remote_call.h"

namespace uscope::engine::inproc {
namespace {

using Clock = std::chrono::steady_clock;

bool is_in(const std::vector<AddressSpan>& spans, ProcessAddr address) {
  return std::ranges::any_of(spans, [&](const AddressSpan& span) { return span.contains(address); });
}

class Removal {
 public:
  Removal(pid_t pid, const std::vector<JournalContents>& journals) : pid_(pid) {
    report_.sessions = journals.size();
    for (const JournalContents& journal : journals) {
      for (const Patch& patch : journal.patches) (patch.goes_last ? last_ : patches_).push_back(patch);
      mappings_.insert(mappings_.end(), journal.mappings.begin(), journal.mappings.end());
      code_.insert(code_.end(), journal.code.begin(), journal.code.end());
      stacks_.insert(stacks_.end(), journal.stacks.begin(), journal.stacks.end());
      semaphores_.insert(semaphores_.end(), journal.semaphores.begin(), journal.semaphores.end());
    }
    std::ranges::sort(patches_, {}, &Patch::address);
    for (const Patch& patch : last_) code_.push_back({patch.address, patch.size});
  }

  Result<RemoveReport> run(const RemoveOptions& options);
  Result<bool> unmap_if_unused(process::SeizedProcess& process);

 private:
  Status stop_once(process::SeizedProcess& process);
  bool is_still_there(const process::Maps& maps) const;
  // Which of them are in the code now.
  std::vector<bool> find_ours(process::SeizedProcess& process, std::span<Patch> patches);
  void restore(process::SeizedProcess& process, std::span<const Patch> patches,
               const std::vector<bool>& is_ours);
  void count_semaphores_down(process::SeizedProcess& process);
  Status lead_out_of_holes(process::SeizedProcess& process, SignalFrames& frames,
                           const std::vector<bool>& is_ours);
  std::optional<ProcessAddr> out_of_hole(ProcessAddr at, const std::vector<bool>& is_ours) const;
  // One that is in our code, or will be when a signal handler returns; 0: none. The one that waits comes
  // last.
  pid_t find_user(process::SeizedProcess& process, SignalFrames& frames);
  Status unmap(process::SeizedProcess& process);

  pid_t pid_;
  std::vector<Patch> patches_;  // by address
  std::vector<Patch> last_;     // those that our own code uses
  std::vector<AddressSpan> mappings_, code_, stacks_;
  std::vector<ProcessAddr> semaphores_;  // that are still to be counted down
  uint64_t waits_ = 0;
  bool only_waits_ = false;
  RemoveReport report_;
};

// An exec takes everything of ours away, and another program may now be at the same addresses.
bool Removal::is_still_there(const process::Maps& maps) const {
  return std::ranges::any_of(mappings_, [&](const AddressSpan& span) {
    const process::Mapping* mapping = maps.find(span.start);
    return mapping != nullptr && mapping->kind == process::MappingKind::Memfd;
  });
}

std::vector<bool> Removal::find_ours(process::SeizedProcess& process, std::span<Patch> patches) {
  std::vector<bool> is_ours(patches.size(), false);
  TextWriter(process.pid(), process.memory()).read(patches, [&](size_t i, Bytes now) {
    Patch& patch = patches[i];
    is_ours[i] = patch.is_in(now);
    // Another tracer's breakpoint stays, with the rest of its instruction behind it.
    if (is_ours[i] && now[0] == breakpoint) patch.original[0] = breakpoint;
    if (!is_ours[i] && !now.empty() && !std::ranges::equal(now, patch.original_bytes())) ++report_.changed;
  });
  return is_ours;
}

void Removal::restore(process::SeizedProcess& process, std::span<const Patch> patches,
                      const std::vector<bool>& is_ours) {
  TextWriter(process.pid(), process.memory()).write(patches, [&](size_t i) {
    return is_ours[i] ? patches[i].original_bytes() : Bytes();
  });
  report_.restored += uint64_t(std::ranges::count(is_ours, true));
}

void Removal::count_semaphores_down(process::SeizedProcess& process) {
  for (ProcessAddr semaphore : semaphores_) count_semaphore(process.memory(), semaphore, -1);
  semaphores_.clear();
}

// Once the original bytes are back, what was the hole may be an instruction of the program's.
std::optional<ProcessAddr> Removal::out_of_hole(ProcessAddr at, const std::vector<bool>& is_ours) const {
  auto after = std::ranges::upper_bound(patches_, at, {}, &Patch::address);
  if (after == patches_.begin()) return std::nullopt;
  const Patch& patch = *std::prev(after);
  if (!is_ours[size_t(&patch - patches_.data())]) return std::nullopt;
  if (!patch.hole_offset || at != patch.address + *patch.hole_offset) return std::nullopt;
  return patch.hole_target();
}

// A thread that has taken a short jump and stands at the hole would run into the padding.
Status Removal::lead_out_of_holes(process::SeizedProcess& process, SignalFrames& frames,
                                  const std::vector<bool>& is_ours) {
  Status status;
  for (const process::SeizedThread& thread : process.threads()) {
    auto registers = process.registers(thread.tid);
    if (!registers) continue;
    if (auto to = out_of_hole({registers->rip}, is_ours)) {
      registers->rip = to->value;
      (void)process.set_registers(thread.tid, *registers);
    }
    frames.visit({registers->rsp}, [&](ProcessAddr kept_at, ProcessAddr saved) {
      if (auto to = out_of_hole(saved, is_ours); to && status)
        status = process.memory().write(kept_at, as_bytes({reinterpret_cast<const char*>(&to->value), 8}));
    });
  }
  return status;
}

pid_t Removal::find_user(process::SeizedProcess& process, SignalFrames& frames) {
  pid_t waiting = 0;
  for (const process::SeizedThread& thread : process.threads()) {
    auto registers = process.registers(thread.tid);
    if (!registers) continue;
    bool in_use = is_in(code_, {registers->rip}) || is_in(stacks_, {registers->rsp});
    frames.visit({registers->rsp}, [&](ProcessAddr, ProcessAddr saved) { in_use |= is_in(code_, saved); });
    if (!in_use) continue;
    if (waits_ == 0 || registers->fs_base != waits_) return thread.tid;
    waiting = thread.tid;
  }
  only_waits_ = waiting != 0;
  return waiting;
}

Status Removal::unmap(process::SeizedProcess& process) {
  TRY(process::RemoteCaller caller, process::RemoteCaller::begin(process));
  // The journals last: should this be cut short, they still tell what is left.
  for (const AddressSpan& mapping : mappings_) TRY_STATUS(caller.munmap(mapping.start, mapping.size));
  return caller.finish();
}

Status Removal::stop_once(process::SeizedProcess& process) {
  TRY(process::Maps maps, process::Maps::of(pid_));
  report_.is_clean = true;
  report_.thread = 0;
  if (!is_still_there(maps)) return {};
  SignalFrames frames(process.memory(), maps);
  report_.changed = 0;
  const std::vector<bool> is_ours = find_ours(process, patches_);
  TRY_STATUS(lead_out_of_holes(process, frames, is_ours));
  restore(process, patches_, is_ours);
  report_.thread = find_user(process, frames);
  report_.is_clean = report_.thread == 0;
  if (!report_.is_clean) return {};
  restore(process, last_, find_ours(process, last_));
  // In the stop in which the journal goes that says so: nobody counts them down twice. Where it cannot go,
  // the next to come does it.
  TRY_STATUS(unmap(process));
  count_semaphores_down(process);
  return {};
}

Result<bool> Removal::unmap_if_unused(process::SeizedProcess& process) {
  TRY(process::Maps maps, process::Maps::of(pid_));
  SignalFrames frames(process.memory(), maps);
  if (find_user(process, frames) != 0) return false;
  TRY_STATUS(unmap(process));
  return true;
}

Result<RemoveReport> Removal::run(const RemoveOptions& options) {
  const Clock::time_point give_up = Clock::now() + options.patience;
  waits_ = options.waits;
  for (auto pause = std::chrono::microseconds(200);;
       pause = std::min(pause * 2, std::chrono::microseconds(50000))) {
    Clock::time_point began;
    process::SeizeOptions seizing;
    seizing.patience =
        std::max(seizing.hold, std::chrono::ceil<std::chrono::milliseconds>(give_up - Clock::now()));
    Status status = process::with_seized(pid_, seizing, [&](process::SeizedProcess& process) {
      began = Clock::now();
      Status done = stop_once(process);
      report_.stopped_ns = std::max(report_.stopped_ns, uint64_t((Clock::now() - began).count()));
      return done;
    });
    ++report_.rounds;
    if (!status) {
      auto info = process::read_process(pid_);
      if (!info || info->is_zombie) return report_;  // it has ended, and all with it
      return fail(std::move(status).error());
    }
    if (report_.is_clean || only_waits_ || Clock::now() >= give_up) return report_;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

// A semaphore that is gone (its library was unloaded) has nothing to be counted down.
void count_semaphore(process::RemoteMemory& memory, ProcessAddr at, int by) {
  auto value = memory.read_value<uint16_t>(at);
  if (!value || (by < 0 && *value == 0)) return;
  const auto now = uint16_t(*value + by);
  (void)memory.write(at, as_bytes({reinterpret_cast<const char*>(&now), sizeof now}));
}

Result<bool> unmap_if_unused(process::SeizedProcess& process, const JournalContents& journal) {
  return Removal(process.pid(), {journal}).unmap_if_unused(process);
}

Result<RemoveReport> remove(pid_t pid, const std::vector<JournalContents>& journals,
                            const RemoveOptions& options) {
  if (journals.empty()) return RemoveReport();
  return Removal(pid, journals).run(options);
}

}  // namespace uscope::engine::inproc
