// Questions about source lines, answered from the line programs of units. Internal to dwarf/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "image/dwarf/store.h"

namespace uscope::image::dwarf {

std::optional<SourceLine> line_at(const Store& store, uint64_t address);
std::vector<LineRow> lines_between(const Store& store, uint64_t begin, uint64_t end);
std::vector<LineRow> lines_of_file(const Store& store, std::string_view file, uint32_t line);
std::vector<std::string> source_files(const Store& store);

// Whether `path` ends in `wanted`, whole components only: "src/a.c" and "a.c" are ends of "/x/src/a.c".
bool path_ends_in(std::string_view path, std::string_view wanted);

}  // namespace uscope::image::dwarf
