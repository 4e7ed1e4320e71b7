// The running kernel's own types, from its BTF (/sys/kernel/btf/vmlinux): where a member lies in a struct.
// Reads the file whole, once (some 5 MB, a few milliseconds); keeps its bytes and an index of types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "codegen/unwind_maps.h"

namespace uscope::engine::kernel {

class KernelTypes {
 public:
  static Result<KernelTypes> of_running_kernel();
  static Result<KernelTypes> parse(std::vector<uint8_t> bytes);

  // In bytes; members of anonymous structs and unions inside count as the struct's own. Nothing: there is no
  // such struct or member, or it is a bitfield.
  std::optional<uint32_t> offset_of(std::string_view structure, std::string_view member) const;

 private:
  struct Type;
  std::optional<Type> type(uint32_t id) const;
  std::string_view name_at(uint32_t offset) const;
  std::optional<uint32_t> find_member(const Type& type, std::string_view member, int depth) const;

  std::vector<uint8_t> bytes_;
  uint64_t strings_ = 0, strings_size_ = 0;
  std::vector<uint32_t> types_;  // offset of each, by id; [0] is void
};

// What the unwinder needs; nothing if the kernel does not tell all of it.
std::optional<codegen::VmaLayout> vma_layout(const KernelTypes& types);

}  // namespace uscope::engine::kernel
