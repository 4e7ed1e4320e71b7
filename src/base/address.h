// Three kinds of address that must not be mixed; mixing them does not compile.
//   FileOffset   a position in a file's bytes. What the kernel's uprobes take.
//   ImageAddr    a virtual address as an image's own tables spell it (ELF st_value, PE RVA, DWARF low_pc).
//   ProcessAddr  an address in a live process.
// Converting between them needs the image's segments or the process's maps: see elf::File and process::Maps.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace uscope {

template <typename Tag>
struct Address {
  uint64_t value = 0;

  friend auto operator<=>(Address, Address) = default;
  friend Address operator+(Address a, uint64_t bytes) { return {a.value + bytes}; }
  friend Address operator-(Address a, uint64_t bytes) { return {a.value - bytes}; }
  // The distance between two addresses of one kind is a plain number.
  friend uint64_t operator-(Address a, Address b) { return a.value - b.value; }
};

using FileOffset = Address<struct FileOffsetTag>;
using ImageAddr = Address<struct ImageAddrTag>;
using ProcessAddr = Address<struct ProcessAddrTag>;

}  // namespace uscope

template <typename Tag>
struct std::hash<uscope::Address<Tag>> {
  size_t operator()(uscope::Address<Tag> a) const noexcept { return std::hash<uint64_t>{}(a.value); }
};
