#include "image/elf/elf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace uscope::image {
namespace {

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_ARM:
      return "ARM";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC:
      return "PowerPC";
    case EM_PPC64:
      return "PowerPC 64";
    case EM_S390:
      return "s390";
    case EM_MIPS:
      return "MIPS";
    case EM_SPARC:
      return "SPARC";
    case EM_SPARCV9:
      return "SPARC 64";
    case EM_LOONGARCH:
      return "LoongArch";
    case EM_BPF:
      return "BPF";
    default:
      return fmt::format("machine {}", machine);
  }
}

// The kind of image that the identification and machine name, or empty if it is the one uscope reads.
std::string foreign_kind(const Elf64_Ehdr& header) {
  // e_machine lies at the same place in 32- and 64-bit files, but a big-endian file spells it the other way
  // round.
  bool big_endian = header.e_ident[EI_DATA] == ELFDATA2MSB;
  std::string machine = machine_name(big_endian ? __builtin_bswap16(header.e_machine) : header.e_machine);
  if (big_endian) return machine + ", big-endian";
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) return "an unknown byte order";
  if (header.e_ident[EI_CLASS] == ELFCLASS32) {
    if (header.e_machine == EM_X86_64) return "x32 (x86-64 with 32-bit pointers)";
    return header.e_machine == EM_386 ? machine : machine + ", 32-bit";
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "an unknown word size";
  return header.e_machine == EM_X86_64 ? "" : machine;
}

// Whether [offset, offset + size) can be computed with at all.
bool overflows(uint64_t start, uint64_t size) { return size > UINT64_MAX - start; }

Bytes clipped(Bytes bytes, FileOffset offset, uint64_t size) {
  Bytes rest = slice_from(bytes, offset.value);
  return rest.first(std::min<uint64_t>(size, rest.size()));
}

Segment to_segment(const Elf64_Phdr& raw) {
  return {.type = raw.p_type,
          .flags = raw.p_flags,
          .address = {raw.p_vaddr},
          .offset = {raw.p_offset},
          .file_size = raw.p_filesz,
          .memory_size = raw.p_memsz,
          .alignment = raw.p_align};
}

Section to_section(const Elf64_Shdr& raw, uint32_t index) {
  return {.index = index,
          .type = raw.sh_type,
          .flags = raw.sh_flags,
          .address = {raw.sh_addr},
          .offset = {raw.sh_offset},
          .size = raw.sh_size,
          .entry_size = raw.sh_entsize,
          .alignment = raw.sh_addralign,
          .link = raw.sh_link,
          .info = raw.sh_info};
}

}  // namespace

