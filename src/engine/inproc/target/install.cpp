#include "engine/inproc/target/install.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/inproc/target/signal_frames.h"
#include "engine/inproc/target/text_writer.h"
#include "process/maps.h"

namespace uscope::engine::inproc {
namespace {

class Installation {
 public:
  Installation(process::SeizedProcess& process, std::span<const Patch> patches,
               std::span<const GoRuntime> go_runtimes)
      : process_(process),
        patches_(patches),
        go_runtimes_(go_runtimes),
        left_out_(patches.size(), false),
        may_pass_(patches.size(), false),
        text_(process.pid(), process.memory()) {}

  Result<InstallReport> run();

 private:
  // The patch that destroys the instruction at an address, by index.
  std::optional<size_t> patch_around(ProcessAddr address) const;
  static const Patch::Place* place_of(const Patch& patch, ProcessAddr address);
  void leave_out(size_t patch, std::string reason, bool may_pass = false);
  void verify_bytes();
  // Those that cannot stand without one that is left out.
  void leave_out_dependents();
  bool leave_out_those_without_hole();
  bool leave_out_rest_of_bundles();
  Status find_moves();
  void find_parked_goroutines(const std::vector<ProcessAddr>& stacks);
  Status move_all();
  Status write();

  struct ThreadMove {
    pid_t tid;
    user_regs_struct registers;
    size_t patch;
    ProcessAddr to;
  };
  struct FrameMove {
    ProcessAddr kept_at;
    size_t patch;
    ProcessAddr to;
  };

