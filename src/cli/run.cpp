#include "cli/run.h"

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/fd.h"
#include "cli/output.h"
#include "process/info.h"
#include "session/live_names.h"
#include "session/run.h"
#include "view/json.h"
#include "view/text.h"

namespace uscope::cli {
namespace {

struct Options {
  std::string program, pid, command, format = "text", output;
  bool quiet = false, unsafe = false, dry_run = false, format_only = false, no_warnings = false,
       ignored = false;
  std::string ignored_value;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("-e", options.program, "Run this program");
  app.add_option("-p,--pid", options.pid, "Only this process");
  app.add_option("-c,--cmd", options.command,
                 "Run this command, traced from its first instruction; its end ends the script");
  app.add_option("-f", options.format, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_option("-o,--output", options.output, "Write what the script prints to this file");
  app.add_flag("-q,--quiet", options.quiet, "No messages of uscope's own");
  app.add_flag("--unsafe", options.unsafe, "Allow system() and the like");
  app.add_flag("--dry-run", options.dry_run, "Compile only");
  app.add_flag("--fmt", options.format_only, "Print the script, formatted");
  app.add_flag("--no-warnings", options.no_warnings, "No warnings");
  app.prefix_command();
  app.footer(
      "examples:\n"
      "  uscope -e 'uprobe:./server:handle* { @[func] = count(); }'\n"
      "  uscope -e 'uprobe:libc:malloc { @ = hist(arg0); }' -p 1234\n"
      "  uscope -e 'uprobe:./app:work { printf(\"%d %s\\n\", arg0, str(arg1)); }' -c './app once'\n"
      "  uscope script.bt arg1 arg2");
}

// `--name=value` and `--name` behind `--` are named parameters, the rest is positional.
lang::CommandLine parameters(const std::vector<std::string>& words) {
  lang::CommandLine line;
  bool named = false;
  for (const std::string& word : words) {
    if (word == "--") {
      named = true;
    } else if (named && word.starts_with("--")) {
      size_t equals = word.find('=');
      if (equals == std::string::npos)
        line.named[word.substr(2)] = std::nullopt;
      else
        line.named[word.substr(2, equals - 2)] = word.substr(equals + 1);
    } else {
      line.positional.push_back(word);
    }
  }
  return line;
}

Result<std::string> script_text(const std::string& file) {
  if (file != "-") return read_text_file(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

view::Writer writer_to(int fd) {
  return [fd](std::string_view text) {
    while (!text.empty()) {
      ssize_t written = ::write(fd, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      // Whoever read this has gone: end in good order, as an interrupt would.
      if (written < 0) {
        ::kill(::getpid(), SIGTERM);
        return;
      }
      text.remove_prefix(size_t(written));
    }
  };
}

}  // namespace

int run_command(std::span<const char* const> args) {
  Options options;
  CLI::App app("Runs a script on live programs.", "uscope");
  add_options(app, options);
  if (auto code = parse_arguments(app, args)) return *code;
  std::vector<std::string> rest = app.remaining();
  session::RunRequest request;
  request.text = options.program;
  if (app.count("-e") == 0) {
    if (rest.empty()) return report(Error("no script").with_hint("give a file, or -e 'PROGRAM'"));
    if (rest.front().size() > 1 && rest.front().starts_with('-')) {
      warn("unknown option " + rest.front() + "; see uscope --help");
      return 2;
    }
    auto text = script_text(rest.front());
    if (!text) return report(text.error());
    request.text = *text;
    request.name = rest.front() == "-" ? "stdin" : rest.front();
    rest.erase(rest.begin());
  }
  if (options.format_only) {
    auto formatted = session::format_script(request.name, request.text);
    return formatted ? write_output(*formatted) : report(formatted.error());
  }
  if (!options.pid.empty()) {
    auto info = process::read_pid_argument(options.pid);
    if (!info) return report(info.error());
    request.pid = info->pid;
  }
  request.command_line = parameters(rest);
  request.command = options.command;
  request.allow_unsafe = options.unsafe;
  request.dry_run = options.dry_run;
  request.quiet = options.quiet;
  request.with_warnings = !options.no_warnings;

  Fd file;
  if (!options.output.empty()) {
    file = Fd(::open(options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.is_open()) return report(Error::from_errno("opening " + options.output, errno));
  }
  ::signal(SIGPIPE, SIG_IGN);
  view::Writer results = writer_to(file.is_open() ? file.get() : STDOUT_FILENO);
  view::Writer messages = writer_to(STDERR_FILENO);
  session::LiveNames names;
  std::unique_ptr<view::Output> output;
  if (options.format == "json")
    output = std::make_unique<view::JsonOutput>(results, names);
  else
    output = std::make_unique<view::TextOutput>(results, messages, names);
  auto code = session::run_script(request, *output, names, messages);
  return code ? *code : report(code.error());
}

}  // namespace uscope::cli
