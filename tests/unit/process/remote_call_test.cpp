#include "process/remote_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "child.h"
#include "process/info.h"
#include "process/maps.h"
#include "process/ptrace.h"

namespace uscope::process {
namespace {

std::string message(const Status& status) { return status ? "fine" : status.error().message(); }

std::string maps_of(pid_t pid) { return read_text_file(fmt::format("/proc/{}/maps", pid)).value_or(""); }

// Runs work with a RemoteCaller on the process.
Status with_caller(pid_t pid, const std::function<Status(SeizedProcess&, RemoteCaller&)>& work) {
  return with_seized(pid, {}, [&](SeizedProcess& process) -> Status {
    TRY(RemoteCaller caller, RemoteCaller::begin(process));
    TRY_STATUS(work(process, caller));
    return caller.finish();
  });
}

TEST(RemoteCall, SharesMemoryWithTheTargetAndLeavesNoTrace) {
  Child child([] { return sleep_forever(); });
  const std::string before = maps_of(child.pid());
  Status status = with_caller(child.pid(), [&](SeizedProcess& process, RemoteCaller& caller) -> Status {
    TRY(int fd, caller.memfd_create("uscope test"));
    int ours = ::open(fmt::format("/proc/{}/fd/{}", child.pid(), fd).c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(ours, 0);
    EXPECT_EQ(::ftruncate(ours, 8192), 0);
    TRY(ProcessAddr area, caller.mmap({0}, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, {0}));
    TRY_STATUS(caller.close(fd));
    EXPECT_NE(maps_of(child.pid()).find("/memfd:uscope test (deleted)"), std::string::npos);
    EXPECT_EQ(::pwrite(ours, "shared", 6, 4096), 6);
    EXPECT_EQ(process.memory().read_cstring(area + 4096, 100).value_or(""), "shared");
    ::close(ours);
    return caller.munmap(area, 8192);
  });
  EXPECT_EQ(message(status), "fine");
  EXPECT_EQ(maps_of(child.pid()), before);
  EXPECT_FALSE(
      std::filesystem::exists(fmt::format("/proc/{}/fd/3", child.pid())) &&
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/3", child.pid())).string().find("uscope") !=
          std::string::npos);
}

TEST(RemoteCall, PassesSixArgumentsAndGivesErrorsBack) {
  Child child([] { return sleep_forever(); });
  Status status = with_caller(child.pid(), [](SeizedProcess& process, RemoteCaller& caller) -> Status {
    TRY(ProcessAddr area, caller.mmap({0x700000000000}, 4096, PROT_READ,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, {0}));
    EXPECT_EQ(area.value, 0x700000000000u);
    auto again =
        caller.mmap(area, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, {0});
    EXPECT_EQ(again ? "fine" : again.error().message(),
              fmt::format("mmap in process {}: File exists", process.pid()));
    TRY(int64_t bad, caller.call(SYS_close, {12345}));
    EXPECT_EQ(bad, -EBADF);
    TRY(int64_t offset, caller.call(SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE, uint64_t(-1), 1}));
    EXPECT_EQ(offset, -EINVAL);  // the sixth argument is looked at
    return caller.munmap(area, 4096);
  });
  EXPECT_EQ(message(status), "fine");
}

TEST(RemoteCall, TheBorrowedThreadsRegistersAreStillItsOwn) {
  Child child([] { return sleep_forever(); });
  Status status = with_seized(child.pid(), {}, [&](SeizedProcess& process) -> Status {
    TRY(user_regs_struct before, process.registers(child.pid()));
    TRY(RemoteCaller caller, RemoteCaller::begin(process));
    TRY([[maybe_unused]] int64_t pid, caller.call(SYS_getpid, {}));
    TRY(user_regs_struct during, process.registers(child.pid()));
    EXPECT_EQ(std::memcmp(&before, &during, sizeof before), 0);
    during.r15 = 77;
    TRY_STATUS(process.set_registers(child.pid(), during));
    TRY_STATUS(caller.finish());
    TRY(user_regs_struct after, process.registers(child.pid()));
    EXPECT_EQ(after.r15, 77u);
    after.r15 = before.r15;
    EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
    EXPECT_FALSE(caller.call(SYS_getpid, {}).has_value());
    return process.set_registers(child.pid(), before);
  });
  EXPECT_EQ(message(status), "fine");
}

// Allows what the child needs to sleep, and kills it for anything else.
void enter_seccomp() {
  auto allow = [](unsigned number, unsigned char skip) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, skip, 0);
  };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      allow(SYS_pause, 4),
      allow(SYS_write, 3),
      allow(SYS_close, 2),
      allow(SYS_exit_group, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    ::_exit(98);
}

Status map_and_unmap(SeizedProcess&, RemoteCaller& caller) {
  TRY(ProcessAddr area, caller.mmap({0}, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, {0}));
  return caller.munmap(area, 4096);
}

// Back in its sleep, once it has been given the processor: let go, it is still runnable for a while on a busy
// machine. A killed one would be a zombie for ever.
bool comes_to_sleep(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    auto info = read_process(pid);
    if (!info || info->is_zombie) return false;
    if (info->status.state == 'S') return true;
    ::usleep(10000);
  }
  return false;
}

