// Makes a stopped process run system calls. One of its threads is borrowed: registers and signal mask are set
// aside at begin() and put back at finish(), which the destructor calls too. All threads of the process stay
// stopped meanwhile, so nothing else in it sees the borrowed thread.
//
// Costs some 30 microseconds a call. Only calls that do not wait are meant: mmap, munmap, mprotect,
// memfd_create, ftruncate, close, getpid ...
//
// Not safe against SIGKILL of ourselves: between begin() and finish() the borrowed thread's own registers are
// known to us only. Who must not leave a broken target behind calls this from a small process of its own that
// nobody kills.
//
// Does not work on 32-bit programs. Under a seccomp filter that a call could trip over, begin() refuses: the
// filter may kill the target. With CAP_SYS_ADMIN filters are suspended instead.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/address.h"
#include "base/result.h"
#include "process/ptrace.h"

namespace uscope::process {

class RemoteCaller {
 public:
  static Result<RemoteCaller> begin(SeizedProcess& process);
  RemoteCaller(RemoteCaller&& other) noexcept;
  RemoteCaller& operator=(RemoteCaller&&) = delete;
  ~RemoteCaller() { (void)finish(); }

  // Puts the thread back as it was. Afterwards nothing can be called any more.
  Status finish();

  // What the kernel returned to the target: a result, or -errno. An Error means that the call could not be
  // made.
  Result<int64_t> call(long number, const std::array<uint64_t, 6>& arguments);

  // The common ones; here a -errno is an Error.
  Result<ProcessAddr> mmap(ProcessAddr where, uint64_t size, int protection, int flags, int fd,
                           FileOffset offset);
  Status munmap(ProcessAddr where, uint64_t size);
  // The fd is close-on-exec. The name may be seen in the target's /proc/PID/maps. It needs memory in the
  // target that can be written over: `scratch`, or a page for the time being.
  Result<int> memfd_create(std::string_view name, std::optional<ProcessAddr> scratch = std::nullopt);
  Status close(int fd);

 private:
  explicit RemoteCaller(SeizedProcess& process) : process_(&process) {}
  Status borrow_thread();
  Status allow_calls();
  Status leave_restartable_sequence();
  Status find_instruction();
  bool search(const struct Mapping& mapping);
  Status write_instruction();
  Status run_to_call_stop();
  Status checked(std::string_view what, int64_t result) const;

  SeizedProcess* process_;
  pid_t tid_ = 0;  // the borrowed thread; 0 when none is
  uint64_t signal_mask_ = 0;
  ProcessAddr instruction_;
  bool instruction_written_ = false;
  std::array<uint8_t, 2> original_bytes_{};
};

}  // namespace uscope::process
