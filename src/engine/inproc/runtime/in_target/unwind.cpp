// Stacks without frame pointers, by tables: what codegen/unwind does as eBPF where the kernel runs the probe,
// with the same rules and the same reasons to stop. Which code is mapped where is a list that uscope keeps;
// an address that is in no range of it is asked for, once.
#include "codegen/unwind_tables.h"
#include "engine/inproc/runtime/in_target/calls.h"
#include "event/stack_end.h"

namespace uscope::engine::inproc {
namespace {

using codegen::CodeRange;
using codegen::ImageEntry;
using codegen::RowEntry;
using codegen::RuleEntry;
using codegen::UnwindState;
using event::StackEnd;

constexpr uint64_t kPage = 4096, kHighest = uint64_t(1) << 47;
constexpr uint32_t kFramePointer = 6, kStackPointer = 7;  // DWARF's numbers
constexpr uint32_t kPreserved = 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12;
constexpr uint8_t kSaved[] = {3, 6, 12, 13, 14, 15};  // as RuleEntry::saved has them
constexpr uint64_t kExact = uint64_t(1) << 63;
// Beside the rules: by frame pointer, in a file and in a JIT's code.
constexpr uint32_t kByFramePointer = 0xfffffffe, kNoPlace = 0xffffffff;

// The stack's words: as they are where memory is certain to be there, else through the gate, else in a piece
// that the kernel has copied.
class StackWords {
 public:
  explicit StackWords(Slot* slot) : slot_(slot) { move_to(slot->busy & ~(kPage - 1)); }

  bool read(uint64_t at, uint64_t* word) {
    if (at - begin_ > have_ - 8 && !move_to(at)) return false;
    __builtin_memcpy(word, from_ + (at - begin_), 8);
    return true;
  }

 private:
  struct Range {
    uint64_t address, size;
  };

  bool move_to(uint64_t at) {
    if (at < kPage || at >= kHighest) return false;
    const uint64_t certain = certain_bytes(slot_, at);
    if (certain < 8 && !load_through_gate(slot_, copy_, at, 8)) return copy(at);
    begin_ = at;
    have_ = certain < 8 ? 8 : certain;
    from_ = certain < 8 ? copy_ : (const uint8_t*)at;
    return true;
  }

  // One piece a page, as the kernel stops at the first that it cannot read.
  bool copy(uint64_t wanted) {
    // Frames are read from their upper ends on.
    const uint64_t at = wanted % kPage < kBefore ? wanted : wanted - kBefore;
    Range pieces[kCopied / kPage + 1];
    uint64_t count = 0;
    for (uint64_t done = 0; done < kCopied; count++) {
      const uint64_t room = kPage - (at + done) % kPage;
      pieces[count] = {at + done, room < kCopied - done ? room : kCopied - done};
      done += pieces[count].size;
    }
    const Range local = {(uint64_t)copy_, kCopied};
    const int64_t got = read_by_kernel(slot_, &local, pieces, count);
    const bool has_it = got >= int64_t(wanted - at + 8);
    begin_ = has_it ? at : kHighest;
    have_ = has_it ? uint64_t(got) : 8;
    from_ = copy_;
    return has_it;
  }

  static constexpr uint64_t kCopied = 4096, kBefore = 512;
  Slot* slot_;
  // What `from_` holds: at least eight bytes, at first of an address that nobody reads.
  uint64_t begin_ = kHighest, have_ = 8;
  const uint8_t* from_ = nullptr;
  alignas(8) uint8_t copy_[kCopied];
};

template <typename T>
const T* values_of(const MapInfo* maps, uint32_t number) {
  return (const T*)(shared_of((MapInfo*)maps + number) + maps[number].elements);
}

// All that there is to know about code: what is mapped, and how it is left.
class Tables {
 public:
  Tables(UnwindState* state, Slot* slot)
      : state_(state),
        slot_(slot),
        maps_((const MapInfo*)((const uint8_t*)shared_header(slot) + kMapInfosOffset)),
        current_(__atomic_load_n(&state->current, __ATOMIC_ACQUIRE)) {}

  // The rule for the code at an address: its number, or kByFramePointer, or kNoPlace with a reason to stop.
  uint32_t rule_at(uint64_t address, StackEnd* why) {
    KnownRule* known = known_rules() + (uint32_t(address * kSlotHash >> 32) >> (32 - kKnownRuleBits));
    const auto renewed = uint32_t(current_ >> 32);
    if (known->address == address && known->renewed == renewed) return known->rule;
    const uint32_t rule = find_rule(address, why);
    if (rule != kNoPlace) {
      auto* place = (volatile KnownRule*)known;
      place->address = 0;
      place->renewed = renewed;
      place->rule = rule;
      place->address = address;
    }
    return rule;
  }
  const RuleEntry* rule(uint32_t number) const {
    return number < maps_[state_->rules].max_entries ? values_of<RuleEntry>(maps_, state_->rules) + number
                                                     : nullptr;
  }
  // Whether what was read of the list may have been written to meanwhile.
  bool is_stale() const {
    const uint64_t now = __atomic_load_n(&state_->current, __ATOMIC_ACQUIRE);
    return uint32_t(now >> 32) - uint32_t(current_ >> 32) > 1;
  }

