#include "engine/inproc/target/send_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "process/proc_dir.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kPage = 4096;

// What a message with one fd needs, as it lies in the target.
struct Letter {
  msghdr header{};
  iovec part{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  char byte = 0;

  // With the addresses that it has at `where`.
  void address(uint64_t where) {
    part = {reinterpret_cast<void*>(where + offsetof(Letter, byte)), 1};
    header.msg_iov = reinterpret_cast<iovec*>(where + offsetof(Letter, part));
    header.msg_iovlen = 1;
    header.msg_control = reinterpret_cast<void*>(where + offsetof(Letter, control));
    header.msg_controllen = sizeof control;
  }
};

Status post(int socket, const Fd& file) {
  Letter letter;
  letter.address(uint64_t(&letter));
  auto* control = reinterpret_cast<cmsghdr*>(letter.control);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  if (::sendmsg(socket, &letter.header, MSG_NOSIGNAL) != 1)
    return fail(Error::from_errno("sending a file to the target", errno));
  return {};
}

class Receiver {
 public:
  Receiver(process::SeizedProcess& process, process::RemoteCaller& caller)
      : process_(process), caller_(caller) {}

  Result<int> receive(const Fd& file) {
    TRY(page_, caller_.mmap({0}, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, {0}));
    TRY(int64_t made,
        caller_.call(SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, page_.value, 0, 0}));
    if (made != 0) return fail(Error::from_errno("opening a socket in the target", int(-made)));
    TRY(sockets_, process_.memory().read_value<Sockets>(page_));
    TRY(Fd ours, open_remote_fd(process_.pid(), sockets_.ends[0]));
    TRY_STATUS(post(ours.get(), file));
    Letter letter;
    letter.address(page_.value);
    TRY_STATUS(process_.memory().write(page_, {reinterpret_cast<const uint8_t*>(&letter), sizeof letter}));
    TRY(int64_t got, caller_.call(SYS_recvmsg, {uint64_t(sockets_.ends[1]), page_.value,
                                                MSG_DONTWAIT | MSG_CMSG_CLOEXEC, 0, 0, 0}));
    if (got != 1) return fail(Error::from_errno("receiving a file in the target", int(-got)));
    TRY(letter, process_.memory().read_value<Letter>(page_));
    const auto* control = reinterpret_cast<const cmsghdr*>(letter.control);
    if (letter.header.msg_controllen < CMSG_LEN(sizeof(int)) || control->cmsg_type != SCM_RIGHTS)
      return fail("the target cannot have another file open");
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return fd;
  }

  ~Receiver() {
    for (int end : sockets_.ends)
      if (end >= 0) (void)caller_.close(end);
    if (page_.value != 0) (void)caller_.munmap(page_, kPage);
  }

 private:
  struct Sockets {
    int ends[2] = {-1, -1};
  };
  process::SeizedProcess& process_;
  process::RemoteCaller& caller_;
  ProcessAddr page_{0};
  Sockets sockets_;
};

}  // namespace

Result<Fd> open_remote_fd(pid_t pid, int fd) {
  Fd process(int(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.is_open()) {
    Fd copy(int(::syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
    if (copy.is_open()) return copy;
  }
  const std::string path = fmt::format("{}/fd/{}", process::living_proc_dir(pid), fd);
  Fd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened.is_open()) return fail(Error::from_errno("opening " + path, errno));
  return opened;
}

Result<int> send_fd(process::SeizedProcess& process, process::RemoteCaller& caller, const Fd& file) {
  return Receiver(process, caller).receive(file);
}

}  // namespace uscope::engine::inproc
