// Decompression of what ELF files carry compressed: zlib and zstd sections, xz mini debug info. Output is
// bounded by what the caller allows, never by what the file claims; memory is touched only as output is
// really produced.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"

namespace uscope::image {

// A block of bytes on the heap. Moving it leaves its bytes where they are, so views into it stay good.
class OwnedBytes {
 public:
  OwnedBytes() = default;
  OwnedBytes(std::unique_ptr<uint8_t[]> data, size_t size) : data_(std::move(data)), size_(size) {}

  Bytes bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
};

// Exactly `size` bytes of output are expected; fewer or more is an Error.
Result<OwnedBytes> decompress_zlib(Bytes input, uint64_t size, uint64_t limit);
Result<OwnedBytes> decompress_zstd(Bytes input, uint64_t size, uint64_t limit);
// The size is found while decompressing.
Result<OwnedBytes> decompress_xz(Bytes input, uint64_t limit);

}  // namespace uscope::image
