// Maps, records, timers and what the verifier says, through the engine's own interface.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "engine/kernel/cpus.h"
#include "unit/engine/kernel/bytecode.h"
#include "unit/engine/kernel/target.h"

namespace uscope::engine::kernel {
namespace {

using codegen::CodeKind;
using codegen::MapKind;
using namespace std::chrono_literals;

constexpr int kRegisterDi = 14 * 8;  // pt_regs

template <typename T>
Bytes bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

std::vector<uint64_t> numbers_from(Engine& engine, std::chrono::milliseconds timeout) {
  std::vector<uint64_t> numbers;
  auto count = engine.poll(timeout, [&](Bytes record) { numbers.push_back(ByteReader(record).u64()); });
  EXPECT_TRUE(count) << count.error().message();
  EXPECT_EQ(count.value_or(0), numbers.size());
  return numbers;
}

// Maps: 0 the ring buffer, 1 the losses. Codes: 0 sends the register di, 1 sends 42 when run.
codegen::Program sending_program() {
  codegen::Program program;
  program.maps.push_back({"ring", MapKind::RingBuffer, 0, 0, 4096});
  program.maps.push_back({"lost", MapKind::PerCpuArray, 4, 8, 1});
  program.codes.push_back(
      sending_r7(Bytecode().load(7, 1, kRegisterDi), 0, 1).code("send", CodeKind::UserProbe));
  program.codes.push_back(sending_r7(Bytecode().mov(7, 42), 0, 1).code("BEGIN", CodeKind::RunOnce));
  return program;
}

TEST(Maps, OfAHundredThousandKeysAreReadBackWhole) {
  SKIP_WITHOUT_UPROBES();
  constexpr uint32_t kKeys = 100'000;
  for (MapKind kind : {MapKind::Hash, MapKind::PerCpuHash}) {
    codegen::Program program;
    program.maps.push_back({"a name that is much too long: @!", kind, 8, 12, kKeys});
    KernelEngine engine;
    auto loaded = engine.load(program);
    ASSERT_TRUE(loaded) << loaded.error().message();
    for (uint64_t key = 0; key < kKeys; key++) {
      std::array<uint32_t, 3> value = {uint32_t(key), 1, 2};
      ASSERT_TRUE(engine.set_entry(0, bytes_of(key), bytes_of(value)));
    }
    std::vector<bool> seen(kKeys);
    size_t copies = kind == MapKind::Hash ? 1 : possible_cpus().value().size();
    auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(engine.for_each_entry(0, [&](const MapEntry& entry) {
      uint64_t key = ByteReader(entry.key).u64();
      ASSERT_LT(key, kKeys);
      EXPECT_FALSE(seen[key]);
      seen[key] = true;
      ASSERT_EQ(entry.values.size(), copies);
      for (const auto& value : entry.values) {
        ASSERT_EQ(value.size(), 12u);
        EXPECT_EQ(ByteReader(value).u32(), key);
        EXPECT_EQ(ByteReader(value, 8).u32(), 2u);
      }
    }));
    auto spent = std::chrono::steady_clock::now() - start;
    std::printf("100,000 keys read in %.1f ms\n", std::chrono::duration<double, std::milli>(spent).count());
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kKeys);
    ASSERT_TRUE(engine.clear(0));
    size_t left = 0;
    ASSERT_TRUE(engine.for_each_entry(0, [&](const MapEntry&) { left++; }));
    EXPECT_EQ(left, 0u);
  }
}

TEST(Maps, FindSetAndRemoveInEveryKind) {
  SKIP_WITHOUT_UPROBES();
  for (MapKind kind : {MapKind::Hash, MapKind::LruHash, MapKind::PerCpuHash, MapKind::PerCpuLruHash,
                       MapKind::Array, MapKind::PerCpuArray}) {
    SCOPED_TRACE(int(kind));
    bool is_array = kind == MapKind::Array || kind == MapKind::PerCpuArray;
    codegen::Program program;
    program.maps.push_back({"m", kind, 4, 8, 64});
    KernelEngine engine;
    ASSERT_TRUE(engine.load(program));
    uint32_t key = 3;
    uint64_t value = 77;
    auto found = engine.find_entry(0, bytes_of(key));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->has_value(), is_array);
    ASSERT_TRUE(engine.set_entry(0, bytes_of(key), bytes_of(value)));
    found = engine.find_entry(0, bytes_of(key));
    ASSERT_TRUE(found && *found);
    for (const auto& copy : (*found)->values) EXPECT_EQ(ByteReader(copy).u64(), 77u);
    size_t entries = 0;
    ASSERT_TRUE(engine.for_each_entry(0, [&](const MapEntry&) { entries++; }));
    EXPECT_EQ(entries, is_array ? 64u : 1u);
    ASSERT_TRUE(engine.remove_entry(0, bytes_of(key)));
    ASSERT_TRUE(engine.remove_entry(0, bytes_of(key)));
    found = engine.find_entry(0, bytes_of(key));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->has_value(), is_array);
    if (is_array) {
      EXPECT_EQ(sum_at(engine, 0, key), 0u);
    }
    // Sizes that do not fit are refused and do not reach the kernel, which would read past them.
    EXPECT_FALSE(engine.find_entry(0, bytes_of(value)));
    EXPECT_FALSE(engine.set_entry(0, bytes_of(key), bytes_of(key)));
    EXPECT_FALSE(engine.clear(1));
  }
}

