#include "cli/probe.h"

#include <CLI/CLI.hpp>

#include "cli/output.h"
#include "process/info.h"
#include "session/perf_probe.h"

namespace uscope::cli {
namespace {

struct Options {
  session::PerfProbeRequest request;
  std::string pid, variables, lines, filter;
  std::vector<std::string> definitions;
  std::string functions;
  bool no_demangle = false, quiet = false;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("-x,--exec", options.request.file, "The program or library: a path or a bare name");
  app.add_option("-F,--funcs", options.functions, "List its functions, those that match GLOB")
      ->expected(0, 1)
      ->type_name("GLOB");
  app.add_option("--filter", options.filter, "More conditions on the names, as in 'a*&!b'");
  app.add_option("-V,--vars", options.variables,
                 "Show the variables that have a place at FUNC[+OFF|:LINE] or SRC:LINE");
  app.add_option("-L,--line", options.lines,
                 "Show the lines of FUNC[:RANGE] or SRC:RANGE, numbered where there is code");
  app.add_option("-D,--definition", options.definitions,
                 "Show what the kernel's uprobe_events takes for 'FUNC ARG…'");
  app.add_flag("--externs", options.request.externs, "-V: global variables too");
  app.add_flag("--range", options.request.range, "-V: where in the function each variable has a place");
  app.add_option("-s,--source", options.request.source_directory, "-L: the directory that holds the sources");
  app.add_option("-p,--target-ns", options.pid, "Paths are those of this process's file system");
  app.add_flag("--no-demangle", options.no_demangle, "Names as the symbol table spells them");
  app.add_flag("-f,--force", options.request.force,
               "-D: the kernel's return probe even where it may kill the program");
  app.add_flag("-q,--quiet", options.quiet, "No remarks on standard error");
  app.footer(
      "examples:\n"
      "  uscope probe -x ./server -F 'handle*'              functions\n"
      "  uscope probe -x libc -V getaddrinfo                variables at the entry\n"
      "  uscope probe -x ./server -V 'Pool::get:3'          variables three lines in\n"
      "  uscope probe -x ./server -L handle_request         lines with code\n"
      "  uscope probe -x ./dns -D 'main.(*server).handleRequest r.Question[0].Name'\n"
      "  uscope probe -x ./server -D 'work%return $retval'");
}

int print(const Options& options, const Result<session::PerfProbeAnswer>& answer) {
  if (!answer) return report(answer.error());
  int code = write_output(answer->text);
  if (!options.quiet)
    for (const std::string& note : answer->notes) warn(note);
  return code;
}

}  // namespace

int probe_command(std::span<const char* const> args) {
  Options options;
  CLI::App app("Explores a program as perf probe does.", "uscope probe");
  add_options(app, options);
  if (auto code = parse_arguments(app, args)) return *code;
  options.request.demangle = !options.no_demangle;
  if (!options.pid.empty()) {
    auto info = process::read_pid_argument(options.pid);
    if (!info) return report(info.error());
    options.request.pid = info->pid;
  }
  if (app.count("-F") != 0) {
    std::string filter = options.functions;
    if (!options.filter.empty()) filter += (filter.empty() ? "" : "&") + options.filter;
    return print(options, session::probe_functions(options.request, filter));
  }
  if (!options.variables.empty())
    return print(options, session::probe_variables(options.request, options.variables));
  if (!options.lines.empty()) return print(options, session::probe_lines(options.request, options.lines));
  for (const std::string& definition : options.definitions)
    if (int code = print(options, session::probe_definition(options.request, definition))) return code;
  if (!options.definitions.empty()) return 0;
  warn("say what to show: -F, -V, -L or -D; see uscope probe --help");
  return 2;
}

}  // namespace uscope::cli
