// The entries of .eh_frame and .debug_frame: which function each is for and its program of frame
// instructions. Bounded against lying lengths; damaged entries are skipped. Owns nothing. Internal to
// unwind/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"

namespace uscope::image {

struct FrameSection {
  Bytes bytes;
  uint64_t address = 0;  // where it is loaded; 0 for .debug_frame
  bool is_eh = false;
  bool ends_at_zero = false;  // its size is not known: an entry of length 0 is the last
};

// What a group of functions has in common.
struct CommonEntry {
  uint64_t code_align = 1;
  int64_t data_align = 1;
  uint8_t pointer_encoding = 0;
  bool has_augmentation_data = false;
  bool is_signal_frame = false;
  Bytes program;
};

struct FunctionEntry {
  uint64_t begin = 0, end = 0;  // image addresses
  const CommonEntry* common = nullptr;
  uint8_t pointer_encoding = 0;
  Bytes program;
};

// Every function's entry in the order of the section. False: some entry was damaged.
bool for_each_entry(const FrameSection& section, const std::function<void(const FunctionEntry&)>& visit);

}  // namespace uscope::image
