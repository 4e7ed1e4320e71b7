#include "session/script_probes.h"

#include <algorithm>

#include "base/glob.h"
#include "image/usdt/notes.h"
#include "probe/image_files.h"
#include "probe/resolve.h"
#include "symbols/function_code.h"
#include "symbols/lookup.h"
#include "x86/entry_site.h"

namespace uscope::session {
namespace {

using engine::Attachment;
using lang::AttachSpec;
using lang::ProbeKind;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;

std::string probe_name(const AttachSpec& point, const std::string& file, std::string_view function) {
  return std::string(lang::spell(point.kind)) + ":" + file + ":" + std::string(function) +
         (point.offset != 0 ? "+" + std::to_string(point.offset) : "");
}

}  // namespace

std::vector<AttachSpec> ScriptProbes::match(const AttachSpec& point, lang::Diagnostics& diagnostics) {
  switch (point.kind) {
    case ProbeKind::kUprobe:
    case ProbeKind::kUretprobe:
      return match_functions(point, diagnostics);
    case ProbeKind::kUsdt:
      return match_usdt(point, diagnostics);
    default:
      return {point};
  }
}

std::vector<AttachSpec> ScriptProbes::match_functions(const AttachSpec& point,
                                                      lang::Diagnostics& diagnostics) {
  std::vector<AttachSpec> matches;
  auto files = probe::find_image_files(point.target, pid_);
  if (!files) {
    diagnostics.error(point.span, files.error().what()).hint = files.error().hint();
    return matches;
  }
  for (const probe::ImageFile& file : *files) {
    auto image = types_.image(file.opened, file.root);
    if (!image) {
      if (files->size() == 1) diagnostics.error(point.span, image.error().message());
      continue;
    }
    AttachSpec found = point;
    found.target = file.opened;
    if (point.address) {
      auto start = probe::check_instruction_start(**image, ImageAddr{*point.address});
      if (!start)
        diagnostics.error(point.span, start.error().what()).hint = start.error().hint();
      else
        matches.push_back(found);
      continue;
    }
    if (!point.source_file.empty()) {
      probe::PerfPoint line;
      line.place = point.source_file;
      line.line = uint32_t(point.line);
      auto sites = probe::resolve_point(**image, line, probe::Ambiguity::TakeAll);
      if (!sites) diagnostics.error(point.span, sites.error().what()).hint = sites.error().hint();
      for (const probe::Site& site : sites ? *sites : std::vector<probe::Site>()) {
        found.address = site.address.value;
        found.function = site.function;
        matches.push_back(found);
      }
      continue;
    }
    auto spelling = point.cpp ? symbols::Spelling::Demangled : symbols::Spelling::Any;
    symbols::Lookup lookup = symbols::find_functions(**image, point.function, spelling);
    if (lookup.found.empty() && files->size() == 1)
      diagnostics.error(point.span, symbols::explain_missing(**image, point.function, lookup));
    const FunctionSymbol* last = nullptr;
    for (const FunctionSymbol* function : lookup.found) {
      // Versions of one name share an address; aliases are probes of their own, as their names differ.
      if (last != nullptr && last->name == function->name && last->address == function->address) continue;
      last = function;
      ImageAddr address = function->address + point.offset;
      if (point.offset != 0) {
        auto start = probe::check_instruction_start(**image, address);
        if (!start) {
          diagnostics.error(point.span, start.error().what()).hint = start.error().hint();
          continue;
        }
      }
      found.address = address.value;
      found.function = function->name;
      found.text = probe_name(point, file.shown, function->name);
      matches.push_back(found);
    }
  }
  if (matches.empty() && !diagnostics.has_errors())
    diagnostics.error(point.span,
                      "No matches for " + point.text + ": no function of " + point.target + " matches");
  return matches;
}

std::vector<AttachSpec> ScriptProbes::match_usdt(const AttachSpec& point, lang::Diagnostics& diagnostics) {
  std::vector<AttachSpec> matches;
  auto files = probe::find_image_files(point.target, pid_);
  if (!files) {
    diagnostics.error(point.span, files.error().what()).hint = files.error().hint();
    return matches;
  }
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
      matches.push_back(std::move(found));
    }
  }
  if (matches.empty()) diagnostics.error(point.span, "no USDT probe matches " + point.text);
  return matches;
}

Attachment& ScriptProbes::group(const CodeAtPoint& point, Attachment::Kind kind,
                                std::vector<Attachment>& attachments) const {
  for (auto at = attachments.rbegin(); at != attachments.rend(); ++at)
    if (at->code == point.code && at->kind == kind && at->file == point.point->target) return *at;
  Attachment attachment;
  attachment.code = point.code;
  attachment.kind = kind;
  attachment.file = point.point->target;
  attachment.pid = pid_;
  return attachments.emplace_back(std::move(attachment));
}

