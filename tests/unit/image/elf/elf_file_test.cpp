#include "image/elf/elf_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

std::string error_of(const std::string& image) {
  auto file = ElfFile::from_bytes(as_bytes(image), "x");
  return file ? "" : file.error().message();
}

TEST(ElfFile, NamesWhatItDoesNotRead) {
  EXPECT_EQ(error_of(""), "x is not an ELF file");
  EXPECT_EQ(error_of("#!/bin/sh\n"), "x is not an ELF file");
  EXPECT_EQ(error_of("\x7f"
                     "ELF"),
            "x is an ELF file cut off in its header");
  EXPECT_EQ(error_of(elf_header().substr(0, 40)), "x is an ELF file cut off in its header");
  EXPECT_EQ(error_of(elf_header(ET_EXEC, EM_AARCH64)),
            "x is an ELF file for AArch64; uscope reads x86-64 (64-bit, little-endian)");
  std::string i386 = elf_header(ET_EXEC, EM_386);
  i386[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(error_of(i386), "x is an ELF file for 32-bit x86; uscope reads x86-64 (64-bit, little-endian)");
  std::string x32 = elf_header();
  x32[EI_CLASS] = ELFCLASS32;
  EXPECT_NE(error_of(x32).find("x32"), std::string::npos);
  std::string s390 = elf_header(ET_EXEC, __builtin_bswap16(EM_S390));
  s390[EI_DATA] = ELFDATA2MSB;
  EXPECT_NE(error_of(s390).find("s390, big-endian"), std::string::npos);
  EXPECT_EQ(error_of(elf_header()), "");
}

TEST(ElfFile, ErrorsOfOpeningNameThePath) {
  EXPECT_EQ(ElfFile::open("/nonexistent/x").error().message(),
            "opening /nonexistent/x: No such file or directory");
  EXPECT_EQ(ElfFile::open("/tmp").error().message(), "/tmp is a directory, not a file");
}

TEST(ElfFile, LyingCountsGiveAPartialAnswerThatSaysSo) {
  std::string image = elf_header();
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  header->e_phoff = header->e_shoff = sizeof *header;
  header->e_phnum = 60000;
  header->e_shnum = 60000;
  image.append(3 * sizeof(Elf64_Shdr), '\0');
  auto file = ElfFile::from_bytes(as_bytes(image), "x");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->sections().size(), 3u);
  EXPECT_EQ(file->segments().size(), 3u);
  ASSERT_EQ(file->problems().size(), 2u);
  EXPECT_EQ(file->problems()[0], "only 3 of 60000 section headers lie in the file");
  EXPECT_EQ(file->problems()[1], "only 3 of 60000 program headers lie in the file");
}

TEST(ElfFile, ExtendedNumberingIsRead) {
  std::string image = elf_header();
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  header->e_shoff = sizeof *header;
  header->e_shnum = 0;
  header->e_shstrndx = SHN_XINDEX;
  std::vector<Elf64_Shdr> sections(70000);
  sections[0].sh_size = sections.size();
  sections[0].sh_link = 69999;
  sections[69998].sh_type = SHT_PROGBITS;
  sections[69998].sh_name = 1;
  uint64_t names_at = sizeof *header + sections.size() * sizeof sections[0];
  sections[69999].sh_type = SHT_STRTAB;
  sections[69999].sh_offset = names_at;
  sections[69999].sh_size = 7;
  image.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof sections[0]);
  image.append("\0.last\0", 7);
  auto file = ElfFile::from_bytes(as_bytes(image), "x");
  ASSERT_TRUE(file);
  ASSERT_EQ(file->sections().size(), 70000u);
  ASSERT_NE(file->find_section(".last"), nullptr);
  EXPECT_EQ(file->find_section(".last")->index, 69998u);
  EXPECT_TRUE(file->problems().empty());
}

std::string with_segments(const std::vector<Elf64_Phdr>& segments, size_t size) {
  std::string image = elf_header();
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  header->e_phoff = sizeof *header;
  header->e_phnum = uint16_t(segments.size());
  image.append(reinterpret_cast<const char*>(segments.data()), segments.size() * sizeof segments[0]);
  image.resize(size);
  return image;
}

