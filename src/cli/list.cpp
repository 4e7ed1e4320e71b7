#include "cli/list.h"

#include <CLI/CLI.hpp>

#include "cli/output.h"
#include "process/info.h"
#include "session/list.h"

namespace uscope::cli {

int list_command(std::span<const char* const> args) {
  session::ListRequest request;
  std::string pid;
  bool list = false;
  CLI::App app("Lists the functions and static probes that can be probed.", "uscope -l");
  app.add_flag("-l,--list", list, "List probes")->required();
  app.add_flag("-v", request.verbose, "With the arguments and their types");
  app.add_option("-p", pid, "Look in this process: its executable and every library it maps");
  app.add_option("PATTERN", request.pattern,
                 "uprobe:FILE:GLOB, uretprobe:FILE:GLOB, usdt:FILE:[PROVIDER:]GLOB");
  app.footer(
      "FILE is a path, a bare name (libc, bash) or a glob. Functions match as their symbol is spelled and "
      "demangled.\n\n"
      "examples:\n"
      "  uscope -l 'uprobe:libc:malloc*'\n"
      "  uscope -lv 'uprobe:./server:handle*'           with arguments\n"
      "  uscope -l 'uprobe:./server:cpp:\"ns::Pool::get\"'\n"
      "  uscope -l 'usdt:/usr/lib/x86_64-linux-gnu/libc.so.6:*'\n"
      "  uscope -l -p 1234                              everything in a process");
  if (auto code = parse_arguments(app, args)) return *code;
  if (!pid.empty()) {
    auto info = process::read_pid_argument(pid);
    if (!info) return report(info.error());
    request.pid = info->pid;
  }
  auto result = session::list_probes(request);
  if (!result) return report(result.error());
  for (const std::string& warning : result->warnings) warn(warning);
  return write_output(result->text);
}

}  // namespace uscope::cli