bool ElfFile::looks_like_elf(Bytes bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

Result<ElfFile> ElfFile::open(const std::string& path) {
  TRY(MappedFile mapped, MappedFile::open(path));
  Bytes bytes = mapped.bytes();
  ElfFile file;
  file.storage_ = std::move(mapped);
  return parse(std::move(file), bytes, path);
}

Result<ElfFile> ElfFile::from_bytes(Bytes bytes, std::string name) {
  return parse(ElfFile(), bytes, std::move(name));
}

Result<ElfFile> ElfFile::from_buffer(OwnedBytes buffer, std::string name) {
  Bytes bytes = buffer.bytes();
  ElfFile file;
  file.storage_ = std::move(buffer);
  return parse(std::move(file), bytes, std::move(name));
}

Result<ElfFile> ElfFile::parse(ElfFile file, Bytes bytes, std::string name) {
  file.path_ = std::move(name);
  file.bytes_ = bytes;
  TRY_STATUS(file.read_header());
  file.read_sections();
  file.read_segments();
  return file;
}

Status ElfFile::read_header() {
  if (!looks_like_elf(bytes_)) return fail(path_ + " is not an ELF file");
  if (bytes_.size() < EI_NIDENT + 4) return fail(path_ + " is an ELF file cut off in its header");
  std::memcpy(&header_, bytes_.data(), std::min(sizeof header_, bytes_.size()));
  if (std::string kind = foreign_kind(header_); !kind.empty()) {
    return fail(
        fmt::format("{} is an ELF file for {}; uscope reads x86-64 (64-bit, little-endian)", path_, kind));
  }
  if (bytes_.size() < sizeof header_) return fail(path_ + " is an ELF file cut off in its header");
  return {};
}

void ElfFile::read_sections() {
  if (header_.e_shoff == 0) return;
  if (header_.e_shentsize != sizeof(Elf64_Shdr)) {
    problems_.push_back(fmt::format("section headers of {} bytes are not read", header_.e_shentsize));
    return;
  }
  Bytes table = slice_from(bytes_, header_.e_shoff);
  ByteReader reader(table);
  auto first = reader.read<Elf64_Shdr>();
  if (reader.failed()) {
    problems_.emplace_back("the section headers lie outside the file");
    return;
  }
  // Counts that do not fit 16 bits stand in the first section header.
  uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
  uint64_t names_index = header_.e_shstrndx != SHN_XINDEX ? header_.e_shstrndx : first.sh_link;
  uint64_t fitting = std::min<uint64_t>(count, table.size() / sizeof(Elf64_Shdr));
  if (fitting < count)
    problems_.push_back(fmt::format("only {} of {} section headers lie in the file", fitting, count));

  sections_.reserve(fitting);
  std::vector<uint32_t> names(fitting);
  for (uint64_t i = 0; i < fitting; ++i) {
    Elf64_Shdr raw;
    std::memcpy(&raw, table.data() + i * sizeof raw, sizeof raw);
    names[i] = raw.sh_name;
    Section& section = sections_.emplace_back(to_section(raw, uint32_t(i)));
    bool thread_local_zeros = (raw.sh_flags & SHF_TLS) != 0 && raw.sh_type == SHT_NOBITS;
    if (section.is_allocated() && section.size != 0 && !thread_local_zeros)
      sections_by_address_.push_back(uint32_t(i));
  }
  std::ranges::stable_sort(sections_by_address_, {}, [&](uint32_t i) { return sections_[i].address; });
  if (names_index >= fitting) {
    if (names_index != SHN_UNDEF) problems_.emplace_back("the section names are missing");
    return;
  }
  Bytes texts = stored_bytes(sections_[names_index]);
  // Hostile names can all be one long text: a name is what a person could read.
  constexpr size_t longest_name = 4096;
  for (uint64_t i = 0; i < fitting; ++i) {
    Bytes rest = slice_from(texts, names[i]);
    sections_[i].name = cstring_at(rest.first(std::min(rest.size(), longest_name)), 0);
  }
}

void ElfFile::read_segments() {
  if (header_.e_phoff == 0) return;
  uint64_t count = header_.e_phnum;
  if (count == PN_XNUM && !sections_.empty()) count = sections_[0].info;
  if (count == 0) return;
  if (header_.e_phentsize != sizeof(Elf64_Phdr)) {
    problems_.push_back(fmt::format("program headers of {} bytes are not read", header_.e_phentsize));
    return;
  }
  Bytes table = slice_from(bytes_, header_.e_phoff);
  uint64_t fitting = std::min<uint64_t>(count, table.size() / sizeof(Elf64_Phdr));
  if (fitting < count)
    problems_.push_back(fmt::format("only {} of {} program headers lie in the file", fitting, count));
  segments_.reserve(fitting);
  for (uint64_t i = 0; i < fitting; ++i) {
    Elf64_Phdr raw;
    std::memcpy(&raw, table.data() + i * sizeof raw, sizeof raw);
    const Segment& segment = segments_.emplace_back(to_segment(raw));
    if (segment.type != PT_LOAD) continue;
    if (overflows(raw.p_vaddr, raw.p_memsz) || overflows(raw.p_offset, raw.p_filesz)) {
      problems_.push_back(fmt::format("segment {} wraps around the address space", i));
      continue;
    }
    loads_.push_back(segment);
  }
  std::ranges::stable_sort(loads_, {}, &Segment::address);
  loads_by_offset_ = loads_;
  std::ranges::stable_sort(loads_by_offset_, {},
                           [](const Segment& s) { return std::pair(!s.is_executable(), s.offset); });
  executable_load_count_ = size_t(std::ranges::count_if(loads_, &Segment::is_executable));
}

const Segment* ElfFile::find_segment(uint32_t type) const {
  auto found = std::ranges::find(segments_, type, &Segment::type);
  return found == segments_.end() ? nullptr : &*found;
}

const Section* ElfFile::find_section(std::string_view name) const {
  auto found = std::ranges::find(sections_, name, &Section::name);
  return found == sections_.end() ? nullptr : &*found;
}

const Section* ElfFile::section_at(ImageAddr address) const {
  auto next = std::ranges::upper_bound(sections_by_address_, address, {},
                                       [&](uint32_t i) { return sections_[i].address; });
  if (next == sections_by_address_.begin()) return nullptr;
  const Section& section = sections_[*std::prev(next)];
  return section.contains(address) ? &section : nullptr;
}

Bytes ElfFile::stored_bytes(const Segment& segment) const {
  return clipped(bytes_, segment.offset, segment.file_size);
}

Bytes ElfFile::stored_bytes(const Section& section) const {
  return section.has_contents() ? clipped(bytes_, section.offset, section.size) : Bytes();
}

Result<SectionData> ElfFile::read_section(const Section& section, uint64_t limit) const {
  Bytes stored = stored_bytes(section);
  std::string doing = fmt::format("reading {} of {}", section.name, path_);
  if (section.has_contents() && stored.size() < section.size) {
    return fail(Error("the section runs past the end of the file").while_doing(doing));
  }
  if (!section.is_compressed()) return SectionData{stored, {}};
  ByteReader reader(stored);
  Result<OwnedBytes> data;
  if ((section.flags & SHF_COMPRESSED) != 0) {
    auto header = reader.read<Elf64_Chdr>();
    Bytes rest = slice_from(stored, sizeof header);
    if (reader.failed()) {
      data = fail("its compression header is cut off");
    } else if (header.ch_type == ELFCOMPRESS_ZLIB) {
      data = decompress_zlib(rest, header.ch_size, limit);
    } else if (header.ch_type == 2) {  // ELFCOMPRESS_ZSTD, which glibc 2.36's elf.h does not know
      data = decompress_zstd(rest, header.ch_size, limit);
    } else {
      data = fail(fmt::format("compression method {} is not known", header.ch_type));
    }
  } else {
    // .zdebug_*: "ZLIB", the size as a big-endian number, the stream.
    bool magic = as_text(reader.take(4)) == "ZLIB";
    uint64_t size = __builtin_bswap64(reader.u64());
    data = magic && !reader.failed()
               ? decompress_zlib(slice_from(stored, 12), size, limit)
               : Result<OwnedBytes>(fail("it does not start as a compressed section does"));
  }
  if (!data) return fail(std::move(data).error().while_doing(doing));
  Bytes bytes = data->bytes();
  return SectionData{bytes, std::move(*data)};
}

namespace {

// Of segments sorted by start, the last that contains `at`. Segments that overlap are odd but occur; looking
// back over a few of them is enough, and keeps hostile files cheap.
template <typename Iterator, typename At, typename Start, typename Size>
const Segment* last_containing(Iterator begin, Iterator end, At at, Start start, Size size) {
  constexpr int most_steps = 16;
  auto next = std::upper_bound(begin, end, at, [&](At a, const Segment& s) { return a < s.*start; });
  for (int step = 0; next != begin && step < most_steps; ++step) {
    const Segment& segment = *--next;
    if (at - segment.*start < segment.*size) return &segment;
  }
  return nullptr;
}

const Segment* load_at(const std::vector<Segment>& loads, ImageAddr address) {
  return last_containing(loads.begin(), loads.end(), address, &Segment::address, &Segment::memory_size);
}

}  // namespace

std::optional<FileOffset> ElfFile::to_file_offset(ImageAddr address) const {
  const Segment* load = load_at(loads_, address);
  if (load == nullptr || address - load->address >= load->file_size) return std::nullopt;
  FileOffset offset = load->offset + (address - load->address);
  if (offset.value >= bytes_.size()) return std::nullopt;
  return offset;
}

std::optional<ImageAddr> ElfFile::to_image_addr(FileOffset offset) const {
  auto middle = loads_by_offset_.begin() + ptrdiff_t(executable_load_count_);
  auto look = [&](auto begin, auto end) {
    return last_containing(begin, end, offset, &Segment::offset, &Segment::file_size);
  };
  const Segment* load = look(loads_by_offset_.begin(), middle);
  if (load == nullptr) load = look(middle, loads_by_offset_.end());
  if (load == nullptr) return std::nullopt;
  return load->address + (offset - load->offset);
}

Bytes ElfFile::bytes_from(ImageAddr address) const {
  const Segment* load = load_at(loads_, address);
  if (load == nullptr || address - load->address >= load->file_size) return {};
  uint64_t into = address - load->address;
  return clipped(bytes_, load->offset + into, load->file_size - into);
}

std::optional<Bytes> ElfFile::bytes_at(ImageAddr address, uint64_t size) const {
  return slice(bytes_from(address), 0, size);
}

bool ElfFile::is_executable(ImageAddr address) const {
  const Segment* load = load_at(loads_, address);
  return load != nullptr && load->is_executable();
}

std::vector<AddressRange> ElfFile::executable_ranges() const {
  std::vector<AddressRange> ranges;
  for (const Segment& load : loads_) {
    if (load.is_executable() && load.memory_size != 0) ranges.push_back({load.address, load.memory_size});
  }
  return ranges;
}

ImageAddr ElfFile::lowest_address() const { return loads_.empty() ? ImageAddr() : loads_.front().address; }

}  // namespace uscope::image
