#include "cli/run.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/fd.h"
#include "cli/output.h"
#include "cli/sink.h"
#include "process/info.h"
#include "session/live_names.h"
#include "view/json.h"
#include "view/text.h"

namespace uscope::cli {
namespace {

// As the compiler's own messages look.
int report_script(const Error& error) {
  std::fprintf(stderr, "ERROR: %s\n", error.what().c_str());
  if (!error.hint().empty()) std::fprintf(stderr, "HINT: %s\n", error.hint().c_str());
  return 1;
}

Result<std::string> script_text(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  Fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open()) return fail("failed to open file '" + file + "': " + std::strerror(errno));
  return read_text_file(file);
}

// Blocked, not ignored: a command of -c or system() would inherit that through exec.
void block_sigpipe() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

session::ScriptMode script_mode(Mode mode) {
  if (mode == Mode::Test) return session::ScriptMode::Test;
  return mode == Mode::Bench ? session::ScriptMode::Bench : session::ScriptMode::Run;
}

}  // namespace

Result<session::RunRequest> run_request(const ScriptOptions& options) {
  session::RunRequest request;
  if (options.program) {
    request.text = *options.program;
  } else {
    if (options.file.empty()) return fail(Error("no script").with_hint("give a file, or -e 'PROGRAM'"));
    TRY(request.text, script_text(options.file));
    request.name = options.file == "-" ? "stdin" : options.file;
  }
  if (options.pid) {
    auto info = process::read_process(*options.pid);
    if (!info) return fail("Failed to attach to pid: Unable to open pidfd (No such process)");
    TRY_STATUS(process::check_is_process(*info));
    request.pid = *options.pid;
  }
  request.dwarf_pids = options.dwarf_pids;
  request.follows_forks = options.follows_forks;
  request.command_line = options.parameters;
  request.command = options.command;
  request.engine = options.engine == "kernel"   ? session::EngineChoice::Kernel
                   : options.engine == "inproc" ? session::EngineChoice::Inproc
                                                : session::EngineChoice::Auto;
  request.command_has_quotes = options.persona == Persona::Uscope;
  request.is_bpftrace = options.persona == Persona::Bpftrace;
  request.allow_unsafe = options.unsafe;
  request.dry_run = options.dry_run;
  request.quiet = options.quiet;
  request.verbose = options.verbose;
  request.with_warnings = options.warnings;
  request.with_helper_warnings = options.helper_warnings;
  request.include_folders = options.include_folders;
  request.include_files = options.include_files;
  request.debug_folders = options.debug_folders;
  request.debug_stages = options.debug_stages;
  request.mode = script_mode(options.mode);
  request.probe_filter = options.probe_filter;
  return request;
}

int run_command(const ScriptOptions& options) {
  auto request = run_request(options);
  if (!request) return report_script(request.error());
  if (options.mode == Mode::Format) {
    auto formatted = session::format_script(request->name, request->text);
    if (formatted) return write_output(*formatted);
    std::fputs(formatted.error().what().c_str(), stderr);
    return 1;
  }
  Fd file;
  if (!options.output.empty()) {
    file = Fd(::open(options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.is_open())
      return report_script(
          Error("Failed to open output file: \"" + options.output + "\": " + std::strerror(errno)));
  }
  block_sigpipe();
  Sink result_sink(file.is_open() ? file.get() : STDOUT_FILENO, options.buffering.value_or(Buffering::Line));
  Sink message_sink(STDERR_FILENO, Buffering::None);
  view::Writer results = [&](std::string_view text) { result_sink.write(text); };
  view::Writer messages = [&](std::string_view text) {
    result_sink.end_batch();  // what was said before comes before
    message_sink.write(text);
  };
  request->on_drained = [&] { result_sink.end_batch(); };
  request->on_interrupted = [&] {
    result_sink.stop_waiting();
    message_sink.stop_waiting();
  };
  request->on_finished = [&] {
    result_sink.finish();
    message_sink.finish();
  };
  request->is_unheard = [&] { return result_sink.is_over() || message_sink.is_over(); };
  session::LiveNames names;
  std::unique_ptr<view::Output> output;
  if (options.json)
    output = std::make_unique<view::JsonOutput>(results, names);
  else
    output = std::make_unique<view::TextOutput>(results, messages, names);
  request->on_attached = [&] {
    result_sink.end_batch();  // whoever waits for the line that tells of it shall not wait for a probe's hit
    // bpftrace's test suite waits for this line, whatever the format and wherever results go.
    if (::getenv("__BPFTRACE_NOTIFY_PROBES_ATTACHED") == nullptr) return;
    result_sink.flush();
    write_output("__BPFTRACE_NOTIFY_PROBES_ATTACHED\n");
  };
  auto code = session::run_script(*request, *output, names, messages);
  request->on_finished();
  if (result_sink.trouble()) report_script(*result_sink.trouble());
  if (!code) return report_script(code.error());
  return result_sink.trouble() || message_sink.trouble() ? 1 : *code;
}

}  // namespace uscope::cli