Status ScriptProbes::add_entry(const CodeAtPoint& point, const ScriptTypes::Place& place,
                               std::vector<Attachment>& attachments) {
  ImageAddr address = place.address;
  const FunctionSymbol* function = place.image->function_at(address);
  auto code = function != nullptr && function->address == address
                  ? symbols::function_code(*place.image, *function)
                  : std::nullopt;
  if (code) {
    x86::Flow flow = x86::analyze(*code);
    x86::EntryRequest request;
    request.go = place.image->language() == image::Language::Go;
    x86::EntrySite site = x86::cheapest_entry_site(flow, request);
    // Only a site where the stack and every register are as they came shows the same arguments and stacks.
    if (site.stack_adjustment == 0 && site.changed == 0) address = ImageAddr{site.address};
  }
  auto offset = place.image->file_offset(address);
  if (!offset) return fail(point.point->text + " is not in the file");
  group(point, Attachment::Kind::UserProbe, attachments)
      .sites.push_back({*offset, point.cookie, std::nullopt});
  return {};
}

// Exits show the return value where the function itself sets it: at a RET. A function that leaves by a jump
// to another returns what that one returns; the kernel's return trick sees it, and is safe only in C.
Status ScriptProbes::add_exits(const CodeAtPoint& point, const ScriptTypes::Place& place,
                               std::vector<Attachment>& attachments) {
  const FunctionSymbol* function = place.image->function_at(place.address);
  auto code = function != nullptr ? symbols::function_code(*place.image, *function) : std::nullopt;
  std::string why = "its code is not in the file";
  if (code) {
    x86::Flow flow = x86::analyze(*code);
    bool only_returns = std::all_of(flow.exits().begin(), flow.exits().end(), [](const x86::Exit& exit) {
      return exit.kind == x86::ExitKind::ret || exit.kind == x86::ExitKind::no_return;
    });
    if (flow.complete() && only_returns) {
      for (const x86::Exit& exit : flow.exits()) {
        if (exit.kind != x86::ExitKind::ret) continue;
        auto offset = place.image->file_offset(ImageAddr{exit.address});
        if (offset)
          group(point, Attachment::Kind::UserProbe, attachments)
              .sites.push_back({*offset, point.cookie, std::nullopt});
      }
      return {};
    }
    why = flow.complete() ? "it leaves by a jump to another function" : flow.gap_text();
  }
  auto offset = place.image->file_offset(place.address);
  if (!offset) return fail(point.point->text + " is not in the file");
  if (place.image->language() != image::Language::C)
    return fail(Error(point.point->text + ": not every return of it can be probed: " + why)
                    .with_hint("the kernel's own return probes are not used here, as an exception or a Go "
                               "traceback through one "
                               "kills the program"));
  group(point, Attachment::Kind::UserReturn, attachments)
      .sites.push_back({*offset, point.cookie, std::nullopt});
  return {};
}

Status ScriptProbes::add_usdt(const CodeAtPoint& point, const ImageSymbols& image,
                              std::vector<Attachment>& attachments) {
  for (const image::UsdtProbe& usdt : image::read_usdt_probes(image.elf())) {
    if (usdt.provider != point.point->provider || usdt.name != point.point->function) continue;
    for (const image::UsdtSite& site : usdt.sites)
      if (site.offset)
        group(point, Attachment::Kind::UserProbe, attachments)
            .sites.push_back({*site.offset, point.cookie, site.semaphore_offset});
  }
  return {};
}

Status ScriptProbes::add_sites(const CodeAtPoint& point, std::vector<Attachment>& attachments) {
  const AttachSpec& spec = *point.point;
  switch (spec.kind) {
    case ProbeKind::kUprobe:
    case ProbeKind::kUretprobe: {
      auto place = types_.site(spec);
      if (!place) return fail("no function for " + spec.text);
      return spec.kind == ProbeKind::kUprobe ? add_entry(point, *place, attachments)
                                             : add_exits(point, *place, attachments);
    }
    case ProbeKind::kUsdt: {
      TRY(const ImageSymbols* image, types_.image(spec.target));
      return add_usdt(point, *image, attachments);
    }
    case ProbeKind::kInterval:
    case ProbeKind::kProfile: {
      Attachment attachment;
      attachment.code = point.code;
      attachment.kind =
          spec.kind == ProbeKind::kInterval ? Attachment::Kind::Interval : Attachment::Kind::Profile;
      attachment.period = spec.frequency != 0 ? 1'000'000'000 / spec.frequency : spec.period_ns;
      attachments.push_back(std::move(attachment));
      return {};
    }
    case ProbeKind::kBegin:
    case ProbeKind::kEnd:
    case ProbeKind::kSelf:
      return {};  // run by the session
    default:
      return fail(
          Error(spec.text + ": " + std::string(lang::spell(spec.kind)) + " probes are not supported yet"));
  }
}

Result<std::vector<Attachment>> ScriptProbes::attachments(const std::vector<CodeAtPoint>& points) {
  std::vector<Attachment> attachments;
  for (const CodeAtPoint& point : points) TRY_STATUS(add_sites(point, attachments));
  return attachments;
}

}  // namespace uscope::session
