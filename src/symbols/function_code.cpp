#include "symbols/function_code.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "image/elf/symbols.h"
#include "image/exceptions/landing_pads.h"
#include "x86/decode.h"
#include "x86/quick_decode.h"

namespace uscope::symbols {
namespace {

// What one function may be at most; a symbol that claims more lies.
constexpr uint64_t largest_function = uint64_t(64) << 20;
constexpr uint64_t most_filler = 64;
constexpr size_t most_parts = 32;
constexpr size_t most_pieces = 64;  // that the unwinder sees in one part: hand-written code has several

// Stripped, a part of a function is code that no name covers, and that the unwinder sees as one piece if it
// sees it at all.
x86::OutsideCase case_outside(const ImageSymbols& image, uint64_t address) {
  using x86::OutsideCase;
  if (image.function_at(ImageAddr{address}) != nullptr || !image.is_executable(ImageAddr{address}))
    return OutsideCase::none;
  const auto entry = image.unwind_entries().at(address);
  if (!entry) return OutsideCase::maybe;
  if (entry->begin == address || entry->begins_inside_frame) return OutsideCase::part;
  const Bytes before = image.code_at(ImageAddr{entry->begin}, address - entry->begin).value_or(Bytes());
  uint64_t end = 0;
  x86::quick_walk({entry->begin, before},
                  [&](uint64_t at, const x86::QuickInstruction& i) { end = at + i.length; });
  return end == address ? OutsideCase::maybe : OutsideCase::none;
}

// Gathers a function's parts, and of each what leads into it.
class WholeFunction {
 public:
  WholeFunction(const ImageSymbols& image, const FunctionSymbol& function, x86::FunctionCode& code)
      : image_(image), function_(function), code_(code) {}

  void run() {
    add_named_parts();
    // The list grows while it is walked.
    for (size_t i = 0; i < code_.parts.size(); ++i) {
      x86::CodeRange part = code_.parts[i];
      add_landing_pads(part);
      follow_branches(part);
      auto pointers = image_.relocated().values_in(part.address, part.end());
      code_.code_pointers.insert(code_.code_pointers.end(), pointers.begin(), pointers.end());
    }
    read_relocated();
    const ImageSymbols& image = image_;
    code_.case_outside = [&image](uint64_t address) { return case_outside(image, address); };
  }

 private:
  bool holds(uint64_t address) const {
    return std::ranges::any_of(code_.parts, [&](const auto& part) { return part.contains(address); });
  }

  void add_part(uint64_t begin, uint64_t end) {
    if (end <= begin || end - begin > largest_function || code_.parts.size() >= most_parts) return;
    if (auto bytes = image_.code_at(ImageAddr{begin}, end - begin)) code_.parts.push_back({begin, *bytes});
  }

  // The function's own symbol and the others at its address.
  auto aliases() const {
    return std::ranges::equal_range(image_.functions(), function_.address, {}, &FunctionSymbol::address);
  }

  bool is_ours(std::string_view part_name) const {
    std::string_view parent = image::cold_parent(part_name);
    return std::ranges::any_of(aliases(), [&](const FunctionSymbol& alias) { return alias.name == parent; });
  }

  // Also the parts that only a switch leads to. Where names are not unique, the branches tell which part is
  // whose.
  void add_named_parts() {
    for (const FunctionSymbol& alias : aliases()) {
      const FunctionSymbol* part = image_.cold_part_of(alias.name);
      if (part != nullptr && !holds(part->address.value))
        add_part(part->address.value, part->address.value + part->size);
    }
  }

  // A stub of the procedure linkage table: the unwinder sees all of them as one piece, but they are not parts
  // of anybody.
  bool is_stub(uint64_t address) const {
    for (int skipped = 0; skipped < 2; ++skipped) {
      Bytes bytes = image_.code_at(ImageAddr{address}, x86::max_instruction_length).value_or(Bytes());
      auto instruction = x86::decode(bytes, address);
      if (!instruction) return false;
      if (instruction->kind == x86::Kind::indirect_jump) return instruction->rip_relative;
      address = instruction->end();
    }
    return false;
  }

