// The kernel's tracepoints, as tracefs describes them: which there are, and what each records. Reads files;
// attaches nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::session {

struct TracepointName {
  std::string category, event;
};

// One field of a tracepoint's record.
struct TracepointField {
  std::string type;  // "unsigned int", "char *", "char"
  std::string name;
  uint32_t offset = 0, size = 0;
  bool is_signed = false;
  std::optional<uint32_t> count;  // of an array
  // The record holds where the text lies: its offset in the low, its length in the high 16 bits.
  bool is_dynamic = false;
  std::string declaration;  // as -lv shows it: "char prev_comm[16]"
};

// Those whose category and event match the globs, in order. Empty without tracefs.
std::vector<TracepointName> find_tracepoints(std::string_view category, std::string_view event);

// What a format file says, without the fields that every record begins with.
std::vector<TracepointField> parse_tracepoint_format(std::string_view text);
std::vector<TracepointField> tracepoint_fields(const std::string& category, const std::string& event);

}  // namespace uscope::session
