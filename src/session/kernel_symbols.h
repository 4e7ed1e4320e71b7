// The kernel's functions and variables by name and by address, from /proc/kallsyms: read once, when first
// asked for. Empty where the kernel hides its addresses. Owned by whoever shows or resolves names; one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::session {

class KernelSymbols {
 public:
  struct Found {
    std::string name;
    uint64_t offset = 0;
    std::string module;  // empty: the kernel itself
  };

  // The symbol that an address lies in.
  std::optional<Found> at(uint64_t address);
  std::optional<uint64_t> address_of(std::string_view name);

  // The text of /proc/kallsyms, for tests.
  void load(std::string_view text);

 private:
  struct Symbol {
    uint64_t address = 0;
    uint32_t name = 0, name_size = 0;  // in text_
    uint32_t module = 0, module_size = 0;
  };

  void load_once();

  std::string text_;
  std::vector<Symbol> symbols_;  // by address
  bool is_loaded_ = false;
};

}  // namespace uscope::session
