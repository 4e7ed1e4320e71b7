#include "image/dwarf/expression.h"

#include <dwarf.h>
#include <fmt/format.h>

#include "image/dwarf/file.h"

namespace uscope::image::dwarf {
namespace {

using Code = LocOp::Code;
constexpr size_t max_ops = 512;
constexpr size_t max_pieces = 256;

class Translator {
 public:
  Translator(Bytes expression, const ExpressionContext& context)
      : reader_(expression), context_(context), unit_(*context.unit) {}

  Location run() {
    while (!reader_.at_end() && reason_.empty()) {
      uint8_t op = reader_.u8();
      if (op == DW_OP_piece || op == DW_OP_bit_piece) {
        end_piece(op);
      } else {
        step(op);
      }
      if (!reader_) reason_ = "its location is broken";
      if (ops_.size() > max_ops || result_.pieces.size() > max_pieces)
        reason_ = "its location is too complex";
    }
    if (!reason_.empty()) return optimized_out(reason_);
    if (result_.pieces.empty() || !ops_.empty()) finish_piece(0, 0);
    return std::move(result_);
  }

  // The operations alone, for a frame base. Empty if the expression is not a plain computation.
  std::optional<std::vector<LocOp>> computation() {
    while (!reader_.at_end() && reason_.empty()) step(reader_.u8());
    if (!reason_.empty() || !reader_ || ops_.size() > max_ops) return {};
    return std::move(ops_);
  }

 private:
  enum class Place { Address, Register, Value, Bytes, Missing };

  void push(Code code, uint32_t number = 0, int64_t value = 0) { ops_.push_back({code, number, value}); }
  void unsupported(std::string_view what) { reason_ = fmt::format("its location uses {}", what); }

  void end_piece(uint8_t op) {
    if (op == DW_OP_piece) {
      uint64_t bytes = reader_.uleb128();
      if (bytes > (uint64_t(1) << 32)) reason_ = "its location is broken";
      finish_piece(bytes * 8, 0);
    } else {
      uint64_t bits = reader_.uleb128();
      finish_piece(bits, reader_.uleb128());
    }
  }

  void finish_piece(uint64_t bit_size, uint64_t bit_offset) {
    LocPiece piece{.bit_size = bit_size, .bit_offset = bit_offset};
    bool nothing = ops_.empty() && place_ == Place::Address;
    switch (nothing ? Place::Missing : place_) {
      case Place::Address:
        piece.kind = LocPiece::Kind::Memory;
        break;
      case Place::Register:
        piece.kind = LocPiece::Kind::Register;
        break;
      case Place::Value:
        piece.kind = LocPiece::Kind::Value;
        break;
      case Place::Bytes:
        piece.kind = LocPiece::Kind::Bytes;
        break;
      case Place::Missing:
        piece.kind = LocPiece::Kind::OptimizedOut;
        piece.reason = missing_.empty() ? "optimized out here" : missing_;
        break;
    }
    piece.ops = std::move(ops_);
    piece.bytes = std::move(bytes_);
    ops_.clear();
    bytes_.clear();
    missing_.clear();
    place_ = Place::Address;
    result_.pieces.push_back(std::move(piece));
  }

  void step(uint8_t op) {
    if (place_ != Place::Address && op != DW_OP_nop && op != DW_OP_GNU_uninit) {
      unsupported("an operation after its end");
    } else if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
      push(Code::Constant, 0, op - DW_OP_lit0);
    } else if (op >= DW_OP_reg0 && op <= DW_OP_reg31) {
      in_register(op - DW_OP_reg0);
    } else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
      based_on(op - DW_OP_breg0, reader_.sleb128());
    } else if (!constant(op) && !stack(op) && !arithmetic(op)) {
      special(op);
    }
  }

  void in_register(uint64_t number) {
    push(Code::Register, uint32_t(number));
    place_ = Place::Register;
    if (number > 32) unsupported(fmt::format("register {}", number));
  }

  void based_on(uint64_t number, int64_t offset) {
    if (number > 16) return unsupported(fmt::format("register {}", number));
    push(Code::Register, uint32_t(number));
    if (offset != 0) push(Code::AddConst, 0, offset);
  }

