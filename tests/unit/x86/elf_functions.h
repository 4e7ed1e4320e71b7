// A tiny reader of ELF files for tests: the functions of .symtab and .dynsym, bytes by address, relative
// relocations. Trusts the file; only for the machine's own libraries.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "unit/x86/landing_pads.h"

namespace uscope::x86::testing {

struct ElfFunction {
  std::string name;
  uint64_t address = 0;
  uint64_t size = 0;
};

class ElfFile {
 public:
  static std::optional<ElfFile> open(const std::string& path) {
    auto file = MappedFile::open(path);
    if (!file) return std::nullopt;
    ElfFile elf(std::move(*file));
    elf.load();
    return elf;
  }

  const std::vector<ElfFunction>& functions() const { return functions_; }
  // Where exceptions land, by the start of the function (or of its part).
  const std::map<uint64_t, std::vector<uint64_t>>& landing_pads() const { return landing_pads_; }
  // Relocated pointers: place -> value.
  const std::map<uint64_t, uint64_t>& pointers() const { return pointers_; }

  Bytes read(uint64_t address, uint64_t size) const {
    for (const Elf64_Phdr& p : segments_) {
      if (address >= p.p_vaddr && address + size <= p.p_vaddr + p.p_filesz && address + size >= address) {
        return slice(file_.bytes(), p.p_offset + address - p.p_vaddr, size).value_or(Bytes());
      }
    }
    return {};
  }

 private:
  explicit ElfFile(MappedFile file) : file_(std::move(file)) {}

  void load() {
    const Bytes bytes = file_.bytes();
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
    const auto* segments = reinterpret_cast<const Elf64_Phdr*>(bytes.data() + header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i) {
      if (segments[i].p_type == PT_LOAD) segments_.push_back(segments[i]);
    }
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);
    std::map<uint64_t, ElfFunction> by_address;
    for (int i = 0; i < header->e_shnum; ++i) {
      const Elf64_Shdr& s = sections[i];
      if (s.sh_type == SHT_SYMTAB || s.sh_type == SHT_DYNSYM)
        load_symbols(s, sections[s.sh_link], by_address);
      if (s.sh_type == SHT_RELA) load_relocations(s);
      const char* name =
          reinterpret_cast<const char*>(bytes.data()) + sections[header->e_shstrndx].sh_offset + s.sh_name;
      if (std::strcmp(name, ".eh_frame") == 0 && s.sh_type != SHT_NOBITS) load_landing_pads(s);
    }
    for (auto& [address, function] : by_address) functions_.push_back(std::move(function));
  }

  void load_symbols(const Elf64_Shdr& table, const Elf64_Shdr& names, std::map<uint64_t, ElfFunction>& out) {
    const uint8_t* base = file_.bytes().data();
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(base + table.sh_offset);
    for (size_t n = 0; n < table.sh_size / sizeof(Elf64_Sym); ++n) {
      const Elf64_Sym& symbol = symbols[n];
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == 0 || symbol.st_size == 0)
        continue;
      ElfFunction& function = out[symbol.st_value];
      if (function.size >= symbol.st_size) continue;
      function = {reinterpret_cast<const char*>(base + names.sh_offset + symbol.st_name), symbol.st_value,
                  symbol.st_size};
    }
  }

  void load_relocations(const Elf64_Shdr& table) {
    const auto* entries = reinterpret_cast<const Elf64_Rela*>(file_.bytes().data() + table.sh_offset);
    for (size_t n = 0; n < table.sh_size / sizeof(Elf64_Rela); ++n) {
      if (ELF64_R_TYPE(entries[n].r_info) == R_X86_64_RELATIVE)
        pointers_[entries[n].r_offset] = uint64_t(entries[n].r_addend);
    }
  }

  void load_landing_pads(const Elf64_Shdr& section) {
    const Bytes bytes = slice(file_.bytes(), section.sh_offset, section.sh_size).value_or(Bytes());
    auto read_from = [this](uint64_t address) -> Bytes {
      for (const Elf64_Phdr& p : segments_) {
        if (address < p.p_vaddr || address >= p.p_vaddr + p.p_filesz) continue;
        return slice(file_.bytes(), p.p_offset + address - p.p_vaddr, p.p_vaddr + p.p_filesz - address)
            .value_or(Bytes());
      }
      return {};
    };
    landing_pads_ = LandingPadReader(bytes, section.sh_addr, read_from).take();
  }

  MappedFile file_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<ElfFunction> functions_;
  std::map<uint64_t, uint64_t> pointers_;
  std::map<uint64_t, std::vector<uint64_t>> landing_pads_;
};

}  // namespace uscope::x86::testing
