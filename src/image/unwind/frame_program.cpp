#include "image/unwind/frame_program.h"

#include <dwarf.h>

#include <array>
#include <vector>

#include "image/exceptions/encoded_pointer.h"

namespace uscope::image {
namespace {

constexpr size_t kDeepestStates = 64;
constexpr uint32_t kRegisters = 17;

// Where a register of the caller is.
struct Saved {
  enum class Where : uint8_t { Unchanged, FromCfa, FromRegister, Undefined, Elsewhere };
  Where where = Where::Unchanged;
  uint8_t base = 0;  // FromRegister
  int64_t offset = 0;
};

struct Cfa {
  UnwindKind kind = UnwindKind::Unknown;
  uint64_t base = 0;
  int64_t offset = 0, addend = 0;
};

struct State {
  Cfa cfa;
  std::array<Saved, kRegisters> saved;
};

std::optional<std::pair<uint8_t, int64_t>> read_base_register(ByteReader& reader) {
  uint8_t op = reader.u8();
  if (op < DW_OP_breg0 || op > DW_OP_breg16) return {};
  int64_t offset = reader.sleb128();
  if (!reader) return {};
  return std::pair(uint8_t(op - DW_OP_breg0), offset);
}

// The few shapes that compilers, linkers and hand-written code use; else Unknown.
Cfa cfa_of_expression(Bytes expression) {
  ByteReader reader(expression);
  auto start = read_base_register(reader);
  if (!start) return {};
  Cfa cfa{UnwindKind::Register, start->first, start->second, 0};
  // A linker's PLT: each stub of 16 bytes pushes once.
  constexpr uint8_t kBefore[] = {DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and};
  constexpr uint8_t kAfter[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
  Bytes rest = slice_from(expression, reader.position());
  if (rest.size() == 9 && std::equal(std::begin(kBefore), std::end(kBefore), rest.begin()) &&
      std::equal(std::begin(kAfter), std::end(kAfter), rest.begin() + 5) && rest[4] >= DW_OP_lit0 &&
      rest[4] <= DW_OP_lit15)
    return {UnwindKind::Plt, start->first, start->second, rest[4] - DW_OP_lit0};
  while (!reader.at_end()) {
    uint8_t op = reader.u8();
    if (op == DW_OP_deref && cfa.kind == UnwindKind::Register) {
      cfa.kind = UnwindKind::Dereferenced;
    } else if (op == DW_OP_plus_uconst) {
      uint64_t more = reader.uleb128();
      if (!reader || more > INT32_MAX) return {};
      (cfa.kind == UnwindKind::Register ? cfa.offset : cfa.addend) += int64_t(more);
    } else {
      return {};
    }
  }
  return cfa;
}

bool fits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }
bool fits_short(int64_t value) { return value > UnwindRule::kLost && value <= INT16_MAX; }

UnwindRule rule_of(const State& state, bool is_signal_frame) {
  UnwindRule rule;
  const Saved& caller = state.saved[kReturnColumn];
  if (caller.where == Saved::Where::Undefined) {
    rule.kind = UnwindKind::End;
    return rule;
  }
  const Cfa& cfa = state.cfa;
  if (cfa.kind == UnwindKind::Unknown || cfa.base > 15 || !fits(cfa.offset) || !fits(cfa.addend)) return {};
  rule.kind = cfa.kind;
  rule.base = uint8_t(cfa.base);
  rule.offset = int32_t(cfa.offset);
  rule.addend = int32_t(cfa.addend);
  if (is_signal_frame) rule.flags |= UnwindRule::kSignalFrame;
  // One base serves all: mixtures are not met with, and would lose the ones of the other kind.
  for (uint8_t number : kSavedRegisters)
    if (state.saved[number].where == Saved::Where::FromRegister) rule.saved_base = state.saved[number].base;
  auto wanted = rule.saved_base == UnwindRule::kFromCfa ? Saved::Where::FromCfa : Saved::Where::FromRegister;
  for (size_t i = 0; i < kSavedRegisterCount; ++i) {
    const Saved& saved = state.saved[kSavedRegisters[i]];
    bool is_there =
        saved.where == wanted && (wanted == Saved::Where::FromCfa || saved.base == rule.saved_base);
    if (saved.where == Saved::Where::Unchanged)
      rule.saved[i] = UnwindRule::kUnchanged;
    else
      rule.saved[i] = is_there && fits_short(saved.offset) ? int16_t(saved.offset) : UnwindRule::kLost;
  }
  bool caller_is_there = is_signal_frame
                             ? caller.where == Saved::Where::FromRegister && caller.base == rule.saved_base
                             : caller.where == Saved::Where::FromCfa;
  if (!caller_is_there || !fits_short(caller.offset)) return {};
  rule.return_address = int16_t(caller.offset);
  return rule;
}

class Machine {
 public:
  Machine(const FunctionEntry& entry, uint64_t section_address,
          const std::function<void(uint64_t, const UnwindRule&)>& visit)
      : entry_(entry), section_address_(section_address), location_(entry.begin), visit_(visit) {}

  bool run() {
    // A common part that does more than set a state describes nobody's function.
    if (!run(entry_.common->program) || location_ != entry_.begin) return false;
    initial_ = state_;
    bool whole = run(entry_.program);
    if (!whole) state_.cfa = {};
    tell();
    return whole;
  }

