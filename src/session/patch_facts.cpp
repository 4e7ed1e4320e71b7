#include "session/patch_facts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "image/elf/symbols.h"
#include "image/exceptions/landing_pads.h"
#include "symbols/function_code.h"
#include "x86/decode.h"
#include "x86/quick_decode.h"

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
  pair_cold_parts();
  if (image_.is_elf()) {
    (void)image_.unwind_entries();
    (void)image_.relocated().values_in(0, 0);
  }
  read_restartable_sequences();
  read_go_facts();
}

void PatchFacts::pair_cold_parts() {
  for (const FunctionSymbol& part : image_.cold_parts())
    cold_parents_.emplace(image::cold_parent(part.name), nullptr);
  if (cold_parents_.empty()) return;
  for (const FunctionSymbol& function : image_.functions())
    if (auto parent = cold_parents_.find(function.name);
        parent != cold_parents_.end() && parent->second == nullptr)
      parent->second = &function;
}

std::optional<FileOffset> PatchFacts::offset_of(std::string_view function) {
  auto found = std::ranges::find(image_.functions(), function, &FunctionSymbol::name);
  if (found == image_.functions().end()) return std::nullopt;
  return image_.file_offset(found->address);
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
  uint64_t all = list != data.symbols.end() ? list->address.value : 0;
  if (const FunctionSymbol* adds = function("runtime.allgadd"); all == 0 && adds != nullptr)
    all = slice_of(*adds);
  parks_anywhere_ = all == 0;
  if (all != 0) go_facts_ = GoFacts{ImageAddr{all}, preempt2->address, preempt2->size};
}

// Stripped of its symbols a program still has the names of its functions. runtime.allgadd appends to
// runtime.allgs: the only variable whose pointer, length and capacity it uses.
uint64_t PatchFacts::slice_of(const FunctionSymbol& function) const {
  constexpr uint64_t kWord = 8;
  auto bytes = image_.code_at(function.address, function.size);
  if (!bytes) return 0;
  std::set<uint64_t> used;
  const bool is_code = x86::quick_walk({function.address.value, *bytes}, [&](uint64_t, const auto& i) {
    if (i.kind == x86::QuickInstruction::Kind::points_to && !image_.is_executable(ImageAddr{i.target}))
      used.insert(i.target);
  });
  uint64_t found = 0;
  for (uint64_t at : used) {
    if (!used.contains(at + kWord) || !used.contains(at + 2 * kWord)) continue;
    if (found != 0) return 0;
    found = at;
  }
  return is_code ? found : 0;
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
      auto parent = cold_parents_.find(image::cold_parent(part.name));
      const bool is_known = parent != cold_parents_.end() && parent->second != nullptr;
      return is_known ? *parent->second : part;
    }
  }
  if (const FunctionSymbol* function = image_.function_at(address);
      function != nullptr && function->size != 0)
    return *function;
  if (!image_.is_elf()) return std::nullopt;
  if (const FunctionSymbol* function = running_through(address)) return *function;
  auto entry = image_.unwind_entries().at(address.value);
  if (!entry) return std::nullopt;
  FunctionSymbol function;
  function.address = {entry->begin};
  function.size = entry->end - entry->begin;
  return function;
}

