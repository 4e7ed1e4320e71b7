// A child is given a file of ours.
#include "engine/inproc/target/send_fd.h"

#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/maps.h"

namespace uscope::engine::inproc {
namespace {

size_t count_fds(pid_t pid) {
  size_t count = 0;
  DIR* dir = opendir(fmt::format("/proc/{}/fd", pid).c_str());
  while (dir != nullptr && readdir(dir) != nullptr) count++;
  closedir(dir);
  return count;
}

TEST(SendFd, GivesAFileAndLeavesNothingElse) {
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  Fd file(memfd_create("sent", MFD_CLOEXEC));
  ASSERT_EQ(write(file.get(), "hello", 5), 5);
  const size_t fds = count_fds(child), mappings = process::Maps::of(child)->all().size();
  Status done = process::with_seized(child, {}, [&](process::SeizedProcess& process) -> Status {
    TRY(process::RemoteCaller caller, process::RemoteCaller::begin(process));
    TRY(const int sent, send_fd(process, caller, file));
    EXPECT_EQ(count_fds(child), fds + 1);
    TRY(ProcessAddr at, caller.mmap({0}, 4096, PROT_READ, MAP_SHARED, sent, {0}));
    TRY_STATUS(caller.close(sent));
    TRY(const std::string text, process.memory().read_cstring(at, 100));
    EXPECT_EQ(text, "hello");
    TRY_STATUS(caller.munmap(at, 4096));
    return caller.finish();
  });
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_EQ(count_fds(child), fds);
  EXPECT_EQ(process::Maps::of(child)->all().size(), mappings);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace uscope::engine::inproc
