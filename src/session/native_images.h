// The .NET images in a file, with names for their methods wherever they come from: the image's own metadata,
// or a crossgen map that lies beside it or in /tmp. For explore_offsets.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "image/pe/native_image.h"

namespace uscope::session {

struct NativeImages {
  std::vector<image::NativeImage> images;
  std::vector<std::string> notes;
};

// Is there anything of .NET's in the file: an assembly, or a bundle of them behind an executable?
bool holds_assemblies(Bytes file);

// `path` is where the bytes come from, as we open it; `root` where its file system is; `map_file` a map to
// take instead of the image's own names, or empty.
Result<NativeImages> read_named_images(Bytes file, const std::string& path, const std::string& root,
                                       const std::string& map_file);

}  // namespace uscope::session
