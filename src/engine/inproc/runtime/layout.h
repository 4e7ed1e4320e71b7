// How the memory of a traced target is laid out: what the compiled code, the runtime inside the target and
// the reader outside agree on. Plain structs of fixed layout, used freestanding as well: no constructors, no
// addresses in shared memory (the two sides map it at different places), only offsets from its start.
//
// Shared memory (a memfd): SharedHeader, MapInfo[], MapLive[], then the maps' own parts, the chunks of the
// ring buffer, and one ThreadBlock a thread with its copies of per-thread values. Private memory:
// PrivateHeader, hints, a table of the threads, all of which a forked child finds wiped; then their Slots,
// each with the stack that probe code runs on. Those it finds as they were: a signal handler that interrupts
// a probe may fork, and return in the child.
//
// A thread takes the lowest number that is free: of its ThreadBlock, which no other thread of any process
// that shares the memory has, and of its Slot. When it has ended, its number is taken back, see
// target/ended_threads.h, and the next thread goes on with the block as it is.
//
// The traced process can write to all of the shared memory. So uscope takes where things lie and how large
// they are from nowhere in it: its own code has MapInfos of its own, and the rest is in Slots or in the code.
// A number that does come from there (of an element, a chunk) is compared with the MapInfo's before it
// becomes an address.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace uscope::engine::inproc {

inline constexpr uint64_t kAlive = 0x65706f6373757375;  // in PrivateHeader; a forked child reads 0
// What such a child puts there, once it has said so, and a process that is about to go under seccomp: its
// probes do nothing from then on.
inline constexpr uint64_t kSwitchedOff = ~kAlive;
inline constexpr uint32_t kCacheLine = 64;
// No more threads at once than this, and copies of a per-thread value; those beyond it are not traced, and
// counted.
inline constexpr uint32_t kMostThreads = 4096;
inline constexpr uint32_t kSlotBits = 12;
static_assert(kMostThreads == 1u << kSlotBits);
inline constexpr uint32_t kSlotShift = 18;  // 256 KiB each: signal handlers may run on it too
inline constexpr uint64_t kSlotHash = 0x9e3779b97f4a7c15;
inline constexpr uint32_t kSlotHeader = 1024;  // at the slot's end; the stack grows down from it
inline constexpr uint32_t kBpfStack = 512;
inline constexpr uint32_t kChunkBytes = 65536;             // holds the largest record
inline constexpr uint32_t kChunkCount = 2 * kMostThreads;  // each thread fills one
// Those that wait to be read are memory of the target's: a part of what it may have, between these.
inline constexpr uint32_t kWaitingPart = 16;
inline constexpr uint32_t kFewestWaiting = (4 << 20) / kChunkBytes, kMostWaiting = (256 << 20) / kChunkBytes;
inline constexpr uint32_t kNone = 0xffffffff;
// What one hit may cost, in rounds of a loop, each of some nanoseconds: then its loops end.
inline constexpr int32_t kRoundsOfHit = 8 << 20, kRoundsOfCall = 16, kRoundsOfKernelRead = 512;
inline constexpr uint32_t kMostConstant = 4;        // ranges of memory that never changes
inline constexpr uint32_t kMostNewChildren = 1024;  // that the reader has not looked at yet; a power of two

inline constexpr uint32_t kLibraryNotice = 0, kExecNotice = 1;
inline constexpr uint32_t kSandboxNotice = 2, kSandboxAllNotice = 3;  // of one thread, of all

