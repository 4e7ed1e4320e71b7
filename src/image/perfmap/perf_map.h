// Perf maps: the text file /tmp/perf-PID.map into which a runtime writes where it put the code it compiled.
//   .NET   00007ff7190a1860 6e4 void [app] Demo.Program::Main(string[])[QuickJitted]
//   Node   3e8b8ad2a4c0 5c JS:*compute file:///app/server.js:12:20
//   JVM    0x00007f8b1c4f2a00 0x00000000000000d8 int Main.fib(int)
// The files are appended to and never cleaned: code moves, memory is reused, so newer lines win over older
// ones. A PerfMap owns its text; entries view it. Pointers to entries hold until the next append. Reading
// files, following them as they grow, and finding them in containers is the caller's work. Not for use from
// several threads at once.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace uscope::image {

// How the code was made, where the line says it.
enum class PerfMapTier : uint8_t {
  kUnknown,
  kInterpreted,   // Node ~: without --interpreted-frames-native-stack the address is bytecode, not code to
                  // probe
  kBaseline,      // .NET QuickJitted, Node ^
  kInstrumented,  // .NET InstrumentedTier…
  kMiddle,        // Node + (Maglev)
  kOptimized,     // .NET Optimized, OptimizedTier1; Node *
  kOnStack,       // .NET OptimizedTier1OSR: entered in the middle of a loop
  kPrecompiled,   // .NET PreJIT, ReadyToRun
  kStub,          // glue of the runtime, no function of the program
};
std::string_view name_of(PerfMapTier tier);

// What a line's name says, taken apart. All views are into the name.
struct PerfMapName {
  PerfMapTier tier = PerfMapTier::kUnknown;
  std::string_view
      function;  // the name without the runtime's marks: no "[Tier]", no "JS:*", no source position
  std::string_view qualified;  // .NET: "Ns.Type::Method"; JVM: "pkg.Class.method"; else the same as function
  std::string_view source;     // Node: "file:///app/server.js:12:20"
};
PerfMapName take_apart(std::string_view name);

struct PerfMapEntry {
  ProcessAddr address;
  uint64_t size = 0;
  std::string_view name;  // as written
  // A later line covers some of these bytes: the memory has been reused, this code is gone. (A .NET stub
  // block is not superseded by the stubs that are later listed inside it.)
  bool superseded = false;
};

class PerfMap {
 public:
  // Reads lines and adds their entries. A last line without its newline waits for the next append: the
  // runtime may be in the middle of writing it.
  void append(std::string text);
  // The last line, if the file has ended without a newline.
  void finish();

  static PerfMap parse(std::string text);

  const std::vector<PerfMapEntry>& entries() const;  // in the order of the file
  // Lines that are no entry; the first few by number (from 1), for a message.
  size_t malformed_count() const { return malformed_count_; }
  const std::vector<size_t>& malformed_lines() const { return malformed_lines_; }

  // The newest entry that covers the address; null if none does. It may be superseded elsewhere: the caller
  // sees.
  const PerfMapEntry* find(ProcessAddr address) const;
  // Entries whose name, function, or qualified name is `pattern` or matches it as a glob, newest first;
  // without the superseded ones. One name may have several addresses: tiers, instances of generics, closures.
  std::vector<const PerfMapEntry*> match(std::string_view pattern) const;

 private:
  struct Segment {
    uint64_t begin, end;
    uint32_t entry;
  };
  void add_lines(std::string_view text);
  void add_line(std::string_view line);
  void index() const;

  std::deque<std::string> texts_;  // never moved once added: entries view them
  std::string unfinished_;
  size_t line_ = 0;
  size_t malformed_count_ = 0;
  std::vector<size_t> malformed_lines_;
  // Built when first asked for after an append.
  mutable std::vector<PerfMapEntry> entries_;
  mutable std::vector<Segment> segments_;
  mutable bool indexed_ = true;
};

}  // namespace uscope::image
