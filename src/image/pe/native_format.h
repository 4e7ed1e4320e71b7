// The "native format" containers of ReadyToRun images: a sparse array and a hash table, both read in place.
// All offsets are counted from the start of the bytes the container was opened on. Owns nothing; bounded on
// lying input.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace uscope::image {

// The variable-length integers of the format; a malformed or cut one fails the reader.
uint32_t read_native_unsigned(ByteReader& reader);
int32_t read_native_signed(ByteReader& reader);

// Maps an index to the offset of that element's data. Not every index has an element.
class NativeArray {
 public:
  explicit NativeArray(Bytes bytes);

  // The number of indexes, at most 16 for each byte there is, whatever the header claims.
  uint32_t size() const { return size_; }
  std::optional<uint64_t> find(uint32_t index) const;

 private:
  Bytes bytes_;
  uint64_t base_ = 0;
  uint32_t size_ = 0;
  unsigned index_width_ = 0;
};

class NativeHashtable {
 public:
  explicit NativeHashtable(Bytes bytes);

  bool valid() const { return index_width_ != 0; }
  // Calls visit(offset of the entry's data) for each entry. False: the table is malformed, or larger than its
  // bytes could hold, and the walk stopped early.
  template <typename Visit>
  bool for_each(Visit&& visit) const;

 private:
  struct Bucket {
    uint64_t begin, end;
  };
  std::optional<Bucket> bucket(uint64_t index) const;

  Bytes bytes_;
  uint64_t buckets_ = 0;
  unsigned index_width_ = 0;
};

template <typename Visit>
bool NativeHashtable::for_each(Visit&& visit) const {
  if (!valid()) return false;
  // An honest entry takes two bytes or more of a bucket that is its own; buckets that overlap could otherwise
  // make a small file describe a huge table.
  uint64_t budget = bytes_.size() / 2;
  for (uint64_t index = 0; index < buckets_; ++index) {
    auto range = bucket(index);
    if (!range) return false;
    ByteReader reader(bytes_, range->begin);
    while (reader.position() < range->end) {
      if (budget-- == 0) return false;
      reader.skip(1);  // the low byte of the hash code
      uint64_t from = reader.position();
      int64_t target = int64_t(from) + read_native_signed(reader);
      if (reader.failed() || target < 0 || uint64_t(target) >= bytes_.size()) return false;
      visit(uint64_t(target));
    }
  }
  return true;
}

}  // namespace uscope::image
