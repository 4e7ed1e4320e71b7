#include "image/pe/pe_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace uscope::image {
namespace {

constexpr size_t kCorDirectory = 14;
constexpr size_t kExportDirectory = 0;
constexpr size_t kDebugDirectory = 6;
constexpr uint32_t kMaxDirectories = 16;
constexpr uint32_t kMaxExports = 65536;  // ordinals are 16 bits wide
constexpr unsigned kMaxSections =
    96;  // what loaders accept; also bounds the walk that every RVA look-up makes

struct MachineValue {
  uint16_t value;
  PeMachine machine;
};
constexpr std::array kMachines = {
    MachineValue{0x8664, PeMachine::kX64},         MachineValue{0x014c, PeMachine::kX86},
    MachineValue{0xaa64, PeMachine::kArm64},       MachineValue{0x01c4, PeMachine::kArm},
    MachineValue{0x6264, PeMachine::kLoongArch64}, MachineValue{0x5064, PeMachine::kRiscV64},
};

struct SystemValue {
  uint16_t mask;
  PeSystem system;
};
constexpr std::array kSystems = {
    SystemValue{0, PeSystem::kWindows},     SystemValue{0x7b79, PeSystem::kLinux},
    SystemValue{0x4644, PeSystem::kApple},  SystemValue{0xadc4, PeSystem::kFreeBsd},
    SystemValue{0x1993, PeSystem::kNetBsd}, SystemValue{0x1992, PeSystem::kSunOs},
};

std::pair<PeMachine, PeSystem> decode_machine(uint16_t raw) {
  for (const SystemValue& system : kSystems) {
    for (const MachineValue& machine : kMachines) {
      if ((raw ^ system.mask) == machine.value) return {machine.machine, system.system};
    }
  }
  return {PeMachine::kUnknown, PeSystem::kWindows};
}

PeDirectory read_directory(ByteReader& reader) {
  PeDirectory directory;
  directory.address = {reader.u32()};
  directory.size = reader.u32();
  return directory;
}

}  // namespace

std::string_view name_of(PeMachine machine) {
  switch (machine) {
    case PeMachine::kX86:
      return "x86";
    case PeMachine::kX64:
      return "x86-64";
    case PeMachine::kArm:
      return "ARM";
    case PeMachine::kArm64:
      return "ARM64";
    case PeMachine::kLoongArch64:
      return "LoongArch64";
    case PeMachine::kRiscV64:
      return "RISC-V 64";
    case PeMachine::kUnknown:
      break;
  }
  return "an unknown machine";
}

std::string_view name_of(PeSystem system) {
  switch (system) {
    case PeSystem::kWindows:
      return "Windows";
    case PeSystem::kLinux:
      return "Linux";
    case PeSystem::kApple:
      return "macOS";
    case PeSystem::kFreeBsd:
      return "FreeBSD";
    case PeSystem::kNetBsd:
      return "NetBSD";
    case PeSystem::kSunOs:
      return "SunOS";
  }
  return "an unknown system";
}

bool looks_like_pe(Bytes bytes) {
  ByteReader reader(bytes);
  if (reader.u16() != 0x5a4d) return false;
  reader.seek(0x3c);
  reader.seek(reader.u32());
  return reader.u32() == 0x00004550 && !reader.failed();
}

Result<PeFile> PeFile::parse(Bytes image, FileOffset start) {
  if (!looks_like_pe(image)) return fail("not a PE file: no MZ and PE signatures");
  PeFile file;
  file.image_ = image;
  file.start_ = start;
  uint64_t header = ByteReader(image, 0x3c).u32() + uint64_t(4);
  ByteReader reader(image, header);
  file.raw_machine_ = reader.u16();
  std::tie(file.machine_, file.system_) = decode_machine(file.raw_machine_);
  unsigned section_count = reader.u16();
  reader.skip(12);  // time stamp, symbol table
  uint64_t optional_size = reader.u16();
  reader.skip(2);
  uint64_t optional_start = reader.position();
  uint16_t magic = reader.u16();
  if (magic != 0x10b && magic != 0x20b)
    return fail(fmt::format("PE optional header of unknown kind {:#x}", magic));
  file.is_64_bit_ = magic == 0x20b;
  reader.seek(optional_start + (file.is_64_bit_ ? 108 : 92));
  uint32_t directory_count = std::min(reader.u32(), kMaxDirectories);
  for (uint32_t i = 0; i < directory_count && !reader.failed(); ++i) {
    if (reader.position() + 8 > optional_start + optional_size) break;
    file.directories_.push_back(read_directory(reader));
  }
  if (reader.failed()) return fail("PE headers run past the end of the file");
  ByteReader section_reader(image, optional_start + optional_size);
  TRY_STATUS(file.read_sections(section_reader, section_count));
  file.read_cor_header();
  return file;
}

