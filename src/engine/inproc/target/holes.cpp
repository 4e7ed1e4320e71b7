#include "engine/inproc/target/holes.h"

#include <algorithm>

#include "x86/encode.h"

namespace uscope::engine::inproc {
namespace {

using x86::Flow;
using x86::Instruction;
using x86::Kind;
using x86::Window;
using Hole = PatchPlan::Hole;

// How far a 2-byte jump leads, and a little more: who is a neighbour.
constexpr uint64_t kShortReach = 128;

}  // namespace

// A jump of two bytes reaches 127 bytes ahead and 128 back.
std::optional<Hole> HoleFinder::usable(ImageAddr address, Bytes filler, uint64_t from) const {
  for (uint64_t at = 0; at + x86::near_jump_size <= filler.size(); ++at) {
    const ImageAddr here = address + at;
    if (!x86::encode_short_jump(from, here.value)) continue;
    if (taken_.overlaps(here.value, here.value + x86::near_jump_size)) continue;
    return Hole{here, filler.subspan(at, x86::near_jump_size), std::nullopt};
  }
  return std::nullopt;
}

std::optional<Hole> HoleFinder::in_filler(const Window& window, const Flow& flow) const {
  // Filler inside the function: between an instruction that does not go on and the next that is reached.
  const auto& all = flow.instructions();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i].falls_through() || all[i + 1].address < all[i].end() + x86::near_jump_size) continue;
    const uint64_t start = all[i].end();
    const Bytes rest = flow.bytes_at(start);
    const Bytes between = rest.first(std::min<uint64_t>(rest.size(), all[i + 1].address - start));
    x86::Decoder decoder(between, start);
    uint64_t end = start;
    for (auto next = decoder.next(); next && next->is_padding() && !flow.is_leader(next->address);
         next = decoder.next())
      end = next->end();
    if (auto hole = usable(ImageAddr{start}, between.first(end - start), window.start)) return hole;
  }
  for (const TextFacts::Filler& filler :
       facts_.filler_near(ImageAddr{window.start}, 160, x86::near_jump_size))
    if (auto hole = usable(filler.address, filler.bytes, window.start)) return hole;
  return std::nullopt;
}

// Any run of instructions that nothing leads into the middle of can be moved, probe or not.
std::optional<Hole> HoleFinder::by_moving(const Window& window, const Flow& flow,
                                          const FaultFacts& faults) const {
  constexpr unsigned kBoth = 2 * x86::near_jump_size;
  for (const Instruction& first : flow.instructions()) {
    const uint64_t hole_at = first.address + x86::near_jump_size;
    // An endbr64 stays where it is.
    if (first.kind == Kind::endbr64 || !x86::encode_short_jump(window.start, hole_at)) continue;
    // Nor does a function's first instruction move that could have another tool's breakpoint on it.
    if (first.address == flow.entry()) continue;
    if (taken_.overlaps(first.address, first.address + kBoth)) continue;
    auto victim = x86::window_at(flow, first.address, kBoth);
    if (!victim || why_unmovable(*victim, flow, faults)) continue;
    if (taken_.overlaps(victim->start, victim->start + victim->size())) continue;
    const Bytes bytes = flow.bytes_at(victim->start).first(victim->end - victim->start);
    return Hole{ImageAddr{hole_at}, {}, Hole::Evicted{std::move(*victim), bytes}};
  }
  return std::nullopt;
}

std::optional<Hole> HoleFinder::by_moving_neighbours(const Window& window) const {
  std::optional<Hole> found;
  auto look_at = [&](const x86::CodeRange& code) {
    auto neighbour = facts_.function_at(ImageAddr{code.address});
    if (!neighbour || neighbour->parks_anywhere || !neighbour->forbidden.empty()) return;
    found = by_moving(window, x86::analyze(neighbour->code), neighbour->faults);
  };
  auto here = facts_.code_around(ImageAddr{window.start});
  if (!here) return std::nullopt;
  for (uint64_t at = here->end(); !found && at <= window.start + kShortReach; ++at)
    if (auto code = facts_.code_around(ImageAddr{at})) {
      look_at(*code);
      at = code->end() - 1;
    }
  for (uint64_t at = here->address - 1; !found && at + kShortReach >= window.start; --at)
    if (auto code = facts_.code_around(ImageAddr{at}); code && code->address <= at) {
      look_at(*code);
      at = code->address;
    }
  return found;
}

std::optional<Hole> HoleFinder::find(const Window& window, const FunctionPlan& function) {
  if (!function.flow) return std::nullopt;
  auto hole = in_filler(window, *function.flow);
  if (!hole && !function.parks_anywhere) hole = by_moving(window, *function.flow, *function.faults);
  if (!hole && !function.parks_anywhere) hole = by_moving_neighbours(window);
  if (!hole) return std::nullopt;
  taken_.add(hole->address.value, hole->address.value + x86::near_jump_size);
  if (hole->evicted) {
    const Window& victim = hole->evicted->window;
    taken_.add(victim.start, victim.start + victim.size());
  }
  return hole;
}

}  // namespace uscope::engine::inproc
