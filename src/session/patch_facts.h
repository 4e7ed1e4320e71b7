// What the in-process engine must know of an image's code before it patches it: implements the engine's
// TextFacts over an opened image. Borrows the image, and asks it in advance for all that it reads late: then
// several threads may ask.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/inproc/target/text_facts.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

class PatchFacts final : public engine::inproc::TextFacts {
 public:
  explicit PatchFacts(const symbols::ImageSymbols& image);

  std::optional<ImageAddr> address_of(FileOffset offset) override { return image_.image_address(offset); }
  std::optional<FileOffset> offset_of(std::string_view function) override;
  void expect_many() override;
  std::optional<engine::inproc::FunctionFacts> function_at(ImageAddr address) override;
  std::optional<engine::inproc::EntryFacts> entry_at(ImageAddr address) override;
  std::optional<x86::CodeRange> code_around(ImageAddr address) override;
  std::span<const uint64_t> ways_in() override;
  std::vector<Piece> pieces() override;
  std::vector<x86::CodeRange> data() override;
  bool is_fixed() override { return image_.is_fixed(); }
  std::vector<x86::CodeRange> text() override;
  std::vector<Filler> filler_near(ImageAddr address, uint64_t distance, uint64_t size) override;
  std::optional<GoFacts> go_facts() override { return go_facts_; }

 private:
  std::optional<symbols::FunctionSymbol> symbol_at(ImageAddr address) const;
  // The function that runs through this filler; null if none does.
  const symbols::FunctionSymbol* running_through(ImageAddr filler) const;
  Bytes filler_behind(ImageAddr end) const;
  std::string why_forbidden(const symbols::FunctionSymbol& function, uint64_t begin, uint64_t end) const;
  bool may_land(uint64_t address) const;
  engine::inproc::FaultFacts faults_in(std::span<const x86::CodeRange> parts) const;
  void read_restartable_sequences();
  void pair_cold_parts();
  void read_go_facts();
  // The address of the one slice that a function's code uses all three words of; 0 if that is not one.
  uint64_t slice_of(const symbols::FunctionSymbol& function) const;

  const symbols::ImageSymbols& image_;
  std::optional<GoFacts> go_facts_;
  bool parks_anywhere_ = false;
  std::unordered_map<std::string_view, const symbols::FunctionSymbol*> cold_parents_;
  std::optional<std::vector<uint64_t>> ways_in_;
  struct Range {
    uint64_t begin, end;
  };
  bool has_function(uint64_t begin, uint64_t end) const;
  // What an executable segment is made of, each in order.
  std::vector<Range> data_among_code(const image::Segment& load) const;
  std::vector<Range> code_among_data(const image::Segment& load) const;
  std::vector<x86::CodeRange> bytes_of(std::span<const Range> ranges) const;
  // Code that the kernel restarts when it was interrupted (rseq): it must run where its table says.
  std::vector<Range> restartable_;
};

}  // namespace uscope::session
