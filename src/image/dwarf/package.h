// A .dwp package: many split units in one file, found by their id through .debug_cu_index and
// .debug_tu_index (GNU's version 2 and DWARF 5). Hands out each unit's contributions as views of the mapped
// file. libdw 0.188 cannot read these. Internal to dwarf/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/dwarf/file.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf {

class Package {
 public:
  static Result<std::unique_ptr<Package>> open(const std::string& path);
  explicit Package(ElfFile elf) : elf_(std::move(elf)), sections_(&elf_, true) {}

  // The sections of the unit with this id; nothing if the package has no such unit.
  std::optional<SectionSet> compile_unit(uint64_t id) const;
  std::optional<SectionSet> type_unit(uint64_t signature) const;
  std::vector<uint64_t> type_signatures() const;
  const std::string& path() const { return elf_.path(); }

 private:
  std::optional<SectionSet> find(SectionId index, uint64_t id) const;

  ElfFile elf_;
  SectionSet sections_;
};

}  // namespace uscope::image::dwarf
