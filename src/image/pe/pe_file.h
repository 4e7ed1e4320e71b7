// A PE file's headers: machine, sections, data directories, and the way from an RVA to a place in the file
// and back. .NET assemblies, ReadyToRun images and composite images are such files, on Linux too. A PeFile
// views the bytes it was parsed from and owns none of them: they must outlive it. Immutable after parse. It
// does not read what the directories point to: metadata.h, ready_to_run.h and bundle.h do.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace uscope::image {

enum class PeMachine { kUnknown, kX86, kX64, kArm, kArm64, kLoongArch64, kRiscV64 };
// .NET marks native code for a system by XORing the machine field with a value of that system.
enum class PeSystem { kWindows, kLinux, kApple, kFreeBsd, kNetBsd, kSunOs };

std::string_view name_of(PeMachine machine);
std::string_view name_of(PeSystem system);

struct PeSection {
  std::string name;
  ImageAddr address;  // VirtualAddress
  uint64_t virtual_size = 0;
  FileOffset file_offset;  // PointerToRawData, counted from the start of the PE image
  uint64_t file_size = 0;  // SizeOfRawData, cut to what the file holds
  uint32_t characteristics = 0;

  bool executable() const { return (characteristics & 0x20000000) != 0; }
};

struct PeDirectory {
  ImageAddr address;
  uint32_t size = 0;
  bool present() const { return address.value != 0; }
};

// The CLI ("COR") header: where a managed file keeps its metadata and, if any, its native code's header.
struct CorHeader {
  PeDirectory metadata;
  uint32_t flags = 0;
  PeDirectory managed_native_header;
};

class PeFile {
 public:
  // `image` is the PE image. `start` is where it begins in the file that processes map: not 0 inside a
  // bundle.
  static Result<PeFile> parse(Bytes image, FileOffset start = {});

  PeMachine machine() const { return machine_; }
  PeSystem system() const { return system_; }
  uint16_t raw_machine() const { return raw_machine_; }
  bool is_64_bit() const { return is_64_bit_; }
  Bytes bytes() const { return image_; }
  FileOffset start() const { return start_; }
  const std::vector<PeSection>& sections() const { return sections_; }
  // A directory past the file's own count is absent.
  PeDirectory directory(size_t index) const;
  // Nothing: the file is no managed one.
  const std::optional<CorHeader>& cor_header() const { return cor_header_; }

  // The position in the mapped file of an RVA: RVA − section.VirtualAddress + section.PointerToRawData +
  // start. Nothing for an RVA in no section, or one past the part of its section that the file holds.
  std::optional<FileOffset> file_offset(ImageAddr rva) const;
  std::optional<ImageAddr> rva_of(FileOffset offset) const;
  const PeSection* section_of(ImageAddr rva) const;

  // The bytes at an RVA; nothing unless all of them are in one section.
  std::optional<Bytes> bytes_at(ImageAddr rva, uint64_t size) const;
  std::optional<Bytes> bytes_at(PeDirectory directory) const {
    return bytes_at(directory.address, directory.size);
  }
  // From an RVA to the end of its section's bytes; empty when the RVA is nowhere.
  Bytes bytes_from(ImageAddr rva) const;

  // The RVA of an exported symbol (composite images export RTR_HEADER).
  std::optional<ImageAddr> find_export(std::string_view name) const;
  // The signature of the .ni.r2rmap that belongs to the image, by its debug directory: 32 hexadecimal digits,
  // or empty.
  std::string map_signature() const;

 private:
  PeFile() = default;
  Status read_sections(ByteReader& reader, unsigned count);
  void read_cor_header();

  Bytes image_;
  FileOffset start_;
  PeMachine machine_ = PeMachine::kUnknown;
  PeSystem system_ = PeSystem::kWindows;
  uint16_t raw_machine_ = 0;
  bool is_64_bit_ = false;
  std::vector<PeSection> sections_;
  std::vector<PeDirectory> directories_;
  std::optional<CorHeader> cor_header_;
};

// Does the file begin as a PE file does? Cheap: for telling kinds of files apart.
bool looks_like_pe(Bytes bytes);

}  // namespace uscope::image
