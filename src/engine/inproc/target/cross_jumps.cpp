#include "engine/inproc/target/cross_jumps.h"

#include <algorithm>
#include <cstring>

namespace uscope::engine::inproc {
namespace {

// Code of one object file lies together, and only there labels inside of functions are known: in very large
// images it is enough to look around the places to patch.
constexpr uint64_t kSmallText = uint64_t(16) << 20;
constexpr uint64_t kAround = uint64_t(4) << 20;

// One bit for each address, so that asking costs next to nothing.
class AddressSet {
 public:
  AddressSet(uint64_t begin, uint64_t end) : begin_(begin), bits_((end - begin + 63) / 64) {}
  void add(uint64_t a) { bits_[(a - begin_) / 64] |= uint64_t(1) << ((a - begin_) % 64); }
  bool has(uint64_t a) const {
    const uint64_t at = a - begin_;
    return at / 64 < bits_.size() && (bits_[at / 64] >> (at % 64) & 1) != 0;
  }

 private:
  uint64_t begin_;
  std::vector<uint64_t> bits_;
};

// What the bytes would lead to, were they a branch; 0: they are none.
struct Targets {
  uint64_t near = 0, wide = 0;
};

Targets targets_of(const uint8_t* at, uint64_t left, uint64_t address) {
  Targets targets;
  const uint8_t first = at[0];
  const bool is_short = first == 0xeb || (first & 0xf0) == 0x70 || (first & 0xfc) == 0xe0;
  if (is_short && left >= 2) targets.near = address + 2 + uint64_t(int64_t(int8_t(at[1])));
  const unsigned opcode = first == 0xe9 || first == 0xe8                         ? 1
                          : first == 0x0f && left >= 2 && (at[1] & 0xf0) == 0x80 ? 2
                                                                                 : 0;
  if (opcode != 0 && left >= opcode + 4) {
    int32_t distance;
    std::memcpy(&distance, at + opcode, sizeof distance);
    targets.wide = address + opcode + 4 + uint64_t(int64_t(distance));
  }
  return targets;
}

}  // namespace

std::vector<uint64_t> find_cross_jumps(std::span<const x86::CodeRange> text,
                                       std::span<const Interior> interiors,
                                       const std::function<bool(uint64_t, uint64_t)>& is_branch) {
  std::vector<uint64_t> found;
  if (interiors.empty()) return found;
  const auto low = std::ranges::min(interiors, {}, &Interior::begin).begin;
  const auto high = std::ranges::max(interiors, {}, &Interior::end).end;
  AddressSet inside(low, high);
  for (const Interior& interior : interiors)
    for (uint64_t a = interior.begin; a < interior.end; ++a) inside.add(a);
  uint64_t total = 0;
  for (const x86::CodeRange& range : text) total += range.bytes.size();
  for (const x86::CodeRange& range : text) {
    uint64_t from = range.address, to = range.end();
    if (total > kSmallText) {
      from = std::max(from, low - std::min(low, kAround));
      to = std::min(to, high + kAround);
    }
    for (uint64_t address = from; address < to; ++address) {
      const uint64_t offset = address - range.address;
      const Targets targets = targets_of(&range.bytes[offset], range.bytes.size() - offset, address);
      for (uint64_t target : {targets.near, targets.wide})
        if (target != 0 && inside.has(target) && is_branch(address, target)) found.push_back(target);
    }
  }
  std::ranges::sort(found);
  const auto same = std::ranges::unique(found);
  found.erase(same.begin(), same.end());
  return found;
}

}  // namespace uscope::engine::inproc
