// The memory of another process. Reading goes through /proc/PID/mem, whose open file keeps meaning the same
// address space even when the process execs or its pid is reused; where that file cannot be opened, through
// process_vm_readv. Writing goes through the file only, and also reaches pages the process itself may not
// write (its code: such a page becomes private to the process, the file behind it is not changed). Does not
// stop the process: what is read may change under way. One RemoteMemory may be used by several threads at
// once.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <type_traits>

#include "base/address.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace uscope::process {

class RemoteMemory {
 public:
  // Fails when we may not attach to the process or it is gone. A RemoteMemory of a process that ends later
  // reads nothing any more.
  static Result<RemoteMemory> open(pid_t pid);

  // Reads into `out` as far as memory is readable from `address` on; the number of bytes, 0 when there is
  // none.
  size_t read_some(ProcessAddr address, std::span<uint8_t> out) const;
  // All of `out`, or an Error.
  Status read(ProcessAddr address, std::span<uint8_t> out) const;
  template <typename T>
  requires std::is_trivially_copyable_v<T> Result<T> read_value(ProcessAddr address)
  const {
    T value{};
    TRY_STATUS(read(address, {reinterpret_cast<uint8_t*>(&value), sizeof value}));
    return value;
  }
  // The text up to its NUL, at most `limit` bytes of it. An Error when unreadable memory comes first.
  Result<std::string> read_cstring(ProcessAddr address, size_t limit) const;

  // All of `bytes`, or an Error; a part may have been written then.
  Status write(ProcessAddr address, Bytes bytes);

 private:
  pid_t pid_ = 0;
  pid_t tid_ = 0;  // a thread that was alive when we opened: process_vm_readv wants one
  Fd mem_;
  bool writable_ = false;
};

}  // namespace uscope::process