  // An address outside of the known parts that this function goes to: one more part, or another function?
  void visit(uint64_t address) {
    if (holds(address)) return;
    auto after =
        std::ranges::upper_bound(image_.cold_parts(), ImageAddr{address}, {}, &FunctionSymbol::address);
    if (after != image_.cold_parts().begin()) {
      const FunctionSymbol& part = *std::prev(after);
      if (ImageAddr{address} - part.address < part.size) {
        if (is_ours(part.name)) add_part(part.address.value, part.address.value + part.size);
        return;
      }
    }
    if (is_stub(address)) return;
    // Stripped: nobody jumps into the middle of another function, or to one with the frame already made.
    if (image_.function_at(ImageAddr{address}) != nullptr) return;
    auto entry = image_.unwind_entries().at(address);
    if (entry && (entry->begin != address || entry->begins_inside_frame)) add_part(entry->begin, entry->end);
  }

  void add_landing_pads(const x86::CodeRange& part) {
    uint64_t at = part.address;
    for (size_t pieces = 0; at < part.end() && pieces < most_pieces; ++pieces) {
      auto entry = image_.unwind_entries().at(at);
      if (!entry) return;
      for (uint64_t pad : image::read_landing_pads(image_.elf(), *entry).addresses) {
        code_.landing_pads.push_back(pad);
        // Wherever a pad is, it is this function's.
        if (!holds(pad))
          if (auto other = image_.unwind_entries().at(pad)) add_part(other->begin, other->end);
      }
      at = entry->end;
    }
  }

  void follow_branches(const x86::CodeRange& part) {
    for (uint64_t at = part.address; at < part.end();) {
      auto instruction = x86::decode(part.bytes.subspan(at - part.address), at);
      at += instruction ? instruction->length : 1;
      if (!instruction || instruction->kind == x86::Kind::call || !instruction->is_direct_branch()) continue;
      if (!part.contains(instruction->target)) visit(instruction->target);
    }
  }

  void read_relocated() {
    // Copies live as long as the function that made them.
    auto copies = std::make_shared<std::deque<std::vector<uint8_t>>>();
    const ImageSymbols& image = image_;
    code_.read_image = [&image, copies](uint64_t address, uint64_t size) {
      Bytes stored = image.code_at(ImageAddr{address}, size).value_or(Bytes());
      if (stored.empty() || !image.relocated().changes(ImageAddr{address}, size)) return stored;
      std::vector<uint8_t>& copy = copies->emplace_back(stored.begin(), stored.end());
      image.relocated().apply(ImageAddr{address}, copy);
      return Bytes(copy);
    };
  }

  const ImageSymbols& image_;
  const FunctionSymbol& function_;
  x86::FunctionCode& code_;
};

// The function with the filler behind it, if that is all there is up to the next one.
std::optional<x86::CodeRange> up_to_next(const ImageSymbols& image, const FunctionSymbol& function) {
  const ImageAddr end = function.address + function.size;
  auto next = std::ranges::lower_bound(image.functions(), end, {}, &FunctionSymbol::address);
  if (next == image.functions().end() || next->address - end > most_filler) return std::nullopt;
  auto bytes = image.code_at(function.address, next->address - function.address);
  if (!bytes) return std::nullopt;
  x86::Decoder decoder(bytes->subspan(function.size), end.value);
  for (auto filler = decoder.next(); filler; filler = decoder.next())
    if (!filler->is_padding()) return std::nullopt;
  if (!decoder.at_end()) return std::nullopt;
  return x86::CodeRange{function.address.value, *bytes};
}

}  // namespace

std::optional<x86::FunctionCode> function_code(const ImageSymbols& image, const FunctionSymbol& function) {
  if (function.size == 0 || function.size > largest_function) return std::nullopt;
  auto bytes = image.code_at(function.address, function.size);
  if (!bytes) return std::nullopt;
  x86::FunctionCode code;
  code.parts.push_back({function.address.value, *bytes});
  code.up_to_next = up_to_next(image, function);
  code.is_fixed = image.is_fixed();
  code.read_image = [&image](uint64_t address, uint64_t size) {
    return image.code_at(ImageAddr{address}, size).value_or(Bytes());
  };
  if (const image::Pclntab* go = image.pclntab()) {
    // No instruction jumps there: the runtime does.
    const image::GoFunction* known = go->function_at(function.address);
    if (known != nullptr && known->deferreturn != 0)
      code.landing_pads.push_back(known->entry.value + known->deferreturn);
  }
  return code;
}

std::optional<x86::FunctionCode> whole_function_code(const ImageSymbols& image,
                                                     const FunctionSymbol& function) {
  auto code = function_code(image, function);
  // Go's functions have one part, and neither exceptions nor switches by relocated tables.
  if (code && image.is_elf() && image.pclntab() == nullptr) WholeFunction(image, function, *code).run();
  return code;
}

}  // namespace uscope::symbols
