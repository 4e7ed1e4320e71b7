// Bytes that a probe reported -> values, by the layout that code generation wrote them by. Bounded: a layout
// that reaches past the bytes is an Error that names the part, never a read outside. Looks nothing up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "event/layout.h"
#include "event/plan.h"
#include "event/value.h"

namespace uscope::event {

// `formats` are the plan's: a timestamp names the one it is to be shown by.
Result<Value> decode(const Layout& layout, Bytes bytes, std::span<const Format> formats = {});

// The arguments of a printf: the elements of the tuple that its format lays out.
Result<std::vector<Value>> decode_arguments(const Format& format, Bytes bytes,
                                            std::span<const Format> formats = {});

// One entry as an engine read it: its key and a copy of its value for each CPU (or thread).
struct RawEntry {
  std::vector<uint8_t> key;
  std::vector<std::vector<uint8_t>> copies;
};
Result<MapContents> decode_map(const MapPlan& map, std::span<const RawEntry> entries,
                               std::span<const Format> formats = {});

}  // namespace uscope::event
