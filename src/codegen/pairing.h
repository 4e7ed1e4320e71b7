// How long a call took: a hidden probe at the function's entry remembers the time, and a gate in front of the
// return probe's code finds it again and leaves the difference for `took`. Makes these codes and puts them
// into the Program.
//
// An entry is found again by who runs (the thread; in Go the goroutine, which moves between threads), by how
// deep the stack is there (in Go counted from the stack's top, as stacks are copied), and by the site's
// cookie, which all sites of one probed function share. So recursion, signal handlers and programs that
// switch stacks are right without any order being assumed. A call that is left by an exception or longjmp
// leaves its entry behind; the next call at the same depth takes its place, and counts it. An exit whose
// entry is not known (the call began before the trace did) is counted, and its code does not run: a time that
// is not known is never shown.
//
// Does not know functions or sites: the session decides where each code goes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/result.h"
#include "codegen/program.h"

namespace uscope::codegen {

// What a function's calls are told apart by.
struct PairedBy {
  // Of a Go function: where runtime.g has the goroutine's number. Nothing: the thread counts.
  std::optional<uint64_t> goid_offset;
  // From the stack pointer at the site to that at the entry; the kernel's own return probes run 8 above.
  int32_t stack_adjustment = 0;
  auto operator<=>(const PairedBy&) const = default;
};

class Pairing {
 public:
  // `engine_pairs`: the engine has kEnterFunction and kLeaveFunction, which are cheaper than a map.
  Pairing(Program& program, bool engine_pairs) : program_(program), engine_pairs_(engine_pairs) {}

  // Both are indexes into Program::codes, made once for each question.
  Result<uint32_t> enter(const PairedBy& by);
  // Runs `code` with `took` known.
  Result<uint32_t> leave(uint32_t code, const PairedBy& by);

  // A PerCpuArray of u64 by these numbers; nothing if nothing is paired.
  enum Counter : uint32_t { kAbandoned, kUnpaired, kCounters };
  std::optional<uint32_t> counters() const { return counters_; }

 private:
  struct Question {
    std::optional<uint32_t> code;
    PairedBy by;
    auto operator<=>(const Question&) const = default;
  };
  Result<uint32_t> made(const Question& question);
  uint32_t calls();

  Program& program_;
  bool engine_pairs_;
  std::optional<uint32_t> calls_, counters_;
  std::map<Question, uint32_t> made_;
};

}  // namespace uscope::codegen
