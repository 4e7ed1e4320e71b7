#include "image/dwarf/prologue_ends.h"

#include <algorithm>

#include "image/dwarf/line_program.h"

namespace uscope::image::dwarf {

std::optional<uint64_t> PrologueEnds::between(const Unit& unit, uint64_t low, uint64_t high) {
  const bool is_gnu = unit.facts().producer.starts_with("GNU ");
  if (unit_ != &unit) {
    unit_ = &unit;
    marked_.clear();
    rows_.clear();
    if (auto program = LineProgram::of(unit)) {
      program->for_each_row([&](const LineProgram::Row& row) {
        if (row.prologue_end) marked_.push_back(row.address);
        if (is_gnu && !row.end_sequence) rows_.push_back(row.address);
        return true;
      });
    }
    std::sort(marked_.begin(), marked_.end());
    std::sort(rows_.begin(), rows_.end());
  }
  auto found = std::lower_bound(marked_.begin(), marked_.end(), low);
  if (found != marked_.end() && *found < high) return *found;
  auto second = std::upper_bound(rows_.begin(), rows_.end(), low);
  if (second != rows_.end() && *second < high) return *second;
  return {};
}

std::optional<CfaRule> rule_in_body(const FrameTable& frames, uint64_t entry,
                                    std::optional<uint64_t> prologue_end) {
  constexpr uint32_t rsp = 7;
  auto rule = prologue_end ? frames.cfa_at(*prologue_end) : std::nullopt;
  if (!rule || !rule->expression.empty()) return {};
  // Optimised code may make its frame later than where the prologue is said to end.
  const bool has_no_frame_yet = rule->base == rsp && rule->offset == 8;
  if (has_no_frame_yet && frames.deepest(entry) != 8) return {};
  return rule;
}

}  // namespace uscope::image::dwarf
