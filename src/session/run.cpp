#include "session/run.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "codegen/disassemble.h"
#include "lang/parser.h"
#include "lang/printer.h"
#include "process/info.h"
#include "process/maps.h"
#include "session/beside_inproc.h"
#include "session/child.h"
#include "session/collectors.h"
#include "session/compile_script.h"
#include "session/engines.h"
#include "session/refusal_reasons.h"
#include "session/reporter.h"
#include "session/signals.h"
#include "session/test_probes.h"
#include "session/unwinding.h"
#include "symbols/lookup.h"

namespace uscope::session {
namespace {

using lang::MissingProbes;
using lang::ProbeKind;

// Nobody tells of a process's end on kernels without pidfds; then it is looked for this often.
constexpr auto kLookAgain = std::chrono::milliseconds(50);
constexpr auto kKeepUp = std::chrono::milliseconds(250);  // with what a process maps; see Unwinding
// Processes that the traced one has forked may outlive it.
constexpr auto kAfterTheEnd = std::chrono::microseconds(20000);

uint64_t boot_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

// The process of -p: ended is what it will be some day.
struct Target {
  process::ProcessInfo info;
  Fd end;  // readable then
};

Result<Target> find_target_process(pid_t pid) {
  TRY(process::ProcessInfo info, process::read_process(pid));
  return Target{std::move(info), Fd(int(::syscall(SYS_pidfd_open, pid, 0)))};
}

// One that nobody waits for stays a zombie. When only its first thread has ended, it has not.
bool has_ended(const Target& target) {
  pollfd source{target.end.get(), POLLIN, 0};
  if (target.end.is_open() && ::poll(&source, 1, 0) == 0) return false;
  if (!process::is_same_process(target.info)) return true;
  auto now = process::read_process(target.info.pid);
  return !now || now->is_zombie;
}

// A program that would run with its owner's rights does not, when it is executed under ptrace by an ordinary
// user.
bool loses_rights(const std::string& file) {
  struct stat info {};
  if (::geteuid() == 0 || ::stat(file.c_str(), &info) != 0) return false;
  return (info.st_mode & S_ISUID && info.st_uid != ::geteuid()) ||
         (info.st_mode & S_ISGID && info.st_gid != ::getegid());
}

// One compiled script on one engine.
class Session {
 public:
  Session(const RunRequest& request, const lang::TypedProgram& program, const codegen::Compiled& compiled,
          engine::Engine& engine, view::Output& output, LiveNames& names, Unwinding& unwinding,
          Signals& signals)
      : request_(request),
        program_(program),
        compiled_(compiled),
        output_(output),
        names_(names),
        unwinding_(unwinding),
        signals_(signals),
        engine_(engine),
        reporter_(compiled.plan, engine_, names, output, request.with_warnings) {
    reporter_.set_wants_end([this] { return wants_no_commands(); });
  }

  Status load() {
    TRY_STATUS(engine_.load(compiled_.program));
    TRY_STATUS(unwinding_.fill(engine_));
    for (const codegen::InitialEntry& entry : compiled_.initial_entries)
      TRY_STATUS(engine_.set_entry(entry.map, entry.key, entry.value));
    if (compiled_.start_time_map) {
      uint32_t key = 0;
      uint64_t now = boot_time_ns();
      TRY_STATUS(engine_.set_entry(*compiled_.start_time_map,
                                   as_bytes({reinterpret_cast<char*>(&key), sizeof key}),
                                   as_bytes({reinterpret_cast<char*>(&now), sizeof now})));
    }
    return engine_.wake_on(signals_.source());
  }

  Status run_all(ProbeKind kind) {
    for (const codegen::CodeUse& use : compiled_.uses)
      if (point(use).kind == kind) TRY_STATUS(engine_.run(use.code));
    return {};
  }

  // `look`: see beside_inproc.h.
  Status attach(ScriptProbes::Placement placement, bool is_inproc, std::future<bool>& look,
                const view::Writer& report);

  // Until something ends it. A script of only begin and end probes ends by itself.
  Status wait(Child* child, const std::optional<Target>& target, const view::Writer& report);

