#include "session/list.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/glob.h"
#include "image/usdt/notes.h"
#include "lang/attach_point.h"
#include "probe/image_files.h"
#include "session/tracepoints.h"
#include "symbols/image_symbols.h"
#include "symbols/lookup.h"
#include "symbols/type_spelling.h"

namespace uscope::session {
namespace {

using lang::AttachSpec;
using lang::ProbeKind;
using probe::ImageFile;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;

class Lister {
 public:
  explicit Lister(bool verbose) : verbose_(verbose) {}

  void list_functions(const ImageSymbols& image, const ImageFile& file, const AttachSpec& spec) {
    auto spelling = spec.cpp ? symbols::Spelling::Demangled : symbols::Spelling::Any;
    symbols::Lookup lookup = symbols::find_functions(image, spec.function, spelling);
    std::string prefix = (spec.kind == ProbeKind::kUretprobe ? "uretprobe:" : "uprobe:") + file.shown + ":";
    size_t size = result_.text.size();
    for (const FunctionSymbol* function : lookup.found) size += prefix.size() + function->name.size() + 1;
    if (!verbose_ && !spec.cpp) result_.text.reserve(size);
    std::string_view last;
    for (const FunctionSymbol* function : lookup.found) {
      if (function->name == last && !verbose_) continue;
      last = function->name;
      result_.text += prefix;
      if (spec.cpp) {
        result_.text += "cpp:\"" + symbols::display_name(function->name) + "\"";
      } else {
        result_.text += function->name;
      }
      result_.text += '\n';
      if (verbose_) list_arguments(image, *function, spec.kind);
    }
    if (lookup.found.empty() && !has_glob(spec.function))
      missing_.push_back(symbols::explain_missing(image, spec.function, lookup));
  }

  void list_usdt(const ImageSymbols& image, const ImageFile& file, const AttachSpec& spec) {
    if (!image.is_elf()) return;
    for (const image::UsdtProbe& usdt : image::read_usdt_probes(image.elf())) {
      if (!spec.provider.empty() && !glob_match(spec.provider, usdt.provider)) continue;
      if (!glob_match(spec.function, usdt.name)) continue;
      result_.text +=
          "usdt:" + file.shown + ":" + std::string(usdt.provider) + ":" + std::string(usdt.name) + "\n";
      if (verbose_ && !usdt.sites.empty()) list_usdt_arguments(usdt.sites.front());
    }
  }

  ListResult take() && { return std::move(result_); }
  std::string& text() { return result_.text; }
  const std::vector<std::string>& missing() const { return missing_; }
  void warn(std::string text) { result_.warnings.push_back(std::move(text)); }
  bool is_empty() const { return result_.text.empty(); }

 private:
  void list_arguments(const ImageSymbols& image, const FunctionSymbol& symbol, ProbeKind kind) {
    const auto& info = image.debug_info();
    auto function = info.function_at(symbol.address);
    if (!function || function->entry != symbol.address) return;
    auto resolve = [&info](image::TypeId id) -> const image::Type& { return info.type(id); };
    auto add = [&](image::TypeId type, const std::string& name) {
      result_.text +=
          "    " + symbols::spell_declaration(type, name, resolve, symbols::TypeStyle::Bpftrace) + "\n";
    };
    if (kind == ProbeKind::kUprobe) {
      for (const auto& parameter : function->parameters)
        if (!parameter.is_result) add(parameter.type, parameter.name);
      return;
    }
    // Go's results are parameters of their own, and may have names.
    bool has_results = false;
    for (const auto& parameter : function->parameters) {
      if (!parameter.is_result) continue;
      has_results = true;
      add(parameter.type, parameter.name);
    }
    if (!has_results && function->return_type) add(function->return_type, "retval");
  }

  void list_usdt_arguments(const image::UsdtSite& site) {
    for (size_t i = 0; i < site.arguments.size(); ++i) {
      const auto& argument = site.arguments[i];
      std::string type = argument.is_float
                             ? (argument.size == 4 ? "float" : "double")
                             : (argument.is_signed ? "int" : "uint") + std::to_string(argument.size * 8);
      result_.text += "    " + type + " arg" + std::to_string(i) + "\n";
    }
  }

