#include "image/elf/ld_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace uscope::image {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Entry {
  uint32_t flags;
  std::string name, path;
};

std::string new_cache(const std::vector<Entry>& entries) {
  std::string strings, table;
  const uint32_t base = uint32_t(48 + entries.size() * 24);
  for (const Entry& e : entries) {
    put(table, e.flags);
    put(table, uint32_t(base + strings.size()));
    strings += e.name + '\0';
    put(table, uint32_t(base + strings.size()));
    strings += e.path + '\0';
    put(table, uint32_t(0));
    put(table, uint64_t(0));
  }
  std::string out = "glibc-ld.so.cache1.1";
  put(out, uint32_t(entries.size()));
  put(out, uint32_t(strings.size()));
  out.resize(48, '\0');
  return out + table + strings;
}

TEST(LdCache, FindsTheLibrariesOfX8664Only) {
  const std::string bytes = new_cache({{0x0803, "libz.so.1", "/lib32/libz.so.1"},
                                       {0x0303, "libz.so.1", "/opt/glibc-hwcaps/x86-64-v3/libz.so.1"},
                                       {0x0303, "libz.so.1", "/opt/libz.so.1"},
                                       {0x0303, "libm.so.6", "/lib/libm.so.6"}});
  auto cache = LdCache::parse(as_bytes(bytes));
  ASSERT_TRUE(cache) << cache.error().message();
  EXPECT_EQ(cache->find("libz.so.1"),
            (std::vector<std::string_view>{"/opt/glibc-hwcaps/x86-64-v3/libz.so.1", "/opt/libz.so.1"}));
  EXPECT_TRUE(cache->find("libz.so").empty());
}

TEST(LdCache, ReadsTheOneBehindTheOlderLayout) {
  std::string bytes = "ld.so-1.7.0";
  bytes += '\0';
  put(bytes, uint32_t(1));
  bytes.append(12, 'x');
  bytes.resize(32, '\0');
  bytes += new_cache({{0x0303, "a.so", "/a.so"}});
  auto cache = LdCache::parse(as_bytes(bytes));
  ASSERT_TRUE(cache) << cache.error().message();
  EXPECT_EQ(cache->find("a.so"), std::vector<std::string_view>{"/a.so"});
}

TEST(LdCache, LyingCountsAndOffsetsAreBounded) {
  std::string bytes = new_cache({{0x0303, "a.so", "/a.so"}});
  const uint32_t many = 0xffffffff;
  std::memcpy(bytes.data() + 20, &many, 4);
  auto cache = LdCache::parse(as_bytes(bytes));
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->find("a.so"), std::vector<std::string_view>{"/a.so"});
  std::memcpy(bytes.data() + 48 + 8, &many, 4);  // the path's offset
  EXPECT_TRUE(LdCache::parse(as_bytes(bytes))->find("a.so").empty());
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (auto cut = LdCache::parse(as_bytes(std::string_view(bytes).substr(0, size)))) cut->find("a.so");
  }
  EXPECT_FALSE(LdCache::parse(as_bytes("hello")));
}

TEST(LdCache, HwcapsLevels) {
  EXPECT_EQ(hwcaps_level("/lib/glibc-hwcaps/x86-64-v3/libc.so"), 3);
  EXPECT_EQ(hwcaps_level("/lib/libc.so"), 1);
  EXPECT_EQ(hwcaps_level("/lib/glibc-hwcaps/x86-64-v"), 1);
  EXPECT_GE(supported_hwcaps_level(), 1);
}

}  // namespace
}  // namespace uscope::image
