#include "image/dwarf/frame_places.h"

#include <dwarf.h>

#include <algorithm>

#include "image/dwarf/go_attributes.h"
#include "image/dwarf/padding.h"
#include "image/dwarf/ranges.h"

namespace uscope::image::dwarf {
namespace {

constexpr uint32_t rbx = 3, rsp = 7;
constexpr int64_t red_zone = 128;  // what lies that little below the stack pointer is left alone
constexpr uint64_t max_scanned = 1024;
constexpr const char* not_written = "kept in the function's frame, which is not yet written here";
constexpr const char* not_certain = "counted from a register that is certain in the function's body only";
constexpr const char* moved = "counted from a stack pointer that may have moved";

bool same(const CfaRule& a, const CfaRule& b) {
  return a.expression.empty() && b.expression.empty() && a.base == b.base && a.offset == b.offset;
}

// Optimised code pushes what it passes. Clang says of its own that all calls are described.
bool may_push(const Die& function) {
  const Language language = function.unit->facts().language;
  if (language != Language::C && language != Language::Cpp) return true;
  return function.flag(DW_AT_call_all_calls) || function.flag(DW_AT_GNU_all_call_sites);
}

bool reads_memory(const LocPiece& piece) {
  return piece.kind == LocPiece::Kind::Memory ||
         std::ranges::any_of(piece.ops, [](const LocOp& op) { return op.code == LocOp::Code::Deref; });
}

}  // namespace

FramePlaces::FramePlaces(const Store& store, TypeReader& types, const FrameTable& frames, PrologueEnds& ends,
                         const VariableReader& reader, const Die& function, uint64_t address)
    : store_(store),
      types_(types),
      unit_(*function.unit),
      cfa_(reader.real_cfa()),
      entry_(entry_of(function).value_or(address)),
      address_(address),
      here_(frames.cfa_at(address)),
      is_gnu_(unit_.facts().producer.starts_with("GNU ")),
      is_go_(unit_.facts().language == Language::Go),
      may_push_(may_push(function)) {
  uint64_t high = entry_;
  for_each_range(function, [&](uint64_t low, uint64_t end) {
    if (low <= entry_ && entry_ < end) high = end;
  });
  end_ = ends.between(unit_, entry_, high);
  // What gcc does not say is not guessed.
  if (!end_ && is_gnu_) end_ = high;
  body_ = rule_in_body(frames, entry_, end_);
  auto base = reader.frame_base();
  if (base && base->size() == 1 && (*base)[0].code == LocOp::Code::Register)
    base_register_ = (*base)[0].number;
  // Of functions of Microsoft's convention LLVM's call frame information is late in the prologue.
  if (!is_gnu_ && !is_go_ && address_ > entry_ && address_ < end_.value_or(0) && here_ &&
      here_->base == rsp) {
    Bytes code = code_from(entry_);
    if (frame_size_after(code.first(std::min<uint64_t>(code.size(), address_ - entry_))) != here_->offset)
      cfa_.reset();
  }
  // A frame pointer stays where it is.
  if (!body_ && here_ && here_->base != rsp && base_register_ == here_->base) body_ = here_;
}

Bytes FramePlaces::code_from(uint64_t address) const {
  Bytes code = store_.image().bytes_from(ImageAddr{address});
  return code.first(std::min<uint64_t>(code.size(), max_scanned));
}

// How far the stack pointer is below the frame address, where that is known. Counted from the frame pointer
// it is known at the end, when only pops are left.
std::optional<int64_t> FramePlaces::frame_size() const {
  if (!here_ || !here_->expression.empty()) return {};
  if (here_->base == rsp) return here_->offset;
  ByteReader reader(code_from(address_));
  for (int64_t size = 8;; size += 8) {
    uint8_t op = reader.u8();
    if (op == 0x41) op = reader.u8();
    if (!reader) return {};
    if (op == 0xc3 || op == 0xc2) return size;
    if (op < 0x58 || op > 0x5f) return {};
  }
}

bool FramePlaces::is_in_body() const {
  if (!end_ || !body_ || !here_ || (entry_ <= address_ && address_ < *end_)) return false;
  return same(*here_, *body_) && (here_->base == rsp || !frame_size());
}

std::optional<std::string> FramePlaces::convert(LocPiece& piece, bool from_list, bool is_only) const {
  if (is_go_) return {};
  for (size_t i = 0; i < piece.ops.size(); i++) {
    LocOp& op = piece.ops[i];
    if (op.code != LocOp::Code::Register || op.number == cfa_register) continue;
    const bool is_place = piece.kind != LocPiece::Kind::Register;
    if (is_gnu_) {
      // gcc's lists are exact for each address. Around calls it pushes, and what is counted from the stack
      // pointer is off by that.
      if (!from_list && op.number == rsp) return moved;
      // What is spread over registers it does not follow.
      if (!from_list && !(is_only && follows_variables(unit_.facts().producer)))
        return "said to be in a register, by a compiler that did not follow what else that holds";
      continue;
    }
    const bool is_frame = op.number == rsp || op.number == base_register_;
    if (!is_place || !(is_frame || (op.number == rbx && !from_list))) continue;
    if (body_ && is_frame && body_->base == op.number) {
      op.number = cfa_register;
      if (i + 1 < piece.ops.size() && piece.ops[i + 1].code == LocOp::Code::AddConst) {
        piece.ops[i + 1].value -= body_->offset;
      } else {
        piece.ops.insert(piece.ops.begin() + int64_t(i) + 1, {LocOp::Code::AddConst, 0, -body_->offset});
      }
    } else if (op.number == rsp && may_push_) {
      return moved;
    } else if (!is_in_body()) {
      return not_certain;
    }
  }
  return {};
}

// By what the prologue does to what came in registers.
FramePlaces::Written FramePlaces::is_written(int64_t cfa_offset, const std::vector<bool>& used) {
  if (!stores_) stores_ = incoming_stores(code_from(entry_));
  Written result = Written::Yes;
  for (size_t i = 0; i < used.size(); i++) {
    if (!used[i]) continue;
    const int64_t wanted = cfa_offset + int64_t(i);
    auto found = std::ranges::find_if(*stores_, [&](const IncomingStore& store) {
      return store.cfa_offset <= wanted && wanted < store.cfa_offset + store.size;
    });
    if (found == stores_->end() || found->reg == UINT32_MAX) {
      result = Written::Unknown;
    } else if (entry_ <= address_ && address_ < entry_ + found->done) {
      return Written::No;
    }
  }
  return result;
}

std::optional<std::string> FramePlaces::judge(const LocPiece& piece, const Variable& variable, bool from_list,
                                              bool is_own) {
  const bool in_frame = std::ranges::any_of(piece.ops, [](const LocOp& op) {
    return op.code == LocOp::Code::Register && op.number == cfa_register;
  });
  if (!in_frame || !reads_memory(piece)) return {};
  const bool is_early = entry_ <= address_ && address_ < std::max(end_.value_or(0), entry_ + 1);
  if (piece.ops[0].number != cfa_register) return is_early ? std::optional(not_written) : std::nullopt;
  const bool has_offset = piece.ops.size() > 1 && piece.ops[1].code == LocOp::Code::AddConst;
  const int64_t offset = has_offset ? piece.ops[1].value : 0;
  const auto size = frame_size();
  if (size && offset < -*size - red_zone) return "kept in the function's frame, which is given up here";
  if (from_list) return {};
  const bool is_pointer = piece.ops.size() > 1 && piece.ops.back().code == LocOp::Code::Deref;
  auto lookup = [this](TypeId id) -> const Type& { return types_.get(id); };
  Written written = Written::Unknown;
  if (is_own)
    written = is_written(offset, is_pointer ? std::vector<bool>(8, true) : used_bytes(variable.type, lookup));
  if (written == Written::No) return not_written;
  // Above the return address is what the caller wrote; Go keeps room there for registers, too.
  const bool is_callers = offset >= 0 && !(is_go_ && go_passes_in_registers(unit_.facts().producer));
  if (is_early && !is_callers && written != Written::Yes) return not_written;
  return {};
}

// LLVM leaves out that what the caller put onto the stack is the object's address.
void FramePlaces::point_to_object(LocPiece& piece) {
  auto& ops = piece.ops;
  const bool is_slot = piece.kind == LocPiece::Kind::Memory && ops.size() == 2 &&
                       ops[0].code == LocOp::Code::Register && ops[0].number == cfa_register &&
                       ops[1].code == LocOp::Code::AddConst && ops[1].value >= 0;
  if (is_slot) ops.push_back({LocOp::Code::Deref, 8, 0});
}

std::optional<std::string> FramePlaces::with_real_cfa(LocPiece& piece) const {
  std::vector<LocOp> ops;
  for (const LocOp& op : piece.ops) {
    const bool is_cfa = op.code == LocOp::Code::Register && op.number == cfa_register;
    if (is_cfa && !cfa_) return "counted from a frame address that is not known here";
    if (is_cfa) {
      ops.insert(ops.end(), cfa_->begin(), cfa_->end());
    } else if (op.code == LocOp::Code::AddConst && !ops.empty() && ops.back().code == op.code) {
      ops.back().value += op.value;
    } else {
      ops.push_back(op);
    }
  }
  piece.ops = std::move(ops);
  return {};
}

void FramePlaces::settle(Variable& variable, bool from_list, bool is_own) {
  for (LocPiece& piece : variable.location.pieces) {
    auto reason = convert(piece, from_list, variable.location.pieces.size() == 1);
    if (!reason && is_own && types_.is_passed_by_address(variable.type)) point_to_object(piece);
    if (!reason) reason = judge(piece, variable, from_list, is_own);
    if (!reason) reason = with_real_cfa(piece);
    if (reason) piece = {.bit_size = piece.bit_size, .reason = std::move(*reason)};
  }
}

}  // namespace uscope::image::dwarf
