// Single-file bundles: a host executable (ELF on Linux) with a .NET application's files appended to it.
// Assemblies in a bundle are mapped straight from it, so a probe's file offset is one in the bundle: entry
// offset + offset in the image. Compressed entries are not: the runtime unpacks them into anonymous memory,
// and nothing in the file can be probed. A Bundle views the file's bytes and owns none of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace uscope::image {

enum class BundleFileType : uint8_t {
  kUnknown = 0,
  kAssembly = 1,
  kNativeBinary = 2,
  kDepsJson = 3,
  kRuntimeConfigJson = 4,
  kSymbols = 5,
};

struct BundleEntry {
  std::string_view path;
  BundleFileType type = BundleFileType::kUnknown;
  FileOffset offset;
  uint64_t size = 0;             // unpacked
  uint64_t compressed_size = 0;  // 0: stored as it is

  bool compressed() const { return compressed_size != 0; }
};

struct Bundle {
  uint32_t major_version = 0;
  uint32_t minor_version = 0;
  std::string_view id;
  std::vector<BundleEntry> entries;
};

// Nothing: the file is no bundle. An error: it is one whose manifest cannot be read.
Result<std::optional<Bundle>> read_bundle(Bytes file);

// The bytes of an entry stored as it is; nothing for a compressed one or one outside the file.
std::optional<Bytes> bytes_of(const BundleEntry& entry, Bytes file);

}  // namespace uscope::image