TEST(Maps, PerCpuCountsSumToAllCalls) {
  SKIP_WITHOUT_UPROBES();
  codegen::Program program;
  program.maps.push_back({"hits", MapKind::PerCpuArray, 4, 8, 1});
  Bytecode code;
  code.store_u32(10, -4, 0).mov_reg(2, 10).add(2, -4).map(1, 0).call(BPF_FUNC_map_lookup_elem);
  code.skip_if_zero(0, 2).mov(2, 1).atomic_add(0, 0, 2).done();
  program.codes.push_back(code.code("count", CodeKind::UserProbe));
  Target target;
  KernelEngine engine;
  ASSERT_TRUE(engine.load(program));
  ASSERT_TRUE(engine.attach({user_probe("work")}));
  target.tell('w');
  target.tell('t');
  EXPECT_EQ(sum_at(engine, 0), 20u);
}

TEST(Records, ComeInOrderWithTheArgument) {
  SKIP_WITHOUT_UPROBES();
  Target target;
  KernelEngine engine;
  auto loaded = engine.load(sending_program());
  ASSERT_TRUE(loaded) << loaded.error().message();
  ASSERT_TRUE(engine.attach({user_probe("work")}));
  EXPECT_TRUE(numbers_from(engine, 0ms).empty());
  target.tell('w');
  engine.detach();  // what came before is still there
  EXPECT_EQ(numbers_from(engine, 1000ms), (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(engine.lost(), 0u);
}

TEST(Records, WakeAPollThatWaits) {
  SKIP_WITHOUT_UPROBES();
  Target target;
  KernelEngine engine;
  ASSERT_TRUE(engine.load(sending_program()));
  ASSERT_TRUE(engine.attach({user_probe("work")}));
  pid_t caller = ::fork();
  if (caller == 0) {
    ::usleep(50'000);
    target.tell('w');
    ::_exit(0);
  }
  auto start = std::chrono::steady_clock::now();
  std::vector<uint64_t> all;
  while (all.size() < 10 && std::chrono::steady_clock::now() - start < 10s)
    for (uint64_t number : numbers_from(engine, 10'000ms)) all.push_back(number);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 9s);
  EXPECT_EQ(all.size(), 10u);
  ::waitpid(caller, nullptr, 0);
}

TEST(Records, AnEmptyBufferEndsTheWaitInTime) {
  SKIP_WITHOUT_UPROBES();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(sending_program()));
  auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(numbers_from(engine, 50ms).empty());
  EXPECT_GE(std::chrono::steady_clock::now() - start, 49ms);
}

TEST(Records, ThatFindNoRoomAreCountedAndOrderSurvivesWrapping) {
  SKIP_WITHOUT_UPROBES();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(sending_program()));
  // 16 bytes each with their header; the kernel leaves one record's worth unused in 4096.
  for (int i = 0; i < 300; i++) ASSERT_TRUE(engine.run(1));
  size_t kept = numbers_from(engine, 0ms).size();
  EXPECT_GE(kept, 255u);
  EXPECT_LE(kept, 256u);
  EXPECT_EQ(engine.lost(), 300 - kept);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 100; i++) ASSERT_TRUE(engine.run(1));
    EXPECT_EQ(numbers_from(engine, 0ms), std::vector<uint64_t>(100, 42));
  }
  EXPECT_EQ(engine.lost(), 300 - kept);
}

TEST(Records, ThatWereDiscardedAreNotHandedOver) {
  SKIP_WITHOUT_UPROBES();
  codegen::Program program = sending_program();
  Bytecode code;
  code.map(1, 0).mov(2, 24).mov(3, 0).call(BPF_FUNC_ringbuf_reserve).skip_if_zero(0, 3);
  code.mov_reg(1, 0).mov(2, 0).call(BPF_FUNC_ringbuf_discard).done();
  program.codes.push_back(code.code("discard", CodeKind::RunOnce));
  KernelEngine engine;
  ASSERT_TRUE(engine.load(program));
  for (uint32_t code_index : {2u, 1u, 2u, 2u, 1u}) ASSERT_TRUE(engine.run(code_index));
  EXPECT_EQ(numbers_from(engine, 0ms), (std::vector<uint64_t>{42, 42}));
  EXPECT_TRUE(numbers_from(engine, 0ms).empty());
}

TEST(Run, RunsOnThisThreadAndOnlyWhatMayBeRun) {
  SKIP_WITHOUT_UPROBES();
  codegen::Program program;
  program.maps.push_back({"who", MapKind::Array, 4, 8, 1});
  Bytecode code;
  code.call(BPF_FUNC_get_current_pid_tgid).value(1, 0).store(1, 0, 0).done();
  program.codes.push_back(code.code("BEGIN", CodeKind::RunOnce));
  program.codes.push_back(counting(0).code("probe", CodeKind::UserProbe));
  KernelEngine engine;
  ASSERT_TRUE(engine.load(program));
  auto status = engine.run(0);
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ(sum_at(engine, 0), (uint64_t(::getpid()) << 32) | uint64_t(::syscall(SYS_gettid)));
  EXPECT_FALSE(engine.run(1));
  EXPECT_FALSE(engine.run(2));
}

TEST(Verifier, RefusalSaysWhereAndWhy) {
  SKIP_WITHOUT_UPROBES();
  codegen::Program program;
  Bytecode code;
  code.mov(6, 1).mov(1, 5).load(0, 1, 0).done();  // a load from the number 5
  program.codes.push_back(code.code("uprobe:x:f", CodeKind::UserProbe));
  KernelEngine engine;
  auto status = engine.load(program);
  ASSERT_FALSE(status);
  std::string message = status.error().message();
  EXPECT_EQ(message.substr(0, message.find('\n')),
            "loading uprobe:x:f: the kernel's verifier refuses it at instruction 2: R1 invalid mem access "
            "'scalar'")
      << message;
  EXPECT_NE(message.find("2: (79) r0 = *(u64 *)(r1 +0)"), std::string::npos) << message;
}

TEST(Verifier, LastWordsLeaveOutTheStatistics) {
  VerifierWords words = last_words(
      "0: R1=ctx() R10=fp0\n0: (b7) r0 = 0\n17: (79) r1 = *(u64 *)(r9 +8)\nR9 !read_ok\n"
      "processed 3 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n");
  EXPECT_EQ(words.reason, "R9 !read_ok");
  EXPECT_EQ(words.instruction, 17u);
  EXPECT_TRUE(words.tail.ends_with("R9 !read_ok"));
  EXPECT_TRUE(last_words("").reason.empty());
}

TEST(Loading, RefusesReferencesThatNameNoMap) {
  SKIP_WITHOUT_UPROBES();
  for (codegen::MapReference reference : {codegen::MapReference{0, 9}, {1, 0}, {1000, 0}, {UINT32_MAX, 0}}) {
    codegen::Program program;
    program.maps.push_back({"m", MapKind::Array, 4, 8, 1});
    program.codes.push_back(counting(0).code("c", CodeKind::UserProbe));
    program.codes[0].maps = {reference};
    KernelEngine engine;
    EXPECT_FALSE(engine.load(program));
  }
}

TEST(Loading, WithoutRightsSaysWhatIsNeeded) {
  SKIP_WITHOUT_UPROBES();
  int answer[2];
  ASSERT_EQ(::pipe(answer), 0);
  pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(1);
    KernelEngine engine;
    auto status = engine.load(sending_program());
    std::string said = status ? "loaded" : status.error().message();
    ::_exit(::write(answer[1], said.data(), said.size()) == ssize_t(said.size()) ? 0 : 1);
  }
  ::waitpid(child, nullptr, 0);
  char text[512] = "";
  ASSERT_GT(::read(answer[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text,
               "making the map @ring: Operation not permitted; the kernel engine needs root, or CAP_BPF and "
               "CAP_PERFMON");
  ::close(answer[0]);
  ::close(answer[1]);
}

TEST(Attaching, RefusesCodeOfAnotherKind) {
  SKIP_WITHOUT_UPROBES();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(sending_program()));
  EXPECT_FALSE(engine.attach({user_probe("work", 1)}));
  EXPECT_FALSE(engine.attach({user_probe("work", 7)}));
}

codegen::Program counting_events(CodeKind kind) {
  codegen::Program program;
  program.maps.push_back({"hits", MapKind::Array, 4, 8, 1});
  program.codes.push_back(counting(0).code("count", kind));
  return program;
}

TEST(Events, AnIntervalRunsInsidePoll) {
  SKIP_WITHOUT_UPROBES();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(counting_events(CodeKind::Timer)));
  Attachment interval;
  interval.kind = Attachment::Kind::Interval;
  interval.period = 20'000'000;
  ASSERT_EQ(engine.attach({interval})->attached_sites, 1u);
  auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < 210ms) ASSERT_TRUE(engine.poll(1000ms, [](Bytes) {}));
  // Late on a busy machine, but no period is left out.
  uint64_t periods = uint64_t((std::chrono::steady_clock::now() - start) / 20ms);
  EXPECT_GE(sum_at(engine, 0), 10u);
  EXPECT_LE(sum_at(engine, 0), periods + 1);
  engine.detach();
  uint64_t count = sum_at(engine, 0);
  ASSERT_TRUE(engine.poll(60ms, [](Bytes) {}));
  EXPECT_EQ(sum_at(engine, 0), count);
  interval.period = 0;
  EXPECT_EQ(engine.attach({interval})->failures.size(), 1u);
}