// As the kernel's pt_regs: what a probe's context is.
struct Registers {
  uint64_t r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

// Behind them in a context, 16 bytes each: what the kernel's context has not.
inline constexpr uint32_t kVectors = 16, kVectorBytes = 16;

// An entry that waits for its exit. A thread has a table of them at its slot's far end, in sets.
struct OpenCall {
  uint64_t sp;  // 0: free
  uint64_t cookie;
  uint64_t time;
};
// Behind that table: which rule a return address had, by a hash of it, as long as `renewed` is the list's.
struct KnownRule {
  uint64_t address;
  uint32_t renewed;
  uint32_t rule;
};
inline constexpr uint32_t kKnownRuleBits = 8;

inline constexpr uint32_t kCallWays = 4, kCallSetBits = 9;
inline constexpr uint64_t kOpenCallsBytes = sizeof(OpenCall) * kCallWays << kCallSetBits;
inline constexpr uint32_t kCallHash = 0x9e3779b1;
inline uint32_t open_call_set(uint64_t sp, uint64_t cookie) {
  return (uint32_t(sp >> 4) + uint32_t(cookie) * kCallHash) * kCallHash >> (32 - kCallSetBits);
}

struct AddressRange {
  uint64_t begin, end;  // end is the first address behind it
};

struct Slot {
  uint64_t tag;     // the thread pointer + 1, once its block is there; until then 0
  uint64_t busy;    // the user's stack pointer while a probe runs here; 0: none does
  uint64_t values;  // address of the thread's ThreadBlock; 0: the thread is new
  uint64_t site;    // address of the SiteRecord of the probe that runs
  uint64_t
      tid_word;  // address of a word that the target's C library or runtime keeps the thread's id in; 0: none
  uint32_t tid;  // as it was when last asked for
  uint32_t pid;
  uint32_t index;               // of this and of the ThreadBlock
  uint32_t had_another_thread;  // 1: what lies at its far end is that one's
  uint64_t claimed;             // the tag, as soon as a thread has this slot
  uint32_t chunk;               // being filled, + 1; 0: none
  uint32_t chunk_used;          // bytes
  uint64_t random;
  int64_t rounds_left;  // of the loops of this hit
  uint32_t shown_pid;   // as uscope sees it
  uint32_t pad;
  uint64_t home;          // address of the PrivateHeader
  uint64_t shared;        // of the SharedHeader
  uint64_t shared_bytes;  // from there on
  AddressRange stack;     // a part of the thread's stack, up to its top, that is known to be mapped; or empty
  // The buffer that was last made all zero, and the one that a text was last put in behind such a clearing:
  // its bytes from `end` on are 0. For a lookup right after it, see ValueFlow::looks_up_text.
  struct {
    uint64_t address;
    uint32_t size, end;
  } cleared, text;
  Registers registers;
  uint64_t vectors[kVectors * kVectorBytes / 8];  // xmm0 and on: where the context goes on
};
static_assert(sizeof(Slot) <= kSlotHeader);
static_assert(offsetof(Slot, vectors) == offsetof(Slot, registers) + sizeof(Registers));

// Memory of a process that can be read without asking the kernel, see docs/decisions/inproc-reads.md.
struct ReadableMemory {
  AddressRange first_stack;              // of the first thread, as it was at the attach; it grows downwards
  AddressRange constant[kMostConstant];  // what never changes; unused ones are empty
  // Where a load may fail: called with an address that is a multiple of 8 in rsi and 0 in rdi, returns what
  // is there in rax, or with something else in rdi. 0: there is no such place. Not for what is in `may_grow`:
  // the kernel would make the stack grow for it.
  uint64_t load_gate;
  AddressRange may_grow;
};

struct PrivateHeader {
  uint64_t alive;
  uint64_t shared;  // where the shared memory lies in this process
  uint64_t is_own;  // 1: this is uscope's own process, which has the first ThreadBlock
  uint64_t knows;   // 1: `known` is there; a followed child takes it from the shared memory
  uint32_t pid;     // as the process sees itself
  uint32_t pad[7];
  ReadableMemory known;
  uint64_t reserved[504 - sizeof(ReadableMemory) / 8];
};
static_assert(sizeof(PrivateHeader) == 4096);

// What a stub tells of its site; lies behind the stub's code.
struct SiteRecord {
  uint64_t cookie;
  uint64_t address;
  int32_t sp_offset;  // from the stack pointer that Slot::busy holds to the one at the site
  int32_t ax_offset;  // from there to where the stub has kept rax
};

enum class Kind : uint32_t { Array, PerThreadArray, Hash, PerThreadHash, LruHash, PerThreadLruHash, Ring };

// What a map is: never changes.
struct alignas(kCacheLine) MapInfo {
  uint64_t self;  // where this struct lies, counted from the start of the shared memory, in it or not
  uint64_t live;  // offset of the MapLive in shared memory
  Kind kind;
  uint32_t number;
  uint32_t key_size;
  uint32_t value_size;
  uint32_t value_stride;  // rounded up to 8
  uint32_t max_entries;
  uint32_t bucket_mask;
  uint32_t element_size;
  uint32_t element_count;
  uint64_t buckets;        // offset in shared memory; a Ring's are its chunks' headers
  uint64_t elements;       // and its chunks; an Array's values
  uint64_t thread_values;  // offset in a ThreadBlock
  uint32_t free_batch;     // elements that a thread takes at a time
  uint32_t thread_limit;
  uint64_t thread_blocks;  // offset; one every thread_stride bytes, thread_limit of them
  uint64_t thread_stride;
};
static_assert(sizeof(MapInfo) == 128);

// What changes of it.
struct MapLive {
  alignas(kCacheLine) uint64_t free_list;  // tag << 32 | first + 1
  uint32_t lru_hand;
  uint32_t fresh;                     // elements from here on were never used
  uint32_t linked;                    // elements in the buckets; of maps that may become full only
  alignas(kCacheLine) uint64_t lost;  // updates that gave up waiting for a lock
};
static_assert(sizeof(MapLive) == 128);

struct Bucket {
  uint32_t lock;   // 1: somebody holds it
  uint32_t first;  // element + 1; 0: none
};

// Then the key, padded to 8 bytes; then, where values are not per thread, the value.
struct Element {
  uint32_t hash;     // 0: not in use
  uint32_t next;     // element + 1 in the chain, or the end mark: kEndOfChain | bucket
  uint32_t version;  // odd while the value is being written
  uint16_t flags;
  uint16_t words;  // of the key, up to the last that is not 0; see HashMap
};
inline constexpr uint32_t kEndOfChain = 0x80000000;
inline constexpr uint32_t kEndOfFree = 0xffffffff;
inline constexpr uint16_t kReferenced = 1, kUsedBefore = 2;

struct alignas(kCacheLine) ChunkHeader {
  uint32_t next_free;  // chunk + 1
  uint32_t state;      // ChunkState
  uint32_t owner;      // index of the thread
  uint32_t committed;  // bytes of records that are whole
  uint64_t pending;    // not 0: a record is being made, with a time after the last one's
  uint32_t consumed;   // by the reader
  uint32_t reserved[9];
};
static_assert(sizeof(ChunkHeader) == kCacheLine);
enum ChunkState : uint32_t { kChunkFree, kChunkActive, kChunkFull };

// In front of each record; records are multiples of 8 bytes.
struct RecordHeader {
  uint64_t time;  // processor ticks
  uint32_t size;  // of the payload
  uint32_t reserved;
};

// What turns processor ticks into nanoseconds: ns = base + ((ticks - tick_base) * multiplier >> 32).
struct TickClock {
  uint32_t sequence;    // odd while being written
  uint32_t uses_ticks;  // 0: the processor's ticks do not serve, ask the kernel
  uint64_t tick_base;
  uint64_t multiplier;
  uint64_t monotonic_base, boottime_base, tai_base;
};

struct SharedHeader {
  uint64_t magic;
  uint32_t pid;        // the target's, as uscope sees it
  uint32_t inner_pid;  // and as it sees itself
  uint32_t parent_in_use;
  uint32_t most_waiting;  // chunks that wait to be read, besides one for each thread
  uint64_t cgroup_id;
  // Of its parent: the one in use, and one to be written next.
  struct {
    uint64_t pid;
    uint8_t name[16];
  } parents[2];
  alignas(kCacheLine) TickClock clock;
  alignas(kCacheLine) uint32_t threads_used;  // ThreadBlocks that may hold something: [0, threads_used)
  uint32_t chunks_used;                       // chunks that were ever taken: [0, chunks_used)
  uint64_t hits_without_slot;
  uint64_t hits_while_claiming;              // by a handler that came while its thread took its slot
  uint64_t free_threads[kMostThreads / 64];  // a bit for each number that a thread can take
  uint32_t follows_forks;                    // 1: a forked child's probes switch themselves on again
  uint32_t pairs_calls;                      // 1: the slots have tables of OpenCalls
  uint32_t unnamed_children;                 // forked, not followed, that have hit a probe: how often
  // Forked children that are followed say here that they hit a probe: the ids they have, as they see them.
  uint32_t children_said;
  uint32_t children[kMostNewChildren];
  // Threads that tell uscope something and wait, see in_target/notice.cpp.
  uint32_t answers_notices;   // 1: uscope listens
  uint32_t notices;           // a futex; numbered from 1
  uint32_t notice_kinds;      // bits
  uint32_t notices_answered;  // a futex; all up to this one
  uint32_t notice_in_vain;    // that a thread has waited for until it gave up; 0: none
  uint32_t exec_tid;
  // A process that is about to go under seccomp, as it sees itself, and the tag of the thread that waits.
  uint32_t sandbox_pid;
  uint64_t sandbox_tag;  // 0: none is; written first
  // The first process's, for children that are followed: they have the same. uscope's own code never looks at
  // it.
  ReadableMemory known;
};
static_assert(sizeof(SharedHeader) <= 8192);
inline constexpr uint64_t kMapInfosOffset = 8192;  // of MapInfo[] in shared memory

// The first bytes of a thread's part of the shared memory; its copies of values follow.
// For its next thread, everything is as the last one left it.
struct KeptElements {
  uint32_t count, first;  // free elements kept for this thread, linked through Element::next
};
struct alignas(kCacheLine) ThreadBlock {
  uint64_t dropped;  // hits inside our own code, by a signal handler or by the code itself
  uint32_t tid;      // the last one
  uint32_t process;  // that has this block, as it sees itself, or had it; 0: none yet
  uint64_t reserved[6];
  KeptElements kept[64];  // by map; those of later maps keep none
};
static_assert(sizeof(ThreadBlock) == 9 * kCacheLine);
// Threads of higher numbers keep none either: a map holds what it was made for, however many there are.
inline constexpr uint32_t kMostKeepers = 32;

// Behind the PrivateHeader: where to look first for the slot of the thread that runs on a stack, as offsets
// in private memory, by a hash of the stack pointer. Only a hint: the tag decides.
inline constexpr uint64_t kHintsOffset = 4096;
inline constexpr uint32_t kHintBits = 12, kHintShift = 14, kHintHash = 0x1e3779b1;
inline constexpr uint64_t kHintsBytes = uint64_t(4) << kHintBits;
// Then the threads, by a hash of their tags; the next place where one is taken. Twice as many places as
// threads, so that there is always one that was never used to end a search.
struct ThreadEntry {
  uint64_t tag;   // 0: never used; kEndedThread: free again
  uint64_t slot;  // its address; 0: its thread is just taking one
};
inline constexpr uint64_t kEndedThread = uint64_t(1) << 63;
inline constexpr uint32_t kThreadEntryBits = 13;
inline constexpr uint64_t kThreadsOffset = kHintsOffset + kHintsBytes;
inline constexpr uint64_t kThreadsBytes = sizeof(ThreadEntry) << kThreadEntryBits;
inline uint32_t thread_entry_of(uint64_t tag) { return uint32_t(tag * kSlotHash >> (64 - kThreadEntryBits)); }

inline constexpr uint64_t kSlotsOffset = kThreadsOffset + kThreadsBytes;
inline constexpr uint64_t kWipedBytes = kSlotsOffset;
inline constexpr uint64_t kSlotStride = uint64_t(1) << kSlotShift;
inline constexpr uint64_t kPrivateBytes = kSlotsOffset + (kSlotStride << kSlotBits);
// Of slot 0's header in private memory.
inline constexpr uint64_t kFirstSlotHeader = kSlotsOffset + kSlotStride - kSlotHeader;

}  // namespace uscope::engine::inproc
