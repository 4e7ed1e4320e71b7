#include "session/doctor.h"

#include <algorithm>

#include "session/doctor_checks.h"

namespace uscope::session {
namespace {

bool is_ok(const DoctorReport& report, std::string_view key) {
  const Finding* finding = report.find(key);
  return finding && finding->answer == Answer::Ok;
}

EngineVerdict no_because(const DoctorReport& report, std::string_view key) {
  const Finding* finding = report.find(key);
  if (!finding) return {};
  return {Readiness::No, finding->item + ": " + (finding->why.empty() ? finding->value : finding->why),
          finding->remedy};
}

EngineVerdict judge_kernel_engine(const DoctorReport& report) {
  for (const char* needed : {"architecture", "bpf_load", "bpf_maps"})
    if (!is_ok(report, needed)) return no_because(report, needed);
  if (is_ok(report, "uprobe_multi")) return {Readiness::Ready};
  if (is_ok(report, "uprobe_perf"))
    return {Readiness::Limited, "probes are attached one by one; thousands of them take seconds", ""};
  return no_because(report, "uprobe_perf");
}

EngineVerdict judge_inproc_engine(const DoctorReport& report) {
  for (const char* needed : {"architecture", "proc", "remote_calls"})
    if (!is_ok(report, needed)) return no_because(report, needed);
  for (const char* of_target : {"target_attach", "target_64bit", "target_seccomp"}) {
    const Finding* finding = report.find(of_target);
    if (finding && finding->answer == Answer::No) return no_because(report, of_target);
  }
  // A scope that forbids running processes does not matter when the one asked about may be attached to.
  const Finding* scope = report.find("ptrace_scope");
  if (scope && scope->answer == Answer::No && !report.find("target_attach"))
    return {Readiness::Limited, scope->why, scope->remedy};
  return {Readiness::Ready};
}

DoctorReport machine_sections(const Rights& rights) {
  return {{check_kernel(rights), check_inproc(rights), check_rights(rights), check_machine()}, {}, {}};
}

}  // namespace

DoctorReport with_verdicts(DoctorReport report) {
  report.kernel_engine = judge_kernel_engine(report);
  report.inproc_engine = judge_inproc_engine(report);
  return report;
}

const Finding* Section::find(std::string_view key) const {
  auto found = std::ranges::find(findings, key, &Finding::key);
  return found == findings.end() ? nullptr : &*found;
}

const Finding* DoctorReport::find(std::string_view key) const {
  for (const Section& section : sections)
    if (const Finding* finding = section.find(key)) return finding;
  return nullptr;
}

DoctorReport examine_machine() { return with_verdicts(machine_sections(read_rights())); }

DoctorReport examine_process(const process::ProcessInfo& target) {
  const Rights rights = read_rights();
  DoctorReport report = machine_sections(rights);
  report.sections.push_back(check_target(target, rights));
  return with_verdicts(std::move(report));
}

}  // namespace uscope::session