  Status finish(bool print_maps) {
    engine_.detach();
    TRY_STATUS(drain(std::chrono::milliseconds(0)));
    look_for_signals();
    is_ending_ = true;
    exited_before_end_ = reporter_.exit_code().has_value();
    TRY_STATUS(run_all(ProbeKind::kEnd));
    TRY_STATUS(drain(std::chrono::milliseconds(0)));
    output_.end();
    if (print_maps) reporter_.print_maps();
    if (uint64_t lost = engine_.lost(); lost != 0) output_.lost_events(lost);
    if (uint64_t left = reporter_.commands_left_out(); left != 0)
      output_.script_message(
          view::Severity::Warning, "",
          fmt::format("the end came before {} command{} of system() had run", left, left == 1 ? "" : "s"));
    return {};
  }

  void tell_news(const view::Writer& report);

  // Sums a PerCpuArray's numbers at an index.
  uint64_t sum_of(uint32_t map, uint32_t index = 0) {
    uint64_t sum = 0;
    (void)engine_.for_each_entry(map, [&](const engine::MapEntry& entry) {
      if (ByteReader(entry.key).u32() != index) return;
      for (const auto& value : entry.values) sum += ByteReader(value).u64();
    });
    return sum;
  }

  // --test and --bench.
  Result<int> try_out(const view::Writer& report);

  // A signal has come that ends the script.
  bool is_interrupted() { return look_for_signals().wants_end; }

  int exit_code() const { return reporter_.exit_code().value_or(0); }

 private:
  const lang::AttachSpec& point(const codegen::CodeUse& use) const {
    return program_.probes[use.probe].attach_points[use.attach_point];
  }
  Status drain(std::chrono::milliseconds timeout) {
    auto take = [this](Bytes record) {
      if (unwinding_.take(engine_, record)) return;
      if (is_part_of_script(record)) reporter_.take(record);
      if (reporter_.exit_code()) engine_.stop_timers();
    };
    names_.begin_batch();
    TRY(size_t got, engine_.poll(timeout, take));
    unwinding_.keep_up(engine_);
    if (got != 0) request_.on_drained();
    return {};
  }
  // Whoever finds a signal first remembers it for the others.
  const Signals::Arrived& look_for_signals() {
    Signals::Arrived now = signals_.take();
    if (now.wants_end) request_.on_interrupted();
    arrived_.wants_end |= now.wants_end || request_.is_unheard();
    arrived_.user_signals += now.user_signals;
    return arrived_;
  }
  // Those of the end run, unless that takes too long for whoever asked for it.
  bool wants_no_commands() {
    if (!is_ending_) return look_for_signals().wants_end;
    is_in_haste_ |= signals_.take().wants_end;
    return is_in_haste_;
  }
  bool is_part_of_script(Bytes record) const;
  std::vector<ScriptProbes::PointFailure> leave_out_of_many(std::vector<ScriptProbes::PointFailure> failures,
                                                            const view::Writer& report) const;
  Status refuse(const std::vector<ScriptProbes::PointFailure>& failures, const view::Writer& report,
                size_t attached) const;

