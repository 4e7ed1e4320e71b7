#include "image/dwarf/prologue.h"

#include <array>

namespace uscope::image::dwarf {
namespace {

constexpr size_t max_instructions = 200;
constexpr unsigned rsp = 4;  // x86's own numbering
constexpr std::array<uint32_t, 16> dwarf_number = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr uint32_t xmm0 = 17;

// What a register holds: bytes of an incoming one, a frame address, or nothing known.
struct Content {
  std::optional<uint32_t> incoming;  // DWARF number
  uint8_t size = 0;                  // low bytes that are still as they came
  std::optional<int64_t> cfa_offset;
};

class Scanner {
 public:
  explicit Scanner(Bytes code) : reader_(code) {
    for (unsigned i = 0; i < 16; i++) {
      general_[i] = {dwarf_number[i], 8, {}};
      vector_[i] = {xmm0 + i, 16, {}};
    }
    general_[rsp] = {{}, 0, -8};
  }

  std::vector<IncomingStore> run() {
    for (size_t i = 0; i < max_instructions && !reader_.at_end(); i++) {
      is_whole_ = instruction() && reader_;
      if (!is_whole_) break;
    }
    is_whole_ &= reader_.at_end();
    return std::move(stores_);
  }

  std::optional<int64_t> frame_size() const {
    if (!is_whole_ || !general_[rsp].cfa_offset) return {};
    return -*general_[rsp].cfa_offset;
  }

 private:
  struct Operand {
    bool is_register = false;
    unsigned number = 0;                // of the register
    std::optional<int64_t> cfa_offset;  // of memory in the frame
  };
  struct ModRm {
    unsigned reg = 0;
    Operand rm;
  };

  ModRm modrm() {
    uint8_t byte = reader_.u8();
    ModRm result;
    unsigned mod = byte >> 6, low = byte & 7;
    result.reg = ((byte >> 3) & 7) | (rex_ & 4 ? 8 : 0);
    if (mod == 3) {
      result.rm = {true, low | (rex_ & 1 ? 8 : 0), {}};
      return result;
    }
    unsigned base = low | (rex_ & 1 ? 8 : 0);
    bool has_base = true, has_index = false;
    if (low == 4) {
      uint8_t sib = reader_.u8();
      unsigned index = ((sib >> 3) & 7) | (rex_ & 2 ? 8 : 0);
      has_index = index != 4;
      base = (sib & 7) | (rex_ & 1 ? 8 : 0);
      if ((sib & 7) == 5 && mod == 0) {
        has_base = false;
        reader_.skip(4);
      }
    } else if (low == 5 && mod == 0) {  // relative to the instruction
      has_base = false;
      reader_.skip(4);
    }
    int64_t displacement = 0;
    if (mod == 1) displacement = reader_.read<int8_t>();
    if (mod == 2) displacement = reader_.read<int32_t>();
    if (has_base && !has_index && !segment_ && general_[base].cfa_offset) {
      result.rm.cfa_offset = *general_[base].cfa_offset + displacement;
    }
    return result;
  }

  void forget(unsigned number) { general_[number] = {}; }

  void store(const Operand& where, const Content& what, uint8_t size) {
    if (!where.cfa_offset) return;
    uint8_t good = what.incoming ? std::min(what.size, size) : uint8_t(0);
    const uint64_t done = reader_.position();
    if (good > 0) stores_.push_back({*where.cfa_offset, good, *what.incoming, done});
    // Something else goes there first: whoever lives there is not what the caller passed.
    if (good < size) stores_.push_back({*where.cfa_offset + good, uint8_t(size - good), UINT32_MAX, done});
  }

  // Without REX, byte registers 4 to 7 are the high halves ah, ch, dh, bh.
  bool is_high_byte(unsigned number) const { return !has_rex_ && number >= 4 && number < 8; }

  void move_to(const Operand& to, const Content& what, uint8_t size) {
    if (!to.is_register) return store(to, what, size);
    Content copy = what;
    copy.size = std::min(copy.size, size);
    if (size < 8) copy.cfa_offset.reset();
    general_[to.number] = copy;
  }