// Uses a processor for `time`, however long that takes on a machine that is busy with other things.
void spin(std::chrono::milliseconds time) {
  auto used = [] {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  auto start = used();
  while (used() - start < time) {
  }
}

TEST(Events, AProfileTakesSamples) {
  SKIP_WITHOUT_UPROBES();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(counting_events(CodeKind::PerfEvent)));
  Attachment profile;
  profile.kind = Attachment::Kind::Profile;
  profile.period = 1'000'000;
  auto report = engine.attach({profile});
  ASSERT_TRUE(report && report->failures.empty()) << report->failures[0].error.message();
  spin(100ms);
  engine.detach();
  uint64_t count = sum_at(engine, 0);
  EXPECT_GE(count, 10u);
  spin(20ms);
  EXPECT_EQ(sum_at(engine, 0), count);
}

TEST(Events, AProfileOfOneProcessSeesNoOther) {
  SKIP_WITHOUT_UPROBES();
  Target idle;
  for (bool is_self : {true, false}) {
    KernelEngine engine;
    ASSERT_TRUE(engine.load(counting_events(CodeKind::PerfEvent)));
    Attachment profile;
    profile.kind = Attachment::Kind::Profile;
    profile.period = 1'000'000;
    profile.pid = is_self ? ::getpid() : idle.pid();
    auto report = engine.attach({profile});
    ASSERT_TRUE(report && report->failures.empty()) << report->failures[0].error.message();
    spin(100ms);
    engine.detach();
    if (is_self) {
      EXPECT_GE(sum_at(engine, 0), 5u);
    } else {
      EXPECT_EQ(sum_at(engine, 0), 0u);
    }
  }
}