 private:
  KnownRule* known_rules() const {
    return (KnownRule*)((uint8_t*)slot_ + kSlotHeader - kSlotStride + kOpenCallsBytes);
  }

  const CodeRange* range_at(uint64_t address) const {
    const uint64_t half = (current_ >> 32 & 1) * codegen::kMostCodeRanges;
    const CodeRange* first = values_of<CodeRange>(maps_, state_->code) + half;
    uint64_t count = uint32_t(current_);
    if (count > codegen::kMostCodeRanges) return nullptr;
    while (count > 1) {
      const uint64_t middle = count / 2;
      if (first[middle].start <= address) {
        first += middle;
        count -= middle;
      } else {
        count = middle;
      }
    }
    return count == 1 && first->start <= address && address < first->end ? first : nullptr;
  }

  uint32_t find_rule(uint64_t address, StackEnd* why) {
    const CodeRange* range = range_at(address);
    if (!range) {
      *why = ask(address);
      return kNoPlace;
    }
    // A followed child has what was mapped when the trace began, but not all that its parent has mapped
    // since.
    const bool is_child = slot_->pid != shared_header(slot_)->inner_pid;
    if (is_child && range->since != 1) {
      *why = StackEnd::UnknownImage;
      return kNoPlace;
    }
    if (!range->is_file && range->end - range->start <= kPage) {
      *why = StackEnd::ReturnProbe;
      return kNoPlace;
    }
    if (!range->is_file || range->flags == ImageEntry::kFramePointers) return kByFramePointer;
    const uint64_t room = maps_[state_->rows].max_entries;
    if (range->row_count == 0 || uint64_t(range->first_row) + range->row_count > room) {
      *why = StackEnd::UnknownImage;
      return kNoPlace;
    }
    return row_at(values_of<RowEntry>(maps_, state_->rows) + range->first_row, range->row_count,
                  address - range->start + range->offset);
  }

  static uint32_t row_at(const RowEntry* first, uint64_t count, uint64_t offset) {
    while (count > 1) {
      const uint64_t middle = count / 2;
      if (first[middle].offset <= offset) {
        first += middle;
        count -= middle;
      } else {
        count = middle;
      }
    }
    return first->rule;
  }

  // Code that was mapped since, or no code at all: uscope looks.
  StackEnd ask(uint64_t address) {
    for (uint64_t known : state_->no_code)
      if (known == address) return StackEnd::NotCode;
    if (__atomic_exchange_n(&state_->asked, 1, __ATOMIC_RELAXED) != 0) return StackEnd::UnknownImage;
    struct {
      uint32_t kind, unused;
      uint64_t process;
      codegen::MappingEntry mapping;
    } record = {};
    record.kind = state_->question;
    record.process = slot_->shown_pid;
    record.mapping.start = address;
    if (uscope_ring_output((MapInfo*)maps_ + state_->events, (const uint8_t*)&record, sizeof record, 0, 0,
                           slot_) != 0)
      __atomic_store_n(&state_->asked, 0, __ATOMIC_RELAXED);
    return StackEnd::UnknownImage;
  }

  UnwindState* state_;
  Slot* slot_;
  const MapInfo* maps_;
  uint64_t current_;
};

class Walk {
 public:
  Walk(const Registers* at, bool is_entry, Tables* tables, StackWords* stack)
      : instruction_(at->ip),
        registers_{at->ax, at->dx, at->cx,  at->bx,  at->si,  at->di,  at->bp,  at->sp,
                   at->r8, at->r9, at->r10, at->r11, at->r12, at->r13, at->r14, at->r15},
        is_entry_(is_entry),
        tables_(tables),
        stack_(stack) {}

  // Frames into `to`, at most `depth`; says why there are no more.
  StackEnd run(uint64_t* to, uint64_t depth, uint64_t* count) {
    for (;;) {
      StackEnd why = StackEnd::Complete;
      const uint32_t number = tables_->rule_at(instruction_ - (is_exact_ ? 0 : 1), &why);
      if (number == kNoPlace && why == StackEnd::NotCode) return why;
      to[(*count)++] = instruction_ | (is_exact_ ? kExact : 0);
      if (*count >= depth) return StackEnd::Limit;
      if (number == kNoPlace && !(why == StackEnd::ReturnProbe && is_entry_)) return why;
      const RuleEntry* rule = choose(number, &why);
      if (!rule || !leave_frame(*rule, &why)) return why;
    }
  }

