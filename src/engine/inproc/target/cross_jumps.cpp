#include "engine/inproc/target/cross_jumps.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/parallel.h"
#include "x86/quick_decode.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kSmallText = uint64_t(16) << 20;
constexpr size_t kPiecesAtOnce = 256;
constexpr uint64_t kPiece = uint64_t(1) << 20;
constexpr uint64_t kAround = uint64_t(4) << 20;

// One bit for each address, so that asking costs next to nothing.
class AddressSet {
 public:
  AddressSet(uint64_t begin, uint64_t end) : begin_(begin), end_(end), bits_((end - begin + 63) / 64) {}
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  void add(uint64_t a) { bits_[(a - begin_) / 64] |= uint64_t(1) << ((a - begin_) % 64); }
  bool has(uint64_t a) const {
    const uint64_t at = a - begin_;
    return at / 64 < bits_.size() && (bits_[at / 64] >> (at % 64) & 1) != 0;
  }

 private:
  uint64_t begin_, end_;
  std::vector<uint64_t> bits_;
};

// What a byte would be, were it the first of a branch.
enum class First : uint8_t { nothing, short_branch, near_branch, two_bytes, lea };

constexpr std::array<First, 256> kFirst = [] {
  std::array<First, 256> first{};
  for (unsigned b = 0x70; b < 0x80; ++b) first[b] = First::short_branch;
  for (unsigned b = 0xe0; b < 0xe4; ++b) first[b] = First::short_branch;
  first[0xeb] = First::short_branch;
  first[0xe8] = first[0xe9] = First::near_branch;
  first[0x0f] = First::two_bytes;
  first[0x8d] = First::lea;
  return first;
}();

int64_t displacement(const uint8_t* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Where the bytes at `at` would lead to; 0: nowhere. Six bytes can be read there.
uint64_t target_of(First first, const uint8_t* at, uint64_t address) {
  switch (first) {
    case First::nothing:
      break;
    case First::short_branch:
      return address + 2 + uint64_t(int64_t(int8_t(at[1])));
    case First::near_branch:
      return address + 5 + uint64_t(displacement(at + 1));
    case First::two_bytes:
      return (at[1] & 0xf0) == 0x80 ? address + 6 + uint64_t(displacement(at + 2)) : 0;
    case First::lea:  // an address taken, of code that something may then jump to
      return (at[1] & 0xc7) == 0x05 ? address + 6 + uint64_t(displacement(at + 2)) : 0;
  }
  return 0;
}

class Scan {
 public:
  using IsBranch = std::function<bool(uint64_t from, uint64_t to)>;
  Scan(IsBranch is_branch, const AddressSet& inside)
      : is_branch_(std::move(is_branch)),
        is_guess_(!is_branch_),
        is_narrow_(inside.end() - inside.begin() <= kNarrow),
        inside_(inside) {}

  // The branches that begin in [from, to) of a range.
  void run(const x86::CodeRange& range, uint64_t from, uint64_t to, std::vector<CrossJump>& found) const {
    constexpr uint64_t longest = 6;
    const uint64_t whole = range.end() >= longest ? std::min(to, range.end() - longest + 1) : from;
    const uint8_t* at = range.bytes.data() + (from - range.address);
    uint64_t address = from;
    while (address < whole) {
      const uint64_t skipped = is_narrow_ ? far_and_elsewhere(range, address, whole) : 0;
      address += skipped;
      at += skipped;
      const uint64_t end = is_narrow_ ? std::min(whole, address + kBlock) : whole;
      for (; address < end; ++address, ++at) {
        const First first = kFirst[*at];
        if (first != First::nothing) look_at(target_of(first, at, address), address, found);
      }
    }
    // At the very end a copy is read, with nothing behind it.
    for (; address < to; ++address) {
      std::array<uint8_t, longest> copy{};
      const Bytes rest = range.bytes.subspan(address - range.address);
      std::ranges::copy(rest.first(std::min<size_t>(rest.size(), longest)), copy.begin());
      look_at(target_of(kFirst[copy[0]], copy.data(), address), address, found);
    }
  }

 private:
  // How many bytes from `address` on, in whole blocks, can be left out. All but the short branches have their
  // displacement last, one or two bytes behind their first: so one question answers for all kinds at once,
  // and does so for four places at a time. Where few addresses are asked for, hardly a block is looked at
  // further.
  uint64_t far_and_elsewhere(const x86::CodeRange& range, uint64_t address, uint64_t to) const {
    const uint64_t begin = address;
    const uint8_t* at = range.bytes.data() + (address - range.address);
    const __m128i span = _mm_set1_epi32(int32_t(uint32_t(inside_.end() - inside_.begin()) ^ kSign));
    // The last load ends kBlock + 5 bytes behind the block's first.
    for (; address + kBlock + 5 <= to; address += kBlock, at += kBlock) {
      if (address + kShortReach >= inside_.begin() && address < inside_.end() + kShortReach) break;
      __m128i hits = _mm_setzero_si128();
      for (uint32_t k = 1; k <= 5; ++k) {
        const auto base = uint32_t(address + k + 4 - inside_.begin());
        const __m128i places = _mm_add_epi32(_mm_set1_epi32(int32_t(base)), _mm_set_epi32(12, 8, 4, 0));
        const __m128i distance =
            _mm_add_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + k)), places);
        const __m128i biased = _mm_xor_si128(distance, _mm_set1_epi32(int32_t(kSign)));
        hits = _mm_or_si128(hits, _mm_cmplt_epi32(biased, span));
      }
      if (_mm_movemask_epi8(hits) != 0) break;
    }
    return address - begin;
  }

  void look_at(uint64_t target, uint64_t from, std::vector<CrossJump>& found) const {
    if (target != 0 && inside_.has(target) && (is_guess_ || is_branch_(from, target)))
      found.push_back({from, target, is_guess_});
  }

  static constexpr uint64_t kNarrow = uint64_t(1) << 16;
  static constexpr uint64_t kBlock = 16, kShortReach = 160;  // a short branch's, and a block
  static constexpr uint32_t kSign = uint32_t(1) << 31;       // SSE2 compares signed numbers only

  IsBranch is_branch_;
  bool is_guess_, is_narrow_;
  const AddressSet& inside_;
};

