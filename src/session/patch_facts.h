// What the in-process engine must know of an image's code before it patches it: implements the engine's
// TextFacts over an opened image. Borrows the image. One thread.
#pragma once

#include <vector>

#include "engine/inproc/target/text_facts.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

class PatchFacts final : public engine::inproc::TextFacts {
 public:
  explicit PatchFacts(const symbols::ImageSymbols& image);

  std::optional<ImageAddr> address_of(FileOffset offset) override { return image_.image_address(offset); }
  std::optional<engine::inproc::FunctionFacts> function_at(ImageAddr address) override;
  std::vector<x86::CodeRange> text() override;
  std::vector<Filler> filler_near(ImageAddr address, uint64_t distance, uint64_t size) override;
  std::optional<GoFacts> go_facts() override { return go_facts_; }

 private:
  std::optional<symbols::FunctionSymbol> symbol_at(ImageAddr address) const;
  Bytes filler_behind(ImageAddr end) const;
  std::string why_forbidden(const symbols::FunctionSymbol& function, uint64_t begin, uint64_t end) const;
  void read_restartable_sequences();
  void read_go_facts();

  const symbols::ImageSymbols& image_;
  std::optional<GoFacts> go_facts_;
  bool parks_anywhere_ = false;
  struct Range {
    uint64_t begin, end;
  };
  // Code that the kernel restarts when it was interrupted (rseq): it must run where its table says.
  std::vector<Range> restartable_;
};

}  // namespace uscope::session
