#include "session/missing_debug_info.h"

#include <dirent.h>

#include <algorithm>
#include <string_view>

#include "base/fd.h"
#include "symbols/library_search.h"

namespace uscope::session {
namespace {

// Whether a package's file list has the path; `/usr`-merged systems list /lib/x for what is /usr/lib/x.
bool lists(std::string_view list, std::string_view path) {
  for (size_t at = 0; (at = list.find(path, at)) != std::string_view::npos; at += path.size()) {
    const bool begins = at == 0 || list[at - 1] == '\n';
    const size_t end = at + path.size();
    if (begins && (end == list.size() || list[end] == '\n')) return true;
  }
  return false;
}

}  // namespace

std::string owning_package(const std::string& path, const std::string& root) {
  const std::string folder = root + "/var/lib/dpkg/info";
  DIR* directory = ::opendir(folder.c_str());
  if (!directory) return "";
  const std::string merged = path.starts_with("/usr/") ? path.substr(4) : "";
  std::string owner;
  while (const dirent* entry = ::readdir(directory)) {
    std::string_view name = entry->d_name;
    constexpr std::string_view suffix = ".list";
    if (!name.ends_with(suffix)) continue;
    const auto list = read_text_file(folder + "/" + std::string(name), size_t(16) << 20);
    if (!list || !(lists(*list, path) || (!merged.empty() && lists(*list, merged)))) continue;
    name.remove_suffix(suffix.size());
    owner = name.substr(0, name.find(':'));
    break;
  }
  ::closedir(directory);
  return owner;
}

std::string how_to_get_debug_info(const symbols::ImageSymbols& image, const Target& target) {
  if (!image.is_elf()) return "a .NET assembly's types are in its metadata, which uscope does not print";
  if (image.language() == image::Language::Go) return "build it without -ldflags=-w (and without -s)";
  if (std::string path = symbols::real_path_below(target.root, target.shown); path.starts_with('/')) {
    const std::string package = owning_package(path, target.root);
    // The C library's symbols were split out before Debian did so for every package.
    if (package == "libc6") return "install the package libc6-dbg";
    if (!package.empty()) {
      return "install the package " + package + "-dbgsym (from Debian's debug archive)";
    }
  }
  if (image.language() == image::Language::Rust)
    return "build it with -g (cargo: `debug = true` in the profile)";
  return "build it with -g, or put its debug file where .gnu_debuglink or its build-id says";
}

}  // namespace uscope::session
