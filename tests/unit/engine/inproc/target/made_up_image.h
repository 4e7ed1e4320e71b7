// An image of functions made of a few bytes each, for tests that plan patches: no file, no process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

#include "engine/inproc/target/text_facts.h"

namespace uscope::engine::inproc {

class MadeUpImage : public TextFacts {
 public:
  static constexpr uint64_t base = 0x10000, data_base = 0x4000000;

  // Puts a function behind the others, at the next multiple of `alignment`; what lies between is int3.
  uint64_t add(std::initializer_list<int> code, uint64_t alignment = 16) {
    while ((base + text_.size()) % alignment != 0) text_.push_back(0xcc);
    const uint64_t address = base + text_.size();
    for (int byte : code) text_.push_back(uint8_t(byte));
    functions_[address] = base + text_.size();
    return address;
  }
  void fill_up(size_t bytes) { text_.insert(text_.end(), bytes, 0xcc); }
  // For what must be known of an address before it is.
  void patch_text(uint64_t address, std::initializer_list<int> bytes) {
    std::ranges::copy(bytes, text_.begin() + ptrdiff_t(address - base));
  }

  std::optional<ImageAddr> address_of(FileOffset offset) override { return ImageAddr{offset.value}; }
  std::optional<FunctionFacts> function_at(ImageAddr address) override {
    auto code = code_around(address);
    if (!code) return std::nullopt;
    ++whole_functions;
    FunctionFacts facts;
    facts.code.parts.push_back(*code);
    for (uint64_t place : ways)
      if (place != code->address) facts.code.code_pointers.push_back(place);
    facts.padding_behind = filler_at(code->end()).size();
    facts.parks_anywhere = parks_anywhere;
    facts.faults = faults;
    facts.forbidden = forbidden;
    return facts;
  }
  std::optional<EntryFacts> entry_at(ImageAddr address) override {
    auto code = code_around(address);
    if (!knows_entries || !code || code->address != address.value) return std::nullopt;
    return EntryFacts{*code, parks_anywhere, faults, forbidden};
  }
  std::optional<x86::CodeRange> code_around(ImageAddr address) override {
    auto after = functions_.upper_bound(address.value);
    if (after == functions_.begin()) return std::nullopt;
    auto [start, end] = *std::prev(after);
    if (address.value >= end) return std::nullopt;
    return x86::CodeRange{start, Bytes(text_).subspan(start - base, end - start)};
  }
  std::span<const uint64_t> ways_in() override { return ways; }
  std::vector<Piece> pieces() override {
    std::vector<Piece> all;
    for (auto [start, end] : functions_) all.push_back({*code_around(ImageAddr{start}), true});
    return all;
  }
  std::vector<x86::CodeRange> data() override { return {{data_base, data_bytes}}; }
  bool is_fixed() override { return true; }
  std::vector<x86::CodeRange> text() override { return {{base, text_}}; }
  std::vector<Filler> filler_near(ImageAddr address, uint64_t distance, uint64_t size) override {
    std::vector<Filler> found;
    for (auto [start, end] : functions_) {
      if (end + distance < address.value || end > address.value + distance) continue;
      if (const Bytes filler = filler_at(end); filler.size() >= size)
        found.push_back({ImageAddr{end}, filler});
    }
    return found;
  }

  bool knows_entries = true, parks_anywhere = false;
  FaultFacts faults;
  std::string forbidden;
  std::vector<uint64_t> ways;  // sorted
  std::vector<uint8_t> data_bytes;
  std::atomic<size_t> whole_functions = 0;  // how often a function was looked at as a whole

 private:
  Bytes filler_at(uint64_t end) const {
    auto next = functions_.lower_bound(end);
    const uint64_t stop = next == functions_.end() ? base + text_.size() : next->first;
    return Bytes(text_).subspan(end - base, stop - end);
  }

  std::vector<uint8_t> text_;
  std::map<uint64_t, uint64_t> functions_;  // start -> end
};

}  // namespace uscope::engine::inproc
