#include "process/seccomp_filter.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "child.h"
#include "process/ptrace.h"

namespace uscope::process {
namespace {

using Filter = std::vector<sock_filter>;
using enum FilterOutcome;

constexpr unsigned kNumber = offsetof(seccomp_data, nr), kArch = offsetof(seccomp_data, arch),
                   kPointer = offsetof(seccomp_data, instruction_pointer),
                   kFirst = offsetof(seccomp_data, args);
constexpr unsigned kError = SECCOMP_RET_ERRNO | 1;

sock_filter load(unsigned offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter give(unsigned result) { return BPF_STMT(BPF_RET | BPF_K, result); }
sock_filter is(unsigned value, unsigned char yes, unsigned char no) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}

FilterOutcome outcome(const Filter& filter, CallToCome call = {SYS_gettid, false, false, 0}) {
  return outcome_of(filter, call);
}

TEST(SeccompFilter, EachResultIsWhatTheKernelMakesOfIt) {
  EXPECT_EQ(outcome({give(SECCOMP_RET_ALLOW)}), Passes);
  EXPECT_EQ(outcome({give(SECCOMP_RET_LOG)}), Passes);
  EXPECT_EQ(outcome({give(kError)}), Fails);
  EXPECT_EQ(outcome({give(SECCOMP_RET_ERRNO)}), Harms);  // a success that is none
  EXPECT_EQ(outcome({give(SECCOMP_RET_KILL_PROCESS)}), Harms);
  EXPECT_EQ(outcome({give(SECCOMP_RET_KILL_THREAD)}), Harms);
  EXPECT_EQ(outcome({give(SECCOMP_RET_TRAP)}), Harms);
  EXPECT_EQ(outcome({give(SECCOMP_RET_TRACE)}), Harms);
  EXPECT_EQ(outcome({give(SECCOMP_RET_USER_NOTIF)}), Harms);
  EXPECT_EQ(outcome({give(0x12340000)}), Harms);
}

TEST(SeccompFilter, NumberAndArchitectureAreKnown) {
  const Filter filter = {load(kArch),   is(AUDIT_ARCH_X86_64, 1, 0), give(SECCOMP_RET_KILL_PROCESS),
                         load(kNumber), is(SYS_gettid, 0, 1),        give(SECCOMP_RET_ALLOW),
                         give(kError)};
  EXPECT_EQ(outcome(filter, {SYS_gettid, false, false, 0}), Passes);
  EXPECT_EQ(outcome(filter, {SYS_getpid, false, false, 0}), Fails);
}

TEST(SeccompFilter, WhatIsNotKnownGoesBothWays) {
  for (unsigned offset : {kPointer, kPointer + 4, kFirst, kFirst + 4, kFirst + 8, kFirst + 44}) {
    EXPECT_EQ(outcome({load(offset), is(7, 0, 1), give(SECCOMP_RET_KILL_PROCESS), give(SECCOMP_RET_ALLOW)}),
              Harms);
    EXPECT_EQ(outcome({load(offset), is(7, 0, 1), give(SECCOMP_RET_ALLOW), give(kError)}), Fails);
  }
  const Filter by_first = {load(kFirst), is(16, 0, 1), give(SECCOMP_RET_ALLOW),
                           give(SECCOMP_RET_KILL_PROCESS)};
  EXPECT_EQ(outcome(by_first, {SYS_prctl, false, true, 16}), Passes);
  EXPECT_EQ(outcome(by_first, {SYS_prctl, false, true, 17}), Harms);
  EXPECT_EQ(outcome({load(kFirst + 4), is(1, 0, 1), give(SECCOMP_RET_ALLOW), give(kError)},
                    {SYS_prctl, false, true, uint64_t(1) << 32}),
            Passes);
  EXPECT_EQ(outcome({load(kFirst), BPF_STMT(BPF_RET | BPF_A, 0)}), Harms);
}

TEST(SeccompFilter, Comparisons) {
  auto after = [](unsigned short operation, unsigned value) {
    return outcome({load(kNumber), sock_filter BPF_JUMP(uint16_t(BPF_JMP | operation | BPF_K), value, 0, 1),
                    give(SECCOMP_RET_ALLOW), give(kError)});
  };
  EXPECT_EQ(after(BPF_JGT, SYS_gettid - 1), Passes);
  EXPECT_EQ(after(BPF_JGT, SYS_gettid), Fails);
  EXPECT_EQ(after(BPF_JGE, SYS_gettid), Passes);
  EXPECT_EQ(after(BPF_JGE, SYS_gettid + 1), Fails);
  EXPECT_EQ(after(BPF_JSET, 2), Passes);  // 186 is 0xba
  EXPECT_EQ(after(BPF_JSET, 4), Fails);
  EXPECT_EQ(outcome({BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, SYS_gettid), load(kNumber),
                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1), give(SECCOMP_RET_ALLOW), give(kError)}),
            Passes);
  EXPECT_EQ(outcome({BPF_STMT(BPF_JMP | BPF_JA, 1), give(SECCOMP_RET_KILL_PROCESS), give(SECCOMP_RET_ALLOW)}),
            Passes);
}

