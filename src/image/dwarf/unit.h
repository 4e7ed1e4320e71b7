// A unit of .debug_info (or .debug_types) and its DIEs. Reading never trusts: offsets are checked against the
// unit, every walk moves forward, references that lead nowhere are simply absent. A Die is a small value that
// points into its unit; units live as long as the File. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/dwarf/abbrev.h"
#include "image/dwarf/forms.h"
#include "image/types.h"

namespace uscope::image::dwarf {

struct File;
struct Unit;

struct Die {
  const Unit* unit = nullptr;
  uint64_t offset = 0;  // in the section of the unit
  const Abbrev* abbrev = nullptr;
  uint64_t attrs = 0;  // where its attribute values begin

  explicit operator bool() const { return abbrev != nullptr; }
  uint16_t tag() const { return abbrev->tag; }
  bool has_children() const { return abbrev->has_children; }

  std::optional<Attr> attr(uint16_t name) const;
  bool flag(uint16_t name) const;
  std::string_view string(uint16_t name) const;
  std::optional<uint64_t> number(uint16_t name) const;  // a constant; expressions and offsets are none
  // The DIE an attribute refers to.
  Die reference(uint16_t name) const;
  // The attribute here, or where DW_AT_abstract_origin or DW_AT_specification leads. `holder` is the DIE that
  // has it.
  std::optional<Attr> inherited(uint16_t name, Die* holder = nullptr) const;
  std::string_view inherited_string(uint16_t name) const;
  Die inherited_reference(uint16_t name) const;

  uint64_t end_of_attrs() const;
  // Where the next DIE at this level begins.
  uint64_t end_of_subtree() const;
};

// A DIE that holds others under its name: namespace, class, function …
struct Scope {
  uint64_t begin = 0, end = 0;  // offsets; end excluded
  uint32_t parent = UINT32_MAX;
};

struct FunctionRange {
  uint64_t low = 0, high = 0;
  uint64_t die = 0;
};

// What one pass over a unit's DIEs finds: who holds whom, and which function holds which address.
struct UnitIndex {
  std::vector<Scope> scopes;             // by begin
  std::vector<FunctionRange> functions;  // by low
  std::vector<uint64_t> concrete;        // DIEs of functions with code, in order
};

// From the unit's own DIE.
struct UnitFacts {
  Language language = Language::Unknown;
  std::string_view name, directory, producer, dwo_name;
  uint64_t str_offsets_base = 0, addr_base = 0, loclists_base = 0, rnglists_base = 0;
  uint64_t ranges_base = 0;  // DW_AT_GNU_ranges_base, of a DWARF 4 skeleton
  std::optional<uint64_t> dwo_id;
  std::optional<uint64_t> line_program;
  std::optional<uint64_t> low_pc;
  bool is_full_unit = true;  // false: partial unit, skeleton
};

struct Unit {
  File* file = nullptr;
  bool in_types = false;  // lies in .debug_types
  bool is_type_unit = false;
  uint8_t type = 0;  // DW_UT_*; for DWARF 4 as its section says
  uint16_t version = 0;
  uint8_t offset_size = 4;
  uint64_t offset = 0, end = 0;  // in the section
  uint64_t die_offset = 0;
  uint64_t abbrev_offset = 0;
  uint64_t signature = 0;    // of a type unit; of a DWARF 5 skeleton or split unit its dwo id
  uint64_t type_offset = 0;  // section offset of a type unit's type
  const Unit* skeleton = nullptr;

  const AbbrevTable& abbrevs() const;
  const UnitFacts& facts() const;
  const UnitIndex& index() const;
  Bytes section() const;  // the section it lies in

  Die root() const { return die_at(die_offset); }
  // The DIE at a section offset; false if there is none (also at the end-of-children mark).
  Die die_at(uint64_t section_offset) const;
  // The DIE that holds this one under its name; false at the top.
  Die parent_of(const Die& die) const;

  std::string_view string(const Attr& attr) const;
  std::optional<uint64_t> address(const Attr& attr) const;
  std::optional<uint64_t> address_by_index(uint64_t index) const;
  Die reference(const Attr& attr) const;
  // What range lists and location lists count from.
  uint64_t base_address() const;

 private:
  friend struct File;
  mutable std::shared_ptr<const AbbrevTable> abbrevs_;
  mutable std::optional<UnitFacts> facts_;
  mutable std::optional<UnitIndex> index_;
};

// Visits the children of a DIE in order until `visit` returns false.
template <typename Visit>
void for_each_child(const Die& die, Visit&& visit) {
  if (!die || !die.has_children()) return;
  uint64_t position = die.end_of_attrs();
  while (Die child = die.unit->die_at(position)) {
    if (!visit(child)) return;
    uint64_t next = child.end_of_subtree();
    if (next <= position) return;
    position = next;
  }
}

// The name of a DIE, and the same with what holds it: ns::Class::name.
std::string_view name_of(const Die& die);
std::string qualified_name(const Die& die);

}  // namespace uscope::image::dwarf
