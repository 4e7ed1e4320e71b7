#include "image/pe/pe_file.h"

#include <gtest/gtest.h>

#include "unit/image/pe/pe_builder.h"

namespace uscope::image {
namespace {

using testing::Blob;
using testing::PeSpec;

PeSpec two_sections() {
  PeSpec spec;
  Blob text, data;
  text.pad_to(0x350);
  text.bytes[0x123] = 0xaa;
  data.pad_to(0x40);
  spec.sections = {{".text", 0x10200, text, true, 0}, {".data", 0x55200, data, false, 0x200}};
  return spec;
}

TEST(PeFile, MachineAndSystem) {
  struct Case {
    uint16_t raw;
    PeMachine machine;
    PeSystem system;
  };
  for (const Case& c :
       {Case{0x8664, PeMachine::kX64, PeSystem::kWindows}, Case{0xfd1d, PeMachine::kX64, PeSystem::kLinux},
        Case{0xd11d, PeMachine::kArm64, PeSystem::kLinux}, Case{0xec20, PeMachine::kArm64, PeSystem::kApple},
        Case{0x2ba0, PeMachine::kX64, PeSystem::kFreeBsd}, Case{0x014c, PeMachine::kX86, PeSystem::kWindows},
        Case{0x1234, PeMachine::kUnknown, PeSystem::kWindows}}) {
    PeSpec spec;
    spec.machine = c.raw;
    Blob blob = testing::build_pe(spec);
    auto file = PeFile::parse(blob.bytes);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->machine(), c.machine) << std::hex << c.raw;
    EXPECT_EQ(file->system(), c.system) << std::hex << c.raw;
  }
}

TEST(PeFile, RvaToFileOffsetAndBack) {
  Blob blob = testing::build_pe(two_sections());
  auto file = PeFile::parse(blob.bytes);
  ASSERT_TRUE(file);
  ASSERT_EQ(file->sections().size(), 2u);
  EXPECT_EQ(file->sections()[0].name, ".text");
  EXPECT_TRUE(file->sections()[0].executable());
  EXPECT_FALSE(file->sections()[1].executable());
  EXPECT_EQ(file->file_offset({0x10200 + 0x123}), FileOffset{0x323});
  EXPECT_EQ(blob.bytes[0x323], 0xaa);
  EXPECT_EQ(file->file_offset({0x55210}), FileOffset{0x200 + 0x400 + 0x200 + 0x10});
  EXPECT_EQ(file->rva_of({0x323}), ImageAddr{0x10323});
  EXPECT_EQ(file->file_offset({0x101ff}), std::nullopt);  // headers
  EXPECT_EQ(file->file_offset({0x20000}), std::nullopt);  // between sections
  EXPECT_EQ(file->rva_of({0x10}), std::nullopt);
  EXPECT_EQ(file->rva_of({0x650}), std::nullopt);    // the gap
  EXPECT_FALSE(file->bytes_at({0x10200}, 0x10000));  // more than the section has
}

TEST(PeFile, InABundleOffsetsCountFromTheBundlesStart) {
  Blob blob = testing::build_pe(two_sections());
  auto file = PeFile::parse(blob.bytes, FileOffset{0x2266000});
  ASSERT_TRUE(file);
  EXPECT_EQ(file->file_offset({0x10323}), FileOffset{0x2266323});
  EXPECT_EQ(file->rva_of({0x2266323}), ImageAddr{0x10323});
  EXPECT_EQ(file->rva_of({0x323}), std::nullopt);
}

TEST(PeFile, SectionsCutByTheEndOfTheFileLoseTheirTail) {
  Blob blob = testing::build_pe(two_sections());
  auto file = PeFile::parse(Bytes(blob.bytes).first(0x320));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->file_offset({0x1031f}), FileOffset{0x31f});
  EXPECT_EQ(file->file_offset({0x10320}), std::nullopt);
  EXPECT_EQ(file->file_offset({0x55200}), std::nullopt);
  EXPECT_TRUE(file->bytes_from({0x10320}).empty());
}

TEST(PeFile, ExportsByName) {
  PeSpec spec;
  constexpr uint32_t base = 0x1000;
  Blob data;
  data.pad_to(20).u32(1).u32(2).u32(base + 0x40).u32(base + 0x50).u32(base + 0x60);
  data.pad_to(0x40).u32(0x4242);
  data.pad_to(0x50).u32(base + 0x70).u32(base + 0x80);
  data.pad_to(0x60).u16(7).u16(0);  // the first one's ordinal lies
  data.pad_to(0x70).text("RTR").u8(0).pad_to(0x80).text("RTR_HEADER").u8(0);
  spec.sections = {{".edata", base, data, false, 0}};
  spec.directories[0] = {base, uint32_t(data.size())};
  Blob blob = testing::build_pe(spec);
  auto file = PeFile::parse(blob.bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find_export("RTR_HEADER"), ImageAddr{0x4242});
  EXPECT_EQ(file->find_export("RTR"), std::nullopt);
  EXPECT_EQ(file->find_export("RTR_HEADE"), std::nullopt);
}

TEST(PeFile, TheDebugDirectoryNamesTheMapThatBelongsToTheImage) {
  PeSpec spec;
  constexpr uint32_t base = 0x1000;
  Blob data;
  data.pad_to(12).u32(2).u32(0).u32(0).u32(0);                       // a PDB's entry
  data.pad_to(28 + 12).u32(21).u32(36).u32(base + 0x40).u32(0x240);  // the map's
  data.pad_to(0x40).text("R2RM");
  for (int i = 0; i < 16; ++i) data.u8(0xf0 + i);
  data.u32(1).text("app.ni.r2rmap").u8(0);
  spec.sections = {{".rdata", base, data, false, 0}};
  spec.directories[6] = {base, 56};
  Blob blob = testing::build_pe(spec);
  auto file = PeFile::parse(blob.bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->map_signature(), "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  EXPECT_EQ(PeFile::parse(testing::build_pe({}).bytes)->map_signature(), "");
}

TEST(PeFile, WhatIsNoPeFileIsAnErrorThatSaysSo) {
  Blob elf;
  elf.text(
         "\x7f"
         "ELF")
      .pad_to(200);
  EXPECT_FALSE(PeFile::parse(elf.bytes).has_value());
  EXPECT_FALSE(looks_like_pe(elf.bytes));
  PeSpec spec;
  Blob blob = testing::build_pe(spec);
  EXPECT_TRUE(looks_like_pe(blob.bytes));
  blob.bytes[0x46] = 0xff;  // 255 and more sections
  auto file = PeFile::parse(blob.bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message(), "255 PE sections, more than any loader accepts");
}

}  // namespace
}  // namespace uscope::image
