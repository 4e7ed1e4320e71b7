#include "probe/image_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/glob.h"
#include "process/info.h"
#include "process/maps.h"
#include "process/proc_dir.h"
#include "symbols/loader_config.h"

namespace uscope::probe {
namespace {

bool is_regular_file(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::vector<std::string> path_directories() {
  const char* path = std::getenv("PATH");
  std::string text = path != nullptr && *path != '\0' ? path : "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
  std::vector<std::string> directories;
  for (size_t start = 0; start <= text.size();) {
    size_t end = std::min(text.find(':', start), text.size());
    if (end > start) directories.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return directories;
}

std::vector<std::string> library_directories(const std::string& root) {
  std::vector<std::string> directories = symbols::configured_folders(root);
  for (const char* standard :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    if (std::find(directories.begin(), directories.end(), standard) == directories.end())
      directories.emplace_back(standard);
  return directories;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(directory.c_str());
  if (dir == nullptr) return names;
  while (dirent* entry = ::readdir(dir)) names.emplace_back(entry->d_name);
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

// `libc` means libc.so.6, `libssl.so` means libssl.so.3; an exact name comes first.
std::optional<std::string> find_library(const std::string& root, const std::string& name) {
  for (const std::string& directory : library_directories(root)) {
    std::string exact = directory + "/" + name;
    if (name.find(".so") != std::string::npos && is_regular_file(root + exact)) return exact;
    std::string prefix = name.find(".so") == std::string::npos ? name + ".so." : name + ".";
    for (const std::string& entry : names_in(root + directory)) {
      if (entry.starts_with(prefix) && is_regular_file(root + directory + "/" + entry))
        return directory + "/" + entry;
    }
  }
  return std::nullopt;
}

ImageFile image_file(const std::string& shown, const std::string& root) {
  return {shown, root + shown, root};
}

// By hand: glob(3) drags the name services into a static executable.
std::vector<ImageFile> expand_path_glob(const std::string& pattern, const std::string& root) {
  std::vector<std::string> paths = {""};
  for (size_t start = 0; start <= pattern.size();) {
    size_t end = std::min(pattern.find('/', start), pattern.size());
    std::string part = pattern.substr(start, end - start) + (end < pattern.size() ? "/" : "");
    std::string name = pattern.substr(start, end - start);
    std::vector<std::string> next;
    for (const std::string& path : paths) {
      if (!has_glob(name)) {
        next.push_back(path + part);
        continue;
      }
      for (const std::string& entry : names_in(path.empty() && root.empty() ? "." : root + path))
        if ((entry[0] != '.' || name[0] == '.') && glob_match(name, entry))
          next.push_back(path + entry + (end < pattern.size() ? "/" : ""));
    }
    paths = std::move(next);
    start = end + 1;
  }
  std::vector<ImageFile> files;
  for (const std::string& path : paths)
    if (is_regular_file(root + path)) files.push_back(image_file(path, root));
  return files;
}

// A glob without a slash is held against the names in the library directories and PATH.
std::vector<ImageFile> expand_name_glob(const std::string& pattern, const std::string& root) {
  std::vector<ImageFile> files;
  std::set<std::pair<dev_t, ino_t>> seen;
  auto directories = library_directories(root);
  auto programs = path_directories();
  directories.insert(directories.end(), programs.begin(), programs.end());
  for (const std::string& directory : directories) {
    for (const std::string& name : names_in(root + directory)) {
      if (!glob_match(pattern, name)) continue;
      std::string path = directory + "/" + name;
      struct stat info;
      if (::stat((root + path).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      if (seen.insert({info.st_dev, info.st_ino}).second) files.push_back(image_file(path, root));
    }
  }
  return files;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first, second;
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

std::string root_of(std::optional<pid_t> pid) {
  if (!pid) return "";
  std::string process = process::living_proc_dir(*pid), root = process + "/root";
  char target[8];
  // A process in our own root needs no detour; its files are then shown and opened alike. The same root does
  // not mean the same files: another mount namespace may have others below it.
  ssize_t length = ::readlink(root.c_str(), target, sizeof target);
  bool is_ours = is_same_file("/", root + "/") && is_same_file("/proc/self/ns/mnt", process + "/ns/mnt");
  return length == 1 && is_ours ? "" : root;
}

}  // namespace

Result<std::vector<ImageFile>> images_of_process(pid_t pid) {
  TRY(process::ProcessInfo info, process::read_process(pid));
  TRY(process::Maps maps, process::Maps::of(pid));
  std::string root = root_of(pid);
  std::vector<ImageFile> files;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const process::MappedImage& image : maps.images()) {
    if (!seen.insert({image.device, image.inode}).second) continue;
    auto opened = process::path_to_mapped_file(pid, image.mappings.front());
    if (!opened) continue;
    // Where the path leads to the same file from here, it is the better name to open and to show.
    ImageFile file{image.path, root.empty() && !image.deleted ? image.path : *opened, root};
    bool is_executable = info.exe && *info.exe == image.path;
    files.insert(is_executable ? files.begin() : files.end(), std::move(file));
  }
  return files;
}

Result<std::vector<ImageFile>> find_image_files(const std::string& file, std::optional<pid_t> pid) {
  std::string root = root_of(pid);
  bool is_glob = has_glob(file);
  if (pid && is_glob) {
    TRY(auto images, images_of_process(*pid));
    std::erase_if(images, [&](const ImageFile& image) {
      size_t slash = image.shown.rfind('/');
      return !glob_match(file, image.shown) && !glob_match(file, image.shown.substr(slash + 1));
    });
    return images;
  }
  bool has_slash = file.find('/') != std::string::npos;
  // A relative path is ours, an absolute one the process's.
  std::string path_root = file.starts_with('/') && !file.starts_with("/proc/") ? root : "";
  if (is_glob && !is_regular_file(path_root + file))
    return has_slash ? expand_path_glob(file, path_root) : expand_name_glob(file, root);
  if (has_slash) {
    if (!is_regular_file(path_root + file)) {
      struct stat info;
      if (::stat((path_root + file).c_str(), &info) == 0) return fail(file + " is not a regular file");
      return fail(Error::from_errno("opening " + file, errno));
    }
    return std::vector{image_file(file, path_root)};
  }
  for (const std::string& directory : path_directories())
    if (is_regular_file(root + directory + "/" + file))
      return std::vector{image_file(directory + "/" + file, root)};
  if (auto library = find_library(root, file)) return std::vector{image_file(*library, root)};
  if (is_regular_file(file)) return std::vector{image_file("./" + file, "")};
  return fail(Error("no program or library `" + file + "`")
                  .with_hint("a bare name is looked for in PATH and the library directories; write ./" +
                             file + " for a file in this directory"));
}

}  // namespace uscope::probe