 private:
  // At a function's first instruction nothing need be known of it.
  const RuleEntry* choose(uint32_t number, StackEnd* why) {
    *why = StackEnd::NoRule;
    if (number == kByFramePointer || number == kNoPlace) {
      if (is_entry_) return tables_->rule(codegen::kLeafRule);
      // By convention the outermost function has none.
      *why = StackEnd::Complete;
      if (registers_[kFramePointer] == 0) return nullptr;
      *why = StackEnd::NoRule;
      return tables_->rule(codegen::kFramePointerRule);
    }
    const RuleEntry* rule = tables_->rule(number);
    if (!rule) return nullptr;
    if (rule->kind == RuleEntry::Unknown) return is_entry_ ? tables_->rule(codegen::kLeafRule) : nullptr;
    *why = rule->kind == RuleEntry::End ? StackEnd::Complete : StackEnd::OtherStack;
    return rule->kind == RuleEntry::End || rule->kind == RuleEntry::OtherStack ? nullptr : rule;
  }

  bool is_known(uint32_t number) const { return valid_ >> (number & 15) & 1; }

  bool find_cfa(const RuleEntry& rule, uint64_t* cfa, StackEnd* why) {
    *why = StackEnd::LostRegister;
    if (!is_known(rule.base)) return false;
    *cfa = registers_[rule.base & 15] + uint64_t(int64_t(rule.offset));
    if (rule.kind == RuleEntry::Plt && (instruction_ & 15) >= uint32_t(rule.addend)) *cfa += 8;
    if (rule.kind != RuleEntry::Dereferenced) return true;
    *why = StackEnd::Unreadable;
    if (!stack_->read(*cfa, cfa)) return false;
    *cfa += uint64_t(int64_t(rule.addend));
    return true;
  }

  bool leave_frame(const RuleEntry& rule, StackEnd* why) {
    uint64_t cfa = 0;
    if (!find_cfa(rule, &cfa, why)) return false;
    *why = StackEnd::LostRegister;
    if (rule.saved_base != RuleEntry::kFromCfa && !is_known(rule.saved_base)) return false;
    const uint64_t saved_from =
        rule.saved_base == RuleEntry::kFromCfa ? cfa : registers_[rule.saved_base & 15];
    uint64_t return_from = saved_from;
    if (rule.flags == 0) {
      // A caller's frame lies above: the walk ends, whatever the tables say. Handlers may have a stack of
      // their own.
      *why = StackEnd::Damaged;
      if (cfa <= registers_[kStackPointer]) return false;
      return_from = cfa;
    }
    *why = StackEnd::Unreadable;
    uint64_t next = 0;
    if (!stack_->read(return_from + uint64_t(int64_t(rule.return_address)), &next)) return false;
    for (uint32_t i = 0; i < sizeof kSaved; i++) {
      const uint32_t bit = uint32_t(1) << kSaved[i];
      if (rule.saved[i] == RuleEntry::kUnchanged) continue;
      valid_ &= ~bit;
      if (rule.saved[i] == RuleEntry::kLost) continue;
      if (!stack_->read(saved_from + uint64_t(int64_t(rule.saved[i])), &registers_[kSaved[i]])) return false;
      valid_ |= bit;
    }
    valid_ &= kPreserved;
    registers_[kStackPointer] = cfa;
    is_exact_ = rule.flags & RuleEntry::kSignalFrame;
    instruction_ = next;
    is_entry_ = false;
    *why = StackEnd::Complete;
    return next != 0;
  }

  uint64_t instruction_;
  uint64_t registers_[16];
  uint32_t valid_ = 0xffff;
  bool is_exact_ = true, is_entry_;
  Tables* tables_;
  StackWords* stack_;
};

}  // namespace

extern "C" {

// The value as event/aggregate.h has it; its first word is the caller's.
int64_t uscope_unwind(const Registers* registers, uint8_t* to, uint64_t size, uint64_t is_entry,
                      const MapInfo* state_map, Slot* slot) {
  constexpr uint64_t kHeader = 16;
  if (size < kHeader + 8) return kInvalid;
  // uscope's own code was called by nobody, and the tables, of the target's code, are the target's to spoil.
  if (((const PrivateHeader*)slot->home)->is_own) {
    zero_bytes(to + 4, size - 4);
    return 0;
  }
  auto* state = (UnwindState*)(shared_of((MapInfo*)state_map) + state_map->elements);
  Tables tables(state, slot);
  StackWords stack(slot);
  Walk walk(registers, is_entry != 0, &tables, &stack);
  auto* addresses = (uint64_t*)(to + kHeader);
  uint64_t count = 0;
  StackEnd why = walk.run(addresses, (size - kHeader) / 8, &count);
  if (tables.is_stale()) why = StackEnd::Busy;
  const auto end = uint32_t(why);
  __builtin_memcpy(to + 4, &end, 4);
  __builtin_memcpy(to + 8, &count, 8);
  zero_bytes(to + kHeader + 8 * count, size - kHeader - 8 * count);
  return 0;
}
}

}  // namespace uscope::engine::inproc
