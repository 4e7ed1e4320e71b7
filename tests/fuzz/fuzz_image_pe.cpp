// A .NET image, bundle or crossgen map of any bytes: read, listed, looked up. The first byte picks which.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "image/pe/native_image.h"
#include "image/pe/native_maps.h"

using namespace uscope;
using namespace uscope::image;

namespace {

void check(NativeImage& image, Bytes file) {
  image.explanation();
  uint64_t last = 0;
  for (const NativeMethod& method : image.methods) {
    if (method.rva.value < last) __builtin_trap();
    last = method.rva.value;
    // A probe's place must be in the file, and in the section that the RVA names.
    if (method.offset.value < image.start.value || method.offset.value - image.start.value >= file.size())
      __builtin_trap();
    if (method.size > file.size() || method.body_size > method.size) __builtin_trap();
    if (method.qualified_end > method.name.size() || method.qualified_begin > method.qualified_end)
      __builtin_trap();
    method.full_name();
    if (method.size != 0 && image.find(method.rva) == nullptr) __builtin_trap();
  }
  image.match("*::M*");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Bytes file(data + 1, size - 1);
  // The image doubles as every assembly that it refers to, so that foreign modules are exercised too.
  AssemblySource itself = [&](std::string_view) { return std::optional<Bytes>(file); };
  switch (data[0] & 3) {
    case 0:
      if (auto images = read_native_images(file, "/nonexistent/x.dll")) {
        for (NativeImage& image : *images) check(image, file);
      }
      break;
    case 1: {
      NativeImage image;
      image.sections = {{".text", ImageAddr{0x1000}, 0x1000, FileOffset{0}, 0x1000, 0x60000020}};
      auto map = parse_native_map(as_text(file));
      if (!map) break;
      match_native_map(*map, as_text(file).substr(0, 40), image);
      use_native_map(image, *map);
      break;
    }
    default:
      if (auto image = read_native_image(file, "/nonexistent/x.dll", FileOffset{0x1000}, itself))
        check(*image, file);
  }
  return 0;
}
