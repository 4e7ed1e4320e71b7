#include "session/doctor.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "session/doctor_checks.h"

namespace uscope::session {
namespace {

DoctorReport report_of(std::vector<Finding> findings) {
  return with_verdicts({{{"all", std::move(findings)}}, {}, {}});
}

std::vector<Finding> all_well() {
  std::vector<Finding> findings;
  for (const char* key : {"architecture", "bpf_load", "bpf_maps", "uprobe_multi", "uprobe_perf", "proc",
                          "remote_calls", "ptrace_scope"})
    findings.push_back({key, key, Answer::Ok, "", "", ""});
  return findings;
}

// The findings with one of them turned to "no".
std::vector<Finding> well_but(std::string_view key) {
  std::vector<Finding> findings = all_well();
  *std::ranges::find(findings, key, &Finding::key) = {std::string(key), "it",      Answer::No,
                                                      "found",          "because", "run: x"};
  return findings;
}

TEST(Doctor, BothEnginesAreReadyWhenAllIsWell) {
  DoctorReport report = report_of(all_well());
  EXPECT_EQ(report.kernel_engine.readiness, Readiness::Ready);
  EXPECT_EQ(report.inproc_engine.readiness, Readiness::Ready);
}

TEST(Doctor, WhatIsMissingIsNamedWithItsRemedy) {
  for (const char* key : {"bpf_load", "bpf_maps"}) {
    DoctorReport report = report_of(well_but(key));
    EXPECT_EQ(report.kernel_engine.readiness, Readiness::No) << key;
    EXPECT_EQ(report.kernel_engine.why, "it: because");
    EXPECT_EQ(report.kernel_engine.remedy, "run: x");
    EXPECT_EQ(report.inproc_engine.readiness, Readiness::Ready);
    EXPECT_TRUE(report.any_engine_works());
  }
  for (const char* key : {"proc", "remote_calls"}) {
    DoctorReport report = report_of(well_but(key));
    EXPECT_EQ(report.inproc_engine.readiness, Readiness::No) << key;
    EXPECT_EQ(report.kernel_engine.readiness, Readiness::Ready);
  }
  EXPECT_FALSE(report_of(well_but("architecture")).any_engine_works());
  EXPECT_FALSE(report_of({}).any_engine_works());
}

TEST(Doctor, OneWayToAttachUprobesIsEnough) {
  EXPECT_EQ(report_of(well_but("uprobe_perf")).kernel_engine.readiness, Readiness::Ready);
  EXPECT_EQ(report_of(well_but("uprobe_multi")).kernel_engine.readiness, Readiness::Limited);
}

TEST(Doctor, PtraceScopeLimitsButAnAllowedTargetDoesNot) {
  EXPECT_EQ(report_of(well_but("ptrace_scope")).inproc_engine.readiness, Readiness::Limited);
  auto findings = well_but("ptrace_scope");
  findings.push_back({"target_attach", "attaching", Answer::Ok, "", "", ""});
  EXPECT_EQ(report_of(findings).inproc_engine.readiness, Readiness::Ready);
  findings.back().answer = Answer::No;
  EXPECT_EQ(report_of(findings).inproc_engine.readiness, Readiness::No);
}

TEST(Doctor, OfThisMachineAnswersEveryQuestionOnce) {
  DoctorReport report = examine_machine();
  std::set<std::string> keys;
  for (const Section& section : report.sections)
    for (const Finding& finding : section.findings) {
      EXPECT_TRUE(keys.insert(finding.key).second) << finding.key << " twice";
      EXPECT_FALSE(finding.item.empty()) << finding.key;
      // What does not work says why.
      EXPECT_FALSE(finding.answer == Answer::No && finding.why.empty() && finding.value.empty())
          << finding.key;
    }
  for (const char* key : {"kernel",
                          "config",
                          "bpf_load",
                          "bpf_maps",
                          "bpf_ring_buffer",
                          "uprobe_multi",
                          "uprobe_perf",
                          "tracefs",
                          "btf",
                          "perf_event_paranoid",
                          "unprivileged_bpf_disabled",
                          "lockdown",
                          "proc",
                          "remote_calls",
                          "ptrace_scope",
                          "capabilities",
                          "container",
                          "seccomp",
                          "memlock",
                          "architecture",
                          "fsgsbase",
                          "tsc"})
    EXPECT_TRUE(keys.contains(key)) << key;
  EXPECT_EQ(report.find("remote_calls")->answer, Answer::Ok)
      << "a child of ours can be traced anywhere tests run";
}

TEST(Doctor, RunsForAnOrdinaryUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "wants root to become one";
  pid_t pid = ::fork();
  if (pid == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    ::prctl(PR_SET_DUMPABLE, 1);
    DoctorReport report = examine_machine();
    if (report.find("remote_calls")->answer != Answer::Ok) ::_exit(2);
    if (report.find("capabilities")->answer != Answer::No) ::_exit(3);
    if (report.find("bpf_load")->answer == Answer::No && report.find("bpf_load")->remedy.empty()) ::_exit(4);
    auto init = process::read_process(1);
    if (!init) ::_exit(5);
    if (examine_process(*init).inproc_engine.readiness != Readiness::No) ::_exit(6);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Doctor, BearsAnEmptyRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "wants root for chroot";
  pid_t pid = ::fork();
  if (pid == 0) {
    char directory[] = "/tmp/uscope-doctor-XXXXXX";
    if (!::mkdtemp(directory) || ::chroot(directory) != 0 || ::chdir("/") != 0) ::_exit(1);
    DoctorReport report = examine_machine();
    if (report.find("proc")->answer != Answer::No) ::_exit(2);
    if (report.inproc_engine.readiness != Readiness::No) ::_exit(3);
    ::_exit(report.inproc_engine.why.find("there is no /proc here") == std::string::npos ? 4 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Doctor, LooksAtAProcess) {
  pid_t pid = ::fork();
  if (pid == 0)
    for (;;) ::pause();
  auto target = process::read_process(pid);
  ASSERT_TRUE(target.has_value());
  DoctorReport report = examine_process(*target);
  EXPECT_EQ(report.sections.back().title, "process " + std::to_string(pid));
  EXPECT_EQ(report.find("target_attach")->answer, Answer::Ok);
  EXPECT_EQ(report.find("target_64bit")->answer, Answer::Ok);
  EXPECT_EQ(report.find("target_seccomp")->value, "off");
  EXPECT_EQ(report.find("target_namespaces")->value, "same as ours");
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace uscope::session