  const RunRequest& request_;
  const lang::TypedProgram& program_;
  const codegen::Compiled& compiled_;
  view::Output& output_;
  LiveNames& names_;
  Unwinding& unwinding_;
  Signals& signals_;
  engine::Engine& engine_;
  Reporter reporter_;
  bool has_events_ = false;
  bool is_ending_ = false;
  bool is_in_haste_ = false;
  bool exited_before_end_ = false;
  Signals::Arrived arrived_;
};

// What probes report after exit(), until they are out, is not. A hit that was under way when its probe was
// taken out may even come after END's own reports began.
bool Session::is_part_of_script(Bytes record) const {
  if (!is_ending_) return !reporter_.exit_code();
  if (!exited_before_end_) return true;
  ByteReader reader(record);
  auto kind = event::RecordKind(reader.u32());
  uint32_t id = reader.u32();
  auto is_among = [id](uint32_t first, uint32_t count) { return id >= first && id - first < count; };
  auto is_of_end = [&](const codegen::ReportNumbers& numbers) {
    return kind == event::RecordKind::Printf ? is_among(numbers.first_format, numbers.formats)
                                             : is_among(numbers.first_value, numbers.values);
  };
  bool is_numbered = kind == event::RecordKind::Printf || kind == event::RecordKind::PrintValue;
  return !is_numbered || std::ranges::any_of(compiled_.end_reports, is_of_end);
}

// Failures of sites -> failures of probes: a probe has failed when none of its sites is left, or one of those
// that it needs all of.
std::vector<ScriptProbes::PointFailure> whole_failures(const std::vector<engine::Attachment>& attachments,
                                                       const engine::AttachReport& report) {
  auto site_of = [&](const engine::AttachFailure& failure) -> const engine::Site& {
    return attachments[failure.attachment].sites[failure.site];
  };
  if (report.failures.empty()) return {};
  std::unordered_map<uint64_t, size_t> left;  // of those that have lost any
  for (const engine::AttachFailure& failure : report.failures) left[site_of(failure).cookie] = 0;
  for (const engine::Attachment& attachment : attachments)
    for (const engine::Site& site : attachment.sites)
      if (auto found = left.find(site.cookie); found != left.end()) ++found->second;
  std::vector<ScriptProbes::PointFailure> failures;
  for (const engine::AttachFailure& failure : report.failures) {
    const engine::Site& site = site_of(failure);
    size_t& of_probe = left[site.cookie];
    if (of_probe == 0) continue;
    of_probe = site.needs_all ? 0 : of_probe - 1;
    if (of_probe == 0) failures.push_back({site.cookie, failure.error});
  }
  return failures;
}

// Files whose probes are in place, but not in this process. By inode alone: some file systems (overlay,
// btrfs) show another device in the maps than stat tells.
std::vector<std::string> files_not_loaded(pid_t pid, const std::vector<engine::Attachment>& attachments) {
  using Kind = engine::Attachment::Kind;
  auto maps = process::Maps::of(pid);
  if (!maps) return {};
  std::set<ino_t> loaded;
  for (const process::Mapping& mapping : maps->all()) loaded.insert(mapping.inode);
  std::set<std::string> files;
  for (const engine::Attachment& attachment : attachments)
    if (attachment.kind == Kind::UserProbe || attachment.kind == Kind::UserReturn)
      files.insert(attachment.file);
  std::erase_if(files, [&](const std::string& file) {
    struct stat info {};
    return ::stat(file.c_str(), &info) != 0 || loaded.contains(info.st_ino);
  });
  return {files.begin(), files.end()};
}

Status Session::attach(ScriptProbes::Placement placement, bool is_inproc, std::future<bool>& look,
                       const view::Writer& report) {
  for (const codegen::CodeUse& use : compiled_.uses) {
    has_events_ |= point(use).kind == ProbeKind::kSelf;
    if (request_.verbose) report("Trying to attach probe: " + point(use).text + "\n");
  }
  TRY(engine::AttachReport attached, is_inproc ? engine_.attach(placement.attachments)
                                               : attach_beside_inproc(engine_, placement.attachments, look));
  if (request_.verbose)
    for (const std::string& remark : attached.remarks) report("Attaching: " + remark + "\n");
  std::vector<ScriptProbes::PointFailure> failures = std::move(placement.failures);
  std::vector<ScriptProbes::PointFailure> unplaced = whole_failures(placement.attachments, attached);
  const size_t count = placement.placed - unplaced.size();
  for (auto& failure : leave_out_of_many(std::move(unplaced), report)) failures.push_back(std::move(failure));
  TRY_STATUS(refuse(failures, report, count));
  has_events_ |= !placement.attachments.empty();
  if (!is_inproc && request_.pid)
    attached.awaited_files = files_not_loaded(*request_.pid, placement.attachments);
  if (request_.with_warnings && request_.pid)
    for (const std::string& file : attached.awaited_files)
      report(fmt::format("WARNING: process {} has not loaded {}; its probes wait for it\n", *request_.pid,
                         file));
  if (!request_.quiet) output_.attached_probes(count);
  return {};
}

// As ScriptProbes does with what it cannot place: an attach point that stands for many functions goes without
// those that the engine refuses, as long as one is left. Gives back the other failures.
std::vector<ScriptProbes::PointFailure> Session::leave_out_of_many(
    std::vector<ScriptProbes::PointFailure> failures, const view::Writer& report) const {
  if (failures.empty()) return {};
  std::map<uint32_t, size_t> functions;  // by the attach point's place in the script
  std::unordered_map<uint64_t, uint32_t> places;
  places.reserve(compiled_.uses.size());
  for (const codegen::CodeUse& use : compiled_.uses) {
    const uint32_t place = point(use).span.begin;
    if (places.try_emplace(use.cookie, place).second) ++functions[place];
  }
  std::map<uint32_t, std::vector<ScriptProbes::PointFailure>> refused;
  std::vector<ScriptProbes::PointFailure> rest;
  for (ScriptProbes::PointFailure& failure : failures) {
    auto place = places.find(failure.cookie);
    (place == places.end() ? rest : refused[place->second]).push_back(std::move(failure));
  }
  for (auto& [place, those] : refused) {
    if (those.size() >= functions[place]) {
      for (ScriptProbes::PointFailure& failure : those) rest.push_back(std::move(failure));
    } else if (request_.with_warnings) {
      std::vector<std::string> reasons;
      for (const ScriptProbes::PointFailure& failure : those) reasons.push_back(failure.error.message());
      report(fmt::format("WARNING: {} of {} functions are left out: {}; the first is {}\n", those.size(),
                         functions[place], count_reasons(reasons),
                         compiled_.plan.probes[those.front().cookie]));
    }
  }
  return rest;
}

Status Session::refuse(const std::vector<ScriptProbes::PointFailure>& failures, const view::Writer& report,
                       size_t attached) const {
  MissingProbes how = program_.settings.missing_probes;
  for (const ScriptProbes::PointFailure& failure : failures) {
    bool is_known = failure.cookie < compiled_.plan.probes.size();
    std::string text = is_known ? compiled_.plan.probes[failure.cookie] : "a part of a return probe";
    if (how == MissingProbes::kError) {
      report("ERROR: " + failure.error.message() + "\n");
      return fail(
          fmt::format("Unable to attach probe: {}. If this is expected, set the 'missing_probes' "
                      "config variable to 'warn'.",
                      text));
    }
    if (how == MissingProbes::kWarn && request_.with_warnings)
      report(fmt::format("WARNING: {}\nWARNING: Unable to attach probe: {}. Skipping.\n",
                         failure.error.message(), text));
  }
  if (!failures.empty() && attached == 0) return fail("Attachment failed for all probes.");
  return {};
}

void Session::tell_news(const view::Writer& report) {
  for (const std::string& text : engine_.take_news())
    if (!request_.quiet) report("uscope: " + text + "\n");
}

Status Session::wait(Child* child, const std::optional<Target>& target, const view::Writer& report) {
  bool is_told = (child == nullptr || child->end().is_open()) && (!target || target->end.is_open());
  if (child != nullptr) TRY_STATUS(engine_.wake_on(child->end()));
  if (target) TRY_STATUS(engine_.wake_on(target->end));
  TRY_STATUS(drain(std::chrono::milliseconds(0)));
  while (has_events_ && !reporter_.exit_code()) {
    Signals::Arrived arrived = look_for_signals();
    arrived_.user_signals = 0;
    for (unsigned i = 0; i < arrived.user_signals; ++i) TRY_STATUS(run_all(ProbeKind::kSelf));
    if (arrived.wants_end) break;
    const auto patience = unwinding_.is_following() ? kKeepUp : std::chrono::milliseconds(1000);
    TRY_STATUS(drain(is_told && arrived.user_signals == 0 ? patience : kLookAgain));
    tell_news(report);
    const bool is_over = (child != nullptr && child->ended()) || (target && has_ended(*target));
    if (is_over && !engine_.has_followed_children()) break;
    // Its end can be read from now on, and would wake us all the time.
    if (is_over) ::usleep(useconds_t(kAfterTheEnd.count()));
  }
  tell_news(report);
  return {};
}

Result<int> Session::try_out(const view::Writer& report) {
  bool is_bench = request_.mode == ScriptMode::Bench;
  std::vector<NamedCode> codes;
  for (const codegen::CodeUse& use : compiled_.uses)
    if (point(use).kind == (is_bench ? ProbeKind::kBench : ProbeKind::kTest))
      codes.push_back({point(use).event, use.code});
  TRY(codes, filter_by_name(std::move(codes), request_.probe_filter));
  if (is_bench) {
    TRY_STATUS(run_benchmarks(codes, engine_, output_));
    return 0;
  }
  auto poll = [this] { return drain(std::chrono::milliseconds(0)); };
  auto failed = [this] { return reporter_.take_exit_code().value_or(0) != 0; };
  return run_tests(codes, engine_, poll, failed, report);
}

bool probes_user_space(const lang::TypedProgram& program) {
  return std::ranges::any_of(program.probes, [](const lang::TypedProbe& probe) {
    return std::ranges::any_of(probe.attach_points, &lang::AttachSpec::user_space);
  });
}

std::set<std::string> probed_files(const lang::TypedProgram& program) {
  std::set<std::string> files;
  for (const lang::TypedProbe& probe : program.probes)
    for (const lang::AttachSpec& point : probe.attach_points)
      if (point.user_space()) files.insert(point.target);
  return files;
}

// Unless the script says: inlined calls are shown, source lines are not; as bpftrace, neither.
NameOptions name_options(const RunRequest& request, const lang::Settings& settings) {
  NameOptions options;
  options.debug_folders = request.debug_folders;
  options.inlined = settings.show_debug_info.value_or(!request.is_bpftrace);
  options.lines = settings.show_debug_info.value_or(false);
  options.stack_ends = !request.is_bpftrace;
  options.parameters = request.is_bpftrace;
  return options;
}

// In the order of codegen's cookies: every attach point of every probe. Short, unless that makes two of them
// the same.
std::vector<std::string> probe_functions(const lang::TypedProgram& program, bool with_parameters) {
  std::vector<std::string_view> names;
  for (const lang::TypedProbe& probe : program.probes)
    for (const lang::AttachSpec& point : probe.attach_points) {
      bool on_function = point.kind == ProbeKind::kUprobe || point.kind == ProbeKind::kUretprobe;
      names.push_back(on_function ? std::string_view(point.function) : "");
    }
  std::vector<std::string> functions;
  std::map<std::string, std::set<std::string_view>> overloads;
  for (std::string_view name : names) {
    functions.push_back(symbols::bare_name(name));
    overloads[functions.back()].insert(name);
  }
  for (size_t i = 0; i < names.size(); ++i)
    if (with_parameters || overloads[functions[i]].size() > 1) functions[i] = symbols::display_name(names[i]);
  return functions;
}

// All but those that only --test and --bench run.
std::vector<CodeAtPoint> points_of(const lang::TypedProgram& program, const codegen::Compiled& compiled) {
  std::vector<CodeAtPoint> points;
  for (const codegen::CodeUse& use : compiled.uses) {
    const lang::AttachSpec& point = program.probes[use.probe].attach_points[use.attach_point];
    if (point.kind != ProbeKind::kTest && point.kind != ProbeKind::kBench)
      points.push_back({&point, use.code, use.cookie, use.site_codes});
  }
  return points;
}

bool wants(const RunRequest& request, std::string_view stage) {
  return std::ranges::any_of(request.debug_stages,
                             [&](const std::string& asked) { return asked == stage || asked == "all"; });
}

void show_program(const RunRequest& request, ScriptCompiler& compiler, const lang::TypedProgram& program,
                  const view::Writer& report) {
  if (wants(request, "ast") || wants(request, "parse"))
    report("The script as parsed\n--------------------\n" + compiler.tree() + "\n");
  if (wants(request, "types")) report("Its types\n---------\n" + show_types(program) + "\n");
}

// `-- --help`: what the script's own options are.
std::string help_of(const lang::TypedProgram& program) {
  if (program.options.empty()) return "HINT: no custom program options defined.\n";
  std::string text = "HINT: expected program options:\n";
  for (const lang::NamedOption& option : program.options)
    text += fmt::format("--{}{}{}\n", option.name, option.help.empty() ? "" : ": ", option.help);
  return text;
}

void warn_of_untimed_calls(Session& session, uint32_t map, const view::Writer& report) {
  using codegen::Pairing;
  if (uint64_t calls = session.sum_of(map, Pairing::kAbandoned); calls != 0)
    report(
        fmt::format("WARNING: at least {} calls were left by an exception or longjmp, without a return: took "
                    "is not known for them\n",
                    calls));
  if (uint64_t calls = session.sum_of(map, Pairing::kUnpaired); calls != 0)
    report(
        fmt::format("WARNING: {} calls returned whose entry was not seen, having begun before the trace: "
                    "they are not reported\n",
                    calls));
}

// One script on its way to an engine, and to the other one where the first cannot run it.
class ScriptRun {
 public:
  ScriptRun(const RunRequest& request, view::Output& output, LiveNames& names, const view::Writer& report)
      : request_(request), output_(output), names_(names), report_(report) {}

