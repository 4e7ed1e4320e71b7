// The ReadyToRun header of a PE image and what hangs on it: sections, runtime functions, entry points, the
// component assemblies of a composite image. This is the layer of tables and indexes; native_image.h turns it
// into named methods. Refers to the PeFile it was read from, which must outlive it. Immutable after read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "image/pe/metadata.h"
#include "image/pe/pe_file.h"

namespace uscope::image {

enum class ReadyToRunSection : uint32_t {
  kCompilerIdentifier = 100,
  kRuntimeFunctions = 102,
  kMethodEntryPoints = 103,
  kInstanceEntryPoints = 109,
  kManifestMetadata = 112,
  kComponentAssemblies = 115,
  kOwnerComposite = 116,
  kManifestMvids = 118,
  kHotColdMap = 120,
};

// A stretch of code with unwind data of its own: a method's body, one of its funclets (catch, finally), or
// the cold part that was moved away from either.
struct RuntimeFunction {
  ImageAddr begin;
  ImageAddr end;
};

// A method's entry point: its first runtime function, and where its metadata is.
struct MethodEntry {
  uint32_t row = 0;       // MethodDef row
  uint32_t function = 0;  // index among the runtime functions
};

struct HotColdPair {
  uint32_t hot = 0;
  uint32_t cold = 0;
};

// One table of sections: the image's own, or a component's.
class ReadyToRunSections {
 public:
  std::optional<PeDirectory> find(ReadyToRunSection type) const;
  uint32_t flags = 0;
  std::vector<std::pair<uint32_t, PeDirectory>> all;
};

// An assembly compiled into a composite image.
struct ReadyToRunComponent {
  std::string_view name;  // from the manifest; empty when the manifest lacks it
  ReadyToRunSections sections;
  std::optional<CorHeader> cor_header;  // present when its IL is embedded
};

class ReadyToRun {
 public:
  static constexpr uint32_t kSignature = 0x00525452;  // "RTR"

  // Nothing: the image has no ReadyToRun header, so no native code. An error: it has one that cannot be read.
  static Result<std::optional<ReadyToRun>> read(const PeFile& file);

  uint16_t major_version() const { return major_; }
  uint16_t minor_version() const { return minor_; }
  bool at_least(uint16_t major, uint16_t minor) const {
    return major_ > major || (major_ == major && minor_ >= minor);
  }
  const ReadyToRunSections& sections() const { return sections_; }
  // By its table of components: the format's document names a flag (2) for this, but compilers since .NET 6
  // set that bit in ordinary images too, where it means that types need no validation.
  bool is_composite() const { return sections_.find(ReadyToRunSection::kComponentAssemblies).has_value(); }
  // The code of this assembly is in another file: owner_composite() names it.
  bool is_component() const { return (sections_.flags & 0x20) != 0; }
  std::string_view owner_composite() const;
  std::string_view compiler() const;
  const std::vector<ReadyToRunComponent>& components() const { return components_; }
  const std::optional<Metadata>& manifest() const { return manifest_; }

  const std::vector<RuntimeFunction>& functions() const { return functions_; }
  const std::vector<HotColdPair>& hot_cold_pairs() const { return hot_cold_; }
  // The table was cut short or out of order; what could be read is there.
  bool functions_damaged() const { return functions_damaged_; }

  // The entry points listed by one section table (the image's or a component's), by MethodDef row.
  std::vector<MethodEntry> method_entries(const ReadyToRunSections& sections) const;
  // The instances of generic methods, for the whole image: an offset each into instance_entry_bytes(), where
  // a method signature and then the entry point are. `complete` turns false when the table is damaged.
  std::vector<uint64_t> instance_entries(bool& complete) const;
  Bytes instance_entry_bytes() const { return section_bytes(ReadyToRunSection::kInstanceEntryPoints); }

 private:
  ReadyToRun() = default;
  Status read_header(Bytes header);
  void read_functions();
  void read_hot_cold_map();
  void read_components();
  Bytes section_bytes(ReadyToRunSection type) const;

  const PeFile* file_ = nullptr;
  uint16_t major_ = 0, minor_ = 0;
  ReadyToRunSections sections_;
  std::vector<RuntimeFunction> functions_;
  std::vector<HotColdPair> hot_cold_;
  std::vector<ReadyToRunComponent> components_;
  std::optional<Metadata> manifest_;
  bool functions_damaged_ = false;
};

// An entry point as both tables encode it: the runtime function's index; the fix-ups that may follow are not
// read.
uint32_t read_entry_point(ByteReader& reader);

}  // namespace uscope::image
