#include "process/remote_call.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "process/info.h"
#include "process/maps.h"
#include "process/tracee.h"

namespace uscope::process {
namespace {

constexpr std::array<uint8_t, 2> kSyscall = {0x0f, 0x05};
constexpr auto kPatience = std::chrono::seconds(2);
constexpr uint64_t kPage = 4096;

// Newer than the C library's headers.
constexpr auto kGetRseqConfiguration = __ptrace_request(0x420f);    // Linux 5.13
constexpr auto kGetSyscallUserDispatch = __ptrace_request(0x4211);  // Linux 6.4
constexpr uint64_t kSuspendSeccomp = 1u << 21;

struct RseqConfiguration {
  uint64_t pointer;
  uint32_t size, signature, flags, padding;
};
struct RseqCriticalSection {
  uint32_t version, flags;
  uint64_t start, length, abort;
};
struct SyscallUserDispatch {
  uint64_t mode, selector, offset, length;
};

// Wine and the like turn system calls from outside their own code into signals.
bool diverts_calls(pid_t tid) {
  SyscallUserDispatch config{};
  return ::ptrace(kGetSyscallUserDispatch, tid, sizeof config, &config) == 0 && config.mode != 0;
}

// Lower is better. A thread that sleeps in a system call is in no delicate piece of its own code; one that is
// about to take a signal must take it first.
int preference(const SeizedThread& thread, const user_regs_struct& registers) {
  if (thread.held_signal != 0) return 2;
  return is_in_call(registers) ? 0 : 1;
}

Error gone(pid_t pid) { return Error(fmt::format("process {} ended during a remote system call", pid)); }

}  // namespace

RemoteCaller::RemoteCaller(RemoteCaller&& other) noexcept
    : process_(other.process_),
      tid_(std::exchange(other.tid_, 0)),
      signal_mask_(other.signal_mask_),
      instruction_(other.instruction_),
      instruction_written_(std::exchange(other.instruction_written_, false)),
      original_bytes_(other.original_bytes_) {}

Result<RemoteCaller> RemoteCaller::begin(SeizedProcess& process) {
  RemoteCaller caller(process);
  TRY_STATUS(caller.borrow_thread());
  TRY_STATUS(caller.allow_calls());
  TRY_STATUS(caller.leave_restartable_sequence());
  TRY_STATUS(caller.find_instruction());
  return caller;
}

Status RemoteCaller::borrow_thread() {
  SeizedThread* best = nullptr;
  int best_preference = 0;
  const char* why_none = "it has no thread left";
  for (SeizedThread& thread : process_->threads_) {
    auto registers = get_registers(thread.tid);
    if (!registers) continue;  // killed meanwhile
    if (!is_64_bit(*registers)) {
      why_none = "it is a 32-bit program";
    } else if (diverts_calls(thread.tid)) {
      why_none = "it handles its system calls itself (syscall user dispatch, as Wine does)";
    } else if (int here = preference(thread, *registers); !best || here < best_preference) {
      best = &thread;
      best_preference = here;
    }
    if (best && best_preference == 0) break;
  }
  if (!best)
    return fail(fmt::format("process {} cannot be made to run system calls: {}", process_->pid(), why_none));
  if (best->held_signal != 0) {
    // Let it take the signal, and stop again before it runs any of its own code.
    int signal = std::exchange(best->held_signal, 0);
    ::ptrace(PTRACE_INTERRUPT, best->tid, nullptr, nullptr);
    ::ptrace(PTRACE_CONT, best->tid, nullptr, signal);
    Stop stop = wait_for_stop(process_->pid(), best->tid, std::chrono::steady_clock::now() + kPatience);
    best->stopped = stop.kind != StopKind::Running && stop.kind != StopKind::Gone;
    best->held_signal = stop.signal;
    if (stop.kind != StopKind::Trap) return fail(gone(process_->pid()));
  }
  TRY(user_regs_struct registers, get_registers(best->tid));
  TRY(signal_mask_, get_signal_mask(best->tid));
  // With its signals blocked they stay queued where they are, instead of reaching us to be handed back.
  TRY_STATUS(set_signal_mask(best->tid, ~uint64_t(0)));
  best->set_aside = registers;
  tid_ = best->tid;
  return {};
}

Status RemoteCaller::allow_calls() {
  auto read_status = [](const std::string& path) -> Result<StatusFile> {
    TRY(std::string text, read_text_file(path));
    return parse_status(text);
  };
  TRY(StatusFile theirs, read_status(fmt::format("/proc/{}/task/{}/status", process_->pid(), tid_)));
  if (theirs.seccomp == Seccomp::Off) return {};
  if (::ptrace(PTRACE_SETOPTIONS, tid_, nullptr, PTRACE_O_TRACESYSGOOD | kSuspendSeccomp) == 0) return {};
  // In a container the runtime puts one filter on every process, on us as on the target. One that lets us
  // live will let the target live; a filter that the program added itself makes its count higher than ours.
  TRY(StatusFile ours, read_status("/proc/thread-self/status"));
  bool same_filters = theirs.seccomp == Seccomp::Filter && ours.seccomp == Seccomp::Filter &&
                      theirs.seccomp_filters && ours.seccomp_filters &&
                      *theirs.seccomp_filters <= *ours.seccomp_filters;
  if (same_filters) return {};
  return fail(
      Error(fmt::format("process {} is under a seccomp filter that could kill it for a system call of ours",
                        process_->pid()))
          .with_hint("with CAP_SYS_ADMIN the filter can be suspended; try sudo"));
}

// A thread may be inside a restartable sequence (rseq), which the kernel aborts whenever the thread is
// preempted, but would not notice once the thread has run elsewhere on our behalf. So do what the kernel
// would do.
Status RemoteCaller::leave_restartable_sequence() {
  RseqConfiguration config{};
  if (::ptrace(kGetRseqConfiguration, tid_, sizeof config, &config) <= 0 || config.pointer == 0) return {};
  const ProcessAddr pointer_field{config.pointer + 8};
  auto section_at = process_->memory().read_value<uint64_t>(pointer_field);
  if (!section_at || *section_at == 0) return {};
  auto section = process_->memory().read_value<RseqCriticalSection>({*section_at});
  if (!section) return {};
  user_regs_struct& registers = *process_->find(tid_)->set_aside;
  if (registers.rip - section->start < section->length) registers.rip = section->abort;
  constexpr uint64_t kNone = 0;
  return process_->memory().write(pointer_field, {reinterpret_cast<const uint8_t*>(&kNone), sizeof kNone});
}

Status RemoteCaller::find_instruction() {
  TRY(Maps maps, Maps::of(process_->pid()));
  const Mapping* vdso = maps.find_path("[vdso]");
  if (vdso && search(*vdso)) return {};
  for (const Mapping& mapping : maps.all())
    if (mapping.perms.execute && search(mapping)) return {};
  // A program without a single one (no C library, no vDSO): write one over code that nobody runs now.
  for (const Mapping& mapping : maps.all()) {
    if (!mapping.perms.execute || mapping.perms.shared || mapping.kind == MappingKind::Special) continue;
    instruction_ = mapping.start;
    if (write_instruction()) return {};
  }
  return fail(fmt::format("process {} has no code that a system call could be made from", process_->pid()));
}

bool RemoteCaller::search(const Mapping& mapping) {
  std::vector<uint8_t> chunk(1 << 16);
  for (ProcessAddr at = mapping.start; at < mapping.end;) {
    size_t wanted = std::min<uint64_t>(chunk.size(), mapping.end - at);
    size_t got = process_->memory().read_some(at, std::span(chunk).first(wanted));
    auto found = std::ranges::search(std::span(chunk).first(got), kSyscall);
    if (!found.empty()) {
      instruction_ = at + size_t(found.begin() - std::span(chunk).begin());
      return true;
    }
    if (got < wanted || wanted < chunk.size()) return false;
    at = at + (wanted - 1);  // the instruction may lie across two chunks
  }
  return false;
}

Status RemoteCaller::write_instruction() {
  TRY(original_bytes_, (process_->memory().read_value<std::array<uint8_t, 2>>(instruction_)));
  instruction_written_ = true;
  TRY_STATUS(process_->memory().write(instruction_, kSyscall));
  TRY(auto written, (process_->memory().read_value<std::array<uint8_t, 2>>(instruction_)));
  if (written != kSyscall) return fail("the instruction that was written cannot be read back");
  return {};
}

Status RemoteCaller::run_to_call_stop() {
  int signal = 0;
  for (;;) {
    if (::ptrace(PTRACE_SYSCALL, tid_, nullptr, signal) != 0) return fail(gone(process_->pid()));
    Stop stop = wait_for_stop(process_->pid(), tid_, std::chrono::steady_clock::now() + kPatience);
    switch (stop.kind) {
      case StopKind::Call:
        return {};
      case StopKind::Trap:
        signal = 0;
        break;
      case StopKind::Signal:
        // All are blocked but SIGSTOP, which must take its course; anything else the call itself has caused.
        if (stop.signal != SIGSTOP)
          return fail(fmt::format("a remote system call in process {} raised signal {}", process_->pid(),
                                  stop.signal));
        signal = stop.signal;
        break;
      case StopKind::Gone:
        process_->find(tid_)->stopped = false;
        return fail(gone(process_->pid()));
      case StopKind::Running:
        return fail(fmt::format("a remote system call in process {} does not return", process_->pid()));
    }
  }
}

Result<int64_t> RemoteCaller::call(long number, const std::array<uint64_t, 6>& arguments) {
  if (tid_ == 0) return fail("the borrowed thread has been given back");
  // -512 to -516: a signal came in the way, and the kernel asks for the call to be made again.
  constexpr int kTries = 10;
  int64_t result = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    user_regs_struct registers = *process_->find(tid_)->set_aside;
    registers.rip = instruction_.value;
    registers.rax = uint64_t(number);
    registers.orig_rax = ~uint64_t(0);  // not in a call: nothing for the kernel to restart
    registers.rdi = arguments[0];
    registers.rsi = arguments[1];
    registers.rdx = arguments[2];
    registers.r10 = arguments[3];
    registers.r8 = arguments[4];
    registers.r9 = arguments[5];
    TRY_STATUS(set_registers(tid_, registers));
    TRY_STATUS(run_to_call_stop());
    TRY(user_regs_struct entered, get_registers(tid_));
    if (long(entered.orig_rax) != number || entered.rip != instruction_.value + kSyscall.size())
      return fail(fmt::format("process {} did not enter the system call it was led to", process_->pid()));
    TRY_STATUS(run_to_call_stop());
    TRY(user_regs_struct left, get_registers(tid_));
    result = int64_t(left.rax);
    if (result > -512 || result < -516) break;
  }
  return result;
}