  bool constant(uint8_t op) {
    switch (op) {
      case DW_OP_addr:
        push(Code::Address, 0, int64_t(reader_.u64()));
        return true;
      case DW_OP_const1u:
        push(Code::Constant, 0, reader_.u8());
        return true;
      case DW_OP_const1s:
        push(Code::Constant, 0, reader_.read<int8_t>());
        return true;
      case DW_OP_const2u:
        push(Code::Constant, 0, reader_.u16());
        return true;
      case DW_OP_const2s:
        push(Code::Constant, 0, reader_.read<int16_t>());
        return true;
      case DW_OP_const4u:
        push(Code::Constant, 0, reader_.u32());
        return true;
      case DW_OP_const4s:
        push(Code::Constant, 0, reader_.read<int32_t>());
        return true;
      case DW_OP_const8u:
      case DW_OP_const8s:
        push(Code::Constant, 0, int64_t(reader_.u64()));
        return true;
      case DW_OP_constu:
        push(Code::Constant, 0, int64_t(reader_.uleb128()));
        return true;
      case DW_OP_consts:
        push(Code::Constant, 0, reader_.sleb128());
        return true;
      case DW_OP_addrx:
      case DW_OP_GNU_addr_index:
        indexed(Code::Address);
        return true;
      case DW_OP_constx:
      case DW_OP_GNU_const_index:
        indexed(Code::Constant);
        return true;
      default:
        return false;
    }
  }

  void indexed(Code code) {
    auto address = unit_.address_by_index(reader_.uleb128());
    if (!address) return unsupported("an address that .debug_addr does not have");
    push(code, 0, int64_t(*address));
  }

  bool stack(uint8_t op) {
    switch (op) {
      case DW_OP_dup:
        push(Code::Dup);
        return true;
      case DW_OP_drop:
        push(Code::Drop);
        return true;
      case DW_OP_over:
        push(Code::Over);
        return true;
      case DW_OP_pick:
        push(Code::Pick, reader_.u8());
        return true;
      case DW_OP_swap:
        push(Code::Swap);
        return true;
      case DW_OP_rot:
        push(Code::Rot);
        return true;
      case DW_OP_deref:
        push(Code::Deref, 8);
        return true;
      case DW_OP_deref_size: {
        uint8_t size = reader_.u8();
        if (size == 0 || size > 8) unsupported("a read of an odd size");
        push(Code::Deref, size);
        return true;
      }
      case DW_OP_nop:
      case DW_OP_GNU_uninit:
        return true;
      default:
        return false;
    }
  }

  bool arithmetic(uint8_t op) {
    static constexpr struct {
      uint8_t op;
      Code code;
    } table[] = {
        {DW_OP_abs, Code::Abs},  {DW_OP_and, Code::And},  {DW_OP_div, Code::Div}, {DW_OP_minus, Code::Sub},
        {DW_OP_mod, Code::Mod},  {DW_OP_mul, Code::Mul},  {DW_OP_neg, Code::Neg}, {DW_OP_not, Code::Not},
        {DW_OP_or, Code::Or},    {DW_OP_plus, Code::Add}, {DW_OP_shl, Code::Shl}, {DW_OP_shr, Code::Shr},
        {DW_OP_shra, Code::Sar}, {DW_OP_xor, Code::Xor},  {DW_OP_eq, Code::Eq},   {DW_OP_ge, Code::Ge},
        {DW_OP_gt, Code::Gt},    {DW_OP_le, Code::Le},    {DW_OP_lt, Code::Lt},   {DW_OP_ne, Code::Ne}};
    if (op == DW_OP_plus_uconst) {
      push(Code::AddConst, 0, int64_t(reader_.uleb128()));
      return true;
    }
    for (const auto& row : table) {
      if (row.op == op) {
        push(row.code);
        return true;
      }
    }
    return false;
  }

  void special(uint8_t op) {
    switch (op) {
      case DW_OP_regx:
        return in_register(reader_.uleb128());
      case DW_OP_bregx: {
        uint64_t number = reader_.uleb128();
        return based_on(number, reader_.sleb128());
      }
      case DW_OP_fbreg:
        return from_base(context_.frame_base, reader_.sleb128(), "a frame base that is not known here");
      case DW_OP_call_frame_cfa:
        return from_base(context_.cfa, 0, "a frame address that is not known here");
      case DW_OP_stack_value:
        place_ = Place::Value;
        return;
      case DW_OP_implicit_value: {
        Bytes bytes = reader_.take(reader_.uleb128());
        bytes_.assign(bytes.begin(), bytes.end());
        place_ = Place::Bytes;
        return;
      }
      case DW_OP_form_tls_address:
      case DW_OP_GNU_push_tls_address:
        return push(Code::TlsAddress);
      case DW_OP_entry_value:
      case DW_OP_GNU_entry_value:
        return entry_value(reader_.take(reader_.uleb128()));
      case DW_OP_implicit_pointer:
      case DW_OP_GNU_implicit_pointer:
        reader_.skip(unit_.offset_size);
        reader_.sleb128();
        place_ = Place::Missing;
        missing_ = "the pointer was optimized out, only what it points to is known";
        ops_.clear();
        return;
      default:
        return typed(op);
    }
  }

