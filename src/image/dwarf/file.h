// One body of DWARF: the sections of an image, of its separate debug file, of a dwz supplement, or of one
// split unit (a .dwo file, or that unit's contributions in a .dwp package). Owned by the Store. Sections are
// views of mapped files; only compressed ones are held in memory, from their first use. Internal to dwarf/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "image/dwarf/abbrev.h"
#include "image/dwarf/unit.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf {

class Store;

enum class SectionId {
  Info,
  Types,
  Abbrev,
  Str,
  LineStr,
  StrOffsets,
  Addr,
  Loc,
  LocLists,
  Ranges,
  RngLists,
  Line,
  Aranges,
  Frame,
  CuIndex,
  TuIndex,
  Count_,
};
std::string_view section_name(SectionId id);  // ".debug_info"

// The debug sections of one ELF file. With `split`, those whose names end in .dwo.
class SectionSet {
 public:
  SectionSet() = default;
  SectionSet(const ElfFile* elf, bool split) : elf_(elf), split_(split) {}

  Bytes get(SectionId id) const;
  void set(SectionId id, Bytes bytes);
  // What could not be read, if anything.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Slot {
    bool loaded = false;
    SectionData data;
  };
  const ElfFile* elf_ = nullptr;
  bool split_ = false;
  mutable std::array<Slot, size_t(SectionId::Count_)> slots_;
  mutable std::vector<std::string> problems_;
};

struct File {
  Store* store = nullptr;
  uint32_t index = 0;
  std::string path;
  SectionSet sections;
  const File* alt = nullptr;       // what DW_FORM_GNU_ref_alt and _strp_alt refer to
  const Unit* skeleton = nullptr;  // of a split unit: where its addresses are

  Bytes section(SectionId id) const { return sections.get(id); }
  // Units by offset. Headers only are read; a broken one ends the list and is a problem.
  const std::vector<std::unique_ptr<Unit>>& units() const;
  const std::vector<std::unique_ptr<Unit>>& type_section_units() const;  // of .debug_types
  const Unit* unit_at(uint64_t section_offset, bool in_types = false) const;
  const Unit* type_unit(uint64_t signature) const;
  std::shared_ptr<const AbbrevTable> abbrevs(uint64_t offset) const;
  // Lets go of what was cached for a unit, so that a pass over all units need not hold all of it. Dies of the
  // unit must not be used afterwards.
  void forget(const Unit& unit) const;

 private:
  std::vector<std::unique_ptr<Unit>> read_units(SectionId id) const;
  std::unique_ptr<Unit> read_unit(Bytes section, uint64_t offset, bool in_types) const;

  mutable std::optional<std::vector<std::unique_ptr<Unit>>> units_, type_units_;
  mutable std::unordered_map<uint64_t, std::shared_ptr<const AbbrevTable>> abbrevs_;
  mutable std::optional<std::unordered_map<uint64_t, const Unit*>> signatures_;
  mutable uint64_t abbrev_bytes_read_ = 0;
};

}  // namespace uscope::image::dwarf