TEST(Events, AProfileOfOneProcessInAPidNamespace) {
  SKIP_WITHOUT_UPROBES();
  // Process 1 of a namespace of its own profiles itself, by the number that it has there.
  auto profile_self = [] {
    KernelEngine engine;
    if (!engine.load(counting_events(CodeKind::PerfEvent))) return 2;
    Attachment profile;
    profile.kind = Attachment::Kind::Profile;
    profile.period = 1'000'000;
    profile.pid = ::getpid();
    auto report = engine.attach({profile});
    if (::getpid() != 1 || !report || !report->failures.empty()) return 3;
    spin(100ms);
    engine.detach();
    uint64_t count = sum_at(engine, 0);
    return count >= 5 && count <= 200 ? 0 : 4;
  };
  pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(77);
    pid_t inner = ::fork();
    if (inner == 0) ::_exit(profile_self());
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
  }
  int status = 0;
  ::waitpid(outer, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no pid namespaces here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Events, ASoftwareEventOfOneProcess) {
  SKIP_WITHOUT_UPROBES();
  KernelEngine engine;
  ASSERT_TRUE(engine.load(counting_events(CodeKind::PerfEvent)));
  Attachment faults;
  faults.kind = Attachment::Kind::Software;
  faults.perf_event = PERF_COUNT_SW_PAGE_FAULTS;
  faults.period = 1;
  faults.pid = ::getpid();
  auto report = engine.attach({faults});
  ASSERT_TRUE(report && report->failures.empty());
  // Pages that were never touched; memory from the heap may have been.
  constexpr size_t kPages = 64;
  void* fresh = ::mmap(nullptr, kPages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(fresh, MAP_FAILED);
  ::madvise(fresh, kPages << 12, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < kPages; i++) static_cast<volatile char*>(fresh)[i << 12] = 1;
  ::munmap(fresh, kPages << 12);
  engine.detach();
  EXPECT_GE(sum_at(engine, 0), kPages);
}

TEST(Events, ATracepointOfOneProcess) {
  SKIP_WITHOUT_UPROBES();
  if (!have_tracefs()) GTEST_SKIP() << "tracefs cannot be mounted";
  KernelEngine engine;
  ASSERT_TRUE(engine.load(counting_events(CodeKind::Tracepoint)));
  Attachment tracepoint;
  tracepoint.kind = Attachment::Kind::Tracepoint;
  tracepoint.tracepoint = "sched/sched_process_fork";
  tracepoint.pid = ::getpid();
  auto report = engine.attach({tracepoint});
  ASSERT_TRUE(report);
  if (!report->failures.empty()) GTEST_SKIP() << report->failures[0].error.message();
  for (int i = 0; i < 3; i++) {
    pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(sum_at(engine, 0), 3u);
  tracepoint.tracepoint = "sched/there_is_none";
  EXPECT_EQ(engine.attach({tracepoint})->failures.size(), 1u);
  tracepoint.tracepoint = "../../etc";
  EXPECT_EQ(engine.attach({tracepoint})->failures.size(), 1u);
}

TEST(Cpus, ListsAreParsedOrRefused) {
  EXPECT_EQ(parse_cpu_list("0-2,5\n").value(), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(parse_cpu_list("0").value(), std::vector<int>{0});
  for (const char* bad : {"", "\n", "x", "3-1", "1-", "-1", "0,,1", "0-99999999"})
    EXPECT_FALSE(parse_cpu_list(bad)) << bad;
}

}  // namespace
}  // namespace uscope::engine::kernel
