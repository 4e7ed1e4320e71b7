#include "image/elf/ld_cache.h"

#include <algorithm>

namespace uscope::image {
namespace {

constexpr std::string_view old_magic = "ld.so-1.7.0";
constexpr std::string_view new_magic = "glibc-ld.so.cache1.1";
constexpr uint64_t old_header_size = 16;  // the magic padded to 12, a count
constexpr uint64_t old_entry_size = 12;
constexpr uint64_t new_header_size = 48;
constexpr uint64_t new_entry_size = 24;
constexpr uint32_t x86_64_libc6 = 0x0303;

bool starts_with(Bytes bytes, std::string_view magic) { return as_text(bytes).starts_with(magic); }

}  // namespace

Result<LdCache> LdCache::parse(Bytes bytes) {
  if (starts_with(bytes, old_magic)) {
    const uint64_t count = ByteReader(bytes, 12).u32();
    const uint64_t end = old_header_size + count * old_entry_size;
    bytes = slice_from(bytes, (end + 7) / 8 * 8);
  }
  if (!starts_with(bytes, new_magic)) return fail("not a loader cache that glibc 2.2 or later would read");
  if (bytes.size() < new_header_size) return fail("a loader cache cut short in its header");
  LdCache cache;
  cache.bytes_ = bytes;
  const uint64_t room = (bytes.size() - new_header_size) / new_entry_size;
  cache.count_ = std::min<uint64_t>(ByteReader(bytes, new_magic.size()).u32(), room);
  return cache;
}

std::vector<std::string_view> LdCache::find(std::string_view soname) const {
  std::vector<std::string_view> paths;
  ByteReader reader(bytes_, new_header_size);
  for (uint32_t i = 0; i < count_; ++i) {
    const uint32_t flags = reader.u32();
    const uint32_t key = reader.u32();
    const uint32_t value = reader.u32();
    reader.skip(4 + 8);  // OS version, no longer used; hardware capabilities, which the path shows too
    if (flags != x86_64_libc6 || cstring_at(bytes_, key) != soname) continue;
    if (std::string_view path = cstring_at(bytes_, value); !path.empty()) paths.push_back(path);
  }
  return paths;
}

int hwcaps_level(std::string_view path) {
  constexpr std::string_view folder = "/glibc-hwcaps/x86-64-v";
  const size_t at = path.find(folder);
  if (at == std::string_view::npos || at + folder.size() >= path.size()) return 1;
  const char digit = path[at + folder.size()];
  return digit >= '2' && digit <= '4' ? digit - '0' : 1;
}

int supported_hwcaps_level() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return 4;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
    return 3;
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") ? 2 : 1;
}

}  // namespace uscope::image
