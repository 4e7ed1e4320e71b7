// What `go version -m` prints: the Go version an image was built with and its module, from .go.buildinfo, or
// found by its magic where section headers are gone. Both encodings: strings inline (Go 1.18 and later) and
// by pointer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace uscope::image {

class ElfFile;

struct GoBuildInfo {
  std::string version;                                        // "go1.26.8"
  std::string path;                                           // the main package
  std::string module;                                         // the main module
  std::string module_version;                                 // "(devel)"
  std::vector<std::pair<std::string, std::string>> settings;  // "GOARCH" = "amd64", "-buildmode" = "pie", ...

  // 26 of "go1.26.8"; 0 if the version is not of that form.
  int minor_version() const;
};

// Nothing: not built by Go, or built without build info.
std::optional<GoBuildInfo> read_go_build_info(const ElfFile& file);

}  // namespace uscope::image
