#include "engine/inproc/target/known_memory.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/fd.h"
#include "process/proc_dir.h"

namespace uscope::engine::inproc {
namespace {

constexpr long kXfs = 0x58465342, kZfs = 0x2fc12fc1, kErofs = 0xe0f5e1e2, kBcachefs = 0xca451a4e;

// Where the kernel itself keeps writers away from a program that runs. On a network's file system another
// machine can cut the file short, and what is then loaded from it is a bus error.
bool keeps_running_programs(const std::string& path) {
  static constexpr std::array kLocal = {long(EXT4_SUPER_MAGIC),
                                        kXfs,
                                        long(BTRFS_SUPER_MAGIC),
                                        long(TMPFS_MAGIC),
                                        long(OVERLAYFS_SUPER_MAGIC),
                                        long(F2FS_SUPER_MAGIC),
                                        kZfs,
                                        long(SQUASHFS_MAGIC),
                                        long(RAMFS_MAGIC),
                                        long(ISOFS_SUPER_MAGIC),
                                        kErofs,
                                        kBcachefs};
  struct statfs about {};
  return ::statfs(path.c_str(), &about) == 0 && std::ranges::find(kLocal, long(about.f_type)) != kLocal.end();
}

// A packed program unmaps itself when it has unpacked what it carries, which with -c is after the attach.
// Packers leave no section headers; compilers always make some.
bool has_sections(const std::string& path) {
  Elf64_Ehdr header{};
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.is_open() && ::pread(file.get(), &header, sizeof header, 0) == ssize_t(sizeof header) &&
         header.e_shnum != 0 && header.e_shoff != 0;
}

}  // namespace

KnownMemory known_memory_in(const process::Maps& maps, std::string_view executable, uint64_t file_bytes) {
  KnownMemory known;
  ProcessAddr below;  // the end of what is mapped before
  for (const process::Mapping& each : maps.all()) {
    const process::Permissions& may = each.perms;
    if (each.path == "[stack]" && may.read) {
      known.first_stack = {each.start, each.end};
      known.may_grow = {below, each.end};
    }
    below = each.end;
    // What a program can write to it may also protect, piece by piece.
    const bool is_constant = each.kind == process::MappingKind::File && may.read && !may.write && !may.shared;
    if (!is_constant || executable.empty() || each.path_as_shown != executable) continue;
    if (each.offset.value >= file_bytes) continue;
    const ProcessAddr end = each.start + std::min(each.size(), file_bytes - each.offset.value);
    if (!known.constant.empty() && known.constant.back().end == each.start)
      known.constant.back().end = end;
    else
      known.constant.push_back({each.start, end});
  }
  std::ranges::sort(known.constant, std::greater(),
                    [](const KnownMemory::Range& range) { return range.end - range.begin; });
  return known;
}

std::string how_memory_is_read(const MemoryPlaces& places) {
  if (places.load_gate) return "memory is read by loads, which the kernel lets fail without a signal";
  uint64_t bytes = 0;
  for (const KnownMemory::Range& range : places.known.constant) bytes += range.end - range.begin;
  const std::string constants =
      bytes > 0 ? fmt::format("from the executable's {} KB of constants and ", bytes >> 10) : "";
  const char* why = bytes > 0 ? "" : " (its executable is packed, or on no file system of this machine's)";
  return fmt::format("memory is read by loads {}from the threads' stacks, by system calls elsewhere{}",
                     constants, why);
}

KnownMemory find_known_memory(pid_t pid) {
  auto maps = process::Maps::of(pid);
  if (!maps) return {};
  const std::string link = process::living_proc_dir(pid) + "/exe";
  char path[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  struct stat file {};
  if (length <= 0 || size_t(length) == sizeof path || !keeps_running_programs(link) || !has_sections(link) ||
      ::stat(link.c_str(), &file) != 0)
    return known_memory_in(*maps, "", 0);
  return known_memory_in(*maps, {path, size_t(length)}, uint64_t(file.st_size));
}

}  // namespace uscope::engine::inproc
