#include "image/pe/native_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "image/perfmap/managed_name.h"

namespace uscope::image {
namespace {

// Header records have RVAs no image can have.
constexpr uint64_t kFirstPseudoRva = 0xfffffff0;
constexpr uint64_t kSignatureRva = 0xffffffff;
constexpr uint64_t kVersionRva = 0xfffffffe;
constexpr uint64_t kSystemRva = 0xfffffffd;
constexpr uint64_t kMachineRva = 0xfffffffc;

bool take_hex(std::string_view& line, uint64_t& value) {
  if (line.starts_with("0x") || line.starts_with("0X")) line.remove_prefix(2);
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  size_t length = size_t(end - line.data());
  if (error != std::errc() || length >= line.size() || line[length] != ' ') return false;
  line.remove_prefix(length + 1);
  return true;
}

std::optional<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string lower_hex_digits(std::string_view text) {
  std::string digits;
  for (char c : text) {
    if (std::isxdigit(uint8_t(c)) != 0) digits += char(std::tolower(uint8_t(c)));
  }
  return digits;
}

std::string lower(std::string_view text) {
  std::string out;
  for (char c : text) out += char(std::tolower(uint8_t(c)));
  return out;
}

void read_header(NativeMap& map, uint64_t rva, std::string_view data) {
  switch (rva) {
    case kSignatureRva:
      map.signature = lower_hex_digits(data);
      break;
    case kVersionRva:
      map.version = number(data);
      break;
    case kSystemRva:
      map.system = number(data);
      break;
    case kMachineRva:
      map.machine = number(data);
      break;
    default:
      break;  // ABI, and whatever comes
  }
}

bool read_line(NativeMap& map, std::string_view line) {
  NativeMapLine entry;
  if (!take_hex(line, entry.rva.value) || !take_hex(line, entry.size) || line.empty()) return false;
  if (entry.rva.value >= kFirstPseudoRva && entry.rva.value <= kSignatureRva) {
    read_header(map, entry.rva.value, line);
    return true;
  }
  if (entry.rva.value > UINT32_MAX || entry.size > UINT32_MAX) return false;
  entry.name = line;
  map.lines.push_back(std::move(entry));
  return true;
}

// "app" of "/x/app.ni.dll", "app.dll", "app.exe".
std::string stem_of(std::string_view path) {
  if (size_t slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  for (std::string_view suffix : {".dll", ".exe", ".ni"}) {
    if (path.ends_with(suffix)) path.remove_suffix(suffix.size());
  }
  return std::string(path);
}

}  // namespace

Result<NativeMap> parse_native_map(std::string_view text) {
  NativeMap map;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !read_line(map, line)) ++map.malformed_lines;
  }
  bool any = !map.lines.empty() || !map.signature.empty();
  if (!any && map.malformed_lines != 0)
    return fail("not a map of a native image: no line reads `RVA length name`");
  return map;
}

std::optional<NativeMapFile> parse_native_map_path(std::string_view path) {
  if (size_t slash = path.rfind('/'); slash != std::string_view::npos) path.remove_prefix(slash + 1);
  size_t ni = path.find(".ni.");
  if (ni == std::string_view::npos || ni == 0) return std::nullopt;
  NativeMapFile file;
  file.image = path.substr(0, ni);
  std::string_view rest = path.substr(ni + 4);
  if (rest == "r2rmap") return file;
  if (!rest.starts_with('{') || !rest.ends_with("}.map")) return std::nullopt;
  file.mvid = lower(rest.substr(1, rest.size() - 6));
  return file;
}

MapMatch match_native_map(const NativeMap& map, std::string_view path, const NativeImage& image) {
  if (!map.signature.empty() && !image.map_signature.empty()) {
    return map.signature == image.map_signature ? MapMatch::kSame : MapMatch::kDifferent;
  }
  auto file = parse_native_map_path(path);
  if (file && file->mvid && image.mvid != Guid{}) {
    return *file->mvid == to_string(image.mvid) ? MapMatch::kSame : MapMatch::kDifferent;
  }
  if (!file) return MapMatch::kNameOnly;  // the user named the file: its name says nothing either way
  bool same_name = file->image == image.assembly || file->image == stem_of(image.path) ||
                   file->image == stem_of(image.bundle_entry);
  return same_name ? MapMatch::kNameOnly : MapMatch::kDifferent;
}

void use_native_map(NativeImage& image, const NativeMap& map) {
  std::vector<NativeMethod> methods;
  size_t outside = 0;
  for (const NativeMapLine& line : map.lines) {
    auto section =
        std::find_if(image.sections.begin(), image.sections.end(), [&](const PeSection& candidate) {
          return line.rva >= candidate.address && line.rva - candidate.address < candidate.file_size;
        });
    if (section == image.sections.end() || !section->executable()) {
      ++outside;
      continue;
    }
    NativeMethod method;
    method.name = line.name;
    method.rva = line.rva;
    uint64_t inside = line.rva - section->address;
    method.size = method.body_size = std::min(line.size, section->file_size - inside);
    method.offset = image.start + section->file_offset.value + inside;
    auto span = managed_name_span(method.name);
    method.qualified_begin = span ? uint32_t(span->first) : 0;
    method.qualified_end = uint32_t(span ? span->second : method.name.size());
    methods.push_back(std::move(method));
  }
  std::stable_sort(methods.begin(), methods.end(),
                   [](const auto& a, const auto& b) { return a.rva < b.rva; });
  image.methods = std::move(methods);
  image.cold_order.clear();  // a map lists cold parts as lines of their own
  image.notes.clear();
  if (outside != 0) {
    image.notes.push_back(
        fmt::format("{} lines of the map point outside the image's code and are left out", outside));
  }
  if (map.malformed_lines != 0) {
    image.notes.push_back(fmt::format("{} lines of the map cannot be read", map.malformed_lines));
  }
}

}  // namespace uscope::image