TEST(ElfFile, AddressesConvertBySegmentsOnly) {
  std::string image = with_segments({{.p_type = PT_LOAD,
                                      .p_flags = PF_R,
                                      .p_offset = 0,
                                      .p_vaddr = 0x10000,
                                      .p_filesz = 0x800,
                                      .p_memsz = 0x800},
                                     {.p_type = PT_LOAD,
                                      .p_flags = PF_R | PF_X,
                                      .p_offset = 0x800,
                                      .p_vaddr = 0x21800,
                                      .p_filesz = 0x400,
                                      .p_memsz = 0x1000},
                                     // The same bytes once more, not executable; and one that wraps around.
                                     {.p_type = PT_LOAD,
                                      .p_flags = PF_R,
                                      .p_offset = 0x800,
                                      .p_vaddr = 0x50000,
                                      .p_filesz = 0x100,
                                      .p_memsz = 0x100},
                                     {.p_type = PT_LOAD,
                                      .p_flags = PF_R,
                                      .p_offset = 8,
                                      .p_vaddr = UINT64_MAX - 4,
                                      .p_filesz = 0x100,
                                      .p_memsz = 0x100}},
                                    0x1000);
  auto file = ElfFile::from_bytes(as_bytes(image), "x");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->to_file_offset({0x10000}), FileOffset{0});
  EXPECT_EQ(file->to_file_offset({0x21810}), FileOffset{0x810});
  EXPECT_EQ(file->to_file_offset({0x21bff}), FileOffset{0xbff});
  EXPECT_EQ(file->to_file_offset({0x21c00}), std::nullopt) << "zero-filled memory has no place in the file";
  EXPECT_EQ(file->to_file_offset({0xffff}), std::nullopt);
  EXPECT_EQ(file->to_file_offset({UINT64_MAX - 1}), std::nullopt);
  EXPECT_EQ(file->to_image_addr({0x810}), ImageAddr{0x21810}) << "the executable mapping wins";
  EXPECT_EQ(file->to_image_addr({0x7ff}), ImageAddr{0x107ff});
  EXPECT_EQ(file->to_image_addr({0xc00}), std::nullopt);
  EXPECT_EQ(file->executable_ranges(), (std::vector<AddressRange>{{{0x21800}, 0x1000}}));
  EXPECT_TRUE(file->is_executable({0x21fff}));
  EXPECT_FALSE(file->is_executable({0x50000}));
  EXPECT_EQ(file->lowest_address(), ImageAddr{0x10000});
  EXPECT_EQ(file->bytes_from({0x21bf0}).size(), 16u);
  EXPECT_EQ(file->bytes_at({0x21bf0}, 17), std::nullopt);
  EXPECT_EQ(file->problems(), std::vector<std::string>{"segment 3 wraps around the address space"});
}

TEST(ElfFile, ASegmentInsideAnotherDoesNotHideIt) {
  std::string image = with_segments({{.p_type = PT_LOAD,
                                      .p_flags = PF_R,
                                      .p_offset = 0,
                                      .p_vaddr = 0x1000,
                                      .p_filesz = 0x800,
                                      .p_memsz = 0x800},
                                     {.p_type = PT_LOAD,
                                      .p_flags = PF_R,
                                      .p_offset = 0x100,
                                      .p_vaddr = 0x1100,
                                      .p_filesz = 0x10,
                                      .p_memsz = 0x10}},
                                    0x1000);
  auto file = ElfFile::from_bytes(as_bytes(image), "x");
  EXPECT_EQ(file->to_file_offset({0x1700}), FileOffset{0x700});
  EXPECT_EQ(file->to_image_addr({0x700}), ImageAddr{0x1700});
}

TEST(ElfFile, ReadsTheLibraryOfTheMachine) {
  ElfFile file = open_image("/lib/x86_64-linux-gnu/libc.so.6");
  EXPECT_EQ(file.type(), ElfType::SharedLibrary);
  EXPECT_EQ(file.dynamic().soname, "libc.so.6");
  EXPECT_EQ(file.dynamic().needed, std::vector<std::string_view>{"ld-linux-x86-64.so.2"});
  EXPECT_EQ(file.interpreter(), "/lib64/ld-linux-x86-64.so.2");
  std::string notes = output_of("readelf -n /lib/x86_64-linux-gnu/libc.so.6");
  ASSERT_FALSE(file.build_id().empty());
  EXPECT_NE(notes.find("Build ID: " + to_hex(file.build_id()) + "\n"), std::string::npos) << notes;
  const Section& text = *file.find_section(".text");
  EXPECT_EQ(file.to_file_offset(text.address), text.offset);
  EXPECT_EQ(file.to_image_addr(text.offset), text.address);
  EXPECT_EQ(file.section_at(text.address + text.size / 2), &text);
  EXPECT_TRUE(file.problems().empty());
}

