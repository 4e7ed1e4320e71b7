// Where each function of an image lies in its file: the offset that the kernel's uprobes, perf and bcc take.
// For ELF files and for .NET assemblies with native code, by their own metadata or by a crossgen map; and of
// a process, where it lies in memory, checked against the bytes there. Plain data for the command to print.
// Reads only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "session/target.h"

namespace uscope::session {

struct OffsetsRequest {
  Target target;         // a file, or a process with `image` one of its mapped files
  std::string image;     // a file name or the end of a path; a process's only
  std::string pattern;   // a glob over names; empty: all
  std::string map_file;  // a crossgen map to take names from; empty: look for one if need be
  bool with_addresses = false;
};

struct OffsetRow {
  FileOffset offset;
  uint64_t size = 0;   // 0: unknown
  std::string name;    // as users read it
  std::string symbol;  // as the table spells it, if that differs
  std::optional<ProcessAddr> address;
  bool differs_in_memory = false;
};

struct OffsetsAnswer {
  std::string image;
  std::vector<OffsetRow> rows;     // by offset
  std::vector<std::string> notes;  // what a user should know: a map that was used, methods that are missing
};

Result<OffsetsAnswer> explore_offsets(const OffsetsRequest& request);

// What lies at an offset.
struct OffsetPlace {
  std::string function;  // empty: none
  uint64_t delta = 0;    // from its start
  // Whether a probe may sit there: "" yes, else the reason: "0x1295 is inside the 7-byte instruction at
  // 0x1290".
  std::string trouble;
  bool is_known = true;  // false: nobody can tell
  std::string source;    // file:line, if debug info says
};

Result<OffsetPlace> explain_offset(const OffsetsRequest& request, FileOffset offset);

}  // namespace uscope::session
