#include "image/pe/ready_to_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "image/pe/native_format.h"

namespace uscope::image {
namespace {

constexpr uint32_t kMaxSections = 4096;

PeDirectory read_directory(ByteReader& reader) {
  PeDirectory directory;
  directory.address = {reader.u32()};
  directory.size = reader.u32();
  return directory;
}

// The part that the image's header and a component's header share.
Result<ReadyToRunSections> read_core_header(ByteReader& reader) {
  ReadyToRunSections sections;
  sections.flags = reader.u32();
  uint32_t count = reader.u32();
  if (count > kMaxSections) return fail(fmt::format("a ReadyToRun header with {} sections", count));
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t type = reader.u32();
    sections.all.emplace_back(type, read_directory(reader));
  }
  if (reader.failed()) return fail("the ReadyToRun header is cut short");
  return sections;
}

std::string_view text_of(Bytes bytes) { return cstring_at(bytes, 0); }

}  // namespace

std::optional<PeDirectory> ReadyToRunSections::find(ReadyToRunSection type) const {
  for (const auto& [number, directory] : all) {
    if (number == uint32_t(type)) return directory;
  }
  return std::nullopt;
}

uint32_t read_entry_point(ByteReader& reader) {
  uint32_t encoded = read_native_unsigned(reader);
  // Bit 0: fix-ups exist. Then bit 1: they are elsewhere, shared with another method.
  return (encoded & 1) != 0 ? encoded >> 2 : encoded >> 1;
}

Result<std::optional<ReadyToRun>> ReadyToRun::read(const PeFile& file) {
  Bytes header;
  if (file.cor_header() && file.cor_header()->managed_native_header.present()) {
    header = file.bytes_from(file.cor_header()->managed_native_header.address);
  } else if (auto exported = file.find_export("RTR_HEADER")) {
    header = file.bytes_from(*exported);
  } else {
    return std::nullopt;
  }
  ReadyToRun image;
  image.file_ = &file;
  TRY_STATUS(image.read_header(header));
  if (Bytes manifest = image.section_bytes(ReadyToRunSection::kManifestMetadata); !manifest.empty()) {
    if (auto metadata = Metadata::parse(manifest)) image.manifest_ = std::move(*metadata);
  }
  image.read_functions();
  image.read_hot_cold_map();
  image.read_components();
  return image;
}

Status ReadyToRun::read_header(Bytes header) {
  ByteReader reader(header);
  uint32_t signature = reader.u32();
  if (signature != kSignature) {
    return fail(fmt::format("the managed native header is not ReadyToRun's (signature {:#x})", signature));
  }
  major_ = reader.u16();
  minor_ = reader.u16();
  TRY(sections_, read_core_header(reader));
  return {};
}

Bytes ReadyToRun::section_bytes(ReadyToRunSection type) const {
  auto directory = sections_.find(type);
  if (!directory) return {};
  return file_->bytes_at(*directory).value_or(Bytes());
}

std::string_view ReadyToRun::owner_composite() const {
  return text_of(section_bytes(ReadyToRunSection::kOwnerComposite));
}

std::string_view ReadyToRun::compiler() const {
  return text_of(section_bytes(ReadyToRunSection::kCompilerIdentifier));
}

void ReadyToRun::read_functions() {
  auto directory = sections_.find(ReadyToRunSection::kRuntimeFunctions);
  if (!directory) return;
  Bytes rest = file_->bytes_from(directory->address);
  if (rest.size() < directory->size) functions_damaged_ = true;
  Bytes bytes = rest.first(std::min<size_t>(rest.size(), directory->size));
  // Only x86-64 has the end address; the others keep a function's length in its unwind data.
  bool has_end = file_->machine() == PeMachine::kX64;
  ByteReader reader(bytes);
  functions_.reserve(bytes.size() / (has_end ? 12 : 8));
  while (reader.remaining() >= (has_end ? 12u : 8u)) {
    RuntimeFunction function;
    function.begin = {reader.u32()};
    function.end = {has_end ? reader.u32() : 0};
    reader.skip(4);  // unwind data
    // A sentinel of all ones ends the table of some versions.
    if (function.begin.value == 0xffffffff) break;
    if (!functions_.empty()) {
      if (!has_end) functions_.back().end = function.begin;
      if (function.begin < functions_.back().begin) functions_damaged_ = true;
    }
    functions_.push_back(function);
  }
  if (!has_end && !functions_.empty()) functions_.back().end = functions_.back().begin;
}

void ReadyToRun::read_hot_cold_map() {
  ByteReader reader(section_bytes(ReadyToRunSection::kHotColdMap));
  while (reader.remaining() >= 8) {
    HotColdPair pair;
    pair.cold = reader.u32();
    pair.hot = reader.u32();
    hot_cold_.push_back(pair);
  }
}

void ReadyToRun::read_components() {
  ByteReader reader(section_bytes(ReadyToRunSection::kComponentAssemblies));
  for (uint32_t row = 1; reader.remaining() >= 16; ++row) {
    ReadyToRunComponent component;
    PeDirectory cor = read_directory(reader);
    PeDirectory header = read_directory(reader);
    if (manifest_) component.name = manifest_->assembly_ref_name(row);
    if (auto bytes = file_->bytes_at(cor.address, 72); cor.present() && bytes) {
      ByteReader cor_reader(*bytes, 8);
      CorHeader embedded;
      embedded.metadata = read_directory(cor_reader);
      embedded.flags = cor_reader.u32();
      component.cor_header = embedded;
    }
    ByteReader core_reader(file_->bytes_from(header.address));
    if (auto sections = read_core_header(core_reader)) component.sections = std::move(*sections);
    components_.push_back(std::move(component));
  }
}

std::vector<MethodEntry> ReadyToRun::method_entries(const ReadyToRunSections& sections) const {
  std::vector<MethodEntry> entries;
  auto directory = sections.find(ReadyToRunSection::kMethodEntryPoints);
  Bytes bytes = directory ? file_->bytes_at(*directory).value_or(Bytes()) : Bytes();
  if (bytes.empty()) return entries;
  NativeArray array(bytes);
  for (uint32_t index = 0; index < array.size(); ++index) {
    auto offset = array.find(index);
    if (!offset) continue;
    ByteReader reader(bytes, *offset);
    uint32_t function = read_entry_point(reader);
    if (!reader.failed()) entries.push_back({index + 1, function});
  }
  return entries;
}

std::vector<uint64_t> ReadyToRun::instance_entries(bool& complete) const {
  std::vector<uint64_t> offsets;
  Bytes bytes = instance_entry_bytes();
  complete = true;
  if (bytes.empty()) return offsets;
  complete = NativeHashtable(bytes).for_each([&](uint64_t offset) { offsets.push_back(offset); });
  return offsets;
}

}  // namespace uscope::image
