#include "image/usdt/notes.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "image/elf/elf_file.h"
#include "image/elf/notes.h"
#include "image/elf/symbols.h"

namespace uscope::image {
namespace {

constexpr uint32_t note_type = 3;
constexpr std::string_view owner = "stapsdt";

using ProbeMap = std::map<std::pair<std::string_view, std::string_view>, std::vector<UsdtSite>>;

void take_note(const ElfFile& file, const Section* base_section, Bytes description, ProbeMap& probes) {
  ByteReader reader(description);
  uint64_t address = reader.u64(), base = reader.u64(), semaphore = reader.u64();
  std::string_view provider = reader.cstring(), name = reader.cstring(), arguments = reader.cstring();
  if (reader.failed() || provider.empty() || name.empty()) return;
  // prelink moves the image but not the addresses in its notes; the base section moved along.
  uint64_t moved = base_section != nullptr && base != 0 ? base_section->address.value - base : 0;
  UsdtSite site;
  site.address = {address + moved};
  if (file.is_executable(site.address)) site.offset = file.to_file_offset(site.address);
  if (semaphore != 0) {
    site.semaphore = ImageAddr{semaphore + moved};
    site.semaphore_offset = file.to_file_offset(*site.semaphore);
  }
  site.argument_text = arguments;
  probes[{provider, name}].push_back(std::move(site));
}

// The notes are not loaded, so no program header covers them: without section headers they are nameless bytes
// behind the last segment. Their start is distinctive: the owner's length, a description's, the type,
// "stapsdt".
void scan_unloaded(const ElfFile& file, ProbeMap& probes) {
  uint64_t start = 0;
  for (const Segment& load : file.loads()) start = std::max(start, load.offset.value + load.file_size);
  Bytes rest = slice_from(file.bytes(), start);
  constexpr std::string_view pattern("\x03\0\0\0stapsdt\0", 12);
  std::string_view text = as_text(rest);
  for (size_t at = text.find(pattern); at != std::string_view::npos;) {
    size_t next = at + pattern.size();
    if (at >= 8) {
      ByteReader reader(rest, at - 8);
      uint32_t owner_size = reader.u32(), description_size = reader.u32();
      reader.skip(pattern.size());
      Bytes description = reader.take(description_size);
      if (!reader.failed() && owner_size == owner.size() + 1) {
        take_note(file, nullptr, description, probes);
        next += description_size;
      }
    }
    at = text.find(pattern, next);
  }
}

// Operands may name variables of the program: foo(%rip).
void resolve_symbols(const ElfFile& file, std::vector<UsdtProbe>& probes) {
  auto each_symbol = [&](auto&& visit) {
    for (UsdtProbe& probe : probes) {
      for (UsdtSite& site : probe.sites) {
        for (UsdtArgument& argument : site.arguments) {
          if (!argument.operand.symbol.empty()) visit(argument.operand);
        }
      }
    }
  };
  // A name that stands for several places resolves to none: a wrong value is worse than no value.
  struct Place {
    ImageAddr address;
    bool ambiguous = false;
    bool found = false;
  };
  std::unordered_map<std::string_view, Place> places;
  each_symbol([&](UsdtOperand& operand) { places.try_emplace(operand.symbol); });
  if (places.empty()) return;
  auto take = [&](const SymbolList& list) {
    for (const Symbol& symbol : list.symbols) {
      auto place = places.find(symbol.name);
      if (place == places.end() || symbol.kind == SymbolKind::ThreadLocal) continue;
      place->second.ambiguous |= place->second.found && place->second.address != symbol.address;
      place->second.address = symbol.address;
      place->second.found = true;
    }
  };
  take(read_data_symbols(file));
  take(read_function_symbols(file));
  each_symbol([&](UsdtOperand& operand) {
    const Place& place = places[operand.symbol];
    if (place.found && !place.ambiguous) operand.symbol_address = place.address;
  });
}

}  // namespace

std::vector<UsdtProbe> read_usdt_probes(const ElfFile& file) {
  ProbeMap found;
  const Section* base_section = file.find_section(".stapsdt.base");
  for_each_note(file, [&](const Note& note) {
    if (note.owner == owner && note.type == note_type) take_note(file, base_section, note.description, found);
    return true;
  });
  if (file.sections().empty()) scan_unloaded(file, found);

  std::vector<UsdtProbe> probes;
  for (auto& [key, sites] : found) {
    UsdtProbe& probe = probes.emplace_back(key.first, key.second);
    auto order = [](const UsdtSite& s) { return std::tuple(s.address, s.argument_text); };
    std::ranges::stable_sort(sites, {}, order);
    auto repeated = std::ranges::unique(sites, {}, order);
    sites.erase(repeated.begin(), repeated.end());
    for (UsdtSite& site : sites) site.arguments = parse_usdt_arguments(site.argument_text);
    probe.sites = std::move(sites);
  }
  resolve_symbols(file, probes);
  return probes;
}

}  // namespace uscope::image
