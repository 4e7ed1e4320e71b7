// Which files would a program's libraries be? Searches as the program's own loader would (glibc's, or musl's
// if that is its interpreter), without running anything: RPATH and RUNPATH with $ORIGIN, LD_LIBRARY_PATH when
// given, ld.so.cache, the standard folders; for the program and for every library it drags in. Reads files
// only; keeps none open. What a live process really mapped is process::Maps' to say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/elf/elf_file.h"

namespace uscope::symbols {

struct Library {
  std::string name;       // as DT_NEEDED spells it
  std::string path;       // as the loader would open it, below the root; empty: not found
  std::string real_path;  // symbolic links followed
  std::string found_by;   // "RUNPATH of /opt/app/server", "ld.so.cache", "standard folder"
  std::vector<std::string> needed_by;
  std::string hint;  // not found: what is known
};

struct LibrarySearch {
  std::string root;          // prefixed to every absolute path, e.g. "/proc/123/root"
  std::string library_path;  // LD_LIBRARY_PATH's folders
  std::string image_path;    // the program's path below the root; empty: ElfFile::path()
};

// In the order of loading: the program's own first, then theirs. Each file once, whatever names lead to it.
std::vector<Library> find_libraries(const image::ElfFile& program, const LibrarySearch& search = {});

// A path below `root` with every symbolic link followed as a process with that root would. As it is, where a
// part is missing or links go round in circles.
std::string real_path_below(const std::string& root, std::string_view path);

}  // namespace uscope::symbols
