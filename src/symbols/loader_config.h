// The text files that tell loaders where libraries are: /etc/ld.so.conf with its includes, and musl's
// /etc/ld-musl-x86_64.path. Missing or unreadable files give what the loader takes then.
#pragma once

#include <string>
#include <vector>

namespace uscope::symbols {

// The folders of /etc/ld.so.conf below `root`, included files followed. ldconfig reads them; ld.so does not.
std::vector<std::string> configured_folders(const std::string& root);

// Where musl's loader looks.
std::vector<std::string> musl_folders(const std::string& root);

}  // namespace uscope::symbols