// A result that is calculated: each of these makes `expected` of 186.
TEST(SeccompFilter, Arithmetic) {
  struct Case {
    unsigned short operation;
    uint32_t by, expected;
  };
  for (const Case& one :
       {Case{BPF_ADD, 3, 189}, Case{BPF_SUB, 200, uint32_t(-14)}, Case{BPF_MUL, 2, 372}, Case{BPF_DIV, 4, 46},
        Case{BPF_AND, 0xf, 10}, Case{BPF_OR, 1, 187}, Case{BPF_XOR, 0xff, 69}, Case{BPF_LSH, 4, 2976},
        Case{BPF_RSH, 1, 93}, Case{BPF_NEG, 0, uint32_t(-186)}}) {
    auto given = [&](unsigned value) {
      return outcome({load(kNumber), sock_filter BPF_STMT(uint16_t(BPF_ALU | one.operation | BPF_K), one.by),
                      is(value, 0, 1), give(SECCOMP_RET_ALLOW), give(kError)});
    };
    EXPECT_EQ(given(one.expected), Passes) << one.operation;
    EXPECT_EQ(given(one.expected + 1), Fails) << one.operation;
  }
  // By a number that may be 0 the kernel's answer is to kill.
  EXPECT_EQ(outcome({load(kFirst), BPF_STMT(BPF_MISC | BPF_TAX, 0), load(kNumber),
                     BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), give(SECCOMP_RET_ALLOW)}),
            Harms);
}

TEST(SeccompFilter, MemoryHoldsWhatWasPutThere) {
  EXPECT_EQ(outcome({load(kNumber), BPF_STMT(BPF_ST, 3), load(kArch), BPF_STMT(BPF_LD | BPF_MEM, 3),
                     is(SYS_gettid, 0, 1), give(SECCOMP_RET_ALLOW), give(kError)}),
            Passes);
  // Two ways that leave different numbers there meet: neither is certain.
  EXPECT_EQ(outcome({load(kFirst), is(1, 0, 1), BPF_STMT(BPF_LD | BPF_IMM, 5), BPF_STMT(BPF_ST, 0),
                     BPF_STMT(BPF_LD | BPF_MEM, 0), is(5, 0, 1), give(SECCOMP_RET_ALLOW),
                     give(SECCOMP_RET_KILL_PROCESS)}),
            Harms);
}

TEST(SeccompFilter, WhatIsNoFilterHarms) {
  EXPECT_EQ(outcome({}), Harms);
  EXPECT_EQ(outcome({load(kNumber)}), Harms);  // runs off its end
  EXPECT_EQ(outcome({is(1, 200, 200), give(SECCOMP_RET_ALLOW)}), Harms);
  EXPECT_EQ(outcome({BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0), give(SECCOMP_RET_ALLOW)}), Harms);
  EXPECT_EQ(outcome({BPF_STMT(BPF_ST, 16), give(SECCOMP_RET_ALLOW)}), Harms);
}