// What an instruction points to that may be a table of jumps.
struct TableUse {
  uint64_t table = 0, from = 0;
  const TextFacts::Piece* piece = nullptr;
  bool is_certain = true;  // the instruction is one
};

// Follows tables of jumps: offsets from their starts, as far as they lead to code, and no further than to
// where the next one begins, since a large program has thousands of them in a row.
class Tables {
 public:
  // `gaps`: of the text, which may be anything.
  Tables(const WholeSearch& search, std::span<const x86::CodeRange> gaps, const AddressSet& inside)
      : data_(search.data), gaps_(gaps), inside_(inside) {
    for (const x86::CodeRange& range : search.text) {
      low_ = std::min(low_, range.address);
      high_ = std::max(high_, range.end());
    }
  }

  bool may_be_one(uint64_t table) const {
    const x86::CodeRange* range = holding(table);
    return range != nullptr && entry(*range, table, table).has_value();
  }

  // What they lead to, of those that may_be_one().
  void look_at(std::span<const TableUse> uses, std::vector<CrossJump>& found) const {
    std::vector<uint64_t> starts;
    for (const TableUse& use : uses)
      if (use.is_certain) starts.push_back(use.table);
    std::ranges::sort(starts);
    for (const TableUse& use : uses) {
      const auto next = std::ranges::upper_bound(starts, use.table);
      look_at(use, next == starts.end() ? UINT64_MAX : *next, found);
    }
  }

 private:
  // Where the table's entry at an address leads to, if it is one.
  std::optional<uint64_t> entry(const x86::CodeRange& range, uint64_t table, uint64_t at) const {
    if (range.end() - at < 4) return std::nullopt;
    const uint64_t target = table + uint64_t(displacement(&range.bytes[at - range.address]));
    return target >= low_ && target < high_ ? std::optional(target) : std::nullopt;
  }

  void look_at(const TableUse& use, uint64_t end, std::vector<CrossJump>& found) const {
    const x86::CodeRange& range = *holding(use.table);
    for (uint64_t at = use.table; at < end; at += 4) {
      const auto target = entry(range, use.table, at);
      if (!target) return;
      // A function's tables lead into itself; those of a part, into its function.
      if (inside_.has(*target) && (!use.piece->is_function || use.piece->code.contains(*target)))
        found.push_back({use.from, *target, true});
    }
  }

