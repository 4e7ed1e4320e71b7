#include "x86/relocate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "x86/encode.h"
#include "x86/zydis.h"

namespace uscope::x86 {
namespace {

using Reason = MoveRefusal::Reason;

constexpr uint64_t max_run = uint64_t(16) << 20;
// No instruction grows by more: a far call that pushes its return address is 13 + 14 bytes.
constexpr uint64_t max_copy_per_instruction = 40;

class Relocator {
 public:
  Relocator(const CodeRange& run, uint64_t to, const RelocateOptions& options)
      : run_(run), to_(to), options_(options) {}

  std::expected<Relocated, MoveRefusal> relocate() &&;

 private:
  using Outcome = std::optional<Reason>;  // nothing: done

  Outcome move(const Instruction& i);
  Outcome move_branch(const Instruction& i);
  Outcome move_call(const Instruction& i);
  Outcome move_indirect_call(const Instruction& i);
  Outcome move_plain(const Instruction& i);
  Outcome move_far_lea(const Instruction& i);

  uint64_t here() const { return to_ + out_.bytes.size(); }
  Bytes bytes_of(const Instruction& i) const {
    return run_.bytes.subspan(i.address - run_.address, i.length);
  }
  // The target stays in the copy.
  bool is_internal(uint64_t target) const {
    return run_.contains(target) && (target != run_.address || options_.start_stays_in_copy);
  }
  // Whether every place that the copy may take can reach the target.
  bool is_near(uint64_t target) const {
    return reaches(to_, target) && reaches(to_ + run_.bytes.size() * max_copy_per_instruction, target);
  }
  void put(std::initializer_list<uint8_t> bytes) { out_.bytes.insert(out_.bytes.end(), bytes); }
  void put(Bytes bytes) { out_.bytes.insert(out_.bytes.end(), bytes.begin(), bytes.end()); }
  template <typename T>
  void put_number(T value) {
    put(Bytes(reinterpret_cast<const uint8_t*>(&value), sizeof value));
  }
  // The displacement that ends an instruction; to a place in the copy it is filled in at the end.
  void put_relative(uint64_t target);
  void put_jump(uint64_t target);
  void put_push(uint64_t value);

  const CodeRange& run_;
  uint64_t to_;
  const RelocateOptions& options_;
  Relocated out_;
  struct Fixup {
    size_t position;
    uint64_t target;
    uint64_t branch;
  };
  std::vector<Fixup> fixups_;
};

void Relocator::put_relative(uint64_t target) {
  if (is_internal(target)) {
    fixups_.push_back({out_.bytes.size(), target, 0});
    put_number(int32_t(0));
  } else {
    put_number(int32_t(target - (here() + 4)));
  }
}

void Relocator::put_jump(uint64_t target) {
  if (is_internal(target) || is_near(target)) {
    put({0xe9});
    put_relative(target);
  } else {
    put(encode_absolute_jump(target));
  }
}

// Without touching flags or registers: the low half sign-extended, then the high half put right.
void Relocator::put_push(uint64_t value) {
  put({0x68});
  put_number(uint32_t(value));
  if (uint64_t(int64_t(int32_t(value))) == value) return;
  put({0xc7, 0x44, 0x24, 0x04});
  put_number(uint32_t(value >> 32));
}

Relocator::Outcome Relocator::move_branch(const Instruction& i) {
  const bool near = is_internal(i.target) || is_near(i.target);
  switch (i.kind) {
    case Kind::jump:
      put_jump(i.target);
      return {};
    case Kind::conditional_jump:
      if (near) {
        put({0x0f, uint8_t(0x80 | i.condition)});
        put_relative(i.target);
      } else {
        put({uint8_t(0x70 | (i.condition ^ 1)), absolute_jump_size});
        put_jump(i.target);
      }
      return {};
    case Kind::counted_jump:
      // loop L1; jmp L2; L1: jmp target; L2:
      put(bytes_of(i).first(i.relative_offset));
      put({short_jump_size, 0xeb, uint8_t(near ? near_jump_size : absolute_jump_size)});
      put_jump(i.target);
      return {};
    case Kind::xbegin:
      if (!near) return Reason::operand_too_far;
      put(bytes_of(i).first(i.relative_offset));
      put_relative(i.target);
      return {};
    default:
      return Reason::unusual;
  }
}

Relocator::Outcome Relocator::move_call(const Instruction& i) {
  if (options_.calls == CallStyle::return_to_original) {
    if (i.end() != run_.end()) return Reason::returns_into_run;
    put_push(i.end());
    put_jump(i.target);
    return {};
  }
  if (is_internal(i.target) || is_near(i.target)) {
    put({0xe8});
    put_relative(i.target);
  } else {
    // call *2(%rip); jmp over the address
    put({0xff, 0x15, 0x02, 0x00, 0x00, 0x00, 0xeb, 0x08});
    put_number(i.target);
  }
  return {};
}

// call *operand becomes push; jmp *operand. The push moves rsp, so an operand that counts from it moves with
// it.
Relocator::Outcome Relocator::move_indirect_call(const Instruction& i) {
  if (options_.calls == CallStyle::return_to_copy) return move_plain(i);
  if (i.end() != run_.end()) return Reason::returns_into_run;
  ZydisDecodedInstruction z;
  const Bytes bytes = bytes_of(i);
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeInstruction(&zydis_decoder(), nullptr, bytes.data(), bytes.size(), &z))) {
    return Reason::undecodable;
  }
  const auto& modrm = z.raw.modrm;
  const bool rex_b = z.raw.rex.B != 0;
  const bool is_register = modrm.mod == 3;
  const bool has_sib = !is_register && modrm.rm == 4;
  if (z.address_width != 64 || (is_register && modrm.rm == 4 && !rex_b)) return Reason::unusual;
  put_push(i.end());
  const size_t start = out_.bytes.size();
  const bool from_rsp = has_sib && z.raw.sib.base == 4 && !rex_b;
  if (!from_rsp) {
    put(bytes);
    out_.bytes[start + modrm.offset] = uint8_t((modrm.mod << 6) | (4 << 3) | modrm.rm);
    if (!i.rip_relative) return {};
    const uint64_t end = here();
    if (!reaches(end, i.memory_target)) return Reason::operand_too_far;
    const auto displacement = int32_t(i.memory_target - end);
    std::memcpy(&out_.bytes[start + i.displacement_offset], &displacement, sizeof displacement);
    return {};
  }
  if (z.raw.disp.value > INT32_MAX - 8) return Reason::unusual;
  put(bytes.first(size_t(modrm.offset) + 2));
  out_.bytes[start + modrm.offset] = (2 << 6) | (4 << 3) | 4;  // always with a 32-bit displacement
  put_number(int32_t(z.raw.disp.value + 8));
  return {};
}

