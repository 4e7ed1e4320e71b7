#include "image/dwarf/lines.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "image/dwarf/line_program.h"

namespace uscope::image::dwarf {
namespace {

constexpr size_t max_rows = 5'000'000;

// Rows with line 0 belong to no line of the source.
LineRow to_row(const LineProgram& program, const LineProgram::Row& row) {
  return {
      {row.address}, {program.file_name(row.file), row.line, row.column}, row.is_statement, row.prologue_end};
}

void sort_rows(std::vector<LineRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const LineRow& a, const LineRow& b) { return a.address < b.address; });
}

// The units of the image itself that have line programs; several may share one.
template <typename Visit>
void for_each_program(const Store& store, Visit&& visit) {
  std::unordered_set<uint64_t> seen;
  for (const auto& unit : store.main().units()) {
    auto offset = unit->facts().line_program;
    if (!offset || unit->is_type_unit || !seen.insert(*offset).second) continue;
    auto program = LineProgram::of(*unit);
    if (program && !visit(*program)) return;
    store.main().forget(*unit);
  }
}

}  // namespace

bool path_ends_in(std::string_view path, std::string_view wanted) {
  if (wanted.empty() || !path.ends_with(wanted)) return false;
  return path.size() == wanted.size() || wanted.starts_with('/') ||
         path[path.size() - wanted.size() - 1] == '/';
}

std::optional<SourceLine> line_at(const Store& store, uint64_t address) {
  const Unit* unit = store.skeleton_or_unit_for(address);
  auto program = unit ? LineProgram::of(*unit) : std::nullopt;
  if (!program) return {};
  std::optional<LineProgram::Row> before, found;
  program->for_each_row([&](const LineProgram::Row& row) {
    if (before && before->address <= address && address < row.address) found = before;
    // The last row of an address is the one in force.
    before = row.end_sequence ? std::nullopt : std::optional(row);
    return !found;
  });
  if (!found || found->line == 0) return {};
  return to_row(*program, *found).source;
}

std::vector<LineRow> lines_between(const Store& store, uint64_t begin, uint64_t end) {
  std::vector<LineRow> rows;
  // A range may reach over several units.
  std::unordered_set<const Unit*> seen;
  for (uint64_t at : {begin, end - (end > begin ? 1 : 0)}) {
    const Unit* unit = store.skeleton_or_unit_for(at);
    if (!unit || !seen.insert(unit).second) continue;
    auto program = LineProgram::of(*unit);
    if (!program) continue;
    program->for_each_row([&](const LineProgram::Row& row) {
      bool inside = begin <= row.address && row.address < end;
      if (inside && !row.end_sequence && row.line != 0) rows.push_back(to_row(*program, row));
      return rows.size() < max_rows;
    });
  }
  sort_rows(rows);
  return rows;
}

std::vector<LineRow> lines_of_file(const Store& store, std::string_view file, uint32_t line) {
  std::vector<LineRow> rows;
  for_each_program(store, [&](const LineProgram& program) {
    std::set<uint64_t> wanted;
    for (uint64_t i = program.first_file(); i < program.file_end(); i++) {
      if (path_ends_in(program.file_name(i), file)) wanted.insert(i);
    }
    if (wanted.empty()) return true;
    program.for_each_row([&](const LineProgram::Row& row) {
      bool matches = !row.end_sequence && row.line != 0 && (line == 0 || row.line == line);
      if (matches && wanted.contains(row.file) && store.is_code(row.address))
        rows.push_back(to_row(program, row));
      return rows.size() < max_rows;
    });
    return rows.size() < max_rows;
  });
  sort_rows(rows);
  return rows;
}

std::vector<std::string> source_files(const Store& store) {
  std::set<std::string> files;
  for_each_program(store, [&](const LineProgram& program) {
    for (uint64_t i = program.first_file(); i < program.file_end(); i++) {
      std::string name = program.file_name(i);
      if (!name.empty()) files.insert(std::move(name));
    }
    return files.size() < max_rows;
  });
  return {files.begin(), files.end()};
}

}  // namespace uscope::image::dwarf