TEST(RemoteCall, ASeccompFilterIsSuspendedByRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "wants root";
  Child child([] { return sleep_forever(); }, enter_seccomp);
  ASSERT_EQ(read_process(child.pid())->status.seccomp, Seccomp::Filter);
  EXPECT_EQ(message(with_caller(child.pid(), map_and_unmap)), "fine");
  EXPECT_TRUE(comes_to_sleep(child.pid()));
}

TEST(RemoteCall, ASeccompFilterIsRefusedToOrdinaryUsersAndTheTargetLives) {
  Child tracer([] {
    if (::geteuid() == 0 && (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0))
      return 1;
    ::prctl(PR_SET_DUMPABLE, 1);
    Child child([] { return sleep_forever(); },
                [] {
                  ::prctl(PR_SET_DUMPABLE, 1);
                  enter_seccomp();
                });
    auto plain = with_seized(child.pid(), {}, [](SeizedProcess&) { return Status(); });
    if (!plain) return 2;
    auto refused = with_caller(child.pid(), map_and_unmap);
    if (refused || refused.error().message().find("seccomp filter that could kill it") == std::string::npos)
      return 3;
    return comes_to_sleep(child.pid()) ? 0 : 4;
  });
  EXPECT_EQ(tracer.wait(), 0);
}

TEST(RemoteCall, AnOrdinaryUserNeedsNoPrivilege) {
  Child tracer([] {
    if (::geteuid() == 0 && (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0))
      return 1;
    ::prctl(PR_SET_DUMPABLE, 1);
    Child child([] { return sleep_forever(); });
    return with_caller(child.pid(), map_and_unmap) ? 0 : 2;
  });
  EXPECT_EQ(tracer.wait(), 0);
}

class BuiltProgram : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / fmt::format("uscope-call-{}", ::getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  // Compiles C and gives the program's path; empty when there is no compiler.
  std::string build(const std::string& source, const std::string& flags) {
    std::string c = directory_ / "p.c", program = directory_ / "p";
    std::ofstream(c) << source;
    return std::system(fmt::format("cc -O1 {} -o {} {} 2>/dev/null", flags, program, c).c_str()) == 0
               ? program
               : "";
  }
  std::filesystem::path directory_;
};

pid_t start(const std::string& program) {
  pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::execl(program.c_str(), program.c_str(), nullptr);
  ::_exit(127);
}
void finish(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// No C library: where the kernel maps no vDSO either, there is no `syscall` instruction anywhere in the
// process.
TEST_F(BuiltProgram, WithoutASyscallInstruction) {
  std::string program =
      build("void _start(void) { volatile long n = 0; for (;;) ++n; }", "-nostdlib -static");
  if (program.empty()) GTEST_SKIP() << "no C compiler";
  pid_t pid = start(program);
  while (read_process(pid)->exe != program || Maps::of(pid)->images().empty()) ::usleep(1000);
  auto maps = Maps::of(pid);
  const Mapping code = maps->images().at(0).mappings.at(0);
  auto text = [&](RemoteMemory& memory) {
    std::vector<uint8_t> bytes(code.size());
    EXPECT_EQ(memory.read_some(code.start, bytes), bytes.size());
    return bytes;
  };
  auto memory = RemoteMemory::open(pid);
  const auto before = text(*memory);
  for (int round = 0; round < 20; ++round) EXPECT_EQ(message(with_caller(pid, map_and_unmap)), "fine");
  EXPECT_EQ(text(*memory), before);
  EXPECT_EQ(read_process(pid)->status.state, 'R');
  finish(pid);
}

TEST_F(BuiltProgram, ThatExecsItselfWithThreadsAllTheTime) {
  std::string program = build(R"(
    #include <pthread.h>
    #include <unistd.h>
    static char* self;
    static void* wait(void* x) { for (;;) pause(); return x; }
    static void* again(void* x) { usleep(300); execl(self, self, (char*)0); _exit(9); return x; }
    int main(int argc, char** argv) {
      pthread_t t;
      self = argv[0];
      for (int i = 0; i < 3; ++i) pthread_create(&t, 0, wait, 0);
      pthread_create(&t, 0, again, 0);
      wait(argv);
    })",
                              "-pthread");
  if (program.empty()) GTEST_SKIP() << "no C compiler";
  pid_t pid = start(program);
  int done = 0;
  for (int round = 0; round < 300; ++round) {
    Status status = with_caller(pid, map_and_unmap);
    // An exec can come between; that is said and harms nothing.
    done += status.has_value();
  }
  EXPECT_GT(done, 100);
  auto info = read_process(pid);
  EXPECT_TRUE(info.has_value() && !info->is_zombie);
  finish(pid);
}

TEST_F(BuiltProgram, Of32BitsIsRefused) {
  std::string program = build("void _start(void) { for (;;); }", "-m32 -nostdlib -static");
  if (program.empty()) GTEST_SKIP() << "no 32-bit compiler";
  pid_t pid = start(program);
  auto info = read_process(pid);
  while (info && !info->is_zombie && info->exe != program) info = read_process(pid);
  if (!info || info->is_zombie) {
    finish(pid);
    GTEST_SKIP() << "no 32-bit programs here";
  }
  EXPECT_NE(message(with_caller(pid, map_and_unmap)).find("32-bit"), std::string::npos);
  EXPECT_EQ(read_process(pid)->status.state, 'R');
  finish(pid);
}

}  // namespace
}  // namespace uscope::process
