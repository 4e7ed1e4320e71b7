// Where is the debug info of an image? Looks where distributions put it: the file itself, by build-id, by
// .gnu_debuglink (checked by its CRC), a .dwp beside the file; and for symbols only, .gnu_debugdata inside
// it. All below an optional root, for images of other mount namespaces (/proc/PID/root). Nothing is
// downloaded. Finding nothing is an answer: it says what was tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/elf/elf_file.h"

namespace uscope::image {

enum class DebugFileKind {
  Itself,         // .debug_info in the image
  BuildId,        // /usr/lib/debug/.build-id/xx/yyyy.debug
  DebugLink,      // named by .gnu_debuglink
  MiniDebugInfo,  // .gnu_debugdata: symbols only
};

struct DebugFiles {
  std::optional<DebugFileKind> kind;  // nothing: no debug info and no extra symbols anywhere
  std::string path;                   // the file, as opened; the image's own for Itself and MiniDebugInfo
  std::optional<ElfFile> file;        // opened, except for Itself
  std::string dwp_path;               // FILE.dwp, if there is one
  std::string alt_path;            // the file that .gnu_debugaltlink (dwz) of the debug info names, if found
  std::vector<std::string> tried;  // the paths looked at in vain, with the reason if there was a file
};

struct DebugFileSearch {
  std::string root;                          // prefixed to every absolute path, e.g. "/proc/123/root"
  std::string directory = "/usr/lib/debug";  // where debug files are collected
  std::vector<std::string> folders = {};     // looked at before that; ours, not below the root
  // The image's path as its own system knows it; empty: ElfFile::path() without the root.
  std::string image_path;
};

DebugFiles find_debug_files(const ElfFile& file, const DebugFileSearch& search = {});
// "in the file itself", "/usr/lib/debug/.build-id/… (by build-id)", "none; tried …"
std::string describe(const DebugFiles& found);

// The checksum .gnu_debuglink uses.
uint32_t debug_link_crc(Bytes bytes);

}  // namespace uscope::image
