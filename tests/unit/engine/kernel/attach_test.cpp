// Each way of attaching, on a program whose calls are known.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/fd.h"
#include "unit/engine/kernel/bytecode.h"
#include "unit/engine/kernel/target.h"

namespace uscope::engine::kernel {
namespace {

using codegen::CodeKind;
using codegen::MapKind;
using Prefer = KernelOptions::Prefer;

codegen::Program counting_program() {
  codegen::Program program;
  program.maps.push_back({"hits", MapKind::Array, 4, 8, 1});
  program.codes.push_back(counting(0).code("count", CodeKind::UserProbe));
  return program;
}

// Keyed by cookie: @[cookie] = how often, in an Array of eight.
codegen::Program cookie_program() {
  codegen::Program program;
  program.maps.push_back({"by_cookie", MapKind::Array, 4, 8, 8});
  Bytecode code;
  code.call(BPF_FUNC_get_attach_cookie);
  code.op(BPF_STX | BPF_MEM | BPF_W, 10, 0, -4, 0).mov_reg(2, 10).add(2, -4);
  code.map(1, 0).call(BPF_FUNC_map_lookup_elem).skip_if_zero(0, 2).mov(2, 1).atomic_add(0, 0, 2).done();
  program.codes.push_back(code.code("cookies", CodeKind::UserProbe));
  return program;
}

size_t open_fds() {
  auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return size_t(std::distance(begin(all), end(all)));
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class EachWay : public testing::TestWithParam<Prefer> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_UPROBES();
    if (GetParam() == Prefer::Tracefs && !have_tracefs()) GTEST_SKIP() << "tracefs cannot be mounted";
  }
  KernelOptions options() const { return {GetParam()}; }
};

TEST_P(EachWay, CountsEveryCallAndLeavesTheTextAsItWas) {
  Target target;
  std::string before = target.text_at("work", 16);
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  auto report = engine.attach({user_probe("work")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->attached_sites, 1u);
  EXPECT_TRUE(report->failures.empty());
  EXPECT_NE(target.text_at("work", 16), before);
  EXPECT_EQ(target.tell('w'), 45 + 70);
  EXPECT_EQ(sum_at(engine, 0), 10u);
  engine.detach();
  EXPECT_EQ(target.text_at("work", 16), before);
  EXPECT_EQ(target.tell('w'), 45 + 70);
  EXPECT_EQ(sum_at(engine, 0), 10u);  // readable after the end, and no more hits
  engine.detach();
}

TEST_P(EachWay, CountsReturns) {
  Target target;
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("work");
  attachment.kind = Attachment::Kind::UserReturn;
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report && report->failures.empty());
  EXPECT_EQ(target.tell('w'), 45 + 70);
  EXPECT_EQ(sum_at(engine, 0), 10u);
}

TEST_P(EachWay, SeesOnlyTheProcessAskedForButAllItsThreads) {
  Target asked, other;
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("work");
  attachment.pid = asked.pid();
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report && report->failures.empty());
  other.tell('w');
  EXPECT_EQ(sum_at(engine, 0), 0u);
  other.tell('t');
  EXPECT_EQ(sum_at(engine, 0), 0u);
  asked.tell('w');
  EXPECT_EQ(sum_at(engine, 0), 10u);
  asked.tell('t');
  EXPECT_EQ(sum_at(engine, 0), 20u);
}

TEST_P(EachWay, SeesProcessesThatStartLater) {
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  auto report = engine.attach({user_probe("work")});
  ASSERT_TRUE(report && report->failures.empty());
  Target later;
  later.tell('w');
  EXPECT_EQ(sum_at(engine, 0), 10u);
}

TEST_P(EachWay, TellsSitesApartByCookie) {
  Target target;
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(cookie_program()));
  Attachment attachment = user_probe("work");
  attachment.sites[0].cookie = 5;
  attachment.sites.push_back({target_file().offset_of("many"), 2, {}});
  attachment.sites.push_back({target_file().offset_of("many") + 3, 3, {}});
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report && report->failures.empty());
  target.tell('w');
  target.tell('m');
  for (uint32_t cookie = 0; cookie < 8; cookie++)
    EXPECT_EQ(sum_at(engine, 0, cookie), cookie == 5 ? 10u : cookie == 2 || cookie == 3 ? 1u : 0u) << cookie;
}

