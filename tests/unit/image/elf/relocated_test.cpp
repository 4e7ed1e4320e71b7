#include "image/elf/relocated.h"

#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

constexpr uint64_t kWord = 8;

// An image that is its file: headers, what PT_DYNAMIC says, the packed table, then 200 words, each of which
// has its own number.
struct PackedImage {
  std::string bytes = elf_header(ET_DYN);
  uint64_t words = 0;

  template <typename T>
  void append(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  // `bits`: the bitmaps behind the place of word 0.
  explicit PackedImage(std::vector<uint64_t> bits) {
    const uint64_t dynamic = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
    const uint64_t table = dynamic + 3 * sizeof(Elf64_Dyn);
    const uint64_t size = (1 + bits.size()) * kWord;
    words = table + size;
    const uint64_t end = words + 200 * kWord;
    auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
    header->e_phoff = sizeof *header;
    header->e_phnum = 2;
    append(Elf64_Phdr{PT_LOAD, PF_R | PF_W, 0, 0, 0, end, end, kWord});
    append(Elf64_Phdr{PT_DYNAMIC, PF_R, dynamic, dynamic, dynamic, table - dynamic, table - dynamic, kWord});
    append(Elf64_Dyn{DT_RELR, {table}});
    append(Elf64_Dyn{DT_RELRSZ, {size}});
    append(Elf64_Dyn{DT_NULL, {0}});
    append(words);
    for (uint64_t word : bits) append(word);
    for (uint64_t i = 0; i < 200; ++i) append(i);
  }
};

TEST(RelocatedImage, PackedRelocationsAreFoundByTheirBits) {
  // Words 1 and 63 by the first map, 64 and 126 by the second.
  constexpr uint64_t first_and_last = uint64_t(1) << 63 | 2 | 1;
  const PackedImage image({first_and_last, first_and_last});
  auto file = ElfFile::from_bytes(as_bytes(image.bytes), "x");
  ASSERT_TRUE(file);
  const RelocatedImage relocated(*file);
  const auto values = relocated.values_in(0, 200);
  EXPECT_EQ(std::vector(values.begin(), values.end()), (std::vector<uint64_t>{0, 1, 63, 64, 126}));
  EXPECT_TRUE(relocated.changes(ImageAddr{image.words + 126 * kWord}, 1));
  EXPECT_FALSE(relocated.changes(ImageAddr{image.words + 127 * kWord}, 73 * kWord));
}

TEST(RelocatedImage, PackedRelocationsOutsideOfTheFileAreLeftOut) {
  const PackedImage image({1, 1, 1, ~uint64_t(0)});  // the last one's bits are for the words from 190 on
  auto file = ElfFile::from_bytes(as_bytes(image.bytes), "x");
  ASSERT_TRUE(file);
  const RelocatedImage relocated(*file);
  EXPECT_EQ(relocated.values_in(1, 1000).size(), 10u);
}

}  // namespace
}  // namespace uscope::image
