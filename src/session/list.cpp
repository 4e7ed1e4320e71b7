#include "session/list.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/glob.h"
#include "image/usdt/notes.h"
#include "lang/attach_point.h"
#include "probe/image_files.h"
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

Result<AttachSpec> parse(const std::string& text) {
  lang::Diagnostics diagnostics;
  auto spec = lang::parse_attach_point(text, {}, {}, diagnostics);
  if (!spec) {
    const lang::Diagnostic& first = diagnostics.all().front();
    return fail(Error("`" + text + "`: " + first.message)
                    .with_hint(first.hint.empty()
                                   ? "write uprobe:FILE:FUNCTION, uretprobe:FILE:FUNCTION or usdt:FILE:NAME"
                                   : first.hint));
  }
  if (!spec->user_space())
    return fail(Error("`" + text + "` is not a probe on a user program")
                    .with_hint("-l lists uprobe:FILE:FUNCTION, uretprobe:FILE:FUNCTION and usdt:FILE:NAME"));
  return *spec;
}

// With a process, `uprobe:malloc` means malloc in any image of it, and no pattern at all means everything.
Result<std::vector<AttachSpec>> specs_of(const ListRequest& request) {
  if (request.pattern.empty()) {
    if (!request.pid)
      return fail(Error("-l needs to know where to look")
                      .with_hint("write -l 'uprobe:FILE:GLOB', or -l -p PID for all of a process"));
    TRY(AttachSpec functions, parse("uprobe:*:*"));
    TRY(AttachSpec usdt, parse("usdt:*:*"));
    return std::vector{functions, usdt};
  }
  size_t colon = request.pattern.find(':');
  bool one_colon = colon != std::string::npos && request.pattern.find(':', colon + 1) == std::string::npos;
  std::string text = request.pattern;
  if (one_colon && request.pid)
    text = text.substr(0, colon) + ":*:" + text.substr(colon + 1);
  else if (one_colon && (text.starts_with("usdt:") || text.starts_with("U:")))
    text += ":*";
  TRY(AttachSpec spec, parse(text));
  return std::vector{spec};
}

}  // namespace

Result<ListResult> list_probes(const ListRequest& request) {
  TRY(std::vector<AttachSpec> specs, specs_of(request));
  Lister lister(request.verbose);
  bool several = request.pid.has_value();
  for (const AttachSpec& spec : specs) {
    if (spec.kind != ProbeKind::kUsdt && spec.function.empty())
      return fail(Error("-l lists functions by name; `" + request.pattern + "` names a place in one")
                      .with_hint("uscope probe -L shows lines, uscope offsets names an address"));
    TRY(std::vector<ImageFile> files, probe::find_image_files(spec.target, request.pid));
    several |= files.size() != 1;
    for (const ImageFile& file : files) {
      auto image = ImageSymbols::open(file.opened, file.root);
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
  }
  if (lister.is_empty() && !several && !lister.missing().empty()) return fail(lister.missing().front());
  return std::move(lister).take();
}

}  // namespace uscope::session