Status RemoteCaller::finish() {
  if (tid_ == 0) return {};
  const pid_t tid = std::exchange(tid_, 0);
  SeizedThread* thread = process_->find(tid);
  Status status;
  if (std::exchange(instruction_written_, false))
    status = process_->memory().write(instruction_, original_bytes_);
  if (!thread || !thread->stopped) return fail(gone(process_->pid()));
  // From the exit of our call the kernel would not look at the result of the call that the thread was stopped
  // in, and so not restart it. It does so when it comes from a trap.
  int signal = 0;
  for (bool trapped = false; !trapped;) {
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    ::ptrace(PTRACE_CONT, tid, nullptr, signal);
    Stop stop = wait_for_stop(process_->pid(), tid, std::chrono::steady_clock::now() + kPatience);
    if (stop.kind == StopKind::Gone || stop.kind == StopKind::Running) {
      thread->stopped = false;
      thread->set_aside.reset();
      return fail(gone(process_->pid()));
    }
    trapped = stop.kind == StopKind::Trap;
    signal = stop.kind == StopKind::Signal && stop.signal == SIGSTOP ? SIGSTOP : 0;
  }
  const user_regs_struct registers = *std::exchange(thread->set_aside, std::nullopt);
  TRY_STATUS(set_registers(tid, registers));
  TRY_STATUS(set_signal_mask(tid, signal_mask_));
  return status;
}

