#include "session/script_probes.h"

#include <map>

#include "base/glob.h"
#include "image/usdt/notes.h"
#include "probe/image_files.h"
#include "probe/resolve.h"
#include "session/entry_address.h"
#include "session/refusal_reasons.h"
#include "symbols/lookup.h"

namespace uscope::session {
namespace {

using engine::Attachment;
using lang::AttachSpec;
using lang::ProbeKind;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;

}  // namespace

Attachment& ScriptProbes::group(uint32_t code, const std::string& file, Attachment::Kind kind,
                                std::vector<Attachment>& attachments) const {
  for (auto at = attachments.rbegin(); at != attachments.rend(); ++at)
    if (at->code == code && at->kind == kind && at->file == file) return *at;
  Attachment attachment;
  attachment.code = code;
  attachment.kind = kind;
  attachment.file = file;
  attachment.pid = scope_.pid;
  return attachments.emplace_back(std::move(attachment));
}

Status ScriptProbes::add_entry(const CodeAtPoint& point, const ScriptTypes::Place& place, bool is_inproc,
                               std::vector<Attachment>& attachments) {
  auto offset = place.image->file_offset(entry_address(*place.image, place.address, is_inproc));
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
    for (size_t i = 0; i < usdt.sites.size(); i++) {
      const image::UsdtSite& site = usdt.sites[i];
      if (!site.offset) continue;
      uint32_t code = i < point.site_codes.size() ? point.site_codes[i] : point.code;
      group(code, point.point->target, Attachment::Kind::UserProbe, attachments)
          .sites.push_back({*site.offset, point.cookie, site.semaphore_offset});
    }
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
      return spec.kind == ProbeKind::kUprobe ? add_entry(point, *place, returns.is_inproc(), attachments)
                                             : add_returns(point, *place, returns, attachments);
    }
    case ProbeKind::kUsdt: {
      TRY(const ImageSymbols* image, types_.image(spec.target));
      return add_usdt(point, *image, attachments);
    }
    case ProbeKind::kBegin:
    case ProbeKind::kEnd:
    case ProbeKind::kSelf:
    case ProbeKind::kTest:
    case ProbeKind::kBench:
      return {};  // run by the session
    default:
      return add_event(point, attachments);
  }
}

ScriptProbes::Placement ScriptProbes::attachments(const std::vector<CodeAtPoint>& points,
                                                  ReturnProbes& returns) {
  Placement placement;
  // What one attach point of the script stands for shares its place there.
  struct Refused {
    size_t of = 0;
    std::vector<PointFailure> failures;
    std::vector<std::string> reasons;  // of them, without the functions' names
  };
  std::map<uint32_t, Refused> by_place;
  for (const CodeAtPoint& point : points) {
    Refused& refused = by_place[point.point->span.begin];
    ++refused.of;
    auto added = add_sites(point, returns, placement.attachments);
    if (added) {
      ++placement.placed;
      continue;
    }
    const std::string& name = point.point->text;
    const std::string why = added.error().what();
    refused.reasons.push_back(why.starts_with(name + ": ") ? why.substr(name.size() + 2) : why);
    refused.failures.push_back({point.cookie, std::move(added).error()});
  }
  for (auto& [place, refused] : by_place) {
    if (refused.failures.empty()) continue;
    if (refused.failures.size() == refused.of) {
      for (PointFailure& failure : refused.failures) placement.failures.push_back(std::move(failure));
      continue;
    }
    placement.warnings.push_back(std::to_string(refused.failures.size()) + " of " +
                                 std::to_string(refused.of) +
                                 " functions are left out: " + count_reasons(refused.reasons));
  }
  for (std::string& text : returns.warnings()) placement.warnings.push_back(std::move(text));
  return placement;
}

}  // namespace uscope::session