  void from_base(const std::function<std::optional<std::vector<LocOp>>()>& base, int64_t offset,
                 std::string_view otherwise) {
    auto ops = base ? base() : std::nullopt;
    if (!ops) return unsupported(otherwise);
    ops_.insert(ops_.end(), ops->begin(), ops->end());
    if (offset == 0) return;
    if (!ops->empty() && ops_.back().code == Code::AddConst) {
      ops_.back().value = int64_t(uint64_t(ops_.back().value) + uint64_t(offset));
    } else {
      push(Code::AddConst, 0, offset);
    }
  }

  void entry_value(Bytes inner) {
    ByteReader reader(inner);
    uint8_t op = reader.u8();
    std::optional<uint64_t> number;
    if (op >= DW_OP_reg0 && op <= DW_OP_reg31) number = op - DW_OP_reg0;
    if (op == DW_OP_regx) number = reader.uleb128();
    if (op == DW_OP_regval_type || op == DW_OP_GNU_regval_type) {
      number = reader.uleb128();
      reader.uleb128();
    }
    if (!reader || !number || !reader.at_end() || *number > 32) {
      return unsupported("a value from the function's entry");
    }
    push(context_.at_entry ? Code::Register : Code::EntryValue, uint32_t(*number));
  }

  // Operations on typed values. Integers of up to 64 bits can be expressed; floats cannot.
  void typed(uint8_t op) {
    switch (op) {
      case DW_OP_regval_type:
      case DW_OP_GNU_regval_type: {
        uint64_t number = reader_.uleb128();
        Die type = base_type(reader_.uleb128());
        if (number > 16 || !is_integer(type)) return unsupported("typed arithmetic");
        push(Code::Register, uint32_t(number));
        return convert(type);
      }
      case DW_OP_deref_type:
      case DW_OP_GNU_deref_type: {
        uint8_t size = reader_.u8();
        Die type = base_type(reader_.uleb128());
        if (size == 0 || size > 8 || !is_integer(type)) return unsupported("typed arithmetic");
        push(Code::Deref, size);
        return convert(type);
      }
      case DW_OP_convert:
      case DW_OP_reinterpret:
      case DW_OP_GNU_convert:
      case DW_OP_GNU_reinterpret: {
        uint64_t offset = reader_.uleb128();
        if (offset == 0) return;
        Die type = base_type(offset);
        if (!is_integer(type)) return unsupported("typed arithmetic");
        return convert(type);
      }
      case DW_OP_const_type:
      case DW_OP_GNU_const_type: {
        Die type = base_type(reader_.uleb128());
        Bytes bytes = reader_.take(reader_.u8());
        if (!is_integer(type) || bytes.empty() || bytes.size() > 8) return unsupported("typed arithmetic");
        uint64_t value = 0;
        std::memcpy(&value, bytes.data(), bytes.size());
        push(Code::Constant, 0, int64_t(value));
        return convert(type);
      }
      default:
        unsupported(fmt::format("operation {:#x}", op));
    }
  }

  Die base_type(uint64_t unit_offset) const {
    return unit_offset < unit_.end - unit_.offset ? unit_.die_at(unit_.offset + unit_offset) : Die();
  }

  static bool is_integer(const Die& type) {
    if (!type || type.tag() != DW_TAG_base_type) return false;
    uint64_t encoding = type.number(DW_AT_encoding).value_or(0);
    return encoding != DW_ATE_float && encoding != DW_ATE_complex_float && encoding != 0 &&
           type.number(DW_AT_byte_size).value_or(16) <= 8;
  }

  void convert(const Die& type) {
    uint64_t bits = 8 * type.number(DW_AT_byte_size).value_or(8);
    if (bits >= 64 || bits == 0) return;
    uint64_t encoding = type.number(DW_AT_encoding).value_or(0);
    bool is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
    push(Code::Constant, 0, int64_t(64 - bits));
    push(Code::Shl);
    push(Code::Constant, 0, int64_t(64 - bits));
    push(is_signed ? Code::Sar : Code::Shr);
  }

  ByteReader reader_;
  const ExpressionContext& context_;
  const Unit& unit_;
  Location result_;
  std::vector<LocOp> ops_;
  std::vector<uint8_t> bytes_;
  Place place_ = Place::Address;
  std::string missing_;
  std::string reason_;
};

}  // namespace

Location optimized_out(std::string reason) {
  Location location;
  location.pieces.push_back({.kind = LocPiece::Kind::OptimizedOut, .reason = std::move(reason)});
  return location;
}

Location to_location(Bytes expression, const ExpressionContext& context) {
  return Translator(expression, context).run();
}

std::optional<std::vector<LocOp>> to_computation(Bytes expression, const ExpressionContext& context) {
  return Translator(expression, context).computation();
}

}  // namespace uscope::image::dwarf
