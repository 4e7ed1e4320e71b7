// Which named types and global variables an image has, and in which DIE. One pass over every unit, on first
// use; each distinct thing is listed once, however many units repeat it. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "image/dwarf/store.h"

namespace uscope::image::dwarf {

class NameIndex {
 public:
  struct Entry {
    uint32_t hash = 0;  // of the unqualified name
    bool is_type = false;
    bool is_declaration = false;
    uint32_t file = 0;
    bool in_types = false;
    uint64_t offset = 0;  // of the DIE
  };

  explicit NameIndex(const Store& store);
  // Entries whose unqualified name has this spelling, or another one with the same hash.
  void with_name(std::string_view unqualified, const std::function<bool(const Entry&)>& visit) const;
  const std::vector<Entry>& entries() const { return entries_; }
  Die die_of(const Entry& entry) const;

 private:
  void add_unit(const Unit& unit);
  void add(const Die& die, uint64_t scope);

  const Store& store_;
  std::vector<Entry> entries_;  // by hash
  std::unordered_set<uint64_t> seen_;
};

// The types of that name, qualified or not, that one unit defines. Also those that functions hold.
std::vector<Die> types_named(const Unit& unit, std::string_view name);

// The part of a qualified name that a DIE is named by: "Box<a::B>" of "ns::Box<a::B>".
std::string_view last_component(std::string_view qualified);

}  // namespace uscope::image::dwarf
