// The part of Child that takes a command past exec and past the dynamic linker, to where nothing of its own
// or of its libraries has run.
#include <link.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "image/elf/elf_file.h"
#include "image/elf/symbols.h"
#include "process/beginnings.h"
#include "process/maps.h"
#include "process/memory.h"
#include "session/child.h"

namespace uscope::session {
namespace {

// How a dynamic linker tells debuggers that libraries are there: it calls an empty function, and `state` says
// what it is about to do or has done (r_debug.r_state).
struct LinkerNotice {
  ProcessAddr function, state;
};

std::optional<LinkerNotice> linker_notice(pid_t pid, ProcessAddr linker) {
  constexpr uint64_t kStateOffset = offsetof(r_debug, r_state);
  auto maps = process::Maps::of(pid);
  if (!maps || linker.value == 0) return std::nullopt;
  const process::Mapping* mapping = maps->find(linker);
  if (mapping == nullptr) return std::nullopt;
  auto path = process::path_to_mapped_file(pid, *mapping);
  if (!path) return std::nullopt;
  auto file = image::ElfFile::open(*path);
  if (!file) return std::nullopt;
  auto find = [&](const image::SymbolList& list, std::string_view name) -> std::optional<ProcessAddr> {
    for (const image::Symbol& symbol : list.symbols)
      if (symbol.name == name) return ProcessAddr{linker.value + symbol.address.value};
    return std::nullopt;
  };
  auto function = find(image::read_function_symbols(*file), "_dl_debug_state");
  auto state = find(image::read_data_symbols(*file), "_r_debug");
  if (!function || !state) return std::nullopt;
  return LinkerNotice{*function, *state + kStateOffset};
}

// Lets it run until it stops for a trap; other signals are its own.
Status run_to_trap(pid_t pid, __ptrace_request how) {
  int signal = 0;
  for (;;) {
    if (::ptrace(how, pid, nullptr, signal) != 0) return fail(Error::from_errno("starting it", errno));
    int status = 0;
    if (::waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
      return fail("it ended before its first instruction");
    signal = WSTOPSIG(status);
    if (signal == SIGTRAP) return {};
  }
}

// Lets it run to one of the places; it stops there before the instruction, as if nothing had been.
Result<ProcessAddr> run_to(pid_t pid, std::span<const ProcessAddr> places) {
  constexpr uint8_t kInt3 = 0xcc;
  TRY(process::RemoteMemory memory, process::RemoteMemory::open(pid));
  std::vector<uint8_t> original(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    TRY(original[i], memory.read_value<uint8_t>(places[i]));
    TRY_STATUS(memory.write(places[i], Bytes(&kInt3, 1)));
  }
  TRY_STATUS(run_to_trap(pid, PTRACE_CONT));
  for (size_t i = 0; i < places.size(); ++i) TRY_STATUS(memory.write(places[i], Bytes(&original[i], 1)));
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETREGS, pid, nullptr, &registers) != 0)
    return fail(Error::from_errno("reading its registers", errno));
  registers.rip -= 1;
  if (std::ranges::find(places, ProcessAddr{registers.rip}) == places.end())
    return fail("it did not come to its entry point");
  if (::ptrace(PTRACE_SETREGS, pid, nullptr, &registers) != 0)
    return fail(Error::from_errno("setting its registers", errno));
  return ProcessAddr{registers.rip};
}

// To where all its libraries are loaded and none of their constructors has run; where the dynamic linker does
// not say so, to the program's own entry.
Status run_to_beginning(pid_t pid) {
  TRY(const process::Beginnings beginnings, process::read_beginnings(pid));
  std::vector<ProcessAddr> places = {beginnings.entry};
  const auto notice = linker_notice(pid, beginnings.linker);
  if (notice) places.push_back(notice->function);
  TRY(process::RemoteMemory memory, process::RemoteMemory::open(pid));
  for (;;) {
    TRY(const ProcessAddr at, run_to(pid, places));
    if (at == beginnings.entry) return {};
    TRY(const int state, memory.read_value<int>(notice->state));
    if (state == r_debug::RT_CONSISTENT) return {};
    TRY_STATUS(run_to_trap(pid, PTRACE_SINGLESTEP));
  }
}

}  // namespace

Status Child::hold_at_entry() {
  const std::string doing = "starting " + name_;
  // Should we be killed now, a command with a breakpoint in it must not be left behind.
  if (::ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0)
    return fail(Error::from_errno(doing, errno));
  TRY_STATUS(execute());
  int status = 0;
  if (::waitpid(pid_, &status, __WALL) != pid_ || !WIFSTOPPED(status) ||
      status >> 8 != (SIGTRAP | (PTRACE_EVENT_EXEC << 8))) {
    if (WIFEXITED(status)) status_ = WEXITSTATUS(status);
    return fail(doing + ": it did not come to be executed");
  }
  return run_to_entry();
}

// From the first instruction of what was executed, with the process stopped there.
Status Child::run_to_entry() {
  const std::string doing = "starting " + name_;
  if (auto stopped = run_to_beginning(pid_); !stopped)
    return fail(std::move(stopped).error().while_doing(doing));
  if (!leash_) {
    TRY(Leash leash, Leash::put_on(pid_, end_));
    leash_.emplace(std::move(leash));
  }
  // It stops like a job in the terminal, without anybody attached, until release().
  if (::ptrace(PTRACE_DETACH, pid_, nullptr, SIGSTOP) != 0) return fail(Error::from_errno(doing, errno));
  is_at_entry_ = true;
  return {};
}

// What the command has to report while it is on its way. Signals are its own, and go on to it.
Child::Waited Child::wait_for_exec(pid_t& thread) {
  int status = 0;
  // A thread that executes something becomes the first one.
  for (pid_t tid : {thread, pid_}) {
    if (::waitpid(tid, &status, __WALL | WNOHANG) != tid) continue;
    if (!WIFSTOPPED(status)) {
      if (tid != pid_) continue;
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return Waited::Ended;
    }
    const int event = status >> 16;
    if (event == PTRACE_EVENT_EXEC) {
      thread = pid_;
      return Waited::Executed;
    }
    if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP)
      ::ptrace(PTRACE_LISTEN, tid, nullptr, nullptr);  // stopped as a job, and stays so
    else
      ::ptrace(PTRACE_CONT, tid, nullptr, event == 0 ? WSTOPSIG(status) : 0);
    return Waited::Nothing;
  }
  return Waited::Nothing;
}

Result<bool> Child::hold_at_next_entry(pid_t thread, const std::function<void()>& let_go) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::milliseconds(300);
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACEEXEC) != 0)
    return fail(Error::from_errno("following " + name_ + " through exec", errno));
  for (const auto give_up = Clock::now() + kPatience; Clock::now() < give_up;) {
    let_go();
    switch (wait_for_exec(thread)) {
      case Waited::Ended:
        return false;
      case Waited::Executed:
        ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL);
        TRY_STATUS(run_to_entry());
        return true;
      case Waited::Nothing:
        ::usleep(200);
    }
  }
  // The file could not be executed; a shell may look elsewhere now.
  ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  int status = 0;
  if (::waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) {
    if (thread == pid_) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return false;
  }
  const int event = status >> 16;
  ::ptrace(PTRACE_DETACH, thread, nullptr, event == 0 ? WSTOPSIG(status) : 0);
  return false;
}

}  // namespace uscope::session