// Branches by the thousand, each on something that is not known: one pass all the same.
TEST(SeccompFilter, ALongFilterTakesNoTime) {
  Filter filter;
  while (filter.size() + 3 < BPF_MAXINSNS) {
    filter.push_back(load(kFirst + unsigned(filter.size()) % 6 * 8));
    filter.push_back(is(unsigned(filter.size()), 1, 0));
    filter.push_back(BPF_STMT(BPF_ST, unsigned(filter.size()) % BPF_MEMWORDS));
  }
  filter.push_back(give(SECCOMP_RET_ALLOW));
  EXPECT_EQ(outcome(filter), Passes);
}

// One result for one call, the other for all others.
void enter(unsigned number, unsigned result, unsigned other) {
  Filter filter = {load(kNumber), is(number, 0, 1), give(result), give(other)};
  sock_fprog program = {uint16_t(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    ::_exit(98);
}

std::string checked(pid_t pid, std::vector<CallToCome> calls) {
  auto status = with_seized(pid, {}, [&](SeizedProcess& process) { return check_seccomp(process, calls); });
  return status ? "fine" : status.error().message();
}

TEST(SeccompFilter, RootReadsTheFiltersOfAProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "wants root";
  Child child([] { return sleep_forever(); },
              [] {
                enter(SYS_gettid, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
                enter(SYS_getpid, kError, SECCOMP_RET_ALLOW);
              });
  if (checked(child.pid(), {{SYS_getuid, false, false, 0}}) != "fine")
    GTEST_SKIP() << "this kernel does not tell filters";
  EXPECT_NE(checked(child.pid(), {{SYS_gettid, true, false, 0}}).find("could kill it"), std::string::npos);
  EXPECT_NE(checked(child.pid(), {{SYS_getpid, false, false, 0}}).find("forbids a system call"),
            std::string::npos);
  EXPECT_EQ(checked(child.pid(), {{SYS_getpid, true, false, 0}}), "fine");
}

TEST(SeccompFilter, AFilterThatIsOursTooIsTriedOut) {
  Child tracer([] {
    enter(SYS_getuid, kError, SECCOMP_RET_ALLOW);
    enter(SYS_getgid, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    Child child([] { return sleep_forever(); });
    Child other([] { return sleep_forever(); }, [] { enter(SYS_kill, kError, SECCOMP_RET_ALLOW); });
    if (checked(child.pid(), {{SYS_gettid, false, false, 0},
                              {SYS_process_vm_readv, false, false, 0},
                              {SYS_sigaltstack, false, false, 0},
                              {SYS_futex, false, false, 0},
                              {SYS_getuid, true, false, 0}}) != "fine")
      return 1;
    if (checked(child.pid(), {{SYS_getuid, false, false, 0}}).find("forbids") == std::string::npos) return 2;
    if (checked(child.pid(), {{SYS_getgid, true, false, 0}}).find("could kill") == std::string::npos)
      return 3;
    // One that it has beside ours.
    if (checked(other.pid(), {{SYS_gettid, false, false, 0}}).find("could kill") == std::string::npos)
      return 4;
    return 0;
  });
  EXPECT_EQ(tracer.wait(), 0);
}

// The kernel goes on with a sleep by a call of its own, which such a filter does not know.
TEST(SeccompFilter, AStopDoesNotEndASleepThatAFilterWouldKillFor) {
  for (int stops : {1, 3}) {
    Child child([] { return ::usleep(400000) == 0 ? 0 : 1; },
                [] { enter(SYS_restart_syscall, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW); });
    for (int i = 0; i < stops; ++i) {
      ::usleep(50000);
      EXPECT_TRUE(with_seized(child.pid(), {}, [](SeizedProcess&) { return Status(); }));
    }
    EXPECT_EQ(child.wait(), 0);
  }
}

}  // namespace
}  // namespace uscope::process
