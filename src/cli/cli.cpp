#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "cli/detach.h"
#include "cli/doctor.h"
#include "cli/libs.h"
#include "cli/list.h"
#include "cli/offsets.h"
#include "cli/output.h"
#include "cli/probe.h"
#include "cli/run.h"
#include "cli/script_options.h"
#include "cli/types.h"
#include "session/feature_text.h"
#include "version.h"

namespace uscope::cli {
namespace {

using Arguments = std::span<const char* const>;

struct Command {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;
  int (*run)(Arguments);
};

// The commands, in the order that help shows them. One file each.
constexpr auto commands = std::to_array<Command>({
    {"probe", "probe -x FILE -F|-V|-L|-D …",
     "functions, variables, lines, definitions, as perf probe has them", probe_command},
    {"types", "types FILE|PID [NAME|GLOB]", "types, and how they lie in memory", types_command},
    {"libs", "libs FILE|PID", "what a program is made of, and its libraries", libs_command},
    {"offsets", "offsets FILE | PID IMAGE [GLOB]", "where functions lie in their file", offsets_command},
    {"detach", "detach PID", "take out what a killed uscope has left in a process", detach_command},
    {"doctor", "doctor [PID]", "what works here, and what to run for the rest", doctor_command},
});

// A mapped file that shrinks under us (a rebuild in place) raises SIGBUS; say so instead of dying wordlessly.
void on_sigbus(int) {
  static constexpr char text[] = "uscope: a file changed while it was being read; run the command again\n";
  if (::write(STDERR_FILENO, text, sizeof text - 1) < 0) ::_exit(1);
  ::_exit(1);
}

// A file that is opened later must not get the number of a standard stream that we were started without. The
// commands that we start are without it, too.
void open_standard_streams() {
  for (int fd = 0; fd >= 0 && fd <= STDERR_FILENO;) {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd > STDERR_FILENO) ::close(fd);
  }
}

// An option, or a script's file: named as one, or there.
bool is_script(std::string_view first) {
  return first.starts_with('-') || first.ends_with(".bt") || first.find('/') != first.npos ||
         ::access(std::string(first).c_str(), R_OK) == 0;
}

Persona persona_of(std::string_view program) {
  return program.substr(program.rfind('/') + 1) == "bpftrace" ? Persona::Bpftrace : Persona::Uscope;
}

// Columns on a terminal: UTF-8's continuation bytes take none.
size_t width(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string help_text() {
  std::string text =
      "uscope shows what a running program is doing, function by function.\n"
      "\n"
      "usage: uscope -e 'PROGRAM' [-p PID | -c CMD]       run a script in bpftrace's language; also uscope "
      "FILE.bt\n"
      "       uscope -l[v] 'uprobe:FILE:GLOB' [-p PID]   list what can be probed\n";
  for (const Command& command : commands) {
    std::string line = "       uscope " + std::string(command.usage);
    line.resize(line.size() + (width(line) < 47 ? 47 - width(line) : 0), ' ');
    text += line + "   " + std::string(command.summary) + "\n";
  }
  text +=
      "       uscope COMMAND --help                      a command's options, with examples\n"
      "       uscope --version | --help\n"
      "\n" +
      options_text() +
      "\n"
      "examples:\n"
      "  uscope -e 'uprobe:./server:handle* { @[func] = count(); }'\n"
      "  uscope -e 'uprobe:libc:malloc { @ = hist(arg0); }' -p 1234\n"
      "  uscope -e 'uprobe:./app:work { printf(\"%d %s\\n\", arg0, str(arg1)); }' -c './app once'\n"
      "  uscope script.bt arg1 arg2 -- --name=value\n"
      "  uscope -lv 'uprobe:./server:handle*'\n";
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  ::signal(SIGBUS, on_sigbus);
  Arguments args(const_cast<const char* const*>(argv), size_t(argc));
  Persona persona = argc > 0 ? persona_of(argv[0]) : Persona::Uscope;
  if (argc < 2) {
    bool as_bpftrace = persona == Persona::Bpftrace;
    std::fputs(as_bpftrace ? bpftrace_usage().c_str() : help_text().c_str(), stderr);
    return as_bpftrace ? 1 : 2;
  }
  std::string_view first = argv[1];
  if (persona == Persona::Uscope) {
    for (const Command& command : commands)
      if (command.name == first) return command.run(args.subspan(2));
    if (!is_script(first)) {
      std::fprintf(stderr, "uscope: `%s` is not a command or an option; see uscope --help\n", argv[1]);
      return 2;
    }
  }
  auto options = read_script_options(args.subspan(1), persona);
  if (!options) return options.error();
  if (options->help) return write_output(persona == Persona::Bpftrace ? bpftrace_usage() : help_text());
  if (options->version)
    return write_output(persona == Persona::Bpftrace ? "bpftrace v0.27.1 (uscope v" USCOPE_VERSION ")\n"
                                                     : "uscope v" USCOPE_VERSION "\n");
  if (options->info) return write_output(session::feature_text(USCOPE_VERSION));
  return options->list ? list_command(*options) : run_command(*options);
}

}  // namespace uscope::cli