TEST_P(EachWay, CountsTheSemaphoreUpWhileAttached) {
  Target target;
  ASSERT_EQ(target.tell('s'), 0);
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("usdt_here");
  attachment.sites[0].semaphore = target_file().offset_of("demo_hit_semaphore");
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report && report->failures.empty());
  EXPECT_EQ(target.tell('s'), 1);
  EXPECT_EQ(sum_at(engine, 0), 1u);
  engine.detach();
  EXPECT_EQ(target.tell('s'), 0);
  EXPECT_EQ(sum_at(engine, 0), 1u);
}

TEST_P(EachWay, AttachesTheRestWhenSomeSitesAreBad) {
  Target target;
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(cookie_program()));
  Attachment attachment = user_probe("many");
  attachment.sites[0].cookie = 1;
  attachment.sites.push_back({FileOffset{uint64_t(1) << 40}, 2, {}});  // far behind the end of the file
  attachment.sites.push_back({target_file().offset_of("work"), 3, {}});
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->attached_sites, 2u);
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_EQ(report->failures[0].site, 1u);
  EXPECT_NE(report->failures[0].error.message().find("0x10000000000"), std::string::npos)
      << report->failures[0].error.message();
  target.tell('m');
  target.tell('w');
  EXPECT_EQ(sum_at(engine, 0, 1), 1u);
  EXPECT_EQ(sum_at(engine, 0, 3), 10u);
}

TEST_P(EachWay, SaysThatTheProcessIsGone) {
  pid_t gone = 0;
  {
    Target target;
    gone = target.pid();
  }
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("work");
  attachment.pid = gone;
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->attached_sites, 0u);
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_NE(report->failures[0].error.message().find("still there"), std::string::npos);
}

TEST_P(EachWay, ClosesWhatItOpened) {
  size_t before = open_fds();
  {
    KernelEngine engine(options());
    ASSERT_TRUE(engine.load(counting_program()));
    ASSERT_TRUE(engine.attach({user_probe("work")}));
  }
  EXPECT_EQ(open_fds(), before);
}

std::string way_name(const testing::TestParamInfo<Prefer>& way) {
  const char* names[] = {"Auto", "Multi", "PerfEvents", "Tracefs"};
  return names[int(way.param)];
}
INSTANTIATE_TEST_SUITE_P(Kernel, EachWay,
                         testing::Values(Prefer::Auto, Prefer::Multi, Prefer::PerfEvents, Prefer::Tracefs),
                         way_name);

TEST(MultiLink, TakesThreeThousandSitesAtOnce) {
  SKIP_WITHOUT_UPROBES();
  Target target;
  std::string before = target.text_at("many", 3 * kManyFunctions);
  KernelEngine engine;
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("many");
  attachment.sites.clear();
  for (size_t i = 0; i < kManyFunctions; i++)
    attachment.sites.push_back({target_file().offset_of("many") + 3 * i, i, {}});
  size_t fds = open_fds();
  auto start = std::chrono::steady_clock::now();
  auto report = engine.attach({attachment});
  double attached = milliseconds_since(start);
  ASSERT_TRUE(report && report->failures.empty());
  EXPECT_EQ(report->attached_sites, kManyFunctions);
  EXPECT_EQ(open_fds(), fds + 1);
  target.tell('m');
  EXPECT_EQ(sum_at(engine, 0), kManyFunctions);
  start = std::chrono::steady_clock::now();
  engine.detach();
  std::printf("3000 sites: attached in %.1f ms, detached in %.1f ms\n", attached, milliseconds_since(start));
  EXPECT_EQ(target.text_at("many", 3 * kManyFunctions), before);
}

TEST(MultiLink, FindsTheFewBadSitesAmongMany) {
  SKIP_WITHOUT_UPROBES();
  Target target;
  KernelEngine engine;
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("many");
  attachment.sites.clear();
  const std::set<size_t> bad = {0, 77, 200, 499};
  for (size_t i = 0; i < 500; i++) {
    // A breakpoint of the program's own is what the kernel does not probe.
    FileOffset offset = bad.count(i) ? target_file().offset_of("traps") : target_file().offset_of("many");
    attachment.sites.push_back({offset + (bad.count(i) ? 0 : 3 * i)});
  }
  auto start = std::chrono::steady_clock::now();
  auto report = engine.attach({attachment});
  std::printf("4 bad sites of 500: attached in %.1f ms\n", milliseconds_since(start));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->attached_sites, 496u);
  std::set<size_t> failed;
  for (const AttachFailure& failure : report->failures) {
    failed.insert(failure.site);
    EXPECT_NE(failure.error.message().find("cannot probe the instruction"), std::string::npos)
        << failure.error.message();
  }
  EXPECT_EQ(failed, bad);
  target.tell('m');
  EXPECT_EQ(sum_at(engine, 0), 496u);
}

