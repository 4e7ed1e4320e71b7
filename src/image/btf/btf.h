// Types in BTF, the kernel's own debug format (/sys/kernel/btf/vmlinux), as the type model has them. Owns the
// bytes and an index of where each type begins (one quick pass); a type is decoded when it is asked for and
// kept. A damaged or newer file gives what can be told apart and never reads outside its bytes. Not for
// several threads at once. Does not know of functions and variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "image/types.h"

namespace uscope::image {

class Btf {
 public:
  static Result<Btf> of_running_kernel();
  static Result<Btf> parse(std::vector<uint8_t> bytes);

  // `void` for ids that are none of its own.
  const Type& type(TypeId id) const;
  // Structs, unions, enums, typedefs and base types of that name, in the file's order; declarations last.
  std::vector<TypeId> find_types(std::string_view name, size_t limit) const;

  // The first enum that has an enumerator of that name.
  std::optional<TypeId> find_enum_with(std::string_view enumerator) const;

  // In bytes; members of anonymous structs and unions inside count as the struct's own. Nothing: there is no
  // such struct or member, or it is a bitfield.
  std::optional<uint32_t> offset_of(std::string_view structure, std::string_view member) const;

 private:
  struct Record;
  std::optional<Record> record(TypeId id) const;
  std::string_view name_at(uint32_t offset) const;
  Type decode(const Record& record) const;
  void read_base(const Record& record, Type& out) const;
  void read_members(const Record& record, Type& out) const;
  void read_enumerators(const Record& record, Type& out) const;
  void read_array(const Record& record, Type& out) const;
  std::optional<uint32_t> find_member(const Type& structure, std::string_view member, int depth,
                                      uint64_t& left) const;

  std::vector<uint8_t> bytes_;
  uint64_t strings_ = 0, strings_size_ = 0;
  std::vector<uint32_t> types_;  // offset of each, by id; [0] is void
  mutable std::unordered_map<uint64_t, Type> decoded_;
};

}  // namespace uscope::image
