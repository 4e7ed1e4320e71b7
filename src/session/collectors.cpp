#include "session/collectors.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "image/elf/elf_file.h"
#include "image/elf/symbols.h"
#include "process/exports.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/proc_dir.h"

namespace uscope::session {
namespace {

constexpr std::array<std::string_view, 12> kLibraries = {
    "libgc.so",        "libdruntime",  "libphobos2",   "libgdruntime", "libgphobos",  "libil2cpp",
    "GameAssembly.so", "libmonoboehm", "libmonobdwgc", "libmonosgen",  "libmono-2.0", "libmono.so"};
// Boehm's, D's, Mono's and SBCL's.
constexpr std::array<std::string_view, 4> kFunctions = {"GC_gcollect", "thread_suspendAll", "mono_gc_collect",
                                                        "gc_stop_the_world"};

ino_t inode_of(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? info.st_ino : 0;
}

bool has_known_name(std::string_view file) {
  return std::ranges::any_of(kLibraries, [&](std::string_view each) { return file.starts_with(each); });
}

bool defines_collector(const std::string& exe) {
  auto file = image::ElfFile::open(exe);
  return file && image::defines_any_function(*file, kFunctions);
}

}  // namespace

std::optional<std::string> Collectors::look() {
  auto maps = process::Maps::of(pid_);
  if (!maps) return std::nullopt;
  const auto memory = process::RemoteMemory::open(pid_);
  const std::string exe = process::living_proc_dir(pid_) + "/exe";
  const ino_t program = inode_of(exe);
  for (const process::MappedImage& image : maps->images()) {
    if (!seen_.insert({image.device, image.inode, image.start()}).second) continue;
    const std::string name = image.path.substr(image.path.rfind('/') + 1);
    if (has_known_name(name) || (memory && process::exports_any(*memory, image, kFunctions)) ||
        (image.inode == program && defines_collector(exe)))
      return "a garbage collector (" + name +
             ") may stop threads by signals, and miss what a thread that is in a probe uses";
  }
  return std::nullopt;
}

}  // namespace uscope::session
