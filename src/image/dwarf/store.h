// All the DWARF that belongs to one image, and the way from one body to another: type signatures, dwz
// supplements, skeletons to their split units, addresses to units. Owns the Files. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "image/dwarf/file.h"
#include "image/dwarf/package.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf {

struct UnitRange {
  uint64_t low = 0, high = 0;
  uint64_t highest_so_far = 0;  // of this and all before it: ends a search backwards
  const Unit* unit = nullptr;
};

class Store {
 public:
  // `image` holds the code; `debug` the DWARF (may be the same). Both outlive the Store.
  Store(const ElfFile& image, const ElfFile& debug, std::string root);

  const ElfFile& image() const { return image_; }
  const ElfFile& debug() const { return debug_; }
  File& main() { return *files_.front(); }
  const File& main() const { return *files_.front(); }
  const File* file(uint32_t index) const;
  // Says something once.
  void problem(std::string what) const;
  const std::vector<std::string>& problems() const { return problems_; }

  void set_alt(const std::string& path);
  void set_package(const std::string& path);
  void set_package(std::unique_ptr<Package> package) { package_ = std::move(package); }

  // The unit whose ranges hold the address: never a skeleton, whose split unit is returned in its place
  // (or nothing, with a problem noted, when that is missing).
  const Unit* unit_for(uint64_t address) const;
  // The unit of the image itself, which may be a skeleton: it has the line table.
  const Unit* skeleton_or_unit_for(uint64_t address) const;
  // Whether an address lies in the image's code: debug info of functions that the linker dropped does not.
  bool is_code(uint64_t address) const;
  // Whether a global symbol of exactly this name is at the address: nobody can have changed its signature.
  bool has_global_symbol(uint64_t address, std::string_view name) const;
  // The unit with the contents: the split unit of a skeleton, else the unit itself; null if it is missing.
  const Unit* full_unit(const Unit& unit) const;
  const Unit* type_unit(uint64_t signature, const File& from) const;
  // Every unit of the image with contents: split ones in place of skeletons. Stops when visit returns false.
  void for_each_unit(const std::function<bool(const Unit&)>& visit) const;

 private:
  File& add_file(std::string path);
  const Unit* open_split(const Unit& skeleton) const;
  const Unit* open_dwo_file(const Unit& skeleton, uint64_t id) const;
  const Unit* open_packaged(const Unit& skeleton, uint64_t id) const;
  const Unit* packaged_type(uint64_t signature, const Unit* skeleton) const;
  void index_addresses(bool with_aranges) const;
  static const Unit* look_up(const std::vector<UnitRange>& ranges, uint64_t address);

  const ElfFile& image_;
  const ElfFile& debug_;
  std::string root_;
  mutable std::vector<std::unique_ptr<File>> files_;
  mutable std::vector<std::unique_ptr<ElfFile>> elves_;
  mutable std::vector<std::string> problems_;
  mutable std::unordered_set<std::string> said_;
  mutable std::unordered_map<const Unit*, const Unit*> split_;
  mutable std::unordered_map<uint64_t, const Unit*> packaged_types_;
  mutable std::optional<std::vector<UnitRange>> aranges_, ranges_;      // by low
  mutable std::optional<std::unordered_set<uint64_t>> global_symbols_;  // hashes of address and name
  std::unique_ptr<Package> package_;
};

}  // namespace uscope::image::dwarf
