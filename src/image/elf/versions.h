// GNU symbol versions of a dynamic symbol table: which version a symbol index has, and whether it is the
// default one
// (`memcpy@@GLIBC_2.14`) or only for old callers (`memcpy@GLIBC_2.2.5`). Views into the ElfFile. Internal to
// elf/.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace uscope::image {

class ElfFile;
struct DynamicInfo;

class SymbolVersions {
 public:
  struct Version {
    std::string_view name;  // empty: unversioned
    bool is_default = false;
  };

  SymbolVersions(const ElfFile& file, const DynamicInfo& dynamic, Bytes strings);
  Version of(uint64_t symbol_index) const;

 private:
  struct Name {
    std::string_view text;
    bool is_definition = false;
  };
  void read_definitions(Bytes table, uint64_t count, Bytes strings);
  void read_needs(Bytes table, uint64_t count, Bytes strings);
  void set(uint16_t index, Name name);

  Bytes indices_;  // uint16_t per symbol
  std::vector<Name> names_;
};

}  // namespace uscope::image