Status PeFile::read_sections(ByteReader& reader, unsigned count) {
  if (count > kMaxSections) return fail(fmt::format("{} PE sections, more than any loader accepts", count));
  for (unsigned i = 0; i < count; ++i) {
    PeSection section;
    std::string_view name = as_text(reader.take(8));
    section.name = name.substr(0, name.find('\0'));
    section.virtual_size = reader.u32();
    section.address = {reader.u32()};
    section.file_size = reader.u32();
    section.file_offset = {reader.u32()};
    reader.skip(12);  // relocations and line numbers, unused in images
    section.characteristics = reader.u32();
    if (reader.failed()) return fail("the PE section table runs past the end of the file");
    uint64_t available =
        section.file_offset.value < image_.size() ? image_.size() - section.file_offset.value : 0;
    section.file_size = std::min(section.file_size, available);
    sections_.push_back(std::move(section));
  }
  return {};
}

void PeFile::read_cor_header() {
  auto bytes = bytes_at(directory(kCorDirectory).address, 72);
  if (!directory(kCorDirectory).present() || !bytes) return;
  ByteReader reader(*bytes);
  CorHeader header;
  if (reader.u32() < 72) return;
  reader.skip(4);  // runtime version
  header.metadata = read_directory(reader);
  header.flags = reader.u32();
  reader.skip(4 + 5 * 8);  // entry point; resources, strong name, code manager, v-table fix-ups, export jumps
  header.managed_native_header = read_directory(reader);
  cor_header_ = header;
}

PeDirectory PeFile::directory(size_t index) const {
  return index < directories_.size() ? directories_[index] : PeDirectory();
}

const PeSection* PeFile::section_of(ImageAddr rva) const {
  for (const PeSection& section : sections_) {
    uint64_t size = std::max(section.virtual_size, section.file_size);
    if (rva >= section.address && rva - section.address < size) return &section;
  }
  return nullptr;
}

std::optional<FileOffset> PeFile::file_offset(ImageAddr rva) const {
  const PeSection* section = section_of(rva);
  if (section == nullptr || rva - section->address >= section->file_size) return std::nullopt;
  return start_ + section->file_offset.value + (rva - section->address);
}

std::optional<ImageAddr> PeFile::rva_of(FileOffset offset) const {
  if (offset < start_) return std::nullopt;
  FileOffset inside{offset - start_};
  for (const PeSection& section : sections_) {
    if (inside >= section.file_offset && inside - section.file_offset < section.file_size) {
      return section.address + (inside - section.file_offset);
    }
  }
  return std::nullopt;
}

Bytes PeFile::bytes_from(ImageAddr rva) const {
  const PeSection* section = section_of(rva);
  if (section == nullptr || rva - section->address >= section->file_size) return {};
  Bytes raw = slice(image_, section->file_offset.value, section->file_size).value_or(Bytes());
  return slice_from(raw, rva - section->address);
}

std::optional<Bytes> PeFile::bytes_at(ImageAddr rva, uint64_t size) const {
  return slice(bytes_from(rva), 0, size);
}

std::string PeFile::map_signature() const {
  constexpr uint32_t kEntrySize = 28;
  constexpr uint32_t kMapEntry = 21;
  constexpr uint32_t kMagic = 0x4d523252;  // "R2RM"
  PeDirectory debug = directory(kDebugDirectory);
  ByteReader entries(bytes_at(debug).value_or(Bytes()));
  for (int i = 0; i < 64 && entries.remaining() >= kEntrySize; ++i) {
    ByteReader entry(entries.take(kEntrySize), 12);
    uint32_t type = entry.u32();
    entry.skip(4);
    ByteReader data(bytes_from({entry.u32()}));
    if (type != kMapEntry || data.u32() != kMagic) continue;
    std::string text;
    for (uint8_t byte : data.take(16)) text += fmt::format("{:02x}", byte);
    return text;
  }
  return {};
}

std::optional<ImageAddr> PeFile::find_export(std::string_view name) const {
  auto bytes = bytes_at(directory(kExportDirectory).address, 40);
  if (!directory(kExportDirectory).present() || !bytes) return std::nullopt;
  ByteReader reader(*bytes, 20);
  uint32_t function_count = reader.u32();
  uint32_t name_count = reader.u32();
  ByteReader functions(bytes_from({reader.u32()}));
  ByteReader names(bytes_from({reader.u32()}));
  ByteReader ordinals(bytes_from({reader.u32()}));
  for (uint32_t i = 0; i < std::min(name_count, kMaxExports); ++i) {
    auto candidate = bytes_at({names.u32()}, name.size() + 1);
    uint16_t ordinal = ordinals.u16();
    if (names.failed() || ordinals.failed()) break;
    if (!candidate || candidate->back() != 0 || as_text(candidate->first(name.size())) != name) continue;
    if (ordinal >= function_count) break;
    functions.seek(uint64_t(ordinal) * 4);
    uint32_t rva = functions.u32();
    if (functions.failed()) break;
    return ImageAddr{rva};
  }
  return std::nullopt;
}

}  // namespace uscope::image
