// A compiled script: maps and eBPF code, the same for both engines. Plain data, made by codegen, run by an
// engine. Nothing here touches the kernel: map references are indexes until an engine has made the maps.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace uscope::codegen {

// Beside the kernel's helpers, those of an engine that pairs the entries and exits of a function by itself:
// by the thread, its stack pointer and the site's cookie.
// Remembers an entry, with its time; returns how many entries it had to forget for that.
inline constexpr int32_t kEnterFunction = 0x70001;
// At an exit: nanoseconds since the entry that it belongs to; -1: none is known.
inline constexpr int32_t kLeaveFunction = 0x70002;

// Of an engine that unwinds stacks by itself, by the tables of unwind_maps.h: (context, the stack's value,
// its size, whether this is a function's first instruction, the map of state). Fills in all but the process.
inline constexpr int32_t kUnwindStack = 0x70003;

// Of an engine whose code does not run in the kernel: (where the parent's name goes, its size; or 0, 0) ->
// the process's parent.
inline constexpr int32_t kParentProcess = 0x70004;

enum class MapKind { Hash, LruHash, PerCpuHash, PerCpuLruHash, Array, PerCpuArray, RingBuffer };

struct MapSpec {
  std::string name;  // as the script calls it, without @; the engine shortens it to what the kernel takes
  MapKind kind = MapKind::Hash;
  uint32_t key_size = 0;
  uint32_t value_size = 0;
  uint32_t max_entries = 0;  // RingBuffer: bytes, a power of two and whole pages
};

// The 16-byte load at `instruction` (BPF_LD | BPF_IMM | BPF_DW) stands for a map.
struct MapReference {
  uint32_t instruction = 0;
  uint32_t map = 0;
  bool is_value =
      false;  // the address of an Array map's value, plus `value_offset`, rather than the map itself
  uint32_t value_offset = 0;
};

// What kind of event runs a piece of code: decides its context and which helpers it may call.
enum class CodeKind {
  UserProbe,   // context: pt_regs at the probed instruction
  PerfEvent,   // profile, software events: context bpf_perf_event_data
  Tracepoint,  // context: the tracepoint's record
  RunOnce,     // BEGIN, END, self:signal: run by the engine itself, no context
  Timer,       // interval: run by the engine on its clock
};

struct Code {
  std::string name;
  CodeKind kind = CodeKind::UserProbe;
  std::vector<bpf_insn> instructions;
  std::vector<MapReference> maps;
  // First instructions of the functions behind the main one, in order: callbacks of helpers, called with what
  // the helper gives them in R1 to R5. A 16-byte load with BPF_PSEUDO_FUNC names one, relative to itself.
  std::vector<uint32_t> functions;
  bool reads_result = false;  // of a return probe: what the function returns, which a jump does not show
  bool reads_took = false;    // of a return probe: how long the call took; runs behind Pairing::leave() only
};

struct Program {
  std::vector<MapSpec> maps;
  std::vector<Code> codes;
};

}  // namespace uscope::codegen
