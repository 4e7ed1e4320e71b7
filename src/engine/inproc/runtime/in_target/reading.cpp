// Reading the target's memory. A bad address gives an error, never a fault that the target could see: loads
// go to where memory is known to be mapped, or through the gate where the kernel lets them fail; where it has
// no such gate, the kernel reads for us. See docs/decisions/inproc-reads.md.
#include "engine/inproc/runtime/in_target/calls.h"

namespace uscope::engine::inproc {
namespace {

constexpr int64_t kFault = -14;
constexpr uint64_t kPage = 4096;

struct Range {
  uint64_t address, size;
};

int64_t fault(uint8_t* to, uint64_t size) {
  zero_bytes(to, size);
  return kFault;
}

void store_bytes(uint8_t* to, uint64_t word, uint64_t size) {
  if (size == 8) {
    __builtin_memcpy(to, &word, 8);
    return;
  }
  for (uint64_t i = 0; i < size; i++, word >>= 8) to[i] = uint8_t(word);
}

// A word with a bit in the first byte that is 0, and none before it.
uint64_t nuls_of(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  return (word - kOnes) & ~word & kHighs;
}

// How many bytes from the start could be read.
uint64_t read_remote(Slot* slot, uint8_t* to, uint64_t from, uint64_t size) {
  // One piece a page: the kernel stops at the first piece that it cannot read.
  constexpr uint64_t kPieces = 16;
  Range pieces[kPieces];
  uint64_t done = 0;
  while (done < size) {
    uint64_t count = 0, wanted = 0;
    for (; count < kPieces && done + wanted < size; count++) {
      const uint64_t at = from + done + wanted;
      const uint64_t room = kPage - at % kPage, left = size - done - wanted;
      pieces[count] = {at, room < left ? room : left};
      wanted += pieces[count].size;
    }
    const Range local = {(uint64_t)to + done, wanted};
    const int64_t got = read_by_kernel(slot, &local, pieces, count);
    if (got <= 0) break;
    done += uint64_t(got);
    if (uint64_t(got) < wanted) break;
  }
  return done;
}

// The eight bytes at an address that is a multiple of 8.
struct GuardedWord {
  uint64_t word, fault;
};
inline GuardedWord load_guarded(uint64_t gate, uint64_t from) {
  GuardedWord got{0, 0};
  __asm__ volatile("call *%[gate]"
                   : "=&a"(got.word), "+D"(got.fault), "+S"(from)
                   : [gate] "r"(gate)
                   : "rdx", "cc", "memory");
  return got;
}

// 0: there is none, or it is not for these bytes.
uint64_t gate_for(const Slot* slot, uint64_t from, uint64_t size) {
  const ReadableMemory& known = ((const PrivateHeader*)slot->home)->known;
  const bool may_grow = from < known.may_grow.end && from + size > known.may_grow.begin;
  return may_grow ? 0 : known.load_gate;
}

// How many bytes from the start could be read; of a text, up to its first NUL and with it (`ends` says that
// there was one), and nothing of what lies behind it.
template <bool kIsText>
uint64_t read_guarded(uint64_t gate, uint8_t* to, uint64_t from, uint64_t size, bool* ends = nullptr) {
  for (uint64_t done = 0; done < size;) {
    const uint64_t at = from + done, before = at % 8;
    GuardedWord got = load_guarded(gate, at - before);
    if (got.fault) return done;
    got.word >>= before * 8;
    const uint64_t left = size - done, have = 8 - before < left ? 8 - before : left;
    const uint64_t nuls = kIsText ? nuls_of(got.word) : 0;
    const uint64_t text = nuls ? uint64_t(__builtin_ctzll(nuls)) / 8 : 8;
    if (text < have) {
      store_bytes(to + done, got.word, text + 1);
      *ends = true;
      return done + text + 1;
    }
    store_bytes(to + done, got.word, have);
    done += have;
  }
  return size;
}

// Whether a page is the thread's stack too: all from there to what is known is mapped.
bool extend_stack(Slot* slot, uint64_t page) {
  if (!is_all_mapped(slot, page, slot->stack.begin)) return false;
  slot->stack.begin = page;
  return true;
}

// How many bytes from an address on are the slot's own, or shared with uscope.
uint64_t own_bytes(const Slot* slot, uint64_t from) {
  const uint64_t slot_end = (uint64_t)slot + kSlotHeader, slot_begin = slot_end - kSlotStride;
  if (from >= slot_begin && from < slot_end) return slot_end - from;
  const uint64_t offset = from - slot->shared;
  return offset < slot->shared_bytes ? slot->shared_bytes - offset : 0;
}

bool is_certain(Slot* slot, uint64_t from, uint64_t size) { return size <= certain_bytes(slot, from); }

// Up to the first NUL and with it, at most `most` bytes; how many. 0: there is none in them.
uint64_t copy_until_nul(uint8_t* to, const uint8_t* from, uint64_t most) {
  uint64_t at = 0;
  for (; at + 8 <= most; at += 8) {
    uint64_t word = load_word(from + at);
    const uint64_t nuls = nuls_of(word);
    if (nuls == 0) {
      __builtin_memcpy(to + at, &word, 8);
      continue;
    }
    // Nothing of what lies behind the text in the program's memory.
    const auto bits = uint32_t(__builtin_ctzll(nuls)) & ~7u;
    word &= (uint64_t(1) << bits) - 1;
    __builtin_memcpy(to + at, &word, 8);
    return at + bits / 8 + 1;
  }
  for (; at < most; at++)
    if ((to[at] = from[at]) == 0) return at + 1;
  return 0;
}

}  // namespace

uint64_t certain_bytes(Slot* slot, uint64_t from) {
  const uint64_t page = slot->busy & ~(kPage - 1);
  if (from < kPage) return 0;
  if (from >= page && from < slot->stack.end && (page >= slot->stack.begin || extend_stack(slot, page)))
    return slot->stack.end - from;
  if (from - page < kPage) return kPage - (from - page);
  for (const AddressRange& range : ((const PrivateHeader*)slot->home)->known.constant)
    if (from >= range.begin && from < range.end) return range.end - from;
  return 0;
}

bool load_through_gate(const Slot* slot, uint8_t* to, uint64_t from, uint64_t size) {
  const uint64_t gate = gate_for(slot, from, size);
  return gate && read_guarded<false>(gate, to, from, size) == size;
}

// The bytes up to the first NUL, at most size with it; returns how many, with the NUL.
static int64_t read_text(uint8_t* to, uint64_t size, uint64_t from, Slot* slot) {
  const uint64_t certain = certain_bytes(slot, from);
  uint64_t have = certain < size ? certain : size, length = have;
  if (have > 0)
    if (const uint64_t got = copy_until_nul(to, (const uint8_t*)from, have)) return int64_t(got);
  if (from < kPage || from + size < from) return fault(to, size);
  if (const uint64_t gate = gate_for(slot, from, size)) {
    bool ends = false;
    length = have += read_guarded<true>(gate, to + have, from + have, size - have, &ends);
    if (ends) return int64_t(have);
    if (have < size) return fault(to, size);
  }
  // Most texts are short.
  constexpr uint64_t kFirst = 128;
  for (uint64_t most = size < 2 * kFirst ? size : kFirst; length == have && have < size; most = size) {
    const uint64_t wanted = most < size - have ? most : size - have;
    const uint64_t got = read_remote(slot, to + have, from + have, wanted);
    have += got;
    while (length < have && to[length] != 0) length++;
    if (got < wanted) break;
  }
  if (length == have && have < size) return fault(to, size);
  if (length == size) length = size - 1;
  // Nothing of what lies behind the text in the program's memory.
  zero_bytes(to + length, have - length);
  return int64_t(length) + 1;
}

extern "C" {

int64_t uscope_read(uint8_t* to, uint64_t size, uint64_t from, uint64_t, uint64_t, Slot* slot) {
  if (size == 0) return 0;
  if (is_certain(slot, from, size)) {
    copy_bytes(to, (const uint8_t*)from, size);
    return 0;
  }
  if (from < kPage || from + size < from) return fault(to, size);
  const uint64_t gate = gate_for(slot, from, size);
  const uint64_t got = gate ? read_guarded<false>(gate, to, from, size) : read_remote(slot, to, from, size);
  return got == size ? 0 : fault(to, size);
}

int64_t uscope_read_text(uint8_t* to, uint64_t size, uint64_t from, uint64_t, uint64_t, Slot* slot) {
  if (size == 0) return 0;
  const int64_t got = read_text(to, size, from, slot);
  slot->text = slot->cleared;
  slot->text.end = got > 0 ? uint32_t(got) - 1 : 0;
  if (slot->text.address != (uint64_t)to || slot->text.size != size) slot->text.address = 0;
  slot->cleared.address = 0;
  return got;
}

// From our own memory. As the kernel's probe_read_kernel: any other address fails, and zeroes. That there is
// no kernel's memory here a script may not know.
int64_t uscope_copy(uint8_t* to, uint64_t size, const uint8_t* from, uint64_t, uint64_t, Slot* slot) {
  if (size > own_bytes(slot, (uint64_t)from)) {
    zero_bytes(to, size);
    slot->cleared = {(uint64_t)to, uint32_t(size), 0};
    return kFault;
  }
  copy_bytes(to, from, size);
  return 0;
}

int64_t uscope_copy_text(uint8_t* to, uint64_t size, const uint8_t* from, uint64_t, uint64_t, Slot* slot) {
  if (size == 0) return 0;
  const uint64_t most = own_bytes(slot, (uint64_t)from);
  if (most == 0) {
    zero_bytes(to, size);
    return kFault;
  }
  uint64_t length = 0;
  for (; length + 1 < size && length < most && from[length] != 0; length++) to[length] = from[length];
  to[length] = 0;
  return int64_t(length) + 1;
}

int64_t uscope_compare_text(const uint8_t* a, uint64_t size, const uint8_t* b, uint64_t, uint64_t, Slot*) {
  for (uint64_t i = 0; i < size; i++) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    if (a[i] == 0) break;
  }
  return 0;
}
}

}  // namespace uscope::engine::inproc
