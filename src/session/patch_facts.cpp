#include "session/patch_facts.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "image/elf/symbols.h"
#include "symbols/function_code.h"
#include "x86/decode.h"

namespace uscope::session {
namespace {

using engine::inproc::FunctionFacts;
using symbols::FunctionSymbol;

constexpr uint64_t kMostFiller = 64;

// Places that a runtime leads to in the middle, or knows by their very bytes.
struct Forbidden {
  std::string_view name, why;
};
constexpr std::array kForbidden = {
    Forbidden{"runtime.goexit", "Go plants its second instruction as every goroutine's return address"},
    Forbidden{"runtime.goexit.abi0", "Go plants its second instruction as every goroutine's return address"},
    Forbidden{"runtime.sigreturn", "unwinders know the way out of a signal handler by its bytes"},
    Forbidden{"runtime.sigreturn__sigaction", "unwinders know the way out of a signal handler by its bytes"},
    Forbidden{"__restore_rt", "unwinders know the way out of a signal handler by its bytes"},
    Forbidden{"__restore", "unwinders know the way out of a signal handler by its bytes"},
};

}  // namespace

PatchFacts::PatchFacts(const symbols::ImageSymbols& image) : image_(image) {
  read_restartable_sequences();
  read_go_facts();
}

// Since Go 1.14 a signal can park a goroutine at nearly any instruction. Where it goes on is then kept on its
// stack, which only the runtime's list of goroutines leads to.
void PatchFacts::read_go_facts() {
  if (!image_.is_elf() || image_.pclntab() == nullptr) return;
  auto function = [&](std::string_view name) {
    auto found = std::ranges::find(image_.functions(), name, &FunctionSymbol::name);
    return found != image_.functions().end() ? &*found : nullptr;
  };
  const FunctionSymbol* preempt2 = function("runtime.asyncPreempt2");
  if (preempt2 == nullptr) return;  // older
  const image::SymbolList data = image::read_data_symbols(image_.elf());
  auto list = std::ranges::find(data.symbols, "runtime.allgs", &image::Symbol::name);
  parks_anywhere_ = list == data.symbols.end();
  if (!parks_anywhere_) go_facts_ = GoFacts{list->address, preempt2->address, preempt2->size};
}

void PatchFacts::read_restartable_sequences() {
  if (!image_.is_elf()) return;
  const image::Section* table = image_.elf().find_section("__rseq_cs");
  if (table == nullptr) return;
  struct Descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
  };
  std::vector<uint8_t> bytes;
  if (auto stored = image_.code_at(table->address, table->size)) bytes.assign(stored->begin(), stored->end());
  image_.relocated().apply(table->address, bytes);
  ByteReader reader(bytes);
  while (reader.remaining() >= sizeof(Descriptor)) {
    auto descriptor = reader.read<Descriptor>();
    if (descriptor.start != 0)
      restartable_.push_back({descriptor.start, descriptor.start + descriptor.length});
  }
}

// The function around an address; a `.cold` part's is the one it belongs to. Where nothing has a name, what
// the unwinder sees as one piece.
std::optional<FunctionSymbol> PatchFacts::symbol_at(ImageAddr address) const {
  auto after = std::ranges::upper_bound(image_.cold_parts(), address, {}, &FunctionSymbol::address);
  if (after != image_.cold_parts().begin()) {
    const FunctionSymbol& part = *std::prev(after);
    if (address - part.address < part.size) {
      const std::string_view parent = image::cold_parent(part.name);
      auto found = std::ranges::find(image_.functions(), parent, &FunctionSymbol::name);
      return found != image_.functions().end() ? std::optional(*found) : std::optional(part);
    }
  }
  if (const FunctionSymbol* function = image_.function_at(address);
      function != nullptr && function->size != 0)
    return *function;
  if (!image_.is_elf()) return std::nullopt;
  auto entry = image_.unwind_entries().at(address.value);
  if (!entry) return std::nullopt;
  FunctionSymbol function;
  function.address = {entry->begin};
  function.size = entry->end - entry->begin;
  return function;
}