  Result<int> run();

 private:
  Status find_process();
  // Those that may run it, the one to try first in front.
  Result<std::vector<ChosenEngine>> engines_to_try() const;
  Result<bool> enter_process(const ChosenEngine& chosen, bool may_pass);
  bool fits_collector(const ChosenEngine& chosen, bool may_pass);
  // Nothing: this engine cannot run it, nothing has been done yet, and another may try (`may_pass`).
  Result<std::optional<int>> run_on(const ChosenEngine& chosen, bool may_pass);
  Result<std::optional<int>> run_placed(const ChosenEngine& chosen, bool may_pass,
                                        codegen::Compiled& compiled, ReturnProbes& returns,
                                        ScriptProbes::Placement placement);
  void prepare_stacks(const ChosenEngine& chosen, codegen::Compiled& compiled, Unwinding& unwinding);
  std::nullopt_t pass(const ChosenEngine& chosen, const std::string& why) const;
  Result<int> finish(Session& session, const ReturnProbes& returns);
  void end_command();

  const RunRequest& request_;
  view::Output& output_;
  LiveNames& names_;
  const view::Writer& report_;
  std::optional<Target> target_;
  std::optional<Child> child_;
  ProbeScope scope_{std::nullopt, "", false, false};
  std::optional<ScriptCompiler> compiler_;
  std::optional<lang::TypedProgram> program_;
  std::optional<Collectors> collectors_;  // of the process that is traced from inside
  // Longer than the engine, which takes its time to leave: an interrupt must not end uscope before its maps
  // are shown.
  std::optional<Signals> signals_;
};

Status ScriptRun::find_process() {
  if (request_.pid) {
    TRY(target_, find_target_process(*request_.pid));
    // Before anything else fails for the same reason and says less.
    if (request_.engine == EngineChoice::Inproc) {
      TRY_STATUS(process::check_is_no_kernel_thread(target_->info));
      TRY_STATUS(process::check_may_attach(target_->info));
    }
  }
  if (!request_.command.empty() && !request_.dry_run) {
    TRY(Child started, Child::start(request_.command, request_.command_has_quotes));
    child_.emplace(std::move(started));
  }
  scope_ = {request_.pid, "", request_.allow_unsafe, request_.is_bpftrace};
  if (child_) scope_.pid = child_->pid();
  if (child_) scope_.command_file = child_->file();
  return {};
}

Result<int> ScriptRun::run() {
  TRY_STATUS(find_process());
  compiler_.emplace(request_, scope_);
  std::string messages;
  program_ = compiler_->compile(messages);
  if (!messages.empty()) report_(messages);
  if (!program_) return 1;
  if (request_.command_line.named.contains("help")) {
    report_(help_of(*program_));
    return 1;
  }
  if (program_->probes.empty()) {
    report_("No probes to attach\n");
    return 1;
  }
  if (target_ && probes_user_space(*program_)) TRY_STATUS(process::check_is_no_kernel_thread(target_->info));
  show_program(request_, *compiler_, *program_, report_);
  TRY(const std::vector<ChosenEngine> engines, engines_to_try());
  for (size_t i = 0;; ++i) {
    TRY(std::optional<int> code, run_on(engines[i], i + 1 < engines.size()));
    if (!code) continue;
    end_command();
    return *code;
  }
}

Result<std::vector<ChosenEngine>> ScriptRun::engines_to_try() const {
  const bool is_plain = !request_.is_bpftrace && request_.mode == ScriptMode::Run && !request_.dry_run;
  if (request_.engine == EngineChoice::Auto && !is_plain && !request_.follows_forks)
    return std::vector<ChosenEngine>{{false, "as for every bpftrace, trial and dry run"}};
  return choose_engines(request_.engine, *program_, scope_.pid, request_.follows_forks);
}

std::nullopt_t ScriptRun::pass(const ChosenEngine& chosen, const std::string& why) const {
  if (request_.verbose)
    report_(fmt::format("Not on the {} engine: {}\n", chosen.is_inproc ? "in-process" : "kernel", why));
  return std::nullopt;
}

// False: better left to the other engine.
Result<bool> ScriptRun::enter_process(const ChosenEngine& chosen, bool may_pass) {
  if (target_) {
    Status may_attach = process::check_may_attach(target_->info);
    if (!may_attach && may_pass) return pass(chosen, may_attach.error().message()), false;
    TRY_STATUS(std::move(may_attach));
    // The two share memory: who may be hostile to us is not asked in unless the user says so.
    if (may_pass && target_->info.status.real_uid != ::geteuid())
      return pass(chosen, "the process is " + process::user_name(target_->info.status.real_uid) +
                              "'s; --engine inproc shares memory with it, if you trust it"),
             false;
  }
  if (!child_) return fits_collector(chosen, may_pass);
  if (loses_rights(child_->file())) {
    const std::string what =
        child_->file() + " runs without the rights of its owner, since it is traced from its start";
    if (may_pass) return pass(chosen, what), false;
    if (request_.with_warnings) report_("WARNING: " + what + "\n");
  }
  // What is to run inside the process needs the process to be there.
  TRY_STATUS(child_->hold_at_entry());
  return fits_collector(chosen, may_pass);
}

bool ScriptRun::fits_collector(const ChosenEngine& chosen, bool may_pass) {
  collectors_.emplace(*scope_.pid);
  const auto what = collectors_->look();
  if (!what) return true;
  if (may_pass) return pass(chosen, *what), false;
  if (request_.with_warnings) report_("WARNING: " + *what + "\nHINT: --engine kernel is safe\n");
  // Who wants it all the same is not asked again.
  collectors_.reset();
  return true;
}

Result<std::optional<int>> ScriptRun::run_on(const ChosenEngine& chosen, bool may_pass) {
  if (request_.verbose && !request_.is_bpftrace)
    report_(fmt::format("Engine: {} ({})\n", chosen.is_inproc ? "in-process" : "kernel", chosen.why));
  if (chosen.is_inproc) {
    TRY(const bool is_ours, enter_process(chosen, may_pass));
    if (!is_ours) return std::nullopt;
  } else if (target_ && target_->info.leader_is_dead && probes_user_space(*program_)) {
    // Its filter by process looks at the memory of the first thread.
    return fail(
        Error(fmt::format("the first thread of process {} has ended, so the kernel sees no probe of it",
                          target_->info.pid))
            .with_hint("use --engine inproc"));
  }
  std::optional<pid_t> child_pid = child_ ? std::optional(child_->pid()) : std::nullopt;
  std::string messages;
  auto generated = compiler_->generate(*program_, child_pid, chosen, messages);
  if (!generated && may_pass) return pass(chosen, messages.empty() ? generated.error().message() : messages);
  if (!generated && !messages.empty()) {
    report_(messages);
    return 1;
  }
  TRY(codegen::Compiled compiled, std::move(generated));
  bool has_process = child_ || request_.pid || !request_.dwarf_pids.empty();
  if (request_.is_bpftrace && compiled.uses_dw_ustack && !has_process)
    return fail("dw_ustack requires a target process. Use -p, -c, or --dwarf-pid to specify one.");
  std::vector<CodeAtPoint> points = points_of(*program_, compiled);
  if (points.empty() && request_.mode == ScriptMode::Run)
    return fail("No probes attached; use --test to run test probes.");
  ReturnProbes returns(compiled.program, program_->settings.kernel_return_probes,
                       {!chosen.is_inproc, chosen.is_inproc, chosen.is_inproc});
  ScriptProbes::Placement placement = compiler_->probes().attachments(points, returns);
  if (may_pass && !placement.failures.empty())
    return pass(chosen, placement.failures.front().error.message());
  return run_placed(chosen, may_pass, compiled, returns, std::move(placement));
}

void ScriptRun::prepare_stacks(const ChosenEngine& chosen, codegen::Compiled& compiled,
                               Unwinding& unwinding) {
  if (!compiled.unwind) {
    if (chosen.is_inproc) unwinding.remember(*scope_.pid);
    return;
  }
  if (chosen.is_inproc) {
    unwinding.follow(*scope_.pid);
  } else {
    for (const std::string& file : probed_files(*program_)) unwinding.add_program(file);
    if (child_) unwinding.add_program(child_->file());
    if (request_.pid) unwinding.add_process(*request_.pid);
    for (pid_t pid : request_.dwarf_pids) unwinding.add_process(pid);
  }
  unwinding.size_maps(compiled);
}

Result<std::optional<int>> ScriptRun::run_placed(const ChosenEngine& chosen, bool may_pass,
                                                 codegen::Compiled& compiled, ReturnProbes& returns,
                                                 ScriptProbes::Placement placement) {
  // Once it is clear that this engine runs it.
  auto announce = [&, warnings = std::move(placement.warnings)] {
    for (const char* stage : {"bytecode", "dis", "codegen", "codegen-opt"})
      if (wants(request_, stage)) {
        report_("What is loaded\n--------------\n" + codegen::disassemble(compiled.program) + "\n");
        break;
      }
    if (request_.with_warnings)
      for (const std::string& text : warnings) report_("WARNING: " + text + "\n");
  };
  if (request_.dry_run) {
    announce();
    return 0;
  }
  names_.set_probe_functions([this] { return probe_functions(*program_, request_.is_bpftrace); });
  names_.set_options(name_options(request_, program_->settings));
  Unwinding unwinding(names_);
  prepare_stacks(chosen, compiled, unwinding);
  if (!program_->settings.series_clock_map.empty()) names_.set_clock_offset(0);

  EngineMaker engines(compiler_->types());
  std::unique_ptr<engine::Engine> engine =
      engines.make(chosen, scope_.pid, child_ ? &*child_ : nullptr, request_.follows_forks,
                   [this] { return collectors_ ? collectors_->look() : std::nullopt; });
  if (!signals_) signals_.emplace();
  std::future<bool> look;
  if (!chosen.is_inproc && !scope_.pid) look = look_for_inproc();
  Session session(request_, *program_, compiled, *engine, output_, names_, unwinding, *signals_);
  engine->expect(placement.attachments);
  if (Status loaded = session.load(); !loaded) {
    if (may_pass) return pass(chosen, loaded.error().message());
    return fail(std::move(loaded).error());
  }
  if (may_pass) {
    TRY(const std::vector<engine::AttachFailure> failures, engine->foresee());
    if (!failures.empty()) return pass(chosen, failures.front().error.message());
  }
  announce();
  if (request_.mode != ScriptMode::Run) return session.try_out(report_);
  TRY_STATUS(session.run_all(ProbeKind::kBegin));
  TRY_STATUS(session.attach(std::move(placement), chosen.is_inproc, look, report_));
  request_.on_attached();
  if (child_ && !session.is_interrupted()) TRY_STATUS(child_->release());
  return finish(session, returns);
}

Result<int> ScriptRun::finish(Session& session, const ReturnProbes& returns) {
  TRY_STATUS(session.wait(child_ ? &*child_ : nullptr, target_, report_));
  TRY_STATUS(session.finish(program_->settings.print_maps_on_exit));
  session.tell_news(report_);
  if (auto map = returns.unreported_map())
    if (uint64_t calls = session.sum_of(*map); calls != 0)
      report_("WARNING: " + std::to_string(calls) +
              " calls ended in a jump and are not reported: what they returned is not known\n");
  if (auto map = returns.pairing_map()) warn_of_untimed_calls(session, *map, report_);
  request_.on_finished();
  return session.exit_code();
}

// All has been shown, and another interrupt need not wait for a command that takes its time.
void ScriptRun::end_command() {
  signals_.reset();
  if (child_ && !child_->stop())
    report_(fmt::format("uscope: {} (process {}) was asked to end, but goes on: end it by hand\n",
                        child_->file(), child_->pid()));
}

}  // namespace

Result<int> run_script(const RunRequest& request, view::Output& output, LiveNames& names,
                       const view::Writer& report) {
  return ScriptRun(request, output, names, report).run();
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
