// What an image in a process's memory exports, by its own hash table.
#include "process/exports.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace uscope::process {
namespace {

TEST(Exports, NamesThatALoadedLibraryHasAndHasNot) {
  auto maps = Maps::of(::getpid());
  auto memory = RemoteMemory::open(::getpid());
  ASSERT_TRUE(maps && memory);
  const std::vector<MappedImage> images = maps->images();
  auto library = std::ranges::find_if(
      images, [](const MappedImage& image) { return image.path.find("/libc.so") != std::string::npos; });
  if (library == images.end()) GTEST_SKIP() << "linked without a libc.so";
  constexpr std::array<std::string_view, 2> kSome = {"no_such_function", "malloc"};
  constexpr std::array<std::string_view, 3> kNone = {"no_such_function", "mallo", "malloc "};
  EXPECT_TRUE(exports_any(*memory, *library, kSome));
  EXPECT_FALSE(exports_any(*memory, *library, kNone));
}

}  // namespace
}  // namespace uscope::process
