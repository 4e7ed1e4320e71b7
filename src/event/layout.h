// How the bytes that a probe reports are to be read: the one description that code generation writes by and
// decoding reads by. Plain data; knows neither the script's syntax nor an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace uscope::event {

struct Field;

struct Layout {
  enum class Kind {
    None,
    Bool,
    Integer,
    Float,
    Enum,
    Pointer,
    Array,   // `count` of `fields[0]` in a row
    String,  // ends at a NUL or after `size` bytes; see `trailer`
    Buffer,  // u32 length, then up to `size - 4` bytes
    Struct,
    Tuple,
    Record,
    // What a map aggregates; the value's words are given in event/aggregate.h.
    Count,
    Sum,
    Min,
    Max,
    Avg,
    Stats,
    Hist,
    Lhist,
    Tseries,
    // Values that need looking up when shown.
    UserStack,     // see event/aggregate.h: ids and addresses
    KernelStack,   // as UserStack
    UserSymbol,    // u64 address (0: the function of the probe), u32 pid, u32 probe (UINT32_MAX: none)
    KernelSymbol,  // u64 address
    Inet,          // u64 family, 16 address bytes
    MacAddress,    // 6 bytes
    Timestamp,     // u64 nanoseconds, u64 format id
    Username,      // u64 uid
    CgroupPath,    // u64 id, u64 format id: its text is a pattern for the hierarchies that are shown
    Strerror,      // u64 errno
    SignalName,    // u64 signal
  };

  // How a stack is written: name+offset, perf's columns, bare addresses, or build ids with offsets.
  enum class StackStyle { Bpftrace, Perf, Raw, BuildId };

  Kind kind = Kind::None;
  uint64_t size = 0;
  bool is_signed = false;
  std::string name;           // Struct, Enum
  std::vector<Field> fields;  // Struct, Tuple, Record; Array's element as its only field
  uint64_t count = 0;         // Array
  std::vector<std::pair<int64_t, std::string>> enumerators;  // Enum
  // Hist: buckets for each power of two are 2^hist_bits.
  uint32_t hist_bits = 0;
  int64_t lhist_min = 0, lhist_max = 0, lhist_step = 0;
  uint64_t tseries_interval_ns = 0, tseries_intervals = 0;
  std::string tseries_aggregation;  // avg, max, min, sum; empty: the newest value of an interval
  StackStyle stack_style = StackStyle::Bpftrace;
  std::string trailer;  // String: shown behind a text that leaves no room but for its NUL, as it was cut
};

struct Field {
  std::string name;
  Layout layout;
  uint64_t offset = 0;      // bytes from the start of the whole
  uint32_t bit_offset = 0;  // from the least significant bit at offset
  uint32_t bit_width = 0;   // 0: no bitfield
};

}  // namespace uscope::event