TEST(ElfFile, TellsTheKindsOfExecutableApart) {
  Scratch scratch;
  std::string source = scratch.write("a.c", small_program);
  auto type_of = [&](const std::string& flags) {
    output_of("gcc -O1 " + flags + " -o " + (scratch / "a") + " " + source);
    return open_image(scratch / "a").type();
  };
  EXPECT_EQ(type_of("-static"), ElfType::StaticExecutable);
  EXPECT_EQ(type_of("-static-pie"), ElfType::StaticPie);
  EXPECT_EQ(type_of("-no-pie"), ElfType::Executable);
  EXPECT_EQ(type_of("-pie -fPIE"), ElfType::PieExecutable);
  EXPECT_EQ(type_of("-shared -fPIC"), ElfType::SharedLibrary);
  EXPECT_EQ(type_of("-c"), ElfType::Relocatable);
  EXPECT_EQ(open_image("/lib64/ld-linux-x86-64.so.2").type(), ElfType::SharedLibrary);
}

TEST(ElfFile, LinkingFactsAreThoseOfTheLinker) {
  Scratch scratch;
  output_of(
      "gcc -O1 -o " + (scratch / "a") + " " + scratch.write("a.c", small_program) +
      " -Wl,--no-as-needed -lm -Wl,--enable-new-dtags,-rpath,/opt/x:$ORIGIN/lib -Wl,--build-id=0xc0ffee");
  ElfFile file = open_image(scratch / "a");
  EXPECT_EQ(file.dynamic().needed, (std::vector<std::string_view>{"libm.so.6", "libc.so.6"}));
  EXPECT_EQ(file.dynamic().runpath, "/opt/x:/lib");
  EXPECT_EQ(file.dynamic().rpath, "");
  EXPECT_EQ(to_hex(file.build_id()), "c0ffee");
  ASSERT_FALSE(file.comments().empty());
  EXPECT_TRUE(file.comments()[0].starts_with("GCC: ")) << file.comments()[0];
  ElfFile moved = std::move(file);
  EXPECT_EQ(moved.find_section(".comment")->name, ".comment");

  std::string bare = without_section_headers(read_all(scratch / "a"));
  auto stripped = ElfFile::from_bytes(as_bytes(bare), "bare");
  ASSERT_TRUE(stripped);
  EXPECT_TRUE(stripped->sections().empty());
  EXPECT_EQ(to_hex(stripped->build_id()), "c0ffee");
  EXPECT_EQ(stripped->dynamic().needed.size(), 2u);
  EXPECT_EQ(stripped->type(), ElfType::PieExecutable);
}

class CompressedSections : public testing::TestWithParam<std::string> {};

TEST_P(CompressedSections, DecompressToWhatWasThere) {
  Scratch scratch;
  std::string source = scratch.write("a.c", small_program), plain = scratch / "plain",
              packed = scratch / "packed";
  output_of("gcc -g -gz=none -o " + plain + " " + source);
  output_of("objcopy --compress-debug-sections=" + GetParam() + " " + plain + " " + packed);
  ElfFile before = open_image(plain), after = open_image(packed);
  EXPECT_TRUE(after.has_debug_info());
  size_t compressed = 0;
  for (const Section& section : after.sections()) {
    if (section.name.find("debug_") == std::string_view::npos) continue;
    compressed += section.is_compressed() ? 1 : 0;
    std::string plain_name(section.name);
    if (plain_name.starts_with(".z")) plain_name.erase(1, 1);
    auto data = after.read_section(section);
    ASSERT_TRUE(data) << data.error().message();
    const Section* original = before.find_section(plain_name);
    ASSERT_NE(original, nullptr) << plain_name;
    EXPECT_EQ(as_text(data->bytes), as_text(before.stored_bytes(*original))) << plain_name;
  }
  EXPECT_GE(compressed, 2u);
}
INSTANTIATE_TEST_SUITE_P(Kinds, CompressedSections, testing::Values("zlib", "zlib-gnu", "zstd"),
                         [](const auto& built) {
                           return built.param == "zlib-gnu" ? "zlib_gnu" : built.param;
                         });

TEST(ElfFile, DecompressionHoldsToItsLimits) {
  Scratch scratch;
  output_of("gcc -g -gz=zlib -o " + (scratch / "a") + " " + scratch.write("a.c", small_program));
  std::string image = read_all(scratch / "a");
  auto file = ElfFile::from_bytes(as_bytes(image), "a");
  const Section& section = *file->find_section(".debug_str");
  ASSERT_TRUE(section.is_compressed());
  auto refused = file->read_section(section, 16);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("more than the 16 uscope allows"), std::string::npos);
  // A size that no such data can have.
  auto* header = reinterpret_cast<Elf64_Chdr*>(image.data() + section.offset.value);
  header->ch_size = uint64_t(1) << 40;
  EXPECT_FALSE(file->read_section(section));
  header->ch_size = 100000;
  EXPECT_FALSE(file->read_section(section));
  header->ch_type = 77;
  EXPECT_NE(file->read_section(section).error().message().find("compression method 77"), std::string::npos);
}

}  // namespace
}  // namespace uscope::image
