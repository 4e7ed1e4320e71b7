// The matching half of ScriptProbes: from an attach point as written to those that it stands for.
#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/glob.h"
#include "image/usdt/notes.h"
#include "probe/image_files.h"
#include "probe/resolve.h"
#include "session/script_probes.h"
#include "session/tracepoints.h"
#include "symbols/lookup.h"

namespace uscope::session {
namespace {

using lang::AttachSpec;
using lang::ProbeKind;
using lang::ProbeMatches;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;

constexpr std::string_view kForce =
    "\nUse --unsafe to force attachment. WARNING: This option could lead to data corruption in the target "
    "process.";

// What follows the kind in an attach point's text.
std::string_view arguments_of(const AttachSpec& point) {
  std::string_view text = point.text;
  if (!point.name.empty()) text.remove_prefix(point.name.size() + 1);
  size_t colon = text.find(':');
  return colon == text.npos ? std::string_view() : text.substr(colon + 1);
}

// With the kind's full name, as the probe builtin shows it.
std::string full_text(const AttachSpec& point) {
  std::string kind(lang::spell(point.kind));
  bool is_timer = point.kind == ProbeKind::kInterval || point.kind == ProbeKind::kProfile;
  std::string_view arguments = arguments_of(point);
  if (is_timer && arguments.find(':') == arguments.npos)
    return fmt::format("{}:us:{}", kind, point.period_ns / 1000);
  return arguments.empty() ? kind : fmt::format("{}:{}", kind, arguments);
}

std::string function_text(const AttachSpec& point, const std::string& file, std::string_view function) {
  std::string offset = point.offset != 0 ? fmt::format("+{}", point.offset) : "";
  return fmt::format("{}:{}:{}{}", lang::spell(point.kind), file, function, offset);
}

// "No matches for uprobe ./app:wrok.", or nothing to say of a wildcard.
ProbeMatches missing(const AttachSpec& point, std::string_view what, std::string hint) {
  ProbeMatches matches;
  if (!has_glob(what)) matches.missing = fmt::format("No matches for {} {}.", lang::spell(point.kind), what);
  matches.hint = std::move(hint);
  return matches;
}

// Every image that some process has mapped.
std::vector<probe::ImageFile> images_of_all_processes() {
  std::vector<probe::ImageFile> images;
  std::set<std::string> seen;
  DIR* dir = ::opendir("/proc");
  if (dir == nullptr) return images;
  while (dirent* entry = ::readdir(dir)) {
    std::string_view name = entry->d_name;
    pid_t pid = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    auto mapped = probe::images_of_process(pid);
    if (!mapped) continue;
    for (probe::ImageFile& file : *mapped)
      if (seen.insert(file.root + file.shown).second) images.push_back(std::move(file));
  }
  ::closedir(dir);
  return images;
}

}  // namespace

ProbeMatches ScriptProbes::match(const AttachSpec& point, lang::Diagnostics& diagnostics) {
  switch (point.kind) {
    case ProbeKind::kUprobe:
    case ProbeKind::kUretprobe:
      return match_functions(point, diagnostics);
    case ProbeKind::kUsdt:
      return match_usdt(point, diagnostics);
    case ProbeKind::kTracepoint:
      return match_tracepoints(point);
    case ProbeKind::kBegin:
    case ProbeKind::kEnd:
    case ProbeKind::kSelf:
    case ProbeKind::kTest:
    case ProbeKind::kBench:
    case ProbeKind::kInterval:
    case ProbeKind::kProfile:
    case ProbeKind::kSoftware:
    case ProbeKind::kHardware:
    case ProbeKind::kWatchpoint: {
      AttachSpec found = point;
      found.text = full_text(point);
      return {{std::move(found)}, "", ""};
    }
    default:
      return missing(
          point, arguments_of(point),
          fmt::format("uscope traces user programs; it has no {} probes", lang::spell(point.kind)));
  }
}

std::optional<std::vector<probe::ImageFile>> ScriptProbes::files_of(const AttachSpec& point,
                                                                    lang::Diagnostics& diagnostics) {
  auto files = find_files(point);
  if (files) return std::move(*files);
  diagnostics
      .error(point.span, fmt::format("{} target file '{}' does not exist or is not executable",
                                     lang::spell(point.kind), point.target))
      .hint = files.error().message();
  return std::nullopt;
}

Result<std::vector<probe::ImageFile>> ScriptProbes::find_files(const AttachSpec& point) const {
  if (!scope_.command_file.empty() && has_glob(point.target)) {
    // The command has not begun: nothing of it is mapped yet, but its file is known.
    std::vector<probe::ImageFile> files;
    if (point.target.find('/') == std::string::npos)
      files.push_back({scope_.command_file, scope_.command_file, ""});
    else
      return probe::find_image_files(point.target, std::nullopt);
    std::erase_if(files, [&](const probe::ImageFile& file) {
      return !glob_match(point.target, file.shown.substr(file.shown.rfind('/') + 1));
    });
    return files;
  }
  std::optional<pid_t> pid = scope_.command_file.empty() ? scope_.pid : std::nullopt;
  if (point.target.empty()) return probe::find_image_files("*", pid);
  if (point.kind == ProbeKind::kUsdt && point.target == "*" && !pid) return images_of_all_processes();
  return probe::find_image_files(point.target, pid);
}

ProbeMatches ScriptProbes::match_functions(const AttachSpec& point, lang::Diagnostics& diagnostics) {
  auto files = files_of(point, diagnostics);
  if (!files) return {};
  ProbeMatches matches;
  for (const probe::ImageFile& file : *files) {
    auto image = types_.image(file.opened, file.root);
    if (!image) {
      if (files->size() == 1) diagnostics.error(point.span, image.error().message());
      continue;
    }
    if (point.address)
      match_address(point, file, **image, matches);
    else if (!point.source_file.empty())
      match_line(point, file, **image, matches);
    else
      match_names(point, file, **image, matches);
  }
  if (matches.found.empty() && matches.missing.empty() && matches.hint.empty())
    matches.hint = "no function of " + point.target + " matches";
  return matches;
}

void ScriptProbes::match_address(const AttachSpec& point, const probe::ImageFile& file,
                                 const ImageSymbols& image, ProbeMatches& matches) {
  auto start = probe::check_instruction_start(image, ImageAddr{*point.address});
  if (!start) {
    matches.missing = fmt::format("Could not determine instruction boundary for {}.{}", full_text(point),
                                  scope_.is_bpftrace ? kForce : "");
    if (scope_.is_bpftrace) matches.unattached = full_text(point);
    matches.hint = start.error().message();
    return;
  }
  AttachSpec found = point;
  found.target = file.opened;
  found.text = function_text(point, file.shown, fmt::format("0x{:x}", *point.address));
  matches.found.push_back(std::move(found));
}

void ScriptProbes::match_line(const AttachSpec& point, const probe::ImageFile& file,
                              const ImageSymbols& image, ProbeMatches& matches) {
  probe::PerfPoint line;
  line.place = point.source_file;
  line.line = uint32_t(point.line);
  auto sites = probe::resolve_point(image, line, probe::Ambiguity::TakeAll);
  if (sites && point.column != 0)
    std::erase_if(*sites, [&](const probe::Site& site) { return site.line.column != point.column; });
  if (!sites || sites->empty()) {
    std::string column = point.column != 0 ? fmt::format(":{}", point.column) : "";
    matches.missing =
        fmt::format("DWARF error: Unable to map '{}:{}{}' to address", point.source_file, point.line, column);
    matches.hint = sites ? "no instruction begins at that column" : sites.error().message();
    return;
  }
  for (const probe::Site& site : *sites) {
    AttachSpec found = point;
    found.target = file.opened;
    found.address = site.address.value;
    found.function = site.function;
    found.text = full_text(point);
    matches.found.push_back(std::move(found));
  }
}

void ScriptProbes::match_names(const AttachSpec& point, const probe::ImageFile& file,
                               const ImageSymbols& image, ProbeMatches& matches) {
  auto spelling = point.cpp ? symbols::Spelling::Demangled : symbols::Spelling::Any;
  symbols::Lookup lookup = symbols::find_functions(image, point.function, spelling);
  if (lookup.found.empty() && !has_glob(point.target)) {
    ProbeMatches none =
        missing(point, point.function, symbols::explain_missing(image, point.function, lookup));
    matches.hint = std::move(none.hint);
    if (!none.missing.empty())
      matches.missing =
          fmt::format("No matches for {} {}:{}.", lang::spell(point.kind), file.shown, point.function);
  }
  auto repeated = repeated_names(point, lookup.found);
  matches.found.reserve(matches.found.size() + lookup.found.size());
  for (const FunctionSymbol* function : lookup.found) {
    if (repeated.contains(function)) continue;
    if (!can_be_probed(point, file, image, *function, matches)) continue;
    AttachSpec found = point;
    found.target = file.opened;
    found.address = (function->address + point.offset).value;
    found.function = function->name;
    found.text = function_text(point, file.shown, function->name);
    matches.found.push_back(std::move(found));
  }
}

// Those whose address and name another before them has.
std::unordered_set<const FunctionSymbol*> ScriptProbes::repeated_names(
    const AttachSpec& point, std::vector<const FunctionSymbol*> functions) const {
  std::ranges::stable_sort(functions, {}, [](const FunctionSymbol* each) { return each->address; });
  std::unordered_set<const FunctionSymbol*> repeated;
  std::optional<ImageAddr> address;
  std::vector<std::string_view> names;
  for (const FunctionSymbol* function : functions) {
    if (function->address != address) names.clear();
    address = function->address;
    if (std::ranges::any_of(names, [&](auto name) { return is_same(point, name, function->name); }))
      repeated.insert(function);
    else
      names.push_back(function->name);
  }
  return repeated;
}

// Of two names of one address: whether they are one to whoever wrote the probe. Versions of a symbol share
// their name, a constructor's two symbols what they read as. Other aliases are probes of their own if a glob
// is what found them; a name that was written means the code once.
bool ScriptProbes::is_same(const AttachSpec& point, std::string_view one, std::string_view other) const {
  if (one == other) return true;
  if (scope_.is_bpftrace) return false;
  if (!has_glob(point.function)) return true;
  // A constructor's symbols differ in one digit.
  return one.size() == other.size() && symbols::display_name(one) == symbols::display_name(other);
}

bool ScriptProbes::can_be_probed(const AttachSpec& point, const probe::ImageFile& file,
                                 const ImageSymbols& image, const FunctionSymbol& function,
                                 ProbeMatches& matches) const {
  // bpftrace wants to know where a function ends before it touches it; its users' scripts count on that.
  bool wants_size = scope_.is_bpftrace && !scope_.allow_unsafe && !has_glob(point.function);
  if (wants_size && (function.size == 0 || function.size_is_guess)) {
    matches.missing =
        fmt::format("Could not determine boundary for {} (symbol has size 0).{}", function.name, kForce);
    matches.unattached = full_text(point);
    return false;
  }
  if (point.offset == 0) return true;
  if (function.size != 0 && point.offset >= function.size) {
    matches.missing =
        fmt::format("Offset outside the function bounds ('{}' size is {})", function.name, function.size);
    return false;
  }
  auto start = probe::check_instruction_start(image, function.address + point.offset);
  if (start) return true;
  matches.missing = fmt::format("Could not add {} into middle of instruction: {}:{}+{}",
                                lang::spell(point.kind), file.shown, function.name, point.offset);
  matches.hint = start.error().message();
  return false;
}

ProbeMatches ScriptProbes::match_usdt(const AttachSpec& point, lang::Diagnostics& diagnostics) {
  if (point.target.empty() && !scope_.pid) {
    diagnostics.error(point.span,
                      "usdt probe must specify at least path or pid to probe. To target all paths/pids set "
                      "the path to '*'.");
    return {};
  }
  auto files = files_of(point, diagnostics);
  if (!files) return {};
  std::string what = point.target + ":" + point.function;
  ProbeMatches matches = missing(point, what, "no USDT probe of " + point.target + " matches");
  for (const probe::ImageFile& file : *files) {
    auto image = types_.image(file.opened, file.root);
    if (!image || !(*image)->is_elf()) continue;
    for (const image::UsdtProbe& usdt : image::read_usdt_probes((*image)->elf())) {
      if (!point.provider.empty() && !glob_match(point.provider, usdt.provider)) continue;
      if (!glob_match(point.function, usdt.name)) continue;
      AttachSpec found = point;
      found.target = file.opened;
      found.provider = usdt.provider;
      found.function = usdt.name;
      found.text = "usdt:" + file.shown + ":" + found.provider + ":" + found.function;
      matches.found.push_back(std::move(found));
    }
  }
  return matches;
}

ProbeMatches ScriptProbes::match_tracepoints(const AttachSpec& point) const {
  ProbeMatches matches = missing(point, point.target + ":" + point.function,
                                 "uscope -l 'tracepoint:*' lists those of this kernel");
  for (TracepointName& name : find_tracepoints(point.target, point.function)) {
    AttachSpec found = point;
    found.target = std::move(name.category);
    found.function = found.event = std::move(name.event);
    found.text = "tracepoint:" + found.target + ":" + found.function;
    matches.found.push_back(std::move(found));
  }
  return matches;
}

}  // namespace uscope::session
