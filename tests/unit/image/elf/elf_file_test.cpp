#include "image/elf/elf_file.h"

#include <gtest/gtest.h>

#include <string>

namespace uscope::image {
namespace {

TEST(ElfFile, ReadsTheLibraryOfTheMachine) {
  auto file = ElfFile::open("/lib/x86_64-linux-gnu/libc.so.6");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->type(), ElfType::SharedLibrary);
  EXPECT_EQ(file->dynamic().soname, "libc.so.6");
  EXPECT_EQ(file->build_id().size(), 20u);
  EXPECT_EQ(file->interpreter(), "/lib64/ld-linux-x86-64.so.2");
  ASSERT_NE(file->find_section(".text"), nullptr);
  const Section& text = *file->find_section(".text");
  EXPECT_EQ(file->to_file_offset(text.address), text.offset);
  EXPECT_EQ(file->to_image_addr(text.offset), text.address);
  EXPECT_EQ(file->section_at(text.address), &text);
  EXPECT_TRUE(file->problems().empty());
}

}  // namespace
}  // namespace uscope::image
