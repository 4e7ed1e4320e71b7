#include "session/run.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "codegen/generate.h"
#include "engine/kernel/kernel_engine.h"
#include "lang/compile.h"
#include "lang/parser.h"
#include "lang/printer.h"
#include "process/info.h"
#include "session/child.h"
#include "session/reporter.h"
#include "session/script_places.h"
#include "session/script_probes.h"
#include "session/script_types.h"
#include "symbols/lookup.h"

namespace uscope::session {
namespace {

using lang::ProbeKind;

// Interrupts end a script in good order: they are read here, where nothing is half done.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
    fd_ = Fd(::signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~Signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  bool arrived() {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof info) == sizeof info;
  }

 private:
  sigset_t set_, before_;
  Fd fd_;
};

// Linux 6.9 counts the rounds of a script's loops itself.
bool can_count_loops() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 9);
}

uint64_t boot_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

// One compiled script on one engine.
class Session {
 public:
  Session(const lang::TypedProgram& program, const codegen::Compiled& compiled, view::Output& output,
          event::SymbolNames& names)
      : program_(program),
        compiled_(compiled),
        output_(output),
        reporter_(compiled.plan, engine_, names, output) {}

  Status load() {
    TRY_STATUS(engine_.load(compiled_.program));
    for (const codegen::InitialEntry& entry : compiled_.initial_entries)
      TRY_STATUS(engine_.set_entry(entry.map, entry.key, entry.value));
    if (compiled_.start_time_map) {
      uint32_t key = 0;
      uint64_t now = boot_time_ns();
      TRY_STATUS(engine_.set_entry(*compiled_.start_time_map,
                                   as_bytes({reinterpret_cast<char*>(&key), sizeof key}),
                                   as_bytes({reinterpret_cast<char*>(&now), sizeof now})));
    }
    return {};
  }

  Status run_all(ProbeKind kind) {
    for (const codegen::CodeUse& use : compiled_.uses)
      if (point(use).kind == kind) TRY_STATUS(engine_.run(use.code));
    return {};
  }

  Status attach(const std::vector<engine::Attachment>& attachments, bool quiet) {
    TRY(engine::AttachReport report, engine_.attach(attachments));
    for (const engine::AttachFailure& failure : report.failures)
      output_.script_message(view::Severity::Warning, "",
                             attachments[failure.attachment].file + ": " + failure.error.message());
    has_events_ = !attachments.empty();
    if (!quiet) output_.attached_probes(compiled_.uses.size() - report.failures.size());
    return {};
  }

  // Until something ends it. A script of only begin and end probes ends by itself.
  Status wait(Signals& signals, Child* child, const std::optional<process::ProcessInfo>& target) {
    TRY_STATUS(drain(std::chrono::milliseconds(0)));
    while (has_events_ && !reporter_.exit_code() && !signals.arrived()) {
      TRY_STATUS(drain(std::chrono::milliseconds(50)));
      if (child != nullptr && child->ended()) break;
      if (target && !process::is_same_process(*target)) break;
    }
    return {};
  }

  Status finish(bool print_maps) {
    engine_.detach();
    TRY_STATUS(drain(std::chrono::milliseconds(0)));
    TRY_STATUS(run_all(ProbeKind::kEnd));
    TRY_STATUS(drain(std::chrono::milliseconds(0)));
    output_.end();
    if (print_maps) reporter_.print_maps();
    if (uint64_t lost = engine_.lost(); lost != 0) output_.lost_events(lost);
    return {};
  }

  // Sums a PerCpuArray of one number.
  uint64_t sum_of(uint32_t map) {
    uint64_t sum = 0;
    (void)engine_.for_each_entry(map, [&](const engine::MapEntry& entry) {
      for (const auto& value : entry.values) sum += ByteReader(value).u64();
    });
    return sum;
  }

  Status drain(std::chrono::milliseconds timeout) {
    TRY(size_t got, engine_.poll(timeout, [this](Bytes record) { reporter_.take(record); }));
    (void)got;
    return {};
  }

  int exit_code() const { return reporter_.exit_code().value_or(0); }

 private:
  const lang::AttachSpec& point(const codegen::CodeUse& use) const {
    return program_.probes[use.probe].attach_points[use.attach_point];
  }

  const lang::TypedProgram& program_;
  const codegen::Compiled& compiled_;
  view::Output& output_;
  engine::kernel::KernelEngine engine_;
  Reporter reporter_;
  bool has_events_ = false;
};

