// Which names an image exports, asked of its own hash table where it lies in a process's memory: a few short
// reads, no file is opened. Only looks. An image without such a table (DT_GNU_HASH) exports nothing here.
#pragma once

#include <span>
#include <string_view>

#include "process/maps.h"
#include "process/memory.h"

namespace uscope::process {

bool exports_any(const RemoteMemory& memory, const MappedImage& image,
                 std::span<const std::string_view> names);

}  // namespace uscope::process
