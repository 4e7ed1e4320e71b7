#include "image/exceptions/landing_pads.h"

#include <algorithm>

#include "image/exceptions/encoded_pointer.h"

namespace uscope::image {
namespace {

constexpr uint8_t omitted = 0xff;

// The call-site table: ranges of calls, each with the pad its exceptions go to, relative to a start.
LandingPads read_call_sites(Bytes table, uint8_t encoding, uint64_t start) {
  LandingPads pads;
  ByteReader reader(table);
  while (!reader.at_end()) {
    auto call = read_encoded_pointer(reader, encoding, 0);
    auto length = read_encoded_pointer(reader, encoding, 0);
    auto pad = read_encoded_pointer(reader, encoding, 0);
    reader.uleb128();  // the action: which catch block, which is the pad's own business
    if (!call || !length || !pad || !reader) {
      pads.is_complete = false;
      break;
    }
    // Neighbouring calls mostly share a pad.
    if (*pad != 0 && (pads.addresses.empty() || pads.addresses.back() != start + *pad))
      pads.addresses.push_back(start + *pad);
  }
  std::ranges::sort(pads.addresses);
  auto repeated = std::ranges::unique(pads.addresses);
  pads.addresses.erase(repeated.begin(), repeated.end());
  return pads;
}

}  // namespace

LandingPads read_landing_pads(const ElfFile& file, const UnwindEntry& entry) {
  if (!entry.lsda) return {};
  LandingPads broken;
  broken.is_complete = false;
  Bytes bytes = file.bytes_from(ImageAddr{*entry.lsda});
  ByteReader reader(bytes);
  uint64_t start = entry.begin;
  if (uint8_t encoding = reader.u8(); encoding != omitted) {
    auto given = read_encoded_pointer(reader, encoding, *entry.lsda);
    if (!given) return broken;
    start = *given;
  }
  if (reader.u8() != omitted) reader.uleb128();  // where the types end
  uint8_t encoding = reader.u8();
  uint64_t size = reader.uleb128();
  // A call is two bytes at least, a row some bytes more: what is far larger than its code is no table.
  constexpr uint64_t most_per_byte = 16;
  if (!reader || size > reader.remaining() || size / most_per_byte > entry.end - entry.begin) return broken;
  return read_call_sites(reader.take(size), encoding, start);
}

}  // namespace uscope::image