  const x86::CodeRange* holding(uint64_t table) const {
    for (const x86::CodeRange& range : data_)
      if (range.contains(table)) return &range;
    auto behind = std::ranges::upper_bound(gaps_, table, {}, &x86::CodeRange::address);
    if (behind == gaps_.begin() || !std::prev(behind)->contains(table)) return nullptr;
    return &*std::prev(behind);
  }

  std::span<const x86::CodeRange> data_, gaps_;
  const AddressSet& inside_;
  uint64_t low_ = UINT64_MAX, high_ = 0;
};

AddressSet set_of(std::span<const Interior> interiors) {
  const auto low = std::ranges::min(interiors, {}, &Interior::begin).begin;
  const auto high = std::ranges::max(interiors, {}, &Interior::end).end;
  AddressSet inside(low, high);
  for (const Interior& interior : interiors)
    for (uint64_t a = interior.begin; a < interior.end; ++a) inside.add(a);
  return inside;
}

// Runs `work(i, found)` for each, on all processors.
template <typename Work>
std::vector<CrossJump> gather(size_t count, Work work) {
  std::vector<std::vector<CrossJump>> parts(count);
  for_each_in_parallel(count, [&](size_t i) { work(i, parts[i]); });
  std::vector<CrossJump> found;
  for (const auto& part : parts) found.insert(found.end(), part.begin(), part.end());
  return found;
}

bool is_small(std::span<const x86::CodeRange> text) {
  uint64_t total = 0;
  for (const x86::CodeRange& range : text) total += range.bytes.size();
  return total <= kSmallText;
}

// What lies between the pieces.
std::vector<x86::CodeRange> gaps_of(const WholeSearch& search) {
  std::vector<x86::CodeRange> gaps;
  auto address_of = [](const TextFacts::Piece& piece) { return piece.code.address; };
  for (const x86::CodeRange& range : search.text) {
    uint64_t at = range.address;
    auto add = [&](uint64_t end) {
      if (end > at) gaps.push_back({at, range.bytes.subspan(at - range.address, end - at)});
    };
    for (auto piece = std::ranges::lower_bound(search.pieces, range.address, {}, address_of);
         piece != search.pieces.end() && piece->code.address < range.end(); ++piece) {
      add(piece->code.address);
      at = std::max(at, piece->code.end());
    }
    add(range.end());
  }
  return gaps;
}

}  // namespace

Leads leads_to(const x86::CodeRange& code, uint64_t from, uint64_t to) {
  x86::Decoder decoder(code.bytes, code.address);
  for (;;) {
    const uint64_t at = decoder.position();
    auto instruction = decoder.next();
    // What a walk through data soon comes across, and a walk through a compiler's code never.
    if (!instruction || instruction->kind == x86::Kind::unusual_transfer ||
        instruction->kind == x86::Kind::hlt)
      return Leads::Maybe;
    const Bytes bytes = code.bytes.subspan(at - code.address);
    if (bytes.size() > 1 && bytes[0] == 0 && bytes[1] == 0) return Leads::Maybe;
    // Prefixes may stand before what was found.
    if (!instruction->covers(from)) continue;
    const bool leads = instruction->rip_relative
                           ? instruction->memory_target == to
                           : instruction->relative_size != 0 && instruction->target == to;
    return leads ? Leads::Yes : Leads::No;
  }
}

bool is_searched(std::span<const x86::CodeRange> text, uint64_t from, uint64_t to) {
  return is_small(text) || (from < to ? to - from : from - to) <= kAround;
}

std::vector<CrossJump> find_cross_jumps(const CrossJumpSearch& search, std::span<const Interior> interiors) {
  if (interiors.empty()) return {};
  const AddressSet inside = set_of(interiors);
  struct Piece {
    const x86::CodeRange* range;
    uint64_t from, to;
  };
  std::vector<Piece> pieces;
  for (const x86::CodeRange& range : search.text) {
    uint64_t from = range.address, to = range.end();
    if (!is_small(search.text)) {
      from = std::max(from, inside.begin() - std::min(inside.begin(), kAround));
      to = std::min(to, inside.end() + kAround);
    }
    for (uint64_t at = from; at < to; at += kPiece) pieces.push_back({&range, at, std::min(to, at + kPiece)});
  }
  const Scan scan(search.is_branch, inside);
  return gather(pieces.size(), [&](size_t i, std::vector<CrossJump>& found) {
    scan.run(*pieces[i].range, pieces[i].from, pieces[i].to, found);
  });
}

