// Turns the DIE of a type into a Type. Types are read when they are asked for, one level at a time, and kept
// for the life of the reader; a TypeId is the place of the DIE, so it is the same every time. Internal to
// dwarf/.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "image/dwarf/line_program.h"
#include "image/dwarf/store.h"
#include "image/types.h"

namespace uscope::image::dwarf {

class TypeReader {
 public:
  explicit TypeReader(const Store& store) : store_(store) {}

  const Type& get(TypeId id);
  // Leads through DW_AT_signature to the type unit. 0 for no DIE.
  static TypeId id_of(const Die& die);
  // The DIE an id stands for; false if the id was not handed out here.
  Die die_of(TypeId id) const;
  // The type an attribute names, also through abstract origin and specification; 0: void.
  static TypeId type_attr(const Die& die, uint16_t name = 0);
  // Bytes, through typedefs and qualifiers; 0 if unknown.
  static uint64_t size_of(const Die& die);
  // A class whose objects C++ passes by their address.
  bool is_passed_by_address(TypeId id);

  // Full path of DW_AT_decl_file, and the line.
  std::string decl_file(const Die& die);
  std::string file_name(const Unit& unit, uint64_t index);

 private:
  void fill(Type& type, const Die& die);
  void fill_base(Type& type, const Die& die);
  void fill_members(Type& type, const Die& die);
  void fill_enum(Type& type, const Die& die);
  void fill_function(Type& type, const Die& die);
  void fill_go(Type& type, const Die& die);
  Member read_member(const Die& die);
  VariantPart read_variant_part(const Die& die);
  void read_template_argument(Type& type, const Die& die, int depth);

  const Store& store_;
  std::unordered_map<uint64_t, std::unique_ptr<Type>> types_;
  std::unordered_map<const Unit*, std::optional<LineProgram>> lines_;
};

}  // namespace uscope::image::dwarf
