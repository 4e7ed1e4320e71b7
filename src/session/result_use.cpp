#include "session/result_use.h"

#include <algorithm>
#include <cstring>

#include "x86/decode.h"
#include "x86/effects.h"

namespace uscope::session {
namespace {

constexpr int kMostInstructions = 24;  // looked at after a call
constexpr uint8_t kCall = 0xe8, kLea = 0x8d;

x86::RegisterSet registers_of(const image::Location& place) {
  x86::RegisterSet set = 0;
  for (const image::LocPiece& piece : place.pieces) {
    if (piece.kind != image::LocPiece::Kind::Register || piece.ops.empty()) continue;
    uint32_t number = piece.ops[0].number;  // DWARF's
    if (number == 0) set |= x86::bit(x86::Register::rax);
    if (number == 1) set |= x86::bit(x86::Register::rdx);
    if (number >= 17) set |= x86::vector_bit(number - 17);
  }
  return set;
}

int32_t displacement_at(const uint8_t* at) {
  int32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

bool ResultUse::is_in_doubt(ImageAddr entry, bool by_gcc) const {
  auto functions = image_.functions();
  auto first = std::ranges::lower_bound(functions, entry, {}, &symbols::FunctionSymbol::address);
  bool is_copy = false;
  for (; first != functions.end() && first->address == entry; ++first) {
    if (first->is_global) return false;
    for (std::string_view mark : {".isra.", ".constprop.", ".part."})
      is_copy |= first->name.find(mark) != std::string_view::npos;
  }
  return !by_gcc || is_copy;
}

// Bytes that look like a call of a function's first instruction are one: four more bytes would have to be
// right by chance.
void ResultUse::find_calls() const {
  if (std::exchange(has_calls_, true) || !image_.is_elf()) return;
  for (auto [begin, size] : image_.elf().executable_ranges()) {
    Bytes code = image_.elf().bytes_from(begin);
    code = code.first(std::min<uint64_t>(code.size(), size));
    for (size_t i = 0; i + 5 <= code.size(); i++) {
      if (code[i] == kCall) {
        uint64_t next = begin.value + i + 5;
        calls_.push_back({next + uint64_t(int64_t(displacement_at(&code[i + 1]))), next});
      } else if (code[i] == kLea && (code[i + 1] & 0xc7) == 5 && i + 6 <= code.size()) {
        uint64_t next = begin.value + i + 6;
        loaded_.push_back(next + uint64_t(int64_t(displacement_at(&code[i + 2]))));
      }
    }
  }
  std::ranges::sort(calls_, {}, &Call::target);
  std::ranges::sort(loaded_);
}

x86::RegisterSet ResultUse::read_after(uint64_t address, x86::RegisterSet wanted) const {
  x86::RegisterSet found = 0;
  for (int i = 0; i < kMostInstructions && wanted != 0; i++) {
    Bytes code = image_.elf().bytes_from(ImageAddr{address});
    code = code.first(std::min<size_t>(code.size(), x86::max_instruction_length));
    auto instruction = x86::decode(code, address);
    auto effects = instruction ? x86::effects_of(code.first(instruction->length)) : std::nullopt;
    if (!effects || instruction->kind == x86::Kind::call || instruction->kind == x86::Kind::indirect_call)
      break;
    if (instruction->kind == x86::Kind::jump) {
      address = instruction->target;
      continue;
    }
    if (!instruction->falls_through()) break;
    found |= effects->sources & wanted;
    wanted &= ~(effects->sources | effects->written);
    address = instruction->end();
  }
  return found;
}

bool ResultUse::writes(ImageAddr entry, x86::RegisterSet wanted) const {
  const symbols::FunctionSymbol* function = image_.function_from(entry);
  auto code = function ? image_.code_at(entry, function->size) : std::nullopt;
  if (!code) return false;
  x86::RegisterSet written = 0;
  for (x86::Decoder decoder(*code, entry.value); auto instruction = decoder.next();) {
    auto effects = x86::effects_of(code->subspan(instruction->address - entry.value, instruction->length));
    if (effects) written |= effects->written;
  }
  return (written & wanted) == wanted;
}

bool ResultUse::is_proven(ImageAddr entry, const image::Location& place, bool by_gcc) const {
  x86::RegisterSet wanted = registers_of(place);
  if (wanted == 0) return true;  // in memory that the caller has made
  // gcc's callers may keep something of their own in a register that they know the function to leave alone.
  if (by_gcc && !writes(entry, wanted)) return false;
  find_calls();
  if (std::ranges::binary_search(loaded_, entry.value)) return true;
  if (!image_.is_elf()) return false;
  if (!image_.relocated().values_in(entry.value, entry.value + 1).empty()) return true;
  x86::RegisterSet found = 0;
  for (const Call& call : std::ranges::equal_range(calls_, entry.value, {}, &Call::target)) {
    found |= read_after(call.next, wanted);
    if ((found & wanted) == wanted) return true;
  }
  return false;
}

}  // namespace uscope::session