// Compilers fill the space between functions with nops or int3. Whatever has a name or an unwind entry is
// none.
Bytes PatchFacts::filler_behind(ImageAddr end) const {
  uint64_t room = kMostFiller;
  auto next = std::ranges::lower_bound(image_.functions(), end, {}, &FunctionSymbol::address);
  if (next != image_.functions().end()) room = std::min(room, next->address - end);
  auto cold = std::ranges::lower_bound(image_.cold_parts(), end, {}, &FunctionSymbol::address);
  if (cold != image_.cold_parts().end()) room = std::min(room, cold->address - end);
  if (image_.function_at(end) != nullptr) return {};
  Bytes bytes;
  while (room > 0 && bytes.empty()) {
    if (auto stored = image_.code_at(end, room))
      bytes = *stored;
    else
      room /= 2;
  }
  uint64_t size = 0;
  for (x86::Decoder decoder(bytes, end.value); auto instruction = decoder.next();) {
    if (!instruction->is_padding()) break;
    if (image_.is_elf() && image_.unwind_entries().at(instruction->address)) break;
    size = instruction->end() - end.value;
  }
  return bytes.first(size);
}

std::string PatchFacts::why_forbidden(const FunctionSymbol& function, uint64_t begin, uint64_t end) const {
  if (!image_.is_elf()) return "the .NET runtime must know every place where its code can stand";
  for (const Forbidden& forbidden : kForbidden)
    if (function.name == forbidden.name)
      return std::string(forbidden.name) + " must stay as it is: " + std::string(forbidden.why);
  for (const Range& range : restartable_)
    if (range.begin < end && begin < range.end)
      return "it holds a restartable sequence, which the kernel knows by its place";
  return {};
}

std::optional<FunctionFacts> PatchFacts::function_at(ImageAddr address) {
  auto function = symbol_at(address);
  if (!function) return std::nullopt;
  auto code = symbols::whole_function_code(image_, *function);
  if (!code) return std::nullopt;
  FunctionFacts facts;
  facts.code = std::move(*code);
  const x86::CodeRange& body = facts.code.parts.front();
  // A symbol inside: a second way in.
  auto inside = std::ranges::upper_bound(image_.functions(), function->address, {}, &FunctionSymbol::address);
  for (; inside != image_.functions().end() && inside->address.value < body.end(); ++inside)
    facts.code.code_pointers.push_back(inside->address.value);
  facts.padding_behind = filler_behind(ImageAddr{body.end()}).size();
  facts.parks_anywhere = parks_anywhere_;
  facts.forbidden = why_forbidden(*function, body.address, body.end());
  return facts;
}

std::vector<x86::CodeRange> PatchFacts::text() {
  std::vector<x86::CodeRange> ranges;
  if (!image_.is_elf()) return ranges;
  for (const image::Segment& segment : image_.elf().segments())
    if (segment.type == PT_LOAD && segment.is_executable())
      if (auto bytes = image_.code_at(segment.address, segment.file_size))
        ranges.push_back({segment.address.value, *bytes});
  return ranges;
}

std::vector<engine::inproc::TextFacts::Filler> PatchFacts::filler_near(ImageAddr address, uint64_t distance,
                                                                       uint64_t size) {
  std::vector<Filler> found;
  auto at = std::ranges::upper_bound(image_.functions(), address + distance, {}, &FunctionSymbol::address);
  // Functions before it by start; one that begins far before may end near.
  for (int looked = 0; at != image_.functions().begin() && looked < 16; ++looked) {
    const FunctionSymbol& function = *--at;
    const ImageAddr end = function.address + function.size;
    if (function.size == 0 || end + distance < address || end > address + distance) continue;
    const Bytes filler = filler_behind(end);
    if (filler.size() < size) continue;
    auto code = symbols::function_code(image_, function);
    if (!code || x86::analyze(*code).gap() == x86::Gap::falls_off_end) continue;
    found.push_back({end, filler});
  }
  return found;
}

}  // namespace uscope::session
