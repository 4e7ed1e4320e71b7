#include "symbols/loader_config.h"

#include <dirent.h>

#include <algorithm>
#include <string_view>

#include "base/fd.h"
#include "base/glob.h"

namespace uscope::symbols {
namespace {

constexpr int deepest_include = 8;
constexpr size_t most_folders = 1000;

// By hand: glob(3) in a static executable drags in the name services, for `~`.
std::vector<std::string> files_matching(const std::string& pattern) {
  const size_t slash = pattern.rfind('/');
  const std::string folder = pattern.substr(0, slash + 1);
  const std::string names = pattern.substr(slash + 1);
  if (!has_glob(names)) return {pattern};
  std::vector<std::string> files;
  DIR* directory = ::opendir(folder.c_str());
  if (!directory) return files;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.' && glob_match(names, entry->d_name)) files.push_back(folder + entry->d_name);
  }
  ::closedir(directory);
  std::ranges::sort(files);
  return files;
}

void read_conf(const std::string& root, const std::string& file, int depth,
               std::vector<std::string>& folders) {
  auto text = read_text_file(file, size_t(1) << 20);
  if (!text || depth > deepest_include) return;
  std::string_view rest = *text;
  while (!rest.empty() && folders.size() < most_folders) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line = line.substr(0, line.find('#'));
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    if (line.starts_with("include ") || line.starts_with("include\t")) {
      std::string pattern(line.substr(line.find_first_not_of(" \t", 8)));
      if (!pattern.starts_with('/')) pattern = "/etc/" + pattern;
      for (const auto& included : files_matching(root + pattern))
        read_conf(root, included, depth + 1, folders);
    } else if (line.starts_with('/')) {
      folders.emplace_back(line);
    }
  }
}

}  // namespace

std::vector<std::string> configured_folders(const std::string& root) {
  std::vector<std::string> folders;
  read_conf(root, root + "/etc/ld.so.conf", 0, folders);
  return folders;
}

std::vector<std::string> musl_folders(const std::string& root) {
  std::vector<std::string> folders;
  if (auto text = read_text_file(root + "/etc/ld-musl-x86_64.path", size_t(1) << 20)) {
    std::string folder;
    for (char c : *text + "\n") {
      if (c != ':' && c != '\n') {
        folder += c;
      } else if (!folder.empty()) {
        folders.push_back(std::move(folder));
        folder.clear();
      }
    }
    return folders;
  }
  return {"/lib", "/usr/local/lib", "/usr/lib"};
}

}  // namespace uscope::symbols
