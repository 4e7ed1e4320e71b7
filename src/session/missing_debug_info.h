// A file has no debug info: which package or compiler flag would bring it? A sentence part for an error's
// hint.
#pragma once

#include <string>

#include "session/target.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// "install the package bash-dbgsym", "build it with -g", "link it without -ldflags=-w".
std::string how_to_get_debug_info(const symbols::ImageSymbols& image, const Target& target);

// The Debian package that owns a file of the file system below `root`; empty if none does or nobody knows.
std::string owning_package(const std::string& path, const std::string& root);

}  // namespace uscope::session