  process::SeizedProcess& process_;
  std::span<const Patch> patches_;
  std::span<const GoRuntime> go_runtimes_;
  std::vector<bool> left_out_, may_pass_;
  TextWriter text_;
  std::vector<ThreadMove> thread_moves_;
  std::vector<FrameMove> frame_moves_;
  InstallReport report_;
};

std::optional<size_t> Installation::patch_around(ProcessAddr address) const {
  auto after = std::ranges::upper_bound(patches_, address, {}, &Patch::address);
  if (after == patches_.begin()) return std::nullopt;
  const size_t index = size_t(after - patches_.begin()) - 1;
  // At its very start a thread simply takes the jump.
  const Patch& patch = patches_[index];
  if (address == patch.address || address >= patch.end()) return std::nullopt;
  return index;
}

const Patch::Place* Installation::place_of(const Patch& patch, ProcessAddr address) {
  auto found = std::ranges::find(patch.places, address, &Patch::Place::original);
  return found == patch.places.end() ? nullptr : &*found;
}

void Installation::leave_out(size_t patch, std::string reason, bool may_pass) {
  if (left_out_[patch]) return;
  left_out_[patch] = true;
  may_pass_[patch] = may_pass;
  report_.refused.push_back({patch, std::move(reason), may_pass});
}

void Installation::verify_bytes() {
  text_.read(patches_, [&](size_t i, Bytes now) {
    if (now.empty())
      leave_out(i, fmt::format("nothing is mapped at {:#x} any more", patches_[i].address.value));
    else if (!std::ranges::equal(now, patches_[i].original_bytes()))
      leave_out(i, fmt::format("the code at {:#x} is not what its file says: something else has changed it",
                               patches_[i].address.value));
  });
}

bool Installation::leave_out_those_without_hole() {
  const size_t before = report_.refused.size();
  for (size_t i = 0; i < patches_.size(); ++i) {
    if (patches_[i].via.value == 0 || left_out_[i]) continue;
    auto after = std::ranges::upper_bound(patches_, patches_[i].via, {}, &Patch::address);
    const size_t hole = size_t(after - patches_.begin()) - 1;
    const bool is_known = after != patches_.begin() && patches_[hole].contains(patches_[i].via);
    if (!is_known || left_out_[hole])
      leave_out(i, fmt::format("the bytes at {:#x} cannot be had for its jump", patches_[i].via.value),
                is_known && may_pass_[hole]);
  }
  return report_.refused.size() != before;
}

bool Installation::leave_out_rest_of_bundles() {
  std::map<ProcessAddr, InstallReport::Refusal> broken;
  for (const InstallReport::Refusal& refusal : report_.refused) {
    const ProcessAddr bundle = patches_[refusal.patch].bundle;
    if (bundle.value != 0) broken.try_emplace(bundle, refusal).first->second.may_pass &= refusal.may_pass;
  }
  if (broken.empty()) return false;
  const size_t before = report_.refused.size();
  for (size_t i = 0; i < patches_.size(); ++i)
    if (auto found = broken.find(patches_[i].bundle); found != broken.end())
      leave_out(i, found->second.reason, found->second.may_pass);
  // One that will not pass holds back those that would.
  for (InstallReport::Refusal& refusal : report_.refused)
    if (auto found = broken.find(patches_[refusal.patch].bundle); found != broken.end())
      may_pass_[refusal.patch] = refusal.may_pass = found->second.may_pass;
  return report_.refused.size() != before;
}

void Installation::leave_out_dependents() {
  if (report_.refused.empty()) return;
  for (bool is_changing = true; is_changing;) {
    is_changing = leave_out_those_without_hole();
    is_changing |= leave_out_rest_of_bundles();
  }
}

// A program counter inside a window but at none of its instructions is nothing that execution can produce: a
// jump into the window that the analysis did not see. Such a window stays as it is.
Status Installation::find_moves() {
  TRY(process::Maps maps, process::Maps::of(process_.pid()));
  SignalFrames frames(process_.memory(), maps);
  auto consider = [&](ProcessAddr at) -> std::optional<std::pair<size_t, ProcessAddr>> {
    auto patch = patch_around(at);
    if (!patch) return std::nullopt;
    if (const Patch::Place* place = place_of(patches_[*patch], at)) return std::pair(*patch, place->copy);
    leave_out(*patch,
              fmt::format("a thread is at {:#x}, where no instruction was thought to start", at.value));
    return std::nullopt;
  };
  std::vector<ProcessAddr> stacks;
  for (const process::SeizedThread& thread : process_.threads()) {
    auto registers = process_.registers(thread.tid);
    if (!registers) continue;  // killed meanwhile
    stacks.push_back({registers->rsp});
    if (auto move = consider({registers->rip}))
      thread_moves_.push_back({thread.tid, *registers, move->first, move->second});
    frames.visit({registers->rsp}, [&](ProcessAddr kept_at, ProcessAddr saved) {
      if (auto move = consider(saved)) frame_moves_.push_back({kept_at, move->first, move->second});
      if (auto interrupted = saved_stack_pointer(process_.memory(), kept_at)) stacks.push_back(*interrupted);
    });
  }
  find_parked_goroutines(stacks);
  return {};
}

// The runtime must know every place where a goroutine is parked, and finds no function around our copies when
// it collects garbage: so such a goroutine is not moved, its place is left alone.
void Installation::find_parked_goroutines(const std::vector<ProcessAddr>& stacks) {
  for (const GoRuntime& runtime : go_runtimes_) {
    Goroutines goroutines(process_.memory(), runtime);
    goroutines.visit(stacks, [&](ProcessAddr, ProcessAddr word) {
      auto patch = patch_around(word);
      if (patch && place_of(patches_[*patch], word) != nullptr)
        leave_out(*patch,
                  fmt::format("a goroutine is parked at {:#x}, inside the bytes to patch", word.value), true);
    });
  }
}

Status Installation::move_all() {
  for (ThreadMove& move : thread_moves_) {
    if (left_out_[move.patch]) continue;
    move.registers.rip = move.to.value;
    if (process_.set_registers(move.tid, move.registers)) ++report_.moved_threads;
  }
  for (const FrameMove& move : frame_moves_) {
    if (left_out_[move.patch]) continue;
    const uint64_t to = move.to.value;
    TRY_STATUS(process_.memory().write(move.kept_at, as_bytes({reinterpret_cast<const char*>(&to), 8})));
    ++report_.moved_frames;
  }
  return {};
}

Status Installation::write() {
  const std::vector<bool> not_tried = left_out_;
  const std::vector<size_t> failed = text_.write(
      patches_, [&](size_t i) { return left_out_[i] ? Bytes() : patches_[i].replacement_bytes(); });
  if (!failed.empty()) {
    for (size_t i : failed)
      leave_out(i, fmt::format("the code at {:#x} cannot be written", patches_[i].address.value));
    leave_out_dependents();
    text_.write(patches_, [&](size_t i) {
      return left_out_[i] && !not_tried[i] ? patches_[i].original_bytes() : Bytes();
    });
  }
  bool all_right = true;
  text_.read(patches_, [&](size_t i, Bytes now) {
    all_right &= left_out_[i] || std::ranges::equal(now, patches_[i].replacement_bytes());
  });
  if (all_right) return {};
  // Threads that were moved go on in the copies, which do the same.
  text_.write(patches_, [&](size_t i) { return left_out_[i] ? Bytes() : patches_[i].original_bytes(); });
  return fail("code that was written does not read back; all of it was put back as it was");
}

Result<InstallReport> Installation::run() {
  verify_bytes();
  TRY_STATUS(find_moves());
  leave_out_dependents();
  TRY_STATUS(move_all());
  TRY_STATUS(write());
  return std::move(report_);
}

}  // namespace

Result<InstallReport> install(process::SeizedProcess& process, std::span<const Patch> patches,
                              std::span<const GoRuntime> go_runtimes) {
  return Installation(process, patches, go_runtimes).run();
}

}  // namespace uscope::engine::inproc
