// What a probe reported, as values: made by decode, written by format (printf) and by view. Owns everything
// it holds. Knows no names that need looking up: a stack is addresses, a user is a number; render.h turns
// them into text with the session's SymbolNames.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "event/layout.h"
#include "event/stack_end.h"

namespace uscope::event {

struct Value;

// `bits` is extended to 64 by the sign it has; `size` is the width in bytes it had in the script.
struct Integer {
  uint64_t bits = 0;
  bool is_signed = true;
  uint8_t size = 8;

  int64_t as_signed() const { return static_cast<int64_t>(bits); }
  bool is_negative() const { return is_signed && as_signed() < 0; }
};

struct Float {
  double number = 0;
  uint8_t size = 8;
};

struct EnumValue {
  Integer number;
  std::string name;  // empty: no enumerator has this number
};

struct Pointer {
  uint64_t address = 0;
};

struct Buffer {
  std::string bytes;
};

struct Tuple {
  std::vector<Value> elements;
};

struct Array {
  std::vector<Value> elements;
};

// A struct of the program or a record of the script: both are shown by field name.
struct Record {
  std::vector<std::pair<std::string, Value>> fields;
};

struct Stack {
  bool is_kernel = false;
  uint32_t pid = 0;
  StackEnd end = StackEnd::Complete;
  Layout::StackStyle style = Layout::StackStyle::Bpftrace;
  std::vector<uint64_t> addresses;  // innermost first
  std::vector<bool> is_exact;  // by address: the instruction itself; else the one behind a call. May be short
};

struct Symbol {
  uint64_t address = 0;
  uint32_t pid = 0;
  uint32_t probe = 0;
  bool is_kernel = false;
};

struct Inet {
  uint64_t family = 0;
  std::array<uint8_t, 16> address{};
};

struct MacAddress {
  std::array<uint8_t, 6> address{};
};

struct Timestamp {
  uint64_t nanoseconds = 0;  // since boot
  std::string format;        // strftime's
};

struct Username {
  uint64_t uid = 0;
};

struct CgroupPath {
  uint64_t id = 0;
  std::string hierarchies;  // a pattern; empty: all
};

struct Strerror {
  uint64_t number = 0;
};

struct SignalName {
  uint64_t number = 0;
};

struct Average {
  Integer value;
};

struct Stats {
  uint64_t count = 0;
  Integer average;
  Integer total;
};

// The counts of all buckets, lowest first; event/aggregate.h says where each starts.
struct Histogram {
  bool is_linear = false;
  uint32_t bits = 0;                   // hist
  int64_t min = 0, max = 0, step = 1;  // lhist
  std::vector<uint64_t> counts;
};

// The intervals that saw a value, oldest first.
struct TimeSeries {
  struct Point {
    uint64_t epoch = 0;  // counted in intervals since boot
    Integer value;
  };
  uint64_t interval_ns = 0;
  uint64_t intervals = 0;
  std::vector<Point> points;
};

struct Value {
  using Variant = std::variant<std::monostate, bool, Integer, Float, EnumValue, Pointer, std::string, Buffer,
                               Tuple, Array, Record, Stack, Symbol, Inet, MacAddress, Timestamp, Username,
                               CgroupPath, Strerror, SignalName, Average, Stats, Histogram, TimeSeries>;
  Variant data;

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data);
  }
};

inline Value signed_value(int64_t number, uint8_t size = 8) {
  return {Integer{static_cast<uint64_t>(number), true, size}};
}
inline Value unsigned_value(uint64_t number, uint8_t size = 8) { return {Integer{number, false, size}}; }

struct MapEntry {
  std::optional<Value> key;  // nothing: a map without keys
  Value value;
};

// A map as it was read at one moment, in no order.
struct MapContents {
  std::string name;  // @x
  std::vector<MapEntry> entries;
};

}  // namespace uscope::event