std::vector<CodeAtPoint> points_of(const lang::TypedProgram& program, const codegen::Compiled& compiled) {
  std::vector<CodeAtPoint> points;
  for (const codegen::CodeUse& use : compiled.uses)
    points.push_back({&program.probes[use.probe].attach_points[use.attach_point], use.code, use.cookie});
  return points;
}

lang::CompileInputs compile_inputs(const RunRequest& request, ScriptProbes& probes) {
  lang::CompileInputs inputs;
  inputs.command_line = request.command_line;
  inputs.allow_unsafe = request.allow_unsafe;
  inputs.environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  inputs.matcher = [&probes](const lang::AttachSpec& point, lang::Diagnostics& diagnostics) {
    return probes.match(point, diagnostics);
  };
  inputs.loader = [](const std::string& path) -> std::optional<std::string> {
    auto text = read_text_file(path);
    return text ? std::optional<std::string>(std::move(*text)) : std::nullopt;
  };
  return inputs;
}

// In the order of codegen's cookies: every attach point of every probe.
std::vector<std::string> probe_functions(const lang::TypedProgram& program) {
  std::vector<std::string> functions;
  for (const lang::TypedProbe& probe : program.probes)
    for (const lang::AttachSpec& point : probe.attach_points) {
      bool on_function = point.kind == ProbeKind::kUprobe || point.kind == ProbeKind::kUretprobe;
      functions.push_back(on_function ? symbols::bare_name(point.function) : "");
    }
  return functions;
}

}  // namespace

Result<int> run_script(const RunRequest& request, view::Output& output, LiveNames& names,
                       const view::Writer& report) {
  std::optional<process::ProcessInfo> target;
  if (request.pid) {
    TRY(target, process::read_process(*request.pid));
  }
  std::optional<Child> child;
  if (!request.command.empty() && !request.dry_run) {
    TRY(Child started, Child::start(request.command));
    child.emplace(std::move(started));
  }
  std::optional<pid_t> pid = child ? std::optional(child->pid()) : request.pid;

  ScriptTypes types;
  ScriptProbes probes(types, pid);
  lang::SourceSet sources;
  lang::Diagnostics diagnostics;
  uint32_t source = sources.add(request.name, request.text);
  auto program = lang::compile(sources, source, compile_inputs(request, probes), types, diagnostics);
  if (std::string messages = diagnostics.render(sources, request.with_warnings); !messages.empty())
    report(messages);
  if (!program) return 1;

  ScriptPlaces places(types);
  codegen::Inputs inputs;
  inputs.sources = &sources;
  inputs.types = &types;
  inputs.places = &places;
  inputs.loops = can_count_loops() ? codegen::Loops::MayGoto : codegen::Loops::Walked;
  inputs.possible_cpus = uint32_t(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)));
  if (child) inputs.child_pid = uint32_t(child->pid());
  TRY(codegen::Compiled compiled, codegen::generate(*program, inputs));
  ReturnProbes returns(compiled.program, program->settings.kernel_return_probes);
  TRY(ScriptProbes::Placement placement, probes.attachments(points_of(*program, compiled), returns));
  if (request.with_warnings)
    for (const std::string& text : placement.warnings) report("WARNING: " + text + "\n");
  if (request.dry_run) return 0;
  names.set_probe_functions(probe_functions(*program));

  Signals signals;
  Session session(*program, compiled, output, names);
  TRY_STATUS(session.load());
  TRY_STATUS(session.run_all(ProbeKind::kBegin));
  TRY_STATUS(session.attach(placement.attachments, request.quiet));
  // bpftrace's test suite waits for this line.
  if (std::getenv("__BPFTRACE_NOTIFY_PROBES_ATTACHED") != nullptr)
    output.printf("__BPFTRACE_NOTIFY_PROBES_ATTACHED\n");
  if (child) TRY_STATUS(child->release());
  TRY_STATUS(session.wait(signals, child ? &*child : nullptr, target));
  TRY_STATUS(session.finish(program->settings.print_maps_on_exit));
  if (auto map = returns.unreported_map())
    if (uint64_t calls = session.sum_of(*map); calls != 0)
      report("WARNING: " + std::to_string(calls) +
             " calls ended in a jump and are not reported: what they returned is not known\n");
  return session.exit_code();
}

Result<std::string> format_script(const std::string& name, const std::string& text) {
  lang::SourceSet sources;
  lang::Diagnostics diagnostics;
  uint32_t source = sources.add(name, text);
  auto program = lang::parse(sources, source, diagnostics);
  if (!program) return fail(diagnostics.render(sources));
  return lang::print(*program, sources);
}

}  // namespace uscope::session
