#include "process/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "process/proc_dir.h"

namespace uscope::process {

Result<RemoteMemory> RemoteMemory::open(pid_t pid) {
  RemoteMemory memory;
  memory.pid_ = pid;
  memory.tid_ = living_thread(pid);
  const std::string path = proc_dir_of(pid, memory.tid_) + "/mem";
  memory.mem_ = Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  memory.writable_ = memory.mem_.is_open();
  if (!memory.mem_.is_open()) memory.mem_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (memory.mem_.is_open()) return memory;

  int why = errno;
  // Reading where nothing is mapped tells whether we may: "bad address", or that we may not.
  uint8_t byte;
  iovec ours{&byte, 1}, theirs{nullptr, 1};
  if (::process_vm_readv(memory.tid_, &ours, 1, &theirs, 1, 0) >= 0 || errno == EFAULT) return memory;
  return fail(Error::from_errno(fmt::format("opening the memory of process {}", pid), why));
}

size_t RemoteMemory::read_some(ProcessAddr address, std::span<uint8_t> out) const {
  size_t done = 0;
  while (done < out.size()) {
    ssize_t got;
    if (mem_.is_open()) {
      // Addresses above 2^63 (the vsyscall page) are negative offsets, which pread refuses: nothing is read.
      got = ::pread(mem_.get(), out.data() + done, out.size() - done, off_t(address.value + done));
    } else {
      iovec ours{out.data() + done, out.size() - done};
      // Only pages that can be read come over; the kernel stops at the first other.
      iovec theirs{reinterpret_cast<void*>(address.value + done), out.size() - done};
      got = ::process_vm_readv(tid_, &ours, 1, &theirs, 1, 0);
    }
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += size_t(got);
  }
  return done;
}

Status RemoteMemory::read(ProcessAddr address, std::span<uint8_t> out) const {
  if (size_t got = read_some(address, out); got < out.size())
    return fail(fmt::format("reading {} bytes at {:#x} of process {}: {:#x} is not readable", out.size(),
                            address.value, pid_, address.value + got));
  return {};
}

Result<std::string> RemoteMemory::read_cstring(ProcessAddr address, size_t limit) const {
  std::string text;
  std::array<uint8_t, 256> chunk;
  while (text.size() < limit) {
    size_t wanted = std::min(chunk.size(), limit - text.size());
    size_t got = read_some(address + text.size(), std::span(chunk).first(wanted));
    std::string_view part = as_text(Bytes(chunk).first(got));
    size_t nul = part.find('\0');
    text += part.substr(0, nul);
    if (nul != part.npos) return text;
    if (got < wanted)
      return fail(fmt::format("reading text at {:#x} of process {}: {:#x} is not readable", address.value,
                              pid_, address.value + text.size()));
  }
  return text;
}

Status RemoteMemory::write(ProcessAddr address, Bytes bytes) {
  const std::string doing =
      fmt::format("writing {} bytes at {:#x} of process {}", bytes.size(), address.value, pid_);
  if (!writable_) return fail(doing + ": the process's memory could be opened for reading only");
  for (size_t done = 0; done < bytes.size();) {
    ssize_t put = ::pwrite(mem_.get(), bytes.data() + done, bytes.size() - done, off_t(address.value + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail(Error::from_errno(doing, errno));
    // Writing to an address space that has ended gives 0, not an error.
    if (put == 0) return fail(doing + ": the process has ended");
    done += size_t(put);
  }
  return {};
}

}  // namespace uscope::process
