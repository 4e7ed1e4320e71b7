#include "cli/patchable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/output.h"
#include "probe/image_files.h"
#include "session/patch_coverage.h"

namespace uscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using session::PatchCoverage;

double percent(size_t of, size_t all) { return all == 0 ? 100.0 : 100.0 * double(of) / double(all); }

std::vector<std::pair<std::string, size_t>> by_count(const PatchCoverage::Counts& counts) {
  std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), [](const auto& pair) { return pair.second; });
  return sorted;
}

void add_part(std::string& text, std::string_view what, const PatchCoverage::Part& part, size_t functions,
              bool with_cases) {
  text += fmt::format("  {:<60}{:>8}{:>9.2f} %\n", what, part.covered, percent(part.covered, functions));
  for (const auto& [tactic, count] : by_count(part.tactics))
    text += fmt::format("    by {:<55}{:>8}{:>9.2f} %\n", tactic, count, percent(count, part.sites));
  for (const auto& [reason, count] : by_count(part.refused))
    text += fmt::format("    refused: {:<49}{:>8}{:>9.2f} %\n", reason, count, percent(count, functions));
  for (const std::string& each : part.cases) {
    if (!with_cases && &each != &part.cases.front()) break;
    text += (with_cases ? "      " : "      such as ") + each + "\n";
  }
}

std::string as_text(const PatchCoverage& coverage, bool with_cases) {
  std::string text = fmt::format("{}: {} functions", coverage.file, coverage.functions);
  if (coverage.unnamed != 0) text += fmt::format(", {} of them without a name", coverage.unnamed);
  text += "\n";
  add_part(text, "functions whose entry can be probed", coverage.entries, coverage.functions, with_cases);
  text += fmt::format("  {:<60}{:>8}{:>9.2f} %\n", "functions whose first instruction stays, for other tools",
                      coverage.beside, percent(coverage.beside, coverage.functions));
  add_part(text, "functions of which every exit can be probed", coverage.exits, coverage.functions,
           with_cases);
  return text;
}

Json as_json(const PatchCoverage::Part& part, size_t functions) {
  Json json;
  json["covered"] = part.covered;
  json["percent"] = percent(part.covered, functions);
  json["sites"] = part.sites;
  json["tactics"] = part.tactics;
  json["refused"] = part.refused;
  return json;
}

Json as_json(const PatchCoverage& coverage) {
  Json json;
  json["file"] = coverage.file;
  json["functions"] = coverage.functions;
  json["unnamed"] = coverage.unnamed;
  json["entries"] = as_json(coverage.entries, coverage.functions);
  json["entries"]["beside"] = coverage.beside;
  json["exits"] = as_json(coverage.exits, coverage.functions);
  return json;
}

// Shows on a terminal that something is going on, once it has lasted for a second.
class Progress {
 public:
  void operator()(const std::string& file, double share) {
    if (::isatty(STDERR_FILENO) == 0 || Clock::now() - began_ < std::chrono::seconds(1)) return;
    std::fprintf(stderr, "\r%s: %3.0f %%", file.c_str(), share * 100);
    is_shown_ = true;
  }
  ~Progress() {
    if (is_shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now();
  bool is_shown_ = false;
};

}  // namespace

int patchable_command(const ScriptOptions& options) {
  if (options.file.empty()) {
    std::fputs("uscope: -l --patchable needs a file; see uscope --help\n", stderr);
    return 2;
  }
  auto files = probe::find_image_files(options.file, options.pid);
  if (!files) return report(files.error());
  std::string text;
  for (const probe::ImageFile& file : *files) {
    Progress progress;
    auto coverage = session::patch_coverage(file.opened, [&](double share) { progress(file.shown, share); });
    if (!coverage) return report(coverage.error());
    coverage->file = file.shown;
    text += options.json ? as_json(*coverage).dump() + "\n" : as_text(*coverage, options.verbose);
  }
  return write_output(text);
}

}  // namespace uscope::cli
