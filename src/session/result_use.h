// Whether a function that only its own file can call still returns what its type says. A compiler that sees
// all callers may drop a result that none of them uses, or that is always the same; the register then holds
// anything. One caller that reads the register after its call proves that it did not. Reads all of an
// image's code once, when first asked. One thread; the image must outlive it.
#pragma once

#include <vector>

#include "image/location.h"
#include "symbols/image_symbols.h"
#include "x86/registers.h"

namespace uscope::session {

class ResultUse {
 public:
  explicit ResultUse(const symbols::ImageSymbols& image) : image_(image) {}

  // Whether the compiler can have changed the function: no other file can name it. gcc says so in the name of
  // the copy that it changes (work.isra.0).
  bool is_in_doubt(ImageAddr entry, bool by_gcc) const;
  // Every register of the place is read by some caller, or the function is called through a pointer.
  bool is_proven(ImageAddr entry, const image::Location& place, bool by_gcc) const;

 private:
  struct Call {
    uint64_t target, next;  // `next`: what runs after the return
  };
  void find_calls() const;
  x86::RegisterSet read_after(uint64_t address, x86::RegisterSet wanted) const;
  bool writes(ImageAddr entry, x86::RegisterSet wanted) const;

  const symbols::ImageSymbols& image_;
  mutable bool has_calls_ = false;
  mutable std::vector<Call> calls_;       // by target
  mutable std::vector<uint64_t> loaded_;  // addresses that code computes, sorted
};

}  // namespace uscope::session
