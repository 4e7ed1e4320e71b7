#include "cli/detach.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string>

#include "cli/output.h"
#include "engine/inproc/target/guardian.h"
#include "process/info.h"

namespace uscope::cli {
namespace {

using engine::inproc::Guardian;
using engine::inproc::RemoveReport;

Result<RemoveReport> remove_from(const process::ProcessInfo& target) {
  TRY_STATUS(process::check_may_attach(target));
  TRY(Guardian guardian, Guardian::start(target.pid));
  return guardian.remove_leftovers();
}

}  // namespace

int detach_command(std::span<const char* const> arguments) {
  CLI::App app(
      "Takes out of a process what a uscope that was killed has left there: patched code and mapped memory.\n"
      "A process with nothing of the kind is left alone. The next `uscope -p PID` does the same by itself.",
      "uscope detach");
  std::string argument;
  app.add_option("PID", argument, "A process id")->required();
  if (auto code = parse_arguments(app, arguments)) return *code;

  auto target = process::read_pid_argument(argument);
  if (!target) return report(target.error());
  auto removed = remove_from(*target);
  if (!removed) return report(removed.error());
  if (removed->changed != 0)
    warn(fmt::format("{} patched places have been changed by something else since; they were left alone",
                     removed->changed));
  if (!removed->is_clean)
    return report(
        Error(fmt::format("all probes are out of process {}, but thread {} has not left uscope's code "
                          "yet, so its memory stays",
                          target->pid, removed->thread))
            .with_hint("run the command again later"));
  if (removed->sessions == 0)
    return write_output(fmt::format("process {} has nothing of uscope's in it\n", target->pid));
  return write_output(
      fmt::format("took {} patches and all memory out of process {}\n", removed->restored, target->pid));
}

}  // namespace uscope::cli
