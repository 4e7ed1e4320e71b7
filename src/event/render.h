// Values as the text that bpftrace 0.27 shows for them: by print(), by printf's %s, in a map's keys. Appends
// to a string of the caller's. Histograms and series span lines and are drawn by view instead.
#pragma once

#include <string>
#include <string_view>

#include "event/symbol_names.h"
#include "event/value.h"

namespace uscope::event {

enum class Spacing {
  Plain,    // (1, 2), { .x = 1 }, stacks indented
  Compact,  // (1,2), {.x=1}, stacks not indented: as keys of a JSON object are
};

void append_text(std::string& out, const Value& value, SymbolNames& names, Spacing spacing = Spacing::Plain);
std::string to_text(const Value& value, SymbolNames& names, Spacing spacing = Spacing::Plain);
// The same, but a tuple's elements without the parentheses: what stands between [ and ].
void append_key(std::string& out, const Value& key, SymbolNames& names, Spacing spacing = Spacing::Plain);

void append_integer(std::string& out, const Integer& number);

enum class BytesStyle {
  Escaped,     // %r: printable bytes as they are, others \x0a
  Hex,         // %rh: 61 62 0a
  EscapedHex,  // %rx: \x61\x62\x0a
};
void append_bytes(std::string& out, std::string_view bytes, BytesStyle style);

// strftime of a wall-clock time in the local zone, with bpftrace's %f for microseconds.
std::string time_text(std::string_view format, int64_t wall_ns);

}  // namespace uscope::event