TEST_P(EachWay, ManyAttachmentsEndTogether) {
  // The kernel ends perf events one after the other, with some 100 ms each.
  bool is_multi = GetParam() == Prefer::Auto || GetParam() == Prefer::Multi;
  const size_t count = is_multi ? 40 : 5;
  Target target;
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  std::string before = target.text_at("many", 3 * count);
  std::vector<Attachment> attachments(count, user_probe("many"));
  for (size_t i = 0; i < count; i++) attachments[i].sites[0].offset = target_file().offset_of("many") + 3 * i;
  auto start = std::chrono::steady_clock::now();
  auto report = engine.attach(attachments);
  double attached = milliseconds_since(start);
  ASSERT_TRUE(report && report->failures.empty());
  EXPECT_EQ(report->attached_sites, count);
  target.tell('m');
  EXPECT_EQ(sum_at(engine, 0), count);
  start = std::chrono::steady_clock::now();
  engine.detach();
  std::printf("%zu attachments: attached in %.1f ms, detached in %.1f ms\n", count, attached,
              milliseconds_since(start));
  EXPECT_EQ(target.text_at("many", 3 * count), before);
}

TEST_P(EachWay, TakesAnyFileName) {
  Target target;
  std::string odd = target_file().path() + " a\t#b:0x1";
  std::filesystem::create_hard_link(target_file().path(), odd);
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("work");
  attachment.file = odd;
  auto report = engine.attach({attachment});
  std::filesystem::remove(odd);
  ASSERT_TRUE(report);
  ASSERT_TRUE(report->failures.empty()) << report->failures[0].error.message();
  target.tell('w');
  EXPECT_EQ(sum_at(engine, 0), 10u);
}

TEST_P(EachWay, SaysThatAFileIsMissing) {
  KernelEngine engine(options());
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("work");
  attachment.file += ".not";
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->attached_sites, 0u);
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_NE(report->failures[0].error.message().find("No such file"), std::string::npos)
      << report->failures[0].error.message();
}

