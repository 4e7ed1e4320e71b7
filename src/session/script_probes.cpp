#include "session/script_probes.h"

#include <map>

#include "base/glob.h"
#include "image/usdt/notes.h"
#include "probe/image_files.h"
#include "probe/resolve.h"
#include "session/entry_address.h"
#include "symbols/lookup.h"

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

Attachment& ScriptProbes::group(uint32_t code, const std::string& file, Attachment::Kind kind,
                                std::vector<Attachment>& attachments) const {
  for (auto at = attachments.rbegin(); at != attachments.rend(); ++at)
    if (at->code == code && at->kind == kind && at->file == file) return *at;
  Attachment attachment;
  attachment.code = code;
  attachment.kind = kind;
  attachment.file = file;
  attachment.pid = pid_;
  return attachments.emplace_back(std::move(attachment));
}

Status ScriptProbes::add_entry(const CodeAtPoint& point, const ScriptTypes::Place& place,
                               std::vector<Attachment>& attachments) {
  auto offset = place.image->file_offset(entry_address(*place.image, place.address));
  if (!offset) return fail(point.point->text + " is not in the file");
  group(point.code, point.point->target, Attachment::Kind::UserProbe, attachments)
      .sites.push_back({*offset, point.cookie, std::nullopt});
  return {};
}

Status ScriptProbes::add_returns(const CodeAtPoint& point, const ScriptTypes::Place& place,
                                 ReturnProbes& returns, std::vector<Attachment>& attachments) {
  const std::string& file = point.point->target;
  TRY(auto placed,
      returns.place({point.point->text, file, place.image, place.address, point.code, point.cookie}));
  for (const ReturnProbes::Placed& each : placed)
    group(each.code, file, each.kind, attachments).sites.push_back(each.site);
  return {};
}

Status ScriptProbes::add_usdt(const CodeAtPoint& point, const ImageSymbols& image,
                              std::vector<Attachment>& attachments) {
  for (const image::UsdtProbe& usdt : image::read_usdt_probes(image.elf())) {
    if (usdt.provider != point.point->provider || usdt.name != point.point->function) continue;
    for (const image::UsdtSite& site : usdt.sites)
      if (site.offset)
        group(point.code, point.point->target, Attachment::Kind::UserProbe, attachments)
            .sites.push_back({*site.offset, point.cookie, site.semaphore_offset});
  }
  return {};
}

Status ScriptProbes::add_sites(const CodeAtPoint& point, ReturnProbes& returns,
                               std::vector<Attachment>& attachments) {
  const AttachSpec& spec = *point.point;
  switch (spec.kind) {
    case ProbeKind::kUprobe:
    case ProbeKind::kUretprobe: {
      auto place = types_.site(spec);
      if (!place) return fail("no function for " + spec.text);
      return spec.kind == ProbeKind::kUprobe ? add_entry(point, *place, attachments)
                                             : add_returns(point, *place, returns, attachments);
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

Result<ScriptProbes::Placement> ScriptProbes::attachments(const std::vector<CodeAtPoint>& points,
                                                          ReturnProbes& returns) {
  Placement placement;
  // What one attach point of the script stands for shares its place there.
  struct Refused {
    size_t count = 0, of = 0;
    std::optional<Error> first;
  };
  std::map<uint32_t, Refused> by_place;
  for (const CodeAtPoint& point : points) {
    Refused& refused = by_place[point.point->span.begin];
    ++refused.of;
    auto added = add_sites(point, returns, placement.attachments);
    if (added) continue;
    ++refused.count;
    if (!refused.first) refused.first = added.error();
  }
  for (auto& [place, refused] : by_place) {
    if (refused.count == 0) continue;
    if (refused.count == refused.of) return fail(std::move(*refused.first));
    placement.warnings.push_back(std::to_string(refused.count) + " of " + std::to_string(refused.of) +
                                 " functions are left out; the first: " + refused.first->what());
  }
  for (std::string& text : returns.warnings()) placement.warnings.push_back(std::move(text));
  return placement;
}

}  // namespace uscope::session
