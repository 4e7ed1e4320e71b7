#include "session/native_images.h"

#include <dirent.h>

#include <algorithm>

#include "base/fd.h"
#include "image/pe/bundle.h"
#include "image/pe/native_maps.h"

namespace uscope::session {
namespace {

using image::MapMatch;
using image::NativeImage;

constexpr size_t largest_map = size_t(1) << 30;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Every file in the folder that is named as this image's map would be.
std::vector<std::string> map_files_in(const std::string& folder, const NativeImage& image) {
  std::vector<std::string> found;
  DIR* directory = ::opendir(folder.c_str());
  if (!directory) return found;
  while (const dirent* entry = ::readdir(directory)) {
    const auto name = image::parse_native_map_path(entry->d_name);
    if (name && name->image == image.assembly) found.push_back(folder + "/" + entry->d_name);
  }
  ::closedir(directory);
  std::ranges::sort(found);
  return found;
}

Result<image::NativeMap> read_map(const std::string& path) {
  TRY(const std::string text, read_text_file(path, largest_map));
  auto map = image::parse_native_map(text);
  if (!map) return fail(std::move(map.error()).while_doing("reading the map " + path));
  return map;
}

// For an image that names nothing itself: the first map that is surely its own, else one of its name.
void look_for_map(NativeImage& image, const std::string& path, const std::string& root,
                  std::vector<std::string>& notes) {
  std::string second_best;
  for (const std::string& folder : {folder_of(path), root + "/tmp"}) {
    for (const std::string& file : map_files_in(folder, image)) {
      auto map = read_map(file);
      if (!map) {
        notes.push_back(map.error().message());
        continue;
      }
      const MapMatch match = image::match_native_map(*map, file, image);
      if (match == MapMatch::kNameOnly && second_best.empty()) second_best = file;
      if (match != MapMatch::kSame) continue;
      image::use_native_map(image, *map);
      notes.push_back("names from the map " + file);
      return;
    }
  }
  if (second_best.empty()) return;
  if (auto map = read_map(second_best)) {
    image::use_native_map(image, *map);
    notes.push_back("names from the map " + second_best + ", which may be of another build of " +
                    image.assembly);
  }
}

}  // namespace

bool holds_assemblies(Bytes file) {
  if (image::looks_like_pe(file)) return true;
  auto bundle = image::read_bundle(file);
  return bundle && bundle->has_value();
}

Result<NativeImages> read_named_images(Bytes file, const std::string& path, const std::string& root,
                                       const std::string& map_file) {
  NativeImages out;
  TRY(out.images, image::read_native_images(file, path));
  if (!map_file.empty()) {
    TRY(const image::NativeMap map, read_map(map_file));
    if (out.images.size() != 1)
      return fail("a map names one assembly's methods, and " + path + " holds several");
    if (image::match_native_map(map, map_file, out.images[0]) == MapMatch::kDifferent) {
      return fail("the map " + map_file + " belongs to another build: its identifier is not the one in " +
                  path);
    }
    image::use_native_map(out.images[0], map);
  }
  for (NativeImage& image : out.images) {
    if (image.methods.empty()) look_for_map(image, path, root, out.notes);
    if (const std::string why = image.explanation(); !why.empty()) out.notes.push_back(why);
    out.notes.insert(out.notes.end(), image.notes.begin(), image.notes.end());
  }
  return out;
}

}  // namespace uscope::session
