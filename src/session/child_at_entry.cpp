// The part of Child that takes a command to its entry point: past exec, past the dynamic linker.
#include <elf.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/bytes.h"
#include "process/memory.h"
#include "session/child.h"

namespace uscope::session {
namespace {

Result<ProcessAddr> entry_point(pid_t pid) {
  TRY(std::string auxv, read_text_file(fmt::format("/proc/{}/auxv", pid)));
  for (ByteReader reader(as_bytes(auxv)); reader.remaining() >= 16;) {
    const uint64_t type = reader.u64(), value = reader.u64();
    if (type == AT_ENTRY) return ProcessAddr{value};
  }
  return fail(fmt::format("process {} has no entry point", pid));
}

// Lets it run until it stops for a trap; other signals are its own.
Status run_to_trap(pid_t pid) {
  int signal = 0;
  for (;;) {
    if (::ptrace(PTRACE_CONT, pid, nullptr, signal) != 0)
      return fail(Error::from_errno("starting it", errno));
    int status = 0;
    if (::waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
      return fail("it ended before its first instruction");
    signal = WSTOPSIG(status);
    if (signal == SIGTRAP) return {};
  }
}

Status stop_at(pid_t pid, ProcessAddr entry) {
  constexpr uint8_t kInt3 = 0xcc;
  TRY(process::RemoteMemory memory, process::RemoteMemory::open(pid));
  TRY(uint8_t original, memory.read_value<uint8_t>(entry));
  TRY_STATUS(memory.write(entry, Bytes(&kInt3, 1)));
  TRY_STATUS(run_to_trap(pid));
  TRY_STATUS(memory.write(entry, Bytes(&original, 1)));
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETREGS, pid, nullptr, &registers) != 0)
    return fail(Error::from_errno("reading its registers", errno));
  if (registers.rip != entry.value + 1) return fail("it did not come to its entry point");
  registers.rip = entry.value;
  if (::ptrace(PTRACE_SETREGS, pid, nullptr, &registers) != 0)
    return fail(Error::from_errno("setting its registers", errno));
  return {};
}

}  // namespace

Status Child::hold_at_entry() {
  const std::string doing = "starting " + name_;
  // Should we be killed now, a command with a breakpoint in it must not be left behind.
  if (::ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0)
    return fail(Error::from_errno(doing, errno));
  TRY_STATUS(release());
  int status = 0;
  if (::waitpid(pid_, &status, __WALL) != pid_ || !WIFSTOPPED(status) ||
      status >> 8 != (SIGTRAP | (PTRACE_EVENT_EXEC << 8))) {
    if (WIFEXITED(status)) status_ = WEXITSTATUS(status);
    return fail(doing + ": it did not come to be executed");
  }
  auto entry = entry_point(pid_);
  if (!entry) return fail(std::move(entry).error().while_doing(doing));
  if (auto stopped = stop_at(pid_, *entry); !stopped)
    return fail(std::move(stopped).error().while_doing(doing));
  // It stops like a job in the terminal, without anybody attached, until release().
  if (::ptrace(PTRACE_DETACH, pid_, nullptr, SIGSTOP) != 0) return fail(Error::from_errno(doing, errno));
  is_at_entry_ = true;
  return {};
}

}  // namespace uscope::session