// Hand-written code runs through the filler behind it into the next function.
const FunctionSymbol* PatchFacts::running_through(ImageAddr filler) const {
  auto after = std::ranges::upper_bound(image_.functions(), filler, {}, &FunctionSymbol::address);
  if (after == image_.functions().begin()) return nullptr;
  const FunctionSymbol& function = *std::prev(after);
  if (function.size == 0 || filler < function.address + function.size) return nullptr;
  if (filler - (function.address + function.size) > kMostFiller) return nullptr;
  auto code = symbols::whole_function_code(image_, function);
  if (!code || !code->up_to_next || !code->up_to_next->contains(filler.value)) return nullptr;
  return x86::analyze(*code).runs_through_filler() ? &function : nullptr;
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

// Whether the function around has a table of landing pads.
bool PatchFacts::may_land(uint64_t address) const {
  const auto entry = image_.unwind_entries().at(address);
  return entry && entry->lsda;
}

engine::inproc::FaultFacts PatchFacts::faults_in(std::span<const x86::CodeRange> parts) const {
  engine::inproc::FaultFacts faults;
  if (!image_.is_elf()) return faults;
  if (const image::Pclntab* go = image_.pclntab())
    faults.panics = go->function_at(ImageAddr{parts.front().address}) != nullptr;
  const bool any_lands =
      std::ranges::any_of(parts, [&](const x86::CodeRange& part) { return may_land(part.address); });
  if (!any_lands) return faults;
  faults.lands = [this](uint64_t address) {
    const auto around = image_.unwind_entries().at(address);
    return around && image::lands_from(image_.elf(), *around, address);
  };
  return faults;
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
  facts.faults = faults_in(facts.code.parts);
  facts.forbidden = why_forbidden(*function, body.address, body.end());
  return facts;
}

std::optional<x86::CodeRange> PatchFacts::code_around(ImageAddr address) {
  uint64_t begin = 0, size = 0;
  if (const FunctionSymbol* part = image_.cold_part_at(address); part != nullptr) {
    begin = part->address.value;
    size = part->size;
  } else if (const FunctionSymbol* function = image_.function_at(address);
             function != nullptr && function->size != 0) {
    begin = function->address.value;
    size = function->size;
  } else if (image_.is_elf()) {
    if (auto entry = image_.unwind_entries().at(address.value)) {
      begin = entry->begin;
      size = entry->end - entry->begin;
    }
  }
  if (size == 0) return std::nullopt;
  auto bytes = image_.code_at(ImageAddr{begin}, size);
  return bytes ? std::optional(x86::CodeRange{begin, *bytes}) : std::nullopt;
}

std::optional<engine::inproc::EntryFacts> PatchFacts::entry_at(ImageAddr address) {
  if (!image_.is_elf()) return std::nullopt;
  engine::inproc::EntryFacts facts;
  const FunctionSymbol* function = image_.function_at(address);
  auto code = code_around(address);
  if (!code || code->address != address.value || image_.cold_part_at(address) != nullptr) return std::nullopt;
  facts.body = *code;
  facts.parks_anywhere = parks_anywhere_;
  facts.faults = faults_in({&facts.body, 1});
  facts.forbidden =
      why_forbidden(function != nullptr ? *function : FunctionSymbol(), code->address, code->end());
  return facts;
}

void PatchFacts::expect_many() {
  if (image_.is_elf()) (void)image_.all_unwind_entries();
}

std::span<const uint64_t> PatchFacts::ways_in() {
  if (ways_in_ || !image_.is_elf()) return ways_in_ ? *ways_in_ : std::span<const uint64_t>();
  std::vector<uint64_t>& places = ways_in_.emplace();
  for (const image::UnwindEntry& entry : image_.all_unwind_entries()) {
    const image::LandingPads pads = image::read_landing_pads(image_.elf(), entry);
    places.insert(places.end(), pads.addresses.begin(), pads.addresses.end());
  }
  for (const x86::CodeRange& range : text()) {
    auto pointers = image_.relocated().values_in(range.address, range.end());
    places.insert(places.end(), pointers.begin(), pointers.end());
  }
  for (const FunctionSymbol& function : image_.functions()) places.push_back(function.address.value);
  if (const image::Pclntab* go = image_.pclntab())
    for (const image::GoFunction& function : go->functions())
      if (function.deferreturn != 0) places.push_back(function.entry.value + function.deferreturn);
  std::ranges::sort(places);
  return places;
}

std::vector<engine::inproc::TextFacts::Piece> PatchFacts::pieces() {
  std::vector<Range> ranges;
  auto add_all = [&](std::span<const FunctionSymbol> functions) {
    for (const FunctionSymbol& function : functions)
      ranges.push_back({function.address.value, function.address.value + function.size});
  };
  add_all(image_.functions());
  add_all(image_.cold_parts());
  if (image_.is_elf())
    for (const image::UnwindEntry& entry : image_.all_unwind_entries())
      ranges.push_back({entry.begin, entry.end});
  std::ranges::sort(ranges, {}, [](const Range& range) { return std::pair(range.begin, range.end); });
  auto is_function = [&](uint64_t begin) {
    const ImageAddr address{begin};
    if (const FunctionSymbol* function = image_.function_at(address)) return function->address == address;
    return std::ranges::binary_search(image_.unnamed_functions(), address, {}, &FunctionSymbol::address);
  };
  std::vector<Piece> pieces;
  uint64_t reach = 0;  // of those that began before
  for (size_t i = 0; i < ranges.size(); ++i) {
    reach = std::max(reach, ranges[i].end);
    const uint64_t next = i + 1 < ranges.size() ? ranges[i + 1].begin : UINT64_MAX;
    const uint64_t end = std::min(reach, next);
    if (end <= ranges[i].begin) continue;
    if (auto bytes = image_.code_at(ImageAddr{ranges[i].begin}, end - ranges[i].begin))
      pieces.push_back({{ranges[i].begin, *bytes}, is_function(ranges[i].begin)});
  }
  return pieces;
}

bool PatchFacts::has_function(uint64_t begin, uint64_t end) const {
  auto first = std::ranges::lower_bound(image_.functions(), ImageAddr{begin}, {}, &FunctionSymbol::address);
  return first != image_.functions().end() && first->address.value < end;
}

// Some linkers put constants, with the tables of switches, into the segment of the code: their sections tell
// them apart. One that has a function is code whatever it says.
std::vector<PatchFacts::Range> PatchFacts::data_among_code(const image::Segment& load) const {
  std::vector<Range> ranges;
  for (const image::Section& section : image_.elf().sections()) {
    if (!section.is_allocated() || section.is_executable() || !section.has_contents()) continue;
    const uint64_t begin = section.address.value;
    if (begin < load.address.value || begin - load.address.value >= load.file_size) continue;
    const uint64_t room = load.file_size - (begin - load.address.value);
    const uint64_t end = begin + std::min(section.size, room);
    if (end > begin && !has_function(begin, end)) ranges.push_back({begin, end});
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  return ranges;
}

// What is left of an executable segment without its data. There, what no section of code is in is headers
// and filler.
std::vector<PatchFacts::Range> PatchFacts::code_among_data(const image::Segment& load) const {
  const std::vector<Range> data = data_among_code(load);
  const uint64_t end = load.address.value + load.file_size;
  if (data.empty()) return {{load.address.value, end}};
  auto is_code = [&](const Range& range) {
    auto holds_some = [&](const image::Section& section) {
      return section.is_executable() && section.address.value < range.end &&
             range.begin < section.address.value + section.size;
    };
    return range.begin < range.end &&
           (std::ranges::any_of(image_.elf().sections(), holds_some) || has_function(range.begin, range.end));
  };
  std::vector<Range> ranges;
  uint64_t at = load.address.value;
  auto add = [&](uint64_t up_to) {
    if (is_code({at, up_to})) ranges.push_back({at, up_to});
  };
  for (const Range& range : data) {
    add(range.begin);
    at = std::max(at, range.end);
  }
  add(end);
  return ranges;
}

std::vector<x86::CodeRange> PatchFacts::bytes_of(std::span<const Range> ranges) const {
  std::vector<x86::CodeRange> found;
  for (const Range& range : ranges)
    if (auto bytes = image_.code_at(ImageAddr{range.begin}, range.end - range.begin))
      found.push_back({range.begin, *bytes});
  return found;
}

std::vector<x86::CodeRange> PatchFacts::data() {
  std::vector<x86::CodeRange> ranges;
  if (!image_.is_elf()) return ranges;
  for (const image::Segment& load : image_.elf().loads()) {
    if (load.is_executable())
      std::ranges::copy(bytes_of(data_among_code(load)), std::back_inserter(ranges));
    else if (auto bytes = image_.code_at(load.address, load.file_size))
      ranges.push_back({load.address.value, *bytes});
  }
  return ranges;
}

std::vector<x86::CodeRange> PatchFacts::text() {
  std::vector<x86::CodeRange> ranges;
  if (!image_.is_elf()) return ranges;
  for (const image::Segment& load : image_.elf().loads())
    if (load.is_executable()) std::ranges::copy(bytes_of(code_among_data(load)), std::back_inserter(ranges));
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
    if (!code) continue;
    const x86::Flow flow = x86::analyze(*code);
    if (flow.gap() == x86::Gap::falls_off_end || flow.runs_through_filler()) continue;
    found.push_back({end, filler});
  }
  return found;
}

}  // namespace uscope::session
