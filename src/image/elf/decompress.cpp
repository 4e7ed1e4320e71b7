#include "image/elf/decompress.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace uscope::image {
namespace {

// No stream of zlib's expands more than 1032 times; a claim beyond that is a lie and needs no memory to
// refute.
constexpr uint64_t zlib_largest_ratio = 1040;
constexpr uint64_t xz_decoder_memory = uint64_t(128) << 20;

// Not zeroed: a large block takes memory only where output is written.
std::unique_ptr<uint8_t[]> allocate(uint64_t size) {
  return std::unique_ptr<uint8_t[]>(new (std::nothrow) uint8_t[size]);
}

Result<std::unique_ptr<uint8_t[]>> allocate_output(uint64_t size, uint64_t limit) {
  if (size > limit) {
    return fail(fmt::format(
        "the data claims to be {} bytes when decompressed, more than the {} uscope allows", size, limit));
  }
  auto data = allocate(size);
  if (!data) return fail(fmt::format("no memory for {} bytes of decompressed data", size));
  return data;
}

}  // namespace

Result<OwnedBytes> decompress_zlib(Bytes input, uint64_t size, uint64_t limit) {
  if (size / zlib_largest_ratio > input.size())
    return fail("the zlib data is too short for the size it claims");
  TRY(auto data, allocate_output(size, limit));
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return fail("starting zlib failed");
  uint64_t consumed = 0, produced = 0;
  int status = Z_OK;
  // zlib counts in 32 bits, so large data goes through it in pieces.
  constexpr uint64_t piece = uint64_t(1) << 30;
  while (status == Z_OK) {
    uint64_t in = std::min(input.size() - consumed, piece), out = std::min(size - produced, piece);
    stream.next_in = const_cast<Bytef*>(input.data() + consumed);
    stream.avail_in = uInt(in);
    stream.next_out = data.get() + produced;
    stream.avail_out = uInt(out);
    status = inflate(&stream, Z_NO_FLUSH);
    uint64_t took = in - stream.avail_in, gave = out - stream.avail_out;
    consumed += took;
    produced += gave;
    if (took == 0 && gave == 0) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || produced != size) return fail("the zlib data is damaged");
  return OwnedBytes(std::move(data), size);
}

Result<OwnedBytes> decompress_zstd(Bytes input, uint64_t size, uint64_t limit) {
  TRY(auto data, allocate_output(size, limit));
  size_t produced = ZSTD_decompress(data.get(), size, input.data(), input.size());
  if (ZSTD_isError(produced))
    return fail(fmt::format("the zstd data is damaged: {}", ZSTD_getErrorName(produced)));
  if (produced != size) return fail("the zstd data is shorter than it claims");
  return OwnedBytes(std::move(data), size);
}

Result<OwnedBytes> decompress_xz(Bytes input, uint64_t limit) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, xz_decoder_memory, 0) != LZMA_OK)
    return fail("starting the xz decoder failed");
  std::unique_ptr<lzma_stream, decltype(&lzma_end)> ending(&stream, &lzma_end);
  uint64_t capacity = std::min<uint64_t>(limit, std::max<uint64_t>(input.size() * 4, 4096)), produced = 0;
  auto data = allocate(capacity);
  if (!data) return fail("no memory for decompressed data");
  stream.next_in = input.data();
  stream.avail_in = input.size();
  for (;;) {
    stream.next_out = data.get() + produced;
    stream.avail_out = capacity - produced;
    lzma_ret status = lzma_code(&stream, LZMA_FINISH);
    produced = capacity - stream.avail_out;
    if (status == LZMA_STREAM_END) return OwnedBytes(std::move(data), produced);
    if (status == LZMA_MEMLIMIT_ERROR)
      return fail("the xz data needs more memory to unpack than uscope allows");
    bool full = stream.avail_out == 0;
    if ((status != LZMA_OK && status != LZMA_BUF_ERROR) || !full) return fail("the xz data is damaged");
    if (capacity == limit)
      return fail(fmt::format("the xz data unpacks to more than the {} bytes allowed", limit));
    uint64_t larger = std::min(limit, capacity * 2);
    auto grown = allocate(larger);
    if (!grown) return fail("no memory for decompressed data");
    std::memcpy(grown.get(), data.get(), produced);
    data = std::move(grown);
    capacity = larger;
  }
}

}  // namespace uscope::image
