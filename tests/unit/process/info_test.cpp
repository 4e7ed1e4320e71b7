#include "process/info.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "child.h"
#include "process/maps.h"

namespace uscope::process {
namespace {

TEST(Status, ReadsWhatUscopeNeeds) {
  auto status = parse_status(
      "Name:\ta\\nb\\\\c \nState:\tS "
      "(sleeping)\nTgid:\t12\nTracerPid:\t7\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n"
      "NSpid:\t12\t3\nThreads:\t9\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000200\nSigBlk:"
      "\t00000000000000ff\n"
      "CapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t3\n");
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->name, "a\nb\\c ");
  EXPECT_EQ(status->state, 'S');
  EXPECT_EQ(status->tgid, 12);
  EXPECT_EQ(status->tracer, 7);
  EXPECT_EQ(status->real_uid, 1u);
  EXPECT_EQ(status->effective_uid, 2u);
  EXPECT_EQ(status->saved_gid, 7u);
  EXPECT_EQ(status->ns_pids, (std::vector<pid_t>{12, 3}));
  EXPECT_EQ(status->threads, 9u);
  EXPECT_EQ(status->pending_signals, 0x201u);
  EXPECT_EQ(status->blocked_signals, 0xffu);
  EXPECT_EQ(status->effective_capabilities, 0x1ffffffffffu);
  EXPECT_EQ(status->seccomp, Seccomp::Filter);
  EXPECT_EQ(status->seccomp_filters, 3u);
}

TEST(Status, OldKernelsLackFields) {
  auto status = parse_status("State:\tR (running)\n");
  ASSERT_TRUE(status.has_value());
  EXPECT_FALSE(status->seccomp_filters.has_value());
  EXPECT_FALSE(parse_status("").has_value());
}

TEST(Stat, ANameMayHoldAnything) {
  auto stat = parse_stat("7 (a) R (b) S 1 2 3 4 -1 2097152 6 7 8 9 10 11 12 13 14 15 16 17 4242 0 0\n");
  ASSERT_TRUE(stat.has_value()) << stat.error().message();
  EXPECT_EQ(stat->comm, "a) R (b");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_TRUE(stat->is_kernel_thread());
  EXPECT_EQ(stat->start_time, 4242u);
  EXPECT_FALSE(parse_stat("7 (a) S 1 2 3").has_value());
  EXPECT_FALSE(parse_stat(")(").has_value());
}

TEST(ReadProcess, KnowsThisProcess) {
  auto info = read_process(::getpid());
  ASSERT_TRUE(info.has_value()) << info.error().message();
  EXPECT_EQ(info->exe, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_FALSE(info->exe_deleted);
  EXPECT_FALSE(info->is_zombie);
  EXPECT_FALSE(info->is_kernel_thread);
  EXPECT_EQ(info->status.effective_uid, ::geteuid());
  ASSERT_FALSE(info->tids.empty());
  EXPECT_EQ(info->tids[0], ::getpid());
  EXPECT_TRUE(info->foreign_namespaces.empty());
  ASSERT_FALSE(info->cmdline.empty());
  EXPECT_TRUE(is_same_process(*info));
  info->start_time ^= 1;
  EXPECT_FALSE(is_same_process(*info));
}

TEST(PidArgument, SaysWhatIsWrong) {
  auto message = [](std::string_view argument) {
    auto info = read_pid_argument(argument);
    return info ? "fine" : info.error().message();
  };
  EXPECT_EQ(message("abc"), "'abc' is not a process id");
  EXPECT_EQ(message(""), "'' is not a process id");
  EXPECT_EQ(message("12x"), "'12x' is not a process id");
  EXPECT_EQ(message("-1"), "'-1' is not a process id");
  EXPECT_EQ(message("0"), "'0' is not a process id");
  EXPECT_EQ(message("99999999999"), "'99999999999' is not a process id");
  EXPECT_EQ(message("1073741823"), "no process 1073741823");
  EXPECT_EQ(message(std::to_string(::getpid())), "fine");
  auto kthreadd = read_process(2);
  if (kthreadd && kthreadd->comm == "kthreadd") {
    EXPECT_EQ(message("2"), "2 is a kernel thread (kthreadd)");
  }
}

TEST(PidArgument, AZombieIsSaidToBeOne) {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  siginfo_t exited;
  ASSERT_EQ(::waitid(P_PID, id_t(pid), &exited, WEXITED | WNOWAIT), 0);
  auto info = read_pid_argument(std::to_string(pid));
  ::waitpid(pid, nullptr, 0);
  ASSERT_FALSE(info.has_value());
  EXPECT_TRUE(info.error().message().starts_with(std::to_string(pid) + " is a zombie"))
      << info.error().message();
}

TEST(PidArgument, AThreadNamesItsProcess) {
  Child child([] {
    pthread_t thread;
    pthread_create(
        &thread, nullptr, [](void*) -> void* { return sleep_forever(), nullptr; }, nullptr);
    return sleep_forever();
  });
  std::vector<pid_t> tids;
  while (tids.size() < 2) tids = read_process(child.pid())->tids;
  auto info = read_pid_argument(std::to_string(tids[1]));
  ASSERT_FALSE(info.has_value());
  EXPECT_EQ(info.error().message(),
            fmt::format("{} is a thread of process {}; try {}", tids[1], child.pid(), child.pid()));
}

// The first thread ends, another goes on: /proc/PID itself then has no maps and no exe.
TEST(ReadProcess, SeesThroughADeadFirstThread) {
  Child child([] {
    pthread_t thread;
    pthread_create(
        &thread, nullptr, [](void*) -> void* { return sleep_forever(), nullptr; }, nullptr);
    ::syscall(SYS_exit, 0);  // of this thread only; pthread_exit would unwind through the test framework
    return 0;
  });
  Result<ProcessInfo> info = read_process(child.pid());
  while (info && !info->leader_is_dead) info = read_process(child.pid());
  ASSERT_TRUE(info.has_value());
  EXPECT_FALSE(info->is_zombie);
  EXPECT_EQ(info->exe, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_TRUE(read_pid_argument(std::to_string(child.pid())).has_value());
  EXPECT_TRUE(check_may_attach(*info).has_value());
  auto maps = Maps::of(child.pid());
  ASSERT_TRUE(maps.has_value());
  EXPECT_FALSE(maps->images().empty());
}

TEST(ReadProcess, ADeletedExecutableIsSaidSo) {
  std::string copy = std::filesystem::temp_directory_path() / fmt::format("uscope-sleep-{}", ::getpid());
  std::filesystem::copy_file("/bin/sleep", copy, std::filesystem::copy_options::overwrite_existing);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(copy.c_str(), "sleep", "60", nullptr);
    ::_exit(127);
  }
  Result<ProcessInfo> info = read_process(pid);
  // Within exec the link comes before the arguments.
  while (info && (info->exe != copy || info->cmdline.empty())) info = read_process(pid);
  std::filesystem::remove(copy);
  info = read_process(pid);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->exe, copy);
  EXPECT_TRUE(info->exe_deleted);
  EXPECT_EQ(info->cmdline, (std::vector<std::string>{"sleep", "60"}));
}

TEST(MayAttach, AnotherTracerIsNamed) {
  Child child([] { return sleep_forever(); });
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr), 0);
  auto may = check_may_attach(*read_process(child.pid()));
  ASSERT_FALSE(may.has_value());
  EXPECT_NE(may.error().message().find("already being traced by unit_process"), std::string::npos)
      << may.error().message();
}

TEST(MayAttach, SomebodyElsesProcessNamesItsOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "wants root to become somebody else";
  pid_t ours = ::getpid();
  Child child([ours] {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) return 1;
    auto info = read_process(ours);
    if (!info) return 2;
    auto may = check_may_attach(*info);
    if (may) return 3;
    return may.error().message() == "permission denied: it belongs to user root; try sudo" ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(UserName, ComesFromThePasswordFile) {
  EXPECT_EQ(user_name(0), "root");
  EXPECT_EQ(user_name(3999999999u), "3999999999");
}

}  // namespace
}  // namespace uscope::process
