#include "image/exceptions/landing_pads.h"

#include <algorithm>

#include "image/exceptions/encoded_pointer.h"

namespace uscope::image {
namespace {

constexpr uint8_t omitted = 0xff;

struct CallSite {
  uint64_t begin, end;
  uint64_t pad;  // 0: none
};

// The call-site table: ranges of calls, each with the pad its exceptions go to. False if it is broken.
template <typename Visit>
bool for_each_call_site(Bytes table, uint8_t encoding, uint64_t start, Visit visit) {
  ByteReader reader(table);
  while (!reader.at_end()) {
    auto call = read_encoded_pointer(reader, encoding, 0);
    auto length = read_encoded_pointer(reader, encoding, 0);
    auto pad = read_encoded_pointer(reader, encoding, 0);
    reader.uleb128();  // the action: which catch block, which is the pad's own business
    if (!call || !length || !pad || !reader) return false;
    visit(CallSite{start + *call, start + *call + *length, *pad != 0 ? start + *pad : 0});
  }
  return true;
}

// Of a function that has an LSDA.
template <typename Visit>
bool read_call_sites(const ElfFile& file, const UnwindEntry& entry, Visit visit) {
  Bytes bytes = file.bytes_from(ImageAddr{*entry.lsda});
  ByteReader reader(bytes);
  uint64_t start = entry.begin;
  if (uint8_t encoding = reader.u8(); encoding != omitted) {
    auto given = read_encoded_pointer(reader, encoding, *entry.lsda);
    if (!given) return false;
    start = *given;
  }
  if (reader.u8() != omitted) reader.uleb128();  // where the types end
  uint8_t encoding = reader.u8();
  uint64_t size = reader.uleb128();
  // A call is two bytes at least, a row some bytes more: what is far larger than its code is no table.
  constexpr uint64_t most_per_byte = 16;
  if (!reader || size > reader.remaining() || size / most_per_byte > entry.end - entry.begin) return false;
  return for_each_call_site(reader.take(size), encoding, start, visit);
}

}  // namespace

LandingPads read_landing_pads(const ElfFile& file, const UnwindEntry& entry) {
  LandingPads pads;
  if (!entry.lsda) return pads;
  pads.is_complete = read_call_sites(file, entry, [&](const CallSite& site) {
    // Neighbouring calls mostly share a pad.
    if (site.pad != 0 && (pads.addresses.empty() || pads.addresses.back() != site.pad))
      pads.addresses.push_back(site.pad);
  });
  std::ranges::sort(pads.addresses);
  auto repeated = std::ranges::unique(pads.addresses);
  pads.addresses.erase(repeated.begin(), repeated.end());
  return pads;
}

bool lands_from(const ElfFile& file, const UnwindEntry& entry, uint64_t address) {
  if (!entry.lsda) return false;
  bool lands = false;
  const bool is_whole = read_call_sites(file, entry, [&](const CallSite& site) {
    lands |= site.pad != 0 && address >= site.begin && address < site.end;
  });
  return lands || !is_whole;
}

}  // namespace uscope::image
