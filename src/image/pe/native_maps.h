// The map files that .NET's ahead-of-time compilers write beside an image: a line for each method, `RVA
// length name`.
//   crossgen   NAME.ni.{MVID}.map   no header
//   crossgen2  NAME.ni.r2rmap       header records: pseudo-RVAs from FFFFFFFF down, length 0
// They name code that the image itself cannot (native images older than ReadyToRun), and serve where a user
// trusts the compiler's own list. Owns its text. Looking for the files is the caller's work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "image/pe/native_image.h"

namespace uscope::image {

struct NativeMapLine {
  ImageAddr rva;
  uint64_t size = 0;
  std::string name;
};

struct NativeMap {
  std::optional<uint32_t> version;  // nothing: a map of the first crossgen
  std::string signature;  // 32 hexadecimal digits, lower case, of the image it belongs to; empty: not said
  std::optional<uint32_t> system;    // 1 Windows, 2 Linux, 3 macOS …
  std::optional<uint32_t> machine;   // 3 x86-64, 2 ARM64 …
  std::vector<NativeMapLine> lines;  // in the order of the file
  size_t malformed_lines = 0;
};

// An error when the text is no map at all; single bad lines are counted.
Result<NativeMap> parse_native_map(std::string_view text);

// What a map file's name says.
struct NativeMapFile {
  std::string image;                // "app" of "app.ni.{…}.map"
  std::optional<std::string> mvid;  // lower case, without braces
};
// Nothing: not named as a map of an image is.
std::optional<NativeMapFile> parse_native_map_path(std::string_view path);

// Does the map belong to the image? By its signature (crossgen2), by MVID in the name (crossgen), else by
// name alone.
enum class MapMatch {
  kSame,      // an identifier is equal
  kNameOnly,  // the names agree and nothing better is known: the map may be of another build
  kDifferent,
};
MapMatch match_native_map(const NativeMap& map, std::string_view path, const NativeImage& image);

// Puts the map's methods in the place of the image's own, with file offsets by the image's sections. Lines
// outside the image's code are left out, and a note says how many.
void use_native_map(NativeImage& image, const NativeMap& map);

}  // namespace uscope::image