Status RemoteCaller::checked(std::string_view what, int64_t result) const {
  if (result < 0 && result >= -4095)
    return fail(Error::from_errno(fmt::format("{} in process {}", what, process_->pid()), int(-result)));
  return {};
}

Result<ProcessAddr> RemoteCaller::mmap(ProcessAddr where, uint64_t size, int protection, int flags, int fd,
                                       FileOffset offset) {
  TRY(int64_t result, call(SYS_mmap, {where.value, size, uint64_t(protection), uint64_t(flags),
                                      uint64_t(int64_t(fd)), offset.value}));
  TRY_STATUS(checked("mmap", result));
  return ProcessAddr{uint64_t(result)};
}

Status RemoteCaller::munmap(ProcessAddr where, uint64_t size) {
  TRY(int64_t result, call(SYS_munmap, {where.value, size}));
  return checked("munmap", result);
}

Result<int> RemoteCaller::memfd_create(std::string_view name, std::optional<ProcessAddr> scratch) {
  // A stack is no place for the name: a goroutine's may end right there.
  ProcessAddr place = scratch.value_or(ProcessAddr{0});
  if (!scratch) {
    TRY(place, mmap({0}, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, {0}));
  }
  std::string text(name.substr(0, 200));
  text.push_back('\0');
  auto written = process_->memory().write(place, as_bytes(text));
  Result<int64_t> fd = written ? call(SYS_memfd_create, {place.value, MFD_CLOEXEC | MFD_ALLOW_SEALING})
                               : fail(written.error());
  if (!scratch) TRY_STATUS(munmap(place, kPage));
  if (!fd) return fail(std::move(fd).error());
  TRY_STATUS(checked("memfd_create", *fd));
  return int(*fd);
}

Status RemoteCaller::close(int fd) {
  TRY(int64_t result, call(SYS_close, {uint64_t(fd)}));
  return checked("close", result);
}

}  // namespace uscope::process