std::vector<CrossJump> find_pointers(std::span<const x86::CodeRange> ranges,
                                     std::span<const Interior> interiors) {
  if (interiors.empty()) return {};
  const AddressSet inside = set_of(interiors);
  struct Piece {
    const x86::CodeRange* range;
    uint64_t from, to;  // offsets
  };
  std::vector<Piece> pieces;
  for (const x86::CodeRange& range : ranges)
    for (uint64_t at = (8 - range.address % 8) % 8; at < range.bytes.size(); at += kPiece)
      pieces.push_back({&range, at, std::min<uint64_t>(range.bytes.size(), at + kPiece)});
  return gather(pieces.size(), [&](size_t i, std::vector<CrossJump>& found) {
    const auto& [range, from, to] = pieces[i];
    for (uint64_t at = from; at + 8 <= to; at += 8) {
      uint64_t value;
      std::memcpy(&value, &range->bytes[at], sizeof value);
      if (inside.has(value)) found.push_back({range->address + at, value, true, true});
    }
  });
}

std::vector<CrossJump> find_all_jumps(const WholeSearch& search, std::span<const Interior> interiors) {
  if (interiors.empty()) return {};
  const AddressSet inside = set_of(interiors);
  const std::vector<x86::CodeRange> gaps = gaps_of(search);
  const Tables tables(search, gaps, inside);
  const Scan scan(nullptr, inside);
  auto walk = [&](const TextFacts::Piece& piece, std::vector<CrossJump>& found, std::vector<TableUse>& uses) {
    // A place inside whose address is taken: the function jumps about by means that are not to be seen here.
    auto is_label = [&](uint64_t address) {
      return piece.is_function && piece.code.contains(address) && address != piece.code.address;
    };
    auto look_at_numbers = [&](uint64_t address, const x86::QuickInstruction& i) {
      const Bytes rest = piece.code.bytes.subspan(address - piece.code.address);
      x86::visit_numbers(
          rest.first(std::min<size_t>(rest.size(), i.length)),
          [&](uint64_t number) { return inside.has(number) || is_label(number); },
          [&](uint64_t number) {
            if (inside.has(number)) found.push_back({address, number, true, true});
            if (is_label(number)) found.push_back({address, piece.code.address});
          });
    };
    const bool is_code = x86::quick_walk(piece.code, [&](uint64_t address, const x86::QuickInstruction& i) {
      if (search.has_pointers && i.kind != x86::QuickInstruction::Kind::branch) look_at_numbers(address, i);
      if (i.target == 0) return;
      if (inside.has(i.target)) found.push_back({address, i.target});
      if (i.is_lea && tables.may_be_one(i.target)) uses.push_back({i.target, address, &piece});
      if (i.is_lea && is_label(i.target)) found.push_back({address, piece.code.address});
    });
    if (is_code) return;
    scan.run(piece.code, piece.code.address, piece.code.end(), found);
    for (TableUse& use : uses)
      if (use.piece == &piece) use.is_certain = false;
  };
  const size_t blocks = (search.pieces.size() + kPiecesAtOnce - 1) / kPiecesAtOnce;
  std::vector<std::vector<TableUse>> uses(blocks);
  std::vector<CrossJump> found = gather(blocks, [&](size_t block, std::vector<CrossJump>& jumps) {
    const size_t end = std::min(search.pieces.size(), (block + 1) * kPiecesAtOnce);
    for (size_t i = block * kPiecesAtOnce; i < end; ++i) walk(search.pieces[i], jumps, uses[block]);
  });
  std::vector<TableUse> all_uses;
  for (const auto& part : uses) all_uses.insert(all_uses.end(), part.begin(), part.end());
  tables.look_at(all_uses, found);
  for (const x86::CodeRange& gap : gaps) scan.run(gap, gap.address, gap.end(), found);
  if (search.has_pointers) {
    for (const auto& ranges : {search.data, search.text})
      std::ranges::copy(find_pointers(ranges, interiors), std::back_inserter(found));
  }
  return found;
}

}  // namespace uscope::engine::inproc
