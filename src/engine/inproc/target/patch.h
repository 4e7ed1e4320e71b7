// A patch: the few bytes that lead a place in the target into its stub, and what was there before. Plain
// data, made by planning, written and taken back by the Surgeon, journalled in the target's own memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"

namespace uscope::engine::inproc {

inline constexpr unsigned max_patch_size = 16;
inline constexpr uint8_t breakpoint = 0xcc;

struct Patch {
  ProcessAddr address;
  uint8_t size = 0;  // bytes written
  // From its start on, bytes of code that run elsewhere while it is in place: those that it destroys, and
  // perhaps the next instructions.
  uint8_t moved = 0;
  // Where in it a jump stands that only another patch leads to. Execution can stand there, and once the
  // original bytes are back it must be led on to where the jump went.
  std::optional<uint8_t> hole_offset;
  // The hole that a short jump leads to; without that patch this one must not be made. 0: none.
  ProcessAddr via;
  // Those with the same number are all made, or none. 0: it stands alone.
  ProcessAddr bundle;
  // Our own code uses it: it goes only when no thread is in that code any more, in the stop that unmaps it.
  bool goes_last = false;
  std::array<uint8_t, max_patch_size> original{};
  std::array<uint8_t, max_patch_size> replacement{};
  // The instructions behind the first one that the patch destroys, ascending: a thread found at `original`
  // goes on at `copy`.
  struct Place {
    ProcessAddr original;
    ProcessAddr copy;
  };
  std::vector<Place> places;

  ProcessAddr end() const { return address + size; }
  Bytes original_bytes() const { return Bytes(original).first(size); }
  Bytes replacement_bytes() const { return Bytes(replacement).first(size); }
  bool contains(ProcessAddr a) const { return a >= address && a - address < size; }
  // Whether the bytes that are now at `address` are its own. The kernel may have set another tracer's
  // breakpoint on the first of them, or have put back the file's when that was taken out again.
  bool is_in(Bytes now) const;
  // Where execution that stands at the hole's jump goes.
  ProcessAddr hole_target() const;
};

// A stretch of the target's addresses.
struct AddressSpan {
  ProcessAddr start;
  uint64_t size = 0;

  ProcessAddr end() const { return start + size; }
  bool contains(ProcessAddr a) const { return a >= start && a - start < size; }
  friend bool operator==(const AddressSpan&, const AddressSpan&) = default;
};

}  // namespace uscope::engine::inproc
