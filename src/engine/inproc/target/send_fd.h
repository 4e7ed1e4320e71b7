// Gives a stopped process an open file of ours, through a socket that it is made to open: it needs no rights
// of its own for that, and no name that the file could be opened by.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "process/remote_call.h"

namespace uscope::engine::inproc {

// The fd's number in the target, where it is close-on-exec.
Result<int> send_fd(process::SeizedProcess& process, process::RemoteCaller& caller, const Fd& file);

// The target's fd, opened here. pidfd_getfd needs no /proc of the target's pid namespace (Linux 5.6).
Result<Fd> open_remote_fd(pid_t pid, int fd);

}  // namespace uscope::engine::inproc