  bool instruction() {
    has_rex_ = repeat_ = repne_ = operand16_ = segment_ = false;
    rex_ = 0;
    uint8_t op = reader_.u8();
    for (;; op = reader_.u8()) {
      if (op == 0x66) {
        operand16_ = true;
      } else if (op == 0xf3) {
        repeat_ = true;
      } else if (op == 0xf2) {
        repne_ = true;
      } else if (op == 0x64) {
        segment_ = true;
      } else {
        break;
      }
      if (!reader_) return false;
    }
    if ((op & 0xf0) == 0x40) {
      rex_ = op;
      has_rex_ = true;
      op = reader_.u8();
    }
    if (!reader_) return false;
    width_ = rex_ & 8 ? 8 : operand16_ ? 2 : 4;
    return op == 0x0f ? two_byte(reader_.u8()) : one_byte(op);
  }

  bool one_byte(uint8_t op) {
    if (op >= 0x50 && op <= 0x57) return push();
    if (op >= 0xb8 && op <= 0xbf) {
      forget((op & 7) | (rex_ & 1 ? 8 : 0));
      reader_.skip(width_);
      return true;
    }
    switch (op) {
      case 0x88:
      case 0x89: {  // mov to r/m
        ModRm m = modrm();
        Content what = op == 0x88 && is_high_byte(m.reg) ? Content{} : general_[m.reg];
        if (op == 0x88 && m.rm.is_register && is_high_byte(m.rm.number)) return false;
        move_to(m.rm, what, op == 0x88 ? 1 : width_);
        return true;
      }
      case 0x8a:
      case 0x8b: {  // mov from r/m
        ModRm m = modrm();
        if (op == 0x8a && (is_high_byte(m.reg) || (m.rm.is_register && is_high_byte(m.rm.number))))
          return false;
        Content what = m.rm.is_register ? general_[m.rm.number] : Content{};
        move_to({true, m.reg, {}}, what, op == 0x8a ? 1 : width_);
        return true;
      }
      case 0x8d: {  // lea
        ModRm m = modrm();
        general_[m.reg] = {{}, 0, m.rm.cfa_offset};
        return true;
      }
      case 0x80:
      case 0x81:
      case 0x83:
        return arithmetic(op);
      case 0x24:  // and al, imm8
        keep_bit(reader_.u8());
        return true;
      case 0x31:
      case 0x33:
      case 0x63: {  // xor, movsxd: the destination is something new
        ModRm m = modrm();
        if (op == 0x31 && !m.rm.is_register) return false;
        forget(op == 0x31 ? m.rm.number : m.reg);
        return true;
      }
      case 0x38:
      case 0x39:
      case 0x3b:
      case 0x84:
      case 0x85:  // cmp, test
        modrm();
        return true;
      case 0x76:  // Go's stack check: the way on is straight
        reader_.skip(1);
        return true;
      case 0x90:
        return true;
      case 0xc6: {
        ModRm m = modrm();
        reader_.skip(1);
        move_to(m.rm, {}, 1);
        return true;
      }
      case 0xc7: {
        ModRm m = modrm();
        reader_.skip(operand16_ ? 2 : 4);
        move_to(m.rm, {}, width_);
        return true;
      }
      default:
        return false;
    }
  }

  // Saves a caller's register, or makes room by whichever: what a slot is for is not stored by a push.
  bool push() {
    if (!general_[rsp].cfa_offset) return false;
    *general_[rsp].cfa_offset -= 8;
    return true;
  }

  // A bool is cut to its lowest bit before it is stored, which does not change it.
  void keep_bit(uint8_t mask) {
    if (mask != 1 || general_[0].size == 0) return forget(0);
    general_[0].size = 1;
  }