// lea can be turned into a mov of the address itself.
Relocator::Outcome Relocator::move_far_lea(const Instruction& i) {
  ZydisDecodedInstruction z;
  const Bytes bytes = bytes_of(i);
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeInstruction(&zydis_decoder(), nullptr, bytes.data(), bytes.size(), &z))) {
    return Reason::undecodable;
  }
  if (z.operand_width != 64) return Reason::operand_too_far;
  put({uint8_t(0x48 | (z.raw.rex.R ? 1 : 0)), uint8_t(0xb8 | z.raw.modrm.reg)});
  put_number(i.memory_target);
  return {};
}

Relocator::Outcome Relocator::move_plain(const Instruction& i) {
  if (!i.rip_relative) {
    put(bytes_of(i));
    return {};
  }
  const Bytes bytes = bytes_of(i);
  const uint64_t end = here() + i.length;
  if (!reaches(end, i.memory_target)) {
    return i.mnemonic == ZYDIS_MNEMONIC_LEA ? move_far_lea(i) : Outcome(Reason::operand_too_far);
  }
  const size_t start = out_.bytes.size();
  put(bytes);
  const auto displacement = int32_t(i.memory_target - end);
  std::memcpy(&out_.bytes[start + i.displacement_offset], &displacement, sizeof displacement);
  return {};
}

Relocator::Outcome Relocator::move(const Instruction& i) {
  switch (i.kind) {
    case Kind::unusual_transfer:
      return Reason::unusual;
    case Kind::jump:
    case Kind::conditional_jump:
    case Kind::counted_jump:
    case Kind::xbegin:
      return move_branch(i);
    case Kind::call:
      return move_call(i);
    case Kind::indirect_call:
      return move_indirect_call(i);
    default:
      return move_plain(i);
  }
}

std::expected<Relocated, MoveRefusal> Relocator::relocate() && {
  if (run_.bytes.size() > max_run) return std::unexpected(MoveRefusal{Reason::too_large, run_.address});
  Decoder decoder(run_.bytes, run_.address);
  while (auto instruction = decoder.next()) {
    out_.places.push_back({uint32_t(instruction->address - run_.address), uint32_t(out_.bytes.size())});
    const size_t fixups = fixups_.size();
    if (auto reason = move(*instruction)) return std::unexpected(MoveRefusal{*reason, instruction->address});
    for (size_t n = fixups; n < fixups_.size(); ++n) fixups_[n].branch = instruction->address;
    const bool is_call = instruction->kind == Kind::call || instruction->kind == Kind::indirect_call;
    out_.falls_through =
        instruction->falls_through() && !(is_call && options_.calls == CallStyle::return_to_original);
  }
  if (!decoder.at_end()) return std::unexpected(MoveRefusal{Reason::undecodable, decoder.position()});
  for (const Fixup& fixup : fixups_) {
    const auto place = out_.copy_of(uint32_t(fixup.target - run_.address));
    if (!place) return std::unexpected(MoveRefusal{Reason::splits, fixup.branch});
    const auto distance = int32_t(*place) - int32_t(fixup.position + 4);
    std::memcpy(&out_.bytes[fixup.position], &distance, sizeof distance);
  }
  return std::move(out_);
}

}  // namespace

std::optional<uint32_t> Relocated::copy_of(uint32_t original) const {
  auto found = std::lower_bound(places.begin(), places.end(), original,
                                [](const Place& p, uint32_t o) { return p.original < o; });
  if (found == places.end() || found->original != original) return std::nullopt;
  return found->copy;
}

std::optional<uint32_t> Relocated::original_of(uint32_t copy) const {
  auto after = std::upper_bound(places.begin(), places.end(), copy,
                                [](uint32_t c, const Place& p) { return c < p.copy; });
  if (after == places.begin() || copy >= bytes.size()) return std::nullopt;
  return (after - 1)->original;
}

std::string MoveRefusal::text() const {
  switch (reason) {
    case Reason::undecodable:
      return fmt::format("the bytes at {:#x} are no instruction", address);
    case Reason::unusual:
      return fmt::format("the instruction at {:#x} cannot run elsewhere", address);
    case Reason::operand_too_far:
      return fmt::format("the operand of the instruction at {:#x} is out of reach", address);
    case Reason::returns_into_run:
      return fmt::format("the call at {:#x} returns into the patched bytes", address);
    case Reason::splits:
      return fmt::format("the branch at {:#x} goes into the middle of an instruction", address);
    case Reason::too_large:
      return "the code is too large to move";
  }
  return {};
}

std::expected<Relocated, MoveRefusal> relocate(const CodeRange& run, uint64_t to,
                                               const RelocateOptions& options) {
  return Relocator(run, to, options).relocate();
}

}  // namespace uscope::x86
