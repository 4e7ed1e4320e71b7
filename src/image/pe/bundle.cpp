#include "image/pe/bundle.h"

#include <fmt/format.h>

#include <string>

namespace uscope::image {
namespace {

// Written complemented: the bytes themselves must not stand in uscope's own executable, or it would look like
// a host. Volatile, so that the compiler does not undo that.
const volatile uint8_t kComplementedSignature[32] = {
    0x74, 0xed, 0xfd, 0x46, 0x95, 0x9e, 0xdf, 0xc7, 0x8d, 0x84, 0x6c, 0xfd, 0xeb, 0x28, 0x5f, 0xcd,
    0xec, 0x0a, 0x46, 0x19, 0x10, 0x51, 0xcc, 0xe7, 0x11, 0xc4, 0xd2, 0x31, 0xdb, 0x4c, 0x95, 0x51};
constexpr uint32_t kMaxEntries = 100'000;

// Where the manifest is, by the host: the 8 bytes in front of a signature in its data. 0 in a host without a
// bundle.
std::optional<uint64_t> find_header(Bytes file) {
  std::string signature;
  for (size_t i = 0; i < sizeof(kComplementedSignature); ++i) signature += char(~kComplementedSignature[i]);
  size_t at = as_text(file).find(signature);
  if (at == std::string_view::npos || at < 8) return std::nullopt;
  uint64_t offset = ByteReader(file, at - 8).u64();
  if (offset == 0) return std::nullopt;
  return offset;
}

// A string with its length in front, seven bits a byte.
std::string_view read_string(ByteReader& reader) { return as_text(reader.take(reader.uleb128())); }

}  // namespace

Result<std::optional<Bundle>> read_bundle(Bytes file) {
  auto header = find_header(file);
  if (!header) return std::nullopt;
  ByteReader reader(file, *header);
  Bundle bundle;
  bundle.major_version = reader.u32();
  bundle.minor_version = reader.u32();
  uint32_t count = reader.u32();
  if (reader.failed()) return fail("the bundle's manifest lies outside the file");
  if (bundle.major_version == 0 || bundle.major_version > 6) {
    return fail(fmt::format("a bundle of unknown version {}.{}", bundle.major_version, bundle.minor_version));
  }
  if (count > kMaxEntries) return fail(fmt::format("a bundle manifest that claims {} files", count));
  bundle.id = read_string(reader);
  if (bundle.major_version >= 2) reader.skip(5 * 8);  // where deps.json and runtimeconfig.json are; flags
  for (uint32_t i = 0; i < count; ++i) {
    BundleEntry entry;
    entry.offset = {reader.u64()};
    entry.size = reader.u64();
    if (bundle.major_version >= 6) entry.compressed_size = reader.u64();
    entry.type = BundleFileType(reader.u8());
    entry.path = read_string(reader);
    if (reader.failed()) return fail("the bundle's manifest is cut short");
    bundle.entries.push_back(entry);
  }
  return bundle;
}

std::optional<Bytes> bytes_of(const BundleEntry& entry, Bytes file) {
  if (entry.compressed()) return std::nullopt;
  return slice(file, entry.offset.value, entry.size);
}

}  // namespace uscope::image