  bool verbose_;
  ListResult result_;
  std::vector<std::string> missing_;
};

// Events that are no place in a program: by name.
constexpr std::array<std::string_view, 4> kUnits = {"hz", "ms", "s", "us"};

// The kinds that -l knows, in the order it lists them. Return probes are wherever entry probes are: only who
// asks for them by name gets them.
constexpr std::array kListed = {ProbeKind::kHardware,  ProbeKind::kInterval,   ProbeKind::kProfile,
                                ProbeKind::kSoftware,  ProbeKind::kTracepoint, ProbeKind::kUprobe,
                                ProbeKind::kUretprobe, ProbeKind::kUsdt};

bool is_user_space(ProbeKind kind) {
  return kind == ProbeKind::kUprobe || kind == ProbeKind::kUretprobe || kind == ProbeKind::kUsdt;
}

// What -l is asked for: which kinds, and what of them.
struct Question {
  std::vector<ProbeKind> kinds;
  std::string rest;
  bool is_search = false;  // a bare word, or a kind with wildcards: what does not fit is passed over
};

Question take_apart(const ListRequest& request) {
  Question question;
  size_t colon = request.pattern.find(':');
  std::string_view word = std::string_view(request.pattern).substr(0, colon);
  if (colon == std::string::npos) {
    question.is_search = true;
    question.rest = request.pattern.empty() ? "*" : request.pattern;
    for (ProbeKind kind : kListed) {
      bool is_timer = kind == ProbeKind::kInterval || kind == ProbeKind::kProfile;
      bool has_place = !is_user_space(kind) || (request.pid && kind != ProbeKind::kUretprobe);
      if (!is_timer && has_place) question.kinds.push_back(kind);
    }
    return question;
  }
  question.rest = request.pattern.substr(colon + 1);
  if (!has_glob(word)) {
    if (auto kind = lang::find_probe_kind(word)) question.kinds.push_back(*kind);
    return question;
  }
  question.is_search = true;
  for (ProbeKind kind : kListed)
    if (kind != ProbeKind::kUretprobe && glob_match(word, lang::spell(kind))) question.kinds.push_back(kind);
  return question;
}

template <typename Names>
void list_names(ProbeKind kind, std::string_view pattern, const Names& names, std::string& text) {
  pattern = pattern.substr(0, pattern.find(':'));
  std::vector<std::string> lines;
  for (std::string_view name : names)
    if (glob_match(pattern, name))
      lines.push_back(std::string(lang::spell(kind)) + ":" + std::string(name) + ":\n");
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) text += line;
}

void list_tracepoints(std::string_view pattern, bool is_search, bool verbose, std::string& text) {
  size_t colon = pattern.find(':');
  std::string_view category = "*", event = pattern;
  if (colon != pattern.npos) {
    category = pattern.substr(0, colon);
    event = pattern.substr(colon + 1);
  } else if (!is_search && !has_glob(pattern)) {
    return;
  }
  for (const TracepointName& name : find_tracepoints(category, event)) {
    text += "tracepoint:" + name.category + ":" + name.event + "\n";
    if (!verbose) continue;
    for (const TracepointField& field : tracepoint_fields(name.category, name.event))
      text += "    " + field.declaration + "\n";
  }
}

Result<AttachSpec> parse(const std::string& text) {
  lang::Diagnostics diagnostics;
  auto spec = lang::parse_attach_point(text, {}, {}, diagnostics);
  if (spec) return *spec;
  const lang::Diagnostic& first = diagnostics.all().front();
  return fail(Error("`" + text + "`: " + first.message)
                  .with_hint(first.hint.empty()
                                 ? "write uprobe:FILE:FUNCTION, uretprobe:FILE:FUNCTION or usdt:FILE:NAME"
                                 : first.hint));
}

// With a process, `uprobe:malloc` means malloc in any image of it; a file's static probes may go unnamed.
std::string user_pattern(ProbeKind kind, const std::string& rest, const ListRequest& request) {
  std::string text = std::string(lang::spell(kind)) + ":";
  if (rest.find(':') != std::string::npos) return text + rest;
  if (request.pid) return text + "*:" + rest;
  return kind == ProbeKind::kUsdt ? text + rest + ":*" : text + rest;
}

Status list_user_probes(ProbeKind kind, const Question& question, const ListRequest& request,
                        Lister& lister) {
  TRY(AttachSpec spec, parse(user_pattern(kind, question.rest, request)));
  if (spec.kind != ProbeKind::kUsdt && spec.function.empty())
    return fail(Error("-l lists functions by name; `" + request.pattern + "` names a place in one")
                    .with_hint("uscope probe -L shows lines, uscope offsets names an address"));
  TRY(std::vector<ImageFile> files, probe::find_image_files(spec.target, request.pid));
  bool several = request.pid || files.size() != 1;
  for (const ImageFile& file : files) {
    auto image = ImageSymbols::open(file.opened, file.root, request.debug_folders);
    if (!image) {
      if (!several) return fail(std::move(image.error()));
      // A glob over a directory meets scripts and data too; only what looks broken deserves a word.
      if (!has_glob(spec.target)) lister.warn(image.error().message());
      continue;
    }
    if (spec.kind == ProbeKind::kUsdt)
      lister.list_usdt(*image, file, spec);
    else
      lister.list_functions(*image, file, spec);
    for (const std::string& problem : image->problems()) lister.warn(file.shown + ": " + problem);
  }
  if (lister.is_empty() && !several && !lister.missing().empty()) return fail(lister.missing().front());
  return {};
}

}  // namespace

Result<ListResult> list_probes(const ListRequest& request) {
  Question question = take_apart(request);
  if (question.kinds.empty() && !request.is_bpftrace)
    return fail(Error("`" + request.pattern + "`: nothing of that kind can be probed")
                    .with_hint("write uprobe:FILE:FUNCTION, usdt:FILE:NAME, tracepoint:CATEGORY:NAME, "
                               "software:EVENT"));
  if (request.pattern.empty() && !request.pid && !request.is_bpftrace)
    return fail(Error("-l needs to know where to look")
                    .with_hint("write -l 'uprobe:FILE:GLOB', or -l -p PID for all of a process"));
  Lister lister(request.verbose);
  for (ProbeKind kind : question.kinds) {
    std::string& text = lister.text();
    switch (kind) {
      case ProbeKind::kInterval:
      case ProbeKind::kProfile:
        list_names(kind, question.rest, kUnits, text);
        break;
      case ProbeKind::kSoftware:
      case ProbeKind::kHardware:
        list_names(kind, question.rest, lang::event_names(kind), text);
        break;
      case ProbeKind::kTracepoint:
        list_tracepoints(question.rest, question.is_search, request.verbose, text);
        break;
      default:
        if (!is_user_space(kind)) break;
        if (auto listed = list_user_probes(kind, question, request, lister); !listed) {
          // What bpftrace does not find, it lists as nothing.
          if (!question.is_search && !request.is_bpftrace) return fail(std::move(listed).error());
        }
    }
  }
  return std::move(lister).take();
}

}  // namespace uscope::session