TEST_P(EachWay, KillingTheTracerTakesItsProbesOut) {
  Target target;
  std::string before = target.text_at("work", 16);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t tracer = ::fork();
  if (tracer == 0) {
    KernelEngine engine(options());
    bool is_attached = engine.load(counting_program()) && engine.attach({user_probe("work")});
    if (::write(ready[1], is_attached ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_NE(target.text_at("work", 16), before);
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
  EXPECT_EQ(target.text_at("work", 16), before);
  EXPECT_EQ(target.tell('w'), 45 + 70);
  ::close(ready[0]);
  ::close(ready[1]);
  if (auto tracefs = find_tracefs()) remove_stale_groups(*tracefs);
}

TEST(TracefsWay, TakesThreeThousandSitesOfOneCookieAtOnce) {
  SKIP_WITHOUT_UPROBES();
  if (!have_tracefs()) GTEST_SKIP() << "tracefs cannot be mounted";
  Target target;
  std::string before = target.text_at("many", 3 * kManyFunctions);
  KernelEngine engine({Prefer::Tracefs});
  ASSERT_TRUE(engine.load(cookie_program()));
  Attachment attachment = user_probe("many");
  attachment.sites.clear();
  for (size_t i = 0; i < kManyFunctions; i++)
    attachment.sites.push_back({target_file().offset_of("many") + 3 * i, i < 1000 ? 1u : 2u, {}});
  attachment.sites.push_back(attachment.sites[0]);  // one twice: it is hit twice
  size_t fds = open_fds();
  auto start = std::chrono::steady_clock::now();
  auto report = engine.attach({attachment});
  double attached = milliseconds_since(start);
  ASSERT_TRUE(report && report->failures.empty());
  EXPECT_EQ(open_fds(), fds + 3);
  target.tell('m');
  EXPECT_EQ(sum_at(engine, 0, 1), 1001u);
  EXPECT_EQ(sum_at(engine, 0, 2), 2000u);
  start = std::chrono::steady_clock::now();
  engine.detach();
  std::printf("3001 sites by tracefs: attached in %.1f ms, detached in %.1f ms\n", attached,
              milliseconds_since(start));
  EXPECT_EQ(target.text_at("many", 3 * kManyFunctions), before);
}

TEST(OldKernel, SharesEventsOnlyWhereTheCodeCannotTell) {
  SKIP_WITHOUT_UPROBES();
  if (!have_tracefs()) GTEST_SKIP() << "tracefs cannot be mounted";
  Target target;
  Attachment attachment = user_probe("many");
  for (uint64_t i = 1; i < 4; i++)
    attachment.sites.push_back({target_file().offset_of("many") + 3 * i, i, {}});
  for (bool tells_apart : {false, true}) {
    KernelEngine engine({Prefer::Auto, true});
    ASSERT_TRUE(engine.load(tells_apart ? cookie_program() : counting_program()));
    size_t fds = open_fds();
    auto report = engine.attach({attachment});
    ASSERT_TRUE(report && report->failures.empty());
    EXPECT_EQ(report->attached_sites, 4u);
    EXPECT_EQ(open_fds(), fds + (tells_apart ? 4 : 1));
    target.tell('m');
    for (uint32_t cookie = 0; cookie < (tells_apart ? 4 : 1); cookie++)
      EXPECT_EQ(sum_at(engine, 0, cookie), tells_apart ? 1u : 4u);
  }
}

TEST(TracefsWay, ABadSiteDoesNotSpoilItsEvent) {
  SKIP_WITHOUT_UPROBES();
  if (!have_tracefs()) GTEST_SKIP() << "tracefs cannot be mounted";
  Target target;
  KernelEngine engine({Prefer::Tracefs});
  ASSERT_TRUE(engine.load(counting_program()));
  Attachment attachment = user_probe("many");
  attachment.sites.push_back({target_file().offset_of("traps"), 0, {}});
  attachment.sites.push_back({target_file().offset_of("work"), 0, {}});
  auto report = engine.attach({attachment});
  ASSERT_TRUE(report);
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_EQ(report->failures[0].site, 1u);
  target.tell('m');
  target.tell('w');
  EXPECT_EQ(sum_at(engine, 0), 11u);
}

TEST(TracefsGroups, ThoseOfTheDeadAreTakenOutAndOthersStay) {
  SKIP_WITHOUT_UPROBES();
  if (!have_tracefs()) GTEST_SKIP() << "tracefs cannot be mounted";
  std::string tracefs = find_tracefs().value();
  std::string path = target_file().path();  // made here, so that it is removed here
  pid_t dead = ::fork();
  if (dead == 0) {
    // Dies without destructors, as by kill -9.
    auto group = TracefsGroup::create(tracefs);
    if (group) (void)group->add(path, {target_file().offset_of("work")}, false);
    ::_exit(0);
  }
  ::waitpid(dead, nullptr, 0);
  std::string stale = "uscope_" + std::to_string(dead) + "_0";
  ASSERT_NE(read_text_file(tracefs + "/uprobe_events").value().find(stale), std::string::npos);
  std::string own;
  {
    auto group = TracefsGroup::create(tracefs);
    ASSERT_TRUE(group);
    ASSERT_TRUE(group->add(target_file().path(), {target_file().offset_of("work")}, false));
    std::string events = read_text_file(tracefs + "/uprobe_events").value();
    EXPECT_EQ(events.find(stale), std::string::npos);
    own = "uscope_" + std::to_string(::getpid()) + "_";
    EXPECT_NE(events.find(own), std::string::npos);
    remove_stale_groups(tracefs);
    EXPECT_NE(read_text_file(tracefs + "/uprobe_events").value().find(own), std::string::npos);
  }
  EXPECT_EQ(read_text_file(tracefs + "/uprobe_events").value().find(own), std::string::npos);
}

TEST(TracefsGroups, AreKnownByTheirNames) {
  EXPECT_EQ(pid_of_group("uscope_123_0"), 123);
  for (const char* other : {"uscope_", "uscope_12", "uscope_x_0", "uscope_12_", "uscope_0_0", "probe_123_0",
                            "uscope_99999999999999999999_0", "uscope_12_a"})
    EXPECT_FALSE(pid_of_group(other)) << other;
}

}  // namespace
}  // namespace uscope::engine::kernel
