#include "engine/inproc/target/loadings.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace uscope::engine::inproc {
namespace {

std::string real_path(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? real.get() : path;
}

bool is_private_code(const process::Mapping& mapping) {
  // What is written to a shared mapping would be written to the file.
  return mapping.perms.execute && !mapping.perms.shared;
}

}  // namespace

std::vector<AddressSpan> Loading::code() const {
  std::vector<AddressSpan> spans;
  for (const process::Mapping& mapping : image.mappings)
    if (is_private_code(mapping)) spans.push_back({mapping.start, mapping.size()});
  return spans;
}

std::optional<ProcessAddr> Loading::code_at(FileOffset offset) const {
  for (const process::Mapping& mapping : image.mappings) {
    if (!is_private_code(mapping)) continue;
    if (offset >= mapping.offset && offset - mapping.offset < mapping.size())
      return mapping.start + (offset - mapping.offset);
  }
  return std::nullopt;
}

std::optional<ProcessAddr> Loading::data_at(FileOffset offset) const {
  for (const process::Mapping& mapping : image.mappings) {
    if (!mapping.perms.write || mapping.perms.shared) continue;
    if (offset >= mapping.offset && offset - mapping.offset < mapping.size())
      return mapping.start + (offset - mapping.offset);
  }
  return std::nullopt;
}

std::vector<Loading> find_loadings(pid_t pid, const process::Maps& maps, const std::string& file) {
  struct stat info {};
  const bool is_known = ::stat(file.c_str(), &info) == 0;
  const std::vector<process::MappedImage> images = maps.images();
  std::vector<Loading> found;
  auto take = [&](auto matches) {
    for (const process::MappedImage& image : images)
      if (matches(image)) found.push_back({image});
  };
  if (is_known)
    take([&](const process::MappedImage& image) {
      return image.inode == info.st_ino && image.device == info.st_dev;
    });
  // Some file systems (overlay, btrfs) show another device in the maps than stat tells.
  const std::string real = real_path(file);
  const std::string inside = fmt::format("/proc/{}/root", pid);
  if (found.empty())
    take([&](const process::MappedImage& image) {
      return !image.deleted && image.inode == info.st_ino &&
             (image.path == file || image.path == real || inside + image.path == file);
    });
  return found;
}

}  // namespace uscope::engine::inproc
