#include "symbols/unnamed_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace uscope::symbols {
namespace {

// Compilers align the functions that are expected to run.
constexpr uint64_t usual_alignment = 16;

bool is_in_linkage_table(const image::ElfFile& file, uint64_t address) {
  return std::ranges::any_of(file.sections(), [&](const image::Section& section) {
    return section.name.starts_with(".plt") && address >= section.address.value &&
           address - section.address.value < section.size;
  });
}

// Some functions have several entries, and some entries hold several functions.
bool has_named_function(const ImageSymbols& image, const image::UnwindEntry& entry) {
  auto next =
      std::ranges::lower_bound(image.functions(), ImageAddr{entry.begin}, {}, &FunctionSymbol::address);
  if (next != image.functions().end() && next->address.value < entry.end) return true;
  return image.function_at(ImageAddr{entry.begin}) != nullptr ||
         image.cold_part_at(ImageAddr{entry.begin}) != nullptr;
}

// Which of these addresses some call instruction leads to, were every byte one: sorted in, sorted out.
std::vector<uint64_t> called_among(const image::ElfFile& file, const std::vector<uint64_t>& addresses) {
  std::vector<uint64_t> called;
  if (addresses.empty()) return called;
  for (const image::Segment& load : file.loads()) {
    if (!load.is_executable()) continue;
    const Bytes code = file.stored_bytes(load);
    constexpr size_t call_size = 5;
    for (size_t at = 0; at + call_size <= code.size(); ++at) {
      const void* next = std::memchr(&code[at], 0xe8, code.size() - at);
      if (next == nullptr) break;
      at = size_t(static_cast<const uint8_t*>(next) - code.data());
      if (at + call_size > code.size()) break;
      int32_t distance;
      std::memcpy(&distance, &code[at + 1], sizeof distance);
      const uint64_t target = load.address.value + at + call_size + uint64_t(int64_t(distance));
      if (std::ranges::binary_search(addresses, target)) called.push_back(target);
    }
  }
  std::ranges::sort(called);
  return called;
}

}  // namespace

std::vector<FunctionSymbol> find_unnamed_functions(const ImageSymbols& image,
                                                   std::deque<std::string>& names) {
  const auto all = image.all_unwind_entries();
  std::vector<image::UnwindEntry> candidates(all.begin(), all.end());
  std::erase_if(candidates, [&](const image::UnwindEntry& entry) {
    return entry.begins_inside_frame || has_named_function(image, entry) ||
           !image.is_executable(ImageAddr{entry.begin}) || is_in_linkage_table(image.elf(), entry.begin);
  });
  std::vector<uint64_t> unaligned;
  for (const image::UnwindEntry& entry : candidates)
    if (entry.begin % usual_alignment != 0) unaligned.push_back(entry.begin);
  const std::vector<uint64_t> called = called_among(image.elf(), unaligned);
  std::vector<FunctionSymbol> functions;
  for (const image::UnwindEntry& entry : candidates) {
    const bool is_sure = entry.begin % usual_alignment == 0 ||
                         std::ranges::binary_search(called, entry.begin) ||
                         !image.relocated().values_in(entry.begin, entry.begin + 1).empty();
    if (!is_sure || (!functions.empty() && functions.back().address.value == entry.begin)) continue;
    FunctionSymbol function;
    function.name = names.emplace_back(fmt::format("sub_{:x}", entry.begin));
    function.address = ImageAddr{entry.begin};
    function.size = entry.end - entry.begin;
    function.source = NameSource::Unwinder;
    functions.push_back(function);
  }
  return functions;
}

}  // namespace uscope::symbols
