#include "image/go/build_info.h"

#include <charconv>

#include "image/elf/elf_file.h"
#include "image/elf/relocated.h"

namespace uscope::image {
namespace {

constexpr std::string_view magic("\xff Go buildinf:", 14);
constexpr uint64_t header_size = 32;
constexpr uint8_t flag_big_endian = 1, flag_inline = 2;
// Module lists of the largest programs are some hundred kilobytes.
constexpr uint64_t longest_text = uint64_t(16) << 20;

std::string_view take_line(std::string_view& rest, char end = '\n') {
  size_t at = rest.find(end);
  std::string_view line = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
  return line;
}

// The module text stands between two markers of 16 bytes.
std::string_view without_markers(std::string_view text) {
  if (text.size() < 33 || text[text.size() - 17] != '\n') return {};
  return text.substr(16, text.size() - 32);
}

void parse_module_text(std::string_view text, GoBuildInfo& info) {
  constexpr size_t most_settings = 256;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    std::string_view key = take_line(line, '\t');
    if (key == "path") {
      info.path = line;
    } else if (key == "mod") {
      info.module = take_line(line, '\t');
      info.module_version = take_line(line, '\t');
    } else if (key == "build" && info.settings.size() < most_settings) {
      std::string_view name = take_line(line, '=');
      info.settings.emplace_back(name, line);
    }
  }
}

// A Go string (pointer and length) that a pointer leads to.
std::string_view string_behind(const ElfFile& file, const RelocatedImage& image, ImageAddr pointer_place) {
  auto header = image.pointer_at(pointer_place);
  if (!header || *header == 0) return {};
  auto data = image.pointer_at({*header}), size = image.pointer_at({*header + 8});
  if (!data || !size || *size > longest_text) return {};
  auto text = file.bytes_at({*data}, *size);
  return text ? as_text(*text) : std::string_view();
}

std::string_view inline_string(ByteReader& reader) {
  uint64_t size = reader.uleb128();
  return size <= longest_text ? as_text(reader.take(size)) : std::string_view();
}

std::optional<GoBuildInfo> read_at(const ElfFile& file, ImageAddr address) {
  Bytes bytes = file.bytes_from(address);
  if (bytes.size() < header_size || !as_text(bytes).starts_with(magic)) return std::nullopt;
  uint8_t pointer_size = bytes[14], flags = bytes[15];
  std::string_view version, modules;
  if ((flags & flag_inline) != 0) {
    ByteReader reader(bytes, header_size);
    version = inline_string(reader);
    modules = inline_string(reader);
  } else {
    if (pointer_size != 8 || (flags & flag_big_endian) != 0) return std::nullopt;
    RelocatedImage image(file);
    version = string_behind(file, image, address + 16);
    modules = string_behind(file, image, address + 24);
  }
  if (version.empty() || version.size() > 256) return std::nullopt;
  GoBuildInfo info;
  info.version = version;
  parse_module_text(without_markers(modules), info);
  return info;
}

}  // namespace

int GoBuildInfo::minor_version() const {
  std::string_view text = version;
  size_t at = text.find("go1.");
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + 4);
  int minor = 0;
  std::from_chars(text.data(), text.data() + text.size(), minor);
  return minor;
}

std::optional<GoBuildInfo> read_go_build_info(const ElfFile& file) {
  if (const Section* section = file.find_section(".go.buildinfo")) {
    if (auto info = read_at(file, section->address)) return info;
  }
  if (!file.sections().empty()) return std::nullopt;
  for (const Segment& load : file.loads()) {
    std::string_view text = as_text(file.stored_bytes(load));
    for (size_t at = text.find(magic); at != std::string_view::npos;
         at = text.find(magic, at + magic.size())) {
      // Aligned, and in data: Go's own tools hold the magic as a constant, in code or among strings.
      if ((load.address.value + at) % 16 != 0 || (load.flags & PF_W) == 0) continue;
      if (auto info = read_at(file, load.address + at)) return info;
    }
  }
  return std::nullopt;
}

}  // namespace uscope::image