  bool arithmetic(uint8_t op) {
    uint8_t next = reader_.remaining() > 0 ? peek() : 0;
    unsigned operation = (next >> 3) & 7;
    ModRm m = modrm();
    int64_t value = op == 0x81 ? (operand16_ ? reader_.read<int16_t>() : reader_.read<int32_t>())
                               : reader_.read<int8_t>();
    if (operation == 7) return true;  // cmp
    if (!m.rm.is_register) return false;
    Content& content = general_[m.rm.number];
    bool is_frame = width_ == 8 && content.cfa_offset && op != 0x80;
    if (is_frame && operation == 5) {
      *content.cfa_offset -= value;
    } else if (is_frame && operation == 0) {
      *content.cfa_offset += value;
    } else if (operation == 4 && value == 1 && m.rm.number != rsp &&
               !(op == 0x80 && is_high_byte(m.rm.number))) {
      content.size = std::min<uint8_t>(content.size, 1);
      content.cfa_offset.reset();
    } else {
      forget(m.rm.number);
    }
    return true;
  }

  uint8_t peek() {
    uint64_t position = reader_.position();
    uint8_t byte = reader_.u8();
    reader_.seek(position);
    return byte;
  }

  bool two_byte(uint8_t op) {
    switch (op) {
      case 0x1e:  // endbr64 and other hints
      case 0x1f:  // long nops
        modrm();
        return true;
      case 0x86:  // Go's stack check, far
        reader_.skip(4);
        return true;
      case 0x10:
      case 0x28:
      case 0x6f: {  // vector moves, from r/m
        ModRm m = modrm();
        Content what =
            m.rm.is_register && !(op == 0x10 && (repeat_ || repne_)) ? vector_[m.rm.number] : Content{};
        vector_[m.reg] = what;
        return op != 0x6f || operand16_ || repeat_;
      }
      case 0x11:
      case 0x29:
      case 0x7f: {  // vector moves, to r/m
        ModRm m = modrm();
        uint8_t size = op == 0x11 && repeat_ ? 4 : op == 0x11 && repne_ ? 8 : 16;
        if (op == 0x7f && !operand16_ && !repeat_) return false;
        if (m.rm.is_register) {
          vector_[m.rm.number] = size == 16 ? vector_[m.reg] : Content{};
        } else {
          store(m.rm, vector_[m.reg], size);
        }
        return true;
      }
      case 0x13:
      case 0xd6: {  // movlps, movq: the low eight bytes
        ModRm m = modrm();
        if (m.rm.is_register || (op == 0xd6 && !operand16_)) return false;
        store(m.rm, vector_[m.reg], 8);
        return true;
      }
      case 0x7e: {  // movd, movq
        ModRm m = modrm();
        if (repeat_) {
          vector_[m.reg] = {};
          return true;
        }
        if (!operand16_) return false;
        move_to(m.rm, vector_[m.reg], rex_ & 8 ? 8 : 4);
        return true;
      }
      case 0x57:
      case 0xef: {  // xorps, pxor
        ModRm m = modrm();
        vector_[m.reg] = {};
        return true;
      }
      case 0xb6:
      case 0xb7:
      case 0xbe:
      case 0xbf: {  // movzx, movsx: the low bytes stay what they were
        ModRm m = modrm();
        bool is_byte = op == 0xb6 || op == 0xbe;
        if (is_byte && m.rm.is_register && is_high_byte(m.rm.number)) return false;
        Content what = m.rm.is_register ? general_[m.rm.number] : Content{};
        move_to({true, m.reg, {}}, what, is_byte ? 1 : 2);
        return true;
      }
      default:
        return false;
    }
  }

  ByteReader reader_;
  std::array<Content, 16> general_, vector_;
  std::vector<IncomingStore> stores_;
  bool is_whole_ = true;
  uint8_t rex_ = 0, width_ = 4;
  bool has_rex_ = false, repeat_ = false, repne_ = false, operand16_ = false, segment_ = false;
};

}  // namespace

std::vector<IncomingStore> incoming_stores(Bytes code) { return Scanner(code).run(); }

std::optional<int64_t> frame_size_after(Bytes code) {
  Scanner scanner(code);
  scanner.run();
  return scanner.frame_size();
}

}  // namespace uscope::image::dwarf
