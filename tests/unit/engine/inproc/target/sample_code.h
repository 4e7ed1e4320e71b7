// Functions of known bytes to patch, in this very process (a forked child has them at the same addresses),
// and the facts about them that images would give.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/inproc/target/text_facts.h"

extern "C" {
long sample_twice(long);    // endbr64, a frame, ret
long sample_tiny(long);     // 4 bytes and filler behind them
long sample_loop(long);     // counts down to its own second instruction
long sample_pushes(long);   // entry window of one-byte instructions: threads stand inside it
long sample_branchy(long);  // two returns
// A return of one byte that two jumps and the code above lead to, with other code right behind it.
long sample_lone_return(long);
extern const uint8_t sample_lone_return_at[];
// Runs through the filler behind it into the next.
long sample_runs_on(long);
extern const uint8_t sample_runs_on_filler[];
long sample_next(long);
// Fills memory with one instruction, in its entry window: a thread stands inside it for long.
long sample_fill(void* memory, long value, long count);
extern const uint8_t sample_fill_end[], sample_twice_end[], sample_tiny_end[], sample_loop_end[],
    sample_pushes_end[], sample_branchy_end[], sample_lone_return_end[], sample_runs_on_end[],
    sample_next_end[];
}

namespace uscope::engine::inproc {

class SampleFacts : public TextFacts {
 public:
  SampleFacts();
  std::optional<ImageAddr> address_of(FileOffset offset) override { return ImageAddr{offset.value}; }
  std::optional<FunctionFacts> function_at(ImageAddr address) override;
  std::vector<x86::CodeRange> text() override;
  std::vector<Filler> filler_near(ImageAddr address, uint64_t distance, uint64_t size) override;

  // For tests: more places that something jumps to.
  std::vector<uint64_t> leaders;
  uint64_t padding_behind = 0;

 private:
  std::map<uint64_t, uint64_t> functions_;  // start -> end
};

template <typename F>
ImageAddr address_of(F* function) {
  return ImageAddr{uint64_t(function)};
}

}  // namespace uscope::engine::inproc
