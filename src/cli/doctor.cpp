#include "cli/doctor.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace uscope::cli {
namespace {

using session::Answer;
using session::DoctorReport;
using session::EngineVerdict;
using session::Finding;
using session::Readiness;

constexpr const char* kExamples =
    "Examples:\n"
    "  uscope doctor              what works here, and what to run for the rest\n"
    "  uscope doctor 1234         the same, and whether process 1234 can be traced\n"
    "  uscope doctor --json       for programs\n"
    "Exit code: 0 if an engine works, 1 if none does.\n";

const char* word(Answer answer) { return answer == Answer::Ok ? "ok" : answer == Answer::No ? "no" : "?"; }
const char* word(Readiness readiness) {
  return readiness == Readiness::Ready ? "ready" : readiness == Readiness::Limited ? "limited" : "no";
}

std::string painted(std::string_view text, const char* code, bool colour) {
  return colour ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}
const char* colour_of(Answer answer) {
  return answer == Answer::Ok ? "32" : answer == Answer::No ? "31" : "33";
}

// "value — why; remedy", with the parts that are there.
std::string explanation(const std::string& value, const std::string& why, const std::string& remedy) {
  std::string text = value;
  if (!why.empty()) text += (text.empty() ? "" : " — ") + why;
  if (!remedy.empty()) text += (text.empty() ? "" : "; ") + remedy;
  return text;
}

std::string finding_line(const Finding& finding, size_t width, bool colour) {
  // Colour codes take no room on the screen, so pad first.
  std::string answer = painted(fmt::format("{:<3}", word(finding.answer)), colour_of(finding.answer), colour);
  return fmt::format("  {} {:<{}}  {}\n", answer, finding.item, width,
                     explanation(finding.value, finding.why, finding.remedy));
}

std::string verdict_line(std::string_view engine, const EngineVerdict& verdict, bool colour) {
  Answer like = verdict.readiness == Readiness::Ready ? Answer::Ok
                : verdict.readiness == Readiness::No  ? Answer::No
                                                      : Answer::Unknown;
  std::string text = word(verdict.readiness);
  if (verdict.readiness != Readiness::Ready) text += ": ";
  return fmt::format(
      "{:<19}{}{}\n", engine, painted(text, colour_of(like), colour),
      verdict.readiness == Readiness::Ready ? "" : explanation("", verdict.why, verdict.remedy));
}

nlohmann::ordered_json as_json(const EngineVerdict& verdict) {
  return {{"readiness", word(verdict.readiness)}, {"why", verdict.why}, {"remedy", verdict.remedy}};
}

}  // namespace

std::string doctor_text(const DoctorReport& report, bool colour) {
  size_t width = 0;
  for (const auto& section : report.sections)
    for (const Finding& finding : section.findings) width = std::max(width, finding.item.size());
  std::string text;
  for (const auto& section : report.sections) {
    text += painted(section.title, "1", colour) + "\n";
    for (const Finding& finding : section.findings) text += finding_line(finding, width, colour);
  }
  text += "\n" + verdict_line("kernel engine:", report.kernel_engine, colour);
  return text + verdict_line("in-process engine:", report.inproc_engine, colour);
}

std::string doctor_json(const DoctorReport& report) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::object();
  for (const auto& section : report.sections)
    for (const Finding& finding : section.findings)
      findings[finding.key] = {
          {"section", section.title}, {"item", finding.item}, {"answer", word(finding.answer)},
          {"value", finding.value},   {"why", finding.why},   {"remedy", finding.remedy}};
  nlohmann::ordered_json json = {
      {"findings", findings},
      {"engines", {{"kernel", as_json(report.kernel_engine)}, {"inproc", as_json(report.inproc_engine)}}}};
  // Names of programs and files may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int doctor_command(std::span<const char* const> args) {
  CLI::App app("What of uscope works here, what does not, why, and what would change it.", "uscope doctor");
  app.footer(kExamples);
  std::string pid;
  bool json = false;
  app.add_option("PID", pid, "a process to look at, too");
  app.add_flag("--json", json, "as JSON");
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // the order CLI11 wants
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  DoctorReport report;
  if (pid.empty()) {
    report = session::examine_machine();
  } else {
    auto target = process::read_pid_argument(pid);
    if (!target) {
      fmt::print(stderr, "uscope doctor: {}\n", target.error().message());
      return 2;
    }
    report = session::examine_process(*target);
  }
  bool colour = ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  std::string text = json ? doctor_json(report) : doctor_text(report, colour);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return report.any_engine_works() ? 0 : 1;
}

}  // namespace uscope::cli
