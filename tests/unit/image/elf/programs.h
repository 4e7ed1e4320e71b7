// What these tests need to make images: a scratch folder, running the machine's tools, ELF files of few
// bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "image/elf/elf_file.h"

namespace uscope::image {

// A folder of its own, removed with what is in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = testing::TempDir() + "uscope-image-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

  std::string write(std::string_view name, std::string_view text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

 private:
  std::string path_;
};

// What a shell command prints; a command that fails fails the test.
inline std::string output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char chunk[65536];
  while (size_t got = ::fread(chunk, 1, sizeof chunk, pipe)) text.append(chunk, got);
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << text.substr(0, 2000);
  return text;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Opens an image that must be readable.
inline ElfFile open_image(const std::string& path) {
  auto file = ElfFile::open(path);
  if (!file) {
    ADD_FAILURE() << file.error().message();
    std::abort();
  }
  return std::move(*file);
}

// The same file as if it had never had section headers.
inline std::string without_section_headers(std::string image) {
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  header->e_shoff = 0;
  header->e_shnum = 0;
  header->e_shstrndx = 0;
  return image;
}

inline std::string elf_header(uint16_t type = ET_EXEC, uint16_t machine = EM_X86_64) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = type;
  header.e_machine = machine;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

// Two C functions, one static, one hot with a cold part, data, and a probe-less main.
constexpr std::string_view small_program = R"(
#include <stdio.h>
#include <stdlib.h>
int counter = 3;
__attribute__((noinline)) static int local_function(int x) { return x * 3 + counter; }
__attribute__((noinline)) int global_function(int x) { return local_function(x) + 1; }
int main(int argc, char** argv) { printf("%d\n", global_function(argc)); return 0; }
)";

}  // namespace uscope::image
