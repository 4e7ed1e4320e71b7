// What a session must know to read what a compiled program reports: formats, maps, prints. Made by codegen
// beside the program, read by event's decoder. Indexes are those that records on the ring buffer carry.
//
// A record: u32 kind (RecordKind), u32 id, then the payload, all little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "event/layout.h"

namespace uscope::event {

enum class RecordKind : uint32_t {
  Printf = 1,  // id: formats; payload: its arguments
  PrintValue,  // id: values; payload: the value
  PrintMap,    // id: map prints; payload: u64 top, u64 div (0: all, 1)
  PrintEntry,  // id: map prints; payload: the key
  ClearMap,    // id: maps
  ZeroMap,     // id: maps
  Exit,        // id: exit code
  Join,  // id: formats (its text is the separator); payload: u32 count, then texts of arguments.size bytes
  HelperError,        // id: errors; payload: s64 the helper's result
  UnknownImage = 64,  // payload: u64 process, then codegen's MappingEntry: a stack led through a new file
};

enum class FormatKind { Printf, Errorf, Warnf, Debugf, System, Cat, Time, Strftime };

struct Format {
  FormatKind kind = FormatKind::Printf;
  std::string text;     // as the script has it, escapes resolved
  Layout arguments;     // a Tuple
  std::string place;    // errorf and warnf: file:line:column-end of the call
  std::string context;  // what is printed below the message: the script's line and a marker; may be empty
};

struct MapPlan {
  std::string name;           // @x
  uint32_t program_map = 0;   // index into codegen::Program::maps
  std::optional<Layout> key;  // nothing: a scalar map
  Layout value;
  bool is_per_cpu = false;  // values must be merged over CPUs
};

struct MapPrint {
  uint32_t map = 0;
};

struct HelperErrorPlace {
  std::string helper;   // what failed, by the kernel's name: "probe_read_user", "map_update_elem"
  std::string place;    // file:line:column-end
  std::string context;  // the script's line and a marker below it; may be empty
  std::string message;  // what to say instead, where no helper failed
};

struct Plan {
  std::vector<Format> formats;
  std::vector<Layout> values;
  std::vector<MapPlan> maps;
  std::vector<MapPrint> map_prints;
  std::vector<HelperErrorPlace> errors;
  std::vector<std::string> probes;  // full probe names, by the number that code stores
  uint64_t max_cat_bytes = 10240;
};

}  // namespace uscope::event
