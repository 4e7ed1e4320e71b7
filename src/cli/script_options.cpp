#include "cli/script_options.h"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace uscope::cli {
namespace {

constexpr pid_t kLargestPid = 4194304;  // PID_MAX_LIMIT

enum Long {
  kInfo = 256,
  kNoWarnings,
  kUnsafe,
  kInclude,
  kMode,
  kTest,
  kBench,
  kProbeFilter,
  kEngine,
  kFollowFork,
  kFmt,
  kDryRun,
  kPatchable,
  kDebugInfo,
  kDwarfPid,
  kIgnored,
  kIgnoredWithValue,
  kEmit,
};

constexpr char kShort[] = ":d:B:f:e:hlp:vqc:Vo:I:k";

const std::array kLong = {
    option{"help", no_argument, nullptr, 'h'},
    option{"version", no_argument, nullptr, 'V'},
    option{"list", no_argument, nullptr, 'l'},
    option{"verbose", no_argument, nullptr, 'v'},
    option{"quiet", no_argument, nullptr, 'q'},
    option{"warnings", no_argument, nullptr, 'k'},
    option{"pid", required_argument, nullptr, 'p'},
    option{"cmd", required_argument, nullptr, 'c'},
    option{"output", required_argument, nullptr, 'o'},
    option{"debug", required_argument, nullptr, 'd'},
    option{"info", no_argument, nullptr, kInfo},
    option{"no-warnings", no_argument, nullptr, kNoWarnings},
    option{"unsafe", no_argument, nullptr, kUnsafe},
    option{"include", required_argument, nullptr, kInclude},
    option{"mode", required_argument, nullptr, kMode},
    option{"test-mode", required_argument, nullptr, kMode},
    option{"test", no_argument, nullptr, kTest},
    option{"bench", no_argument, nullptr, kBench},
    option{"probe-filter", required_argument, nullptr, kProbeFilter},
    option{"engine", required_argument, nullptr, kEngine},
    option{"follow-fork", no_argument, nullptr, kFollowFork},
    option{"fmt", no_argument, nullptr, kFmt},
    option{"dry-run", no_argument, nullptr, kDryRun},
    option{"patchable", no_argument, nullptr, kPatchable},
    option{"debuginfo", required_argument, nullptr, kDebugInfo},
    option{"dwarf-pid", required_argument, nullptr, kDwarfPid},
    // uscope's USDT probes and stacks need none of these.
    option{"usdt-file-activation", no_argument, nullptr, kIgnored},
    option{"verify-llvm-ir", no_argument, nullptr, kIgnored},
    option{"no-feature", required_argument, nullptr, kIgnoredWithValue},
    option{"traceable-functions", required_argument, nullptr, kIgnoredWithValue},
    option{"emit-elf", required_argument, nullptr, kEmit},
    option{"emit-llvm", required_argument, nullptr, kEmit},
    option{"aot", required_argument, nullptr, kEmit},
    option{nullptr, 0, nullptr, 0},
};

constexpr std::array<std::string_view, 10> kStages = {
    "all", "ast", "types", "parse", "codegen", "codegen-opt", "bytecode", "dis", "libbpf", "verifier"};

void split_into(std::string_view text, char at, std::vector<std::string>& into) {
  while (!text.empty()) {
    size_t end = std::min(text.find(at), text.size());
    if (end > 0) into.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

class Reader {
 public:
  explicit Reader(Persona persona) { out_.persona = persona; }

  std::expected<ScriptOptions, int> run(std::span<const char* const> args);

 private:
  // False: wrong, and said.
  bool take(int option, const std::string& value);
  bool pid(const std::string& value, std::optional<pid_t>& into);
  bool mode(const std::string& value);
  bool wrong(const std::string& message) {
    std::fprintf(stderr, "ERROR: %s\n", message.c_str());
    return false;
  }
  int unknown(const std::string& option, bool lacks_value);
  void take_rest(std::vector<std::string> words);

  ScriptOptions out_;
};

bool Reader::pid(const std::string& value, std::optional<pid_t>& into) {
  long number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc::invalid_argument || end != value.data() + value.size())
    return wrong("Failed to parse pid: invalid integer: " + value);
  if (error != std::errc() || number < 1 || number > kLargestPid) return wrong("Pid out of range: " + value);
  into = pid_t(number);
  return true;
}

bool Reader::mode(const std::string& value) {
  if (value == "test") out_.mode = Mode::Test;
  if (value == "bench") out_.mode = Mode::Bench;
  if (value == "format") out_.mode = Mode::Format;
  if (value == "codegen" || value == "compiler-bench") out_.dry_run = true;
  bool known = out_.dry_run || out_.mode != Mode::Run;
  return known ||
         wrong("USAGE: --mode can only be 'codegen', 'compiler-bench', 'bench', 'test' or 'format'.");
}

bool Reader::take(int option, const std::string& value) {
  switch (option) {
    case 'e':
      out_.program = out_.program ? *out_.program + "\n" + value : value;
      return true;
    case 'h':
      return out_.help = true;
    case 'V':
      return out_.version = true;
    case 'l':
      return out_.list = true;
    case 'v':
      return out_.verbose = true;
    case 'q':
      return out_.quiet = true;
    case 'k':
      return out_.helper_warnings = true;
    case 'p':
      return pid(value, out_.pid);
    case kDwarfPid: {
      std::optional<pid_t> one;
      if (!pid(value, one)) return false;
      out_.dwarf_pids.push_back(*one);
      return true;
    }
    case 'c':
      out_.command = value;
      return true;
    case 'o':
      out_.output = value;
      return true;
    case 'f':
      out_.json = value == "json";
      return out_.json || value == "text" ||
             wrong(fmt::format("Invalid output format \"{}\"\nValid formats: 'text', 'json'", value));
    case 'B':
      if (value == "line") out_.buffering = Buffering::Line;
      if (value == "full") out_.buffering = Buffering::Full;
      if (value == "none") out_.buffering = Buffering::None;
      return out_.buffering || wrong("USAGE: -B must be either 'line', 'full', or 'none'.");
    case 'd':
      out_.debug_stages.push_back(value);
      return std::ranges::find(kStages, value) != kStages.end() ||
             wrong("USAGE: invalid option for -d: " + value);
    case 'I':
      out_.include_folders.push_back(value);
      return true;
    case kInclude:
      out_.include_files.push_back(value);
      return true;
    case kDebugInfo:
      split_into(value, ':', out_.debug_folders);
      return true;
    case kInfo:
      return out_.info = true;
    case kNoWarnings:
      out_.warnings = false;
      return true;
    case kUnsafe:
      return out_.unsafe = true;
    case kMode:
      return mode(value);
    case kTest:
      out_.mode = Mode::Test;
      return true;
    case kBench:
      out_.mode = Mode::Bench;
      return true;
    case kFmt:
      out_.mode = Mode::Format;
      return true;
    case kProbeFilter:
      out_.probe_filter = value;
      return true;
    case kEngine:
      out_.engine = value;
      return value == "auto" || value == "kernel" || value == "inproc" ||
             wrong("USAGE: --engine must be 'auto', 'kernel' or 'inproc'.");
    case kFollowFork:
      return out_.follows_forks = true;
    case kDryRun:
      return out_.dry_run = true;
    case kPatchable:
      return out_.list = out_.patchable = true;
    case kEmit:
      return wrong("uscope makes no ELF or LLVM files; -d bytecode shows what it loads");
    default:
      return true;
  }
}

int Reader::unknown(const std::string& option, bool lacks_value) {
  if (out_.persona == Persona::Bpftrace) {
    const char* what = lacks_value ? "option requires an argument" : "unrecognized option";
    std::fprintf(stderr, "bpftrace: %s '%s'\n%s", what, option.c_str(), bpftrace_usage().c_str());
    return 1;
  }
  if (lacks_value)
    std::fprintf(stderr, "uscope: %s needs a value; see uscope --help\n", option.c_str());
  else
    std::fprintf(stderr, "uscope: unknown option %s; see uscope --help\n", option.c_str());
  return 2;
}

// Behind `--`, `--name=value` and `--name` are the script's named options; the rest is positional.
void Reader::take_rest(std::vector<std::string> words) {
  auto word = words.begin();
  if (!out_.program && word != words.end()) out_.file = *word++;
  for (; word != words.end(); ++word) {
    if (!word->starts_with("--")) {
      out_.parameters.positional.push_back(*word);
      continue;
    }
    size_t equals = word->find('=');
    if (equals == std::string::npos)
      out_.parameters.named[word->substr(2)] = std::nullopt;
    else
      out_.parameters.named[word->substr(2, equals - 2)] = word->substr(equals + 1);
  }
}

std::expected<ScriptOptions, int> Reader::run(std::span<const char* const> args) {
  // getopt moves the words about: in a copy, with a name in front.
  std::vector<std::string> words = {"uscope"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = int(words.size());
  optind = 0;
  opterr = 0;
  for (int option; (option = ::getopt_long(argc, argv.data(), kShort, kLong.data(), nullptr)) != -1;) {
    if (option == '?' || option == ':') {
      const char* culprit = optind > 0 && optind <= argc ? argv[size_t(optind) - 1] : nullptr;
      bool is_short = optopt > 0 && optopt < 256 && option == '?';
      return std::unexpected(unknown(
          is_short || culprit == nullptr ? "-" + std::string(1, char(optopt)) : culprit, option == ':'));
    }
    if (!take(option, optarg != nullptr ? optarg : "")) return std::unexpected(1);
  }
  take_rest(std::vector<std::string>(argv.begin() + optind, argv.begin() + argc));
  if (out_.pid && !out_.command.empty()) {
    wrong("USAGE: Cannot use both -c and -p.");
    if (out_.persona == Persona::Bpftrace) std::fputs(bpftrace_usage().c_str(), stderr);
    return std::unexpected(1);
  }
  return std::move(out_);
}

}  // namespace

std::expected<ScriptOptions, int> read_script_options(std::span<const char* const> args, Persona persona) {
  return Reader(persona).run(args);
}

std::string options_text() {
  return "OPTIONS:\n"
         "    -e 'PROGRAM'          run this program\n"
         "    -l, --list [PATTERN]  list probes: those that match, or those of a script\n"
         "    -l --patchable FILE   how much of FILE the in-process engine can probe, and what not, and why\n"
         "    -v, --verbose         say more; with -l, show arguments and their types\n"
         "    -p, --pid PID         only this process\n"
         "    -c, --cmd CMD         run CMD, traced from its first instruction; its end ends the script\n"
         "    --engine kernel|inproc|auto   uprobes of the kernel's, or inside the process: faster, and "
         "without root\n"
         "    --follow-fork         trace what the process forks, too (in-process)\n"
         "    -f text|json          how results are written\n"
         "    -o, --output FILE     write results to FILE\n"
         "    -B line|full|none     when results are written: each line, in large pieces, at once\n"
         "    -q, --quiet           no messages of uscope's own\n"
         "    -k, --warnings        say it when reading memory or a map fails\n"
         "    --no-warnings         no warnings\n"
         "    -I DIR                look for #include files here, too\n"
         "    --include FILE        as if the script began with #include \"FILE\"\n"
         "    --debuginfo DIR[:DIR] look for debug files here, too\n"
         "    --unsafe              allow system() and the like\n"
         "    --info                what this kernel and this build can do\n"
         "    --fmt                 print the script, formatted\n"
         "    --dry-run             compile only\n"
         "    -d, --debug STAGE     show the script after a stage: ast, types, bytecode, all\n"
         "    --test, --bench       run the script's test: or bench: probes; --mode test|bench is the same\n"
         "    --probe-filter REGEX  of these, only those whose name matches\n"
         "    -h, --help            this text\n"
         "    -V, --version         the version\n"
         "    accepted, and not needed here: --usdt-file-activation --verify-llvm-ir "
         "--no-feature\n"
         "    --traceable-functions\n";
}

std::string bpftrace_usage() {
  return "uscope, which runs bpftrace's language on user programs\n"
         "\n"
         "USAGE:\n"
         "    bpftrace [options] FILE [arguments]\n"
         "    bpftrace [options] - [arguments]            the script comes from standard input\n"
         "    bpftrace [options] -e 'PROGRAM' [arguments]\n"
         "    the script's named options follow --, as in -- --name=value\n"
         "\n" +
         options_text();
}

}  // namespace uscope::cli
