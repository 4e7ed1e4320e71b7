#include "image/elf/debug_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>

namespace uscope::image {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string folder_of(const std::string& path) {
  std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The image's path as its own system knows it, with symbolic links resolved: debug files mirror the real
// place.
std::string canonical_image_path(const ElfFile& file, const DebugFileSearch& search) {
  std::string path = search.image_path.empty() ? file.path() : search.image_path;
  if (search.image_path.empty() && !search.root.empty() && path.starts_with(search.root)) {
    path = path.substr(search.root.size());
  }
  std::error_code error;
  if (search.root.empty()) {
    fs::path real = fs::canonical(path, error);
    if (!error) return real.string();
  }
  return path;
}

class Search {
 public:
  Search(const ElfFile& file, const DebugFileSearch& search)
      : file_(file),
        search_(search),
        image_path_(canonical_image_path(file, search)),
        build_id_(file.build_id()) {}

  DebugFiles run() {
    find_dwp();
    if (file_.has_debug_info()) {
      found_.kind = DebugFileKind::Itself;
      found_.path = file_.path();
    } else if (!by_build_id() && !by_debug_link()) {
      mini_debug_info();
    }
    if (found_.kind && *found_.kind != DebugFileKind::MiniDebugInfo)
      find_alt(found_.file ? *found_.file : file_);
    return std::move(found_);
  }

 private:
  std::string rooted(const std::string& path) const {
    return path.starts_with('/') ? search_.root + path : path;
  }

  void find_dwp() {
    for (const std::string& path : {file_.path() + ".dwp", rooted(image_path_) + ".dwp"}) {
      if (!exists(path)) continue;
      found_.dwp_path = path;
      return;
    }
  }

  bool by_build_id() {
    // One byte names the folder; what is left must name a file.
    if (build_id_.size() < 2 || build_id_.size() > 64) return false;
    std::string hex = to_hex(build_id_);
    std::string path = fmt::format("/.build-id/{}/{}.debug", hex.substr(0, 2), hex.substr(2));
    for (const std::string& folder : search_.folders)
      if (accept(folder + path, DebugFileKind::BuildId)) return true;
    return accept(rooted(search_.directory + path), DebugFileKind::BuildId);
  }

  bool by_debug_link() {
    auto link = file_.debug_link();
    // A link is a bare file name: anything else could lead anywhere.
    if (!link || link->name.find('/') != std::string_view::npos || link->name.size() > 255) return false;
    std::string folder = folder_of(image_path_), name(link->name);
    crc_ = link->crc;
    for (const std::string& given : search_.folders)
      if (accept(given + "/" + name, DebugFileKind::DebugLink) ||
          accept(given + folder + "/" + name, DebugFileKind::DebugLink))
        return true;
    return accept(rooted(folder + "/" + name), DebugFileKind::DebugLink) ||
           accept(rooted(folder + "/.debug/" + name), DebugFileKind::DebugLink) ||
           accept(rooted(search_.directory + folder + "/" + name), DebugFileKind::DebugLink);
  }

  bool accept(const std::string& path, DebugFileKind kind) {
    if (!exists(path)) {
      found_.tried.push_back(path);
      return false;
    }
    auto reject = [&](const std::string& why) {
      found_.tried.push_back(fmt::format("{} ({})", path, why));
      return false;
    };
    auto debug = ElfFile::open(path);
    if (!debug) return reject(debug.error().message());
    if (debug->bytes().data() == file_.bytes().data()) return reject("the file itself");
    Bytes id = debug->build_id();
    bool same_build = !build_id_.empty() && std::ranges::equal(id, build_id_);
    // Both have one and they differ: a file of another build would show wrong values.
    if (!build_id_.empty() && !id.empty() && !same_build) return reject("of another build");
    if (kind == DebugFileKind::DebugLink && !same_build && debug_link_crc(debug->bytes()) != crc_) {
      return reject("its checksum differs");
    }
    bool has_symbols = std::ranges::any_of(debug->sections(), [](const Section& s) {
      return s.type == SHT_SYMTAB && s.has_contents() && s.size != 0;
    });
    if (!debug->has_debug_info() && !has_symbols) return reject("it holds no debug info");
    found_.kind = kind;
    found_.path = path;
    found_.file = std::move(*debug);
    return true;
  }

  void mini_debug_info() {
    auto mini = file_.mini_debug_info();
    if (!mini) {
      found_.tried.push_back(mini.error().message());
    } else if (*mini) {
      found_.kind = DebugFileKind::MiniDebugInfo;
      found_.path = file_.path();
      found_.file = std::move(*mini);
    }
  }

  // dwz moves what several images share into one file. Its path may be relative to the file that names it.
  void find_alt(const ElfFile& debug) {
    auto link = debug.debug_alt_link();
    if (!link || link->name.size() > 4096) return;
    std::string name(link->name);
    std::vector<std::string> paths;
    if (name.starts_with('/')) {
      paths.push_back(rooted(name));
    } else {
      paths.push_back(folder_of(debug.path()) + "/" + name);
    }
    if (link->build_id.size() >= 2 && link->build_id.size() <= 64) {
      std::string hex = to_hex(link->build_id);
      paths.push_back(rooted(
          fmt::format("{}/.build-id/{}/{}.debug", search_.directory, hex.substr(0, 2), hex.substr(2))));
    }
    for (const std::string& path : paths) {
      auto alt = exists(path) ? ElfFile::open(path) : Result<ElfFile>(fail("no such file"));
      if (alt && (link->build_id.empty() || std::ranges::equal(alt->build_id(), link->build_id))) {
        found_.alt_path = path;
        return;
      }
      found_.tried.push_back(path);
    }
  }

  const ElfFile& file_;
  const DebugFileSearch& search_;
  std::string image_path_;
  Bytes build_id_;
  uint32_t crc_ = 0;
  DebugFiles found_;
};

}  // namespace

uint32_t debug_link_crc(Bytes bytes) { return uint32_t(crc32_z(0, bytes.data(), bytes.size())); }

DebugFiles find_debug_files(const ElfFile& file, const DebugFileSearch& search) {
  return Search(file, search).run();
}

std::string describe(const DebugFiles& found) {
  if (!found.kind)
    return found.tried.empty() ? "none" : fmt::format("none; tried {}", fmt::join(found.tried, ", "));
  switch (*found.kind) {
    case DebugFileKind::Itself:
      return "in the file itself";
    case DebugFileKind::BuildId:
      return found.path + " (by build-id)";
    case DebugFileKind::DebugLink:
      return found.path + " (by .gnu_debuglink)";
    case DebugFileKind::MiniDebugInfo:
      return "symbols only, in .gnu_debugdata of the file itself";
  }
  return "none";
}

}  // namespace uscope::image