 private:
  bool run(Bytes program) {
    ByteReader reader(program);
    while (reader && !reader.at_end())
      if (!step(reader)) return false;
    return bool(reader);
  }

  void tell() {
    if (location_ < entry_.end) visit_(location_, rule_of(state_, entry_.common->is_signal_frame));
  }

  bool advance(uint64_t delta) {
    if (delta == 0) return true;
    return go_to(location_ + delta * entry_.common->code_align);
  }
  bool go_to(uint64_t address) {
    if (address < location_) return false;
    if (address == location_) return true;
    tell();
    location_ = address;
    return true;
  }

  bool set(uint64_t number, Saved saved) {
    if (number < kRegisters) state_.saved[number] = saved;
    return true;
  }
  Saved at_cfa(int64_t factored) const {
    return {Saved::Where::FromCfa, 0, int64_t(uint64_t(factored) * uint64_t(entry_.common->data_align))};
  }
  bool restore(uint64_t number) {
    if (number < kRegisters) state_.saved[number] = initial_.saved[number];
    return true;
  }

  bool step(ByteReader& reader) {
    uint8_t op = reader.u8();
    switch (op & 0xc0) {
      case DW_CFA_advance_loc:
        return advance(op & 0x3f);
      case DW_CFA_offset:
        return set(op & 0x3f, at_cfa(int64_t(reader.uleb128())));
      case DW_CFA_restore:
        return restore(op & 0x3f);
      default:
        return extended(reader, op);
    }
  }

  bool extended(ByteReader& reader, uint8_t op) {
    switch (op) {
      case DW_CFA_nop:
        return true;
      case DW_CFA_set_loc: {
        auto at = read_encoded_pointer(reader, entry_.pointer_encoding, section_address_);
        return at && go_to(*at);
      }
      case DW_CFA_advance_loc1:
        return advance(reader.u8());
      case DW_CFA_advance_loc2:
        return advance(reader.u16());
      case DW_CFA_advance_loc4:
        return advance(reader.u32());
      case DW_CFA_remember_state:
        if (states_.size() >= kDeepestStates) return false;
        states_.push_back(state_);
        return true;
      case DW_CFA_restore_state:
        if (states_.empty()) return false;
        state_ = states_.back();
        states_.pop_back();
        return true;
      case DW_CFA_GNU_args_size:
        reader.uleb128();
        return true;
      default:
        return (op >= DW_CFA_def_cfa && op <= DW_CFA_def_cfa_offset) || op == DW_CFA_def_cfa_sf ||
                       op == DW_CFA_def_cfa_offset_sf || op == DW_CFA_def_cfa_expression
                   ? define(reader, op)
                   : save(reader, op);
    }
  }

  bool define(ByteReader& reader, uint8_t op) {
    Cfa& cfa = state_.cfa;
    if (op == DW_CFA_def_cfa_expression) {
      cfa = cfa_of_expression(reader.take(reader.uleb128()));
      return true;
    }
    bool has_register = op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_register;
    if (has_register) {
      uint64_t base = reader.uleb128();
      cfa = {UnwindKind::Register, base, cfa.kind == UnwindKind::Register ? cfa.offset : 0, 0};
    }
    if (op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_offset) cfa.offset = int64_t(reader.uleb128());
    if (op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_offset_sf)
      cfa.offset = int64_t(uint64_t(reader.sleb128()) * uint64_t(entry_.common->data_align));
    return cfa.kind == UnwindKind::Register;
  }

  bool save(ByteReader& reader, uint8_t op) {
    uint64_t number = reader.uleb128();
    switch (op) {
      case DW_CFA_restore_extended:
        return restore(number);
      case DW_CFA_undefined:
        return set(number, {Saved::Where::Undefined, 0, 0});
      case DW_CFA_same_value:
        return set(number, {});
      case DW_CFA_offset_extended:
        return set(number, at_cfa(int64_t(reader.uleb128())));
      case DW_CFA_offset_extended_sf:
        return set(number, at_cfa(reader.sleb128()));
      case DW_CFA_GNU_negative_offset_extended:
        return set(number, at_cfa(-int64_t(reader.uleb128())));
      case DW_CFA_register:
      case DW_CFA_val_offset:
        reader.uleb128();
        return set(number, {Saved::Where::Elsewhere, 0, 0});
      case DW_CFA_val_offset_sf:
        reader.sleb128();
        return set(number, {Saved::Where::Elsewhere, 0, 0});
      case DW_CFA_expression:
      case DW_CFA_val_expression: {
        Bytes expression = reader.take(reader.uleb128());
        ByteReader inside(expression);
        auto start = read_base_register(inside);
        bool is_simple = op == DW_CFA_expression && start && inside.at_end() && start->first < 16;
        if (!is_simple) return set(number, {Saved::Where::Elsewhere, 0, 0});
        return set(number, {Saved::Where::FromRegister, start->first, start->second});
      }
      default:
        return false;
    }
  }

  const FunctionEntry& entry_;
  uint64_t section_address_;
  uint64_t location_;
  const std::function<void(uint64_t, const UnwindRule&)>& visit_;
  State state_, initial_;
  std::vector<State> states_;
};

}  // namespace

bool run_frame_program(const FunctionEntry& entry, uint64_t section_address,
                       const std::function<void(uint64_t, const UnwindRule&)>& visit) {
  return Machine(entry, section_address, visit).run();
}

}  // namespace uscope::image
