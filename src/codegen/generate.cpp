#include "codegen/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/code_generator.h"

namespace uscope::codegen {
namespace {

using lang::ProbeKind;

std::optional<CodeKind> code_kind(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kBegin:
    case ProbeKind::kEnd:
    case ProbeKind::kSelf:
    case ProbeKind::kTest:
    case ProbeKind::kBench:
      return CodeKind::RunOnce;
    case ProbeKind::kUprobe:
    case ProbeKind::kUretprobe:
    case ProbeKind::kUsdt:
      return CodeKind::UserProbe;
    case ProbeKind::kInterval:
      return CodeKind::Timer;
    case ProbeKind::kProfile:
    case ProbeKind::kSoftware:
    case ProbeKind::kHardware:
    case ProbeKind::kWatchpoint:
      return CodeKind::PerfEvent;
    case ProbeKind::kTracepoint:
      return CodeKind::Tracepoint;
    default:
      return std::nullopt;
  }
}

bool is_same(const Code& a, const Code& b) {
  auto same_reference = [](const MapReference& x, const MapReference& y) {
    return x.instruction == y.instruction && x.map == y.map;
  };
  return a.kind == b.kind && a.instructions.size() == b.instructions.size() &&
         std::memcmp(a.instructions.data(), b.instructions.data(),
                     a.instructions.size() * sizeof(bpf_insn)) == 0 &&
         std::ranges::equal(a.maps, b.maps, same_reference);
}

// The codes of one probe of the script.
class ProbeCodes {
 public:
  ProbeCodes(Unit& unit, uint32_t probe, uint64_t first_cookie)
      : unit_(unit), index_(probe), probe_(unit.typed.probes[probe]), first_cookie_(first_cookie) {}

  Status run() {
    for (uint32_t i = 0; i < probe_.attach_points.size(); i++) {
      TRY(uint32_t code, code_for(i, 0));
      CodeUse use{index_, i, code, first_cookie_ + i};
      size_t sites = usdt_sites(i, code);
      if (sites > 1) use.site_codes.push_back(code);
      for (size_t site = 1; site < sites; site++) {
        TRY(uint32_t of_site, code_for(i, site));
        use.site_codes.push_back(of_site);
      }
      unit_.out.uses.push_back(std::move(use));
    }
    return {};
  }

 private:
  struct Made {
    ProbeKind kind;
    uint32_t code;
    bool fits_all;  // attach points of this kind
  };

  // How many of a usdt probe's sites may need code of their own.
  size_t usdt_sites(uint32_t attach_point, uint32_t code) const {
    const lang::AttachSpec& attach = probe_.attach_points[attach_point];
    if (attach.kind != ProbeKind::kUsdt || !unit_.inputs.places) return 1;
    for (const Made& made : made_)
      if (made.code == code && made.fits_all) return 1;
    return unit_.inputs.places->usdt_sites(attach);
  }

  Result<uint32_t> code_for(uint32_t attach_point, size_t usdt_site) {
    const lang::AttachSpec& attach = probe_.attach_points[attach_point];
    auto kind = code_kind(attach.kind);
    if (!kind)
      return fail(
          fmt::format("{}: {} probes are not supported yet", unit_.place(attach.span), spell(attach.kind)));
    bool is_shared = *kind == CodeKind::UserProbe && probe_.attach_points.size() > 1;
    if (is_shared)
      for (const Made& made : made_)
        if (made.kind == attach.kind && made.fits_all) return made.code;
    CodeGenerator generator(unit_,
                            {&probe_, &attach, *kind, is_shared, first_cookie_ + attach_point, usdt_site});
    TRY(Code code, generator.run());
    if (unit_.first_problem()) return fail(*unit_.first_problem());
    // Places of arguments may be the same at many attach points.
    for (const Made& made : made_)
      if ((is_shared || usdt_site > 0) && made.kind == attach.kind &&
          is_same(unit_.out.program.codes[made.code], code))
        return made.code;
    auto number = uint32_t(unit_.out.program.codes.size());
    made_.push_back({attach.kind, number, !generator.depends_on_place()});
    unit_.out.program.codes.push_back(std::move(code));
    return number;
  }

  Unit& unit_;
  uint32_t index_;
  const lang::TypedProbe& probe_;
  uint64_t first_cookie_;
  std::vector<Made> made_;
};

}  // namespace

Result<Compiled> generate(const lang::TypedProgram& program, const Inputs& inputs) {
  Unit unit(program, inputs);
  for (const lang::TypedProbe& probe : program.probes)
    for (const lang::AttachSpec& attach : probe.attach_points) unit.out.plan.probes.push_back(attach.text);
  unit.out.plan.max_cat_bytes = program.settings.max_cat_bytes;
  unit.make_all_script_maps();
  if (unit.first_problem()) return fail(*unit.first_problem());
  uint64_t cookie = 0;
  Status worst;  // what is wrong in one probe should not hide what is in the next
  for (uint32_t i = 0; i < program.probes.size(); i++) {
    auto formats = uint32_t(unit.out.plan.formats.size()), values = uint32_t(unit.out.plan.values.size());
    unit.begin_probe();
    auto made = ProbeCodes(unit, i, cookie).run();
    if (!made && worst) worst = std::move(made);
    if (std::ranges::any_of(program.probes[i].attach_points,
                            [](const lang::AttachSpec& attach) { return attach.kind == ProbeKind::kEnd; }))
      unit.out.end_reports.push_back({formats, uint32_t(unit.out.plan.formats.size()) - formats, values,
                                      uint32_t(unit.out.plan.values.size()) - values});
    cookie += program.probes[i].attach_points.size();
  }
  if (!worst) return fail(std::move(worst.error()));
  return std::move(unit.out);
}

}  // namespace uscope::codegen
