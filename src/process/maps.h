// What a process has mapped, as /proc/PID/maps told it at one moment. A Maps is plain data: it owns no
// process and is not kept up to date; the process may have changed since. It opens no image: turning
// addresses into symbols needs the image's own segments, for which MappedImage carries the inputs (which file
// offset lies at which address).
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace uscope::process {

// What stands behind a mapping. Only File can hold an image that the kernel's uprobes reach.
enum class MappingKind {
  File,
  Memfd,      // memfd_create: .NET's double-mapped JIT code, and uscope's own shared memory
  Anonymous,  // no name, or one given by prctl: [anon:...]
  Special,    // [heap], [stack], [vdso], [vvar], [vsyscall] ...
};

struct Permissions {
  bool read = false;
  bool write = false;
  bool execute = false;
  bool shared = false;

  friend bool operator==(const Permissions&, const Permissions&) = default;
};

struct Mapping {
  ProcessAddr start;
  ProcessAddr end;  // one past the last byte
  Permissions perms;
  FileOffset offset;
  dev_t device = 0;
  ino_t inode = 0;
  MappingKind kind = MappingKind::Anonymous;
  bool deleted = false;  // the kernel said " (deleted)"; a file may really be called that, see path_as_shown
  // As the target's own mount namespace names it; newlines decoded, " (deleted)" taken off.
  std::string path;
  std::string path_as_shown;

  uint64_t size() const { return end - start; }
  bool contains(ProcessAddr address) const { return start <= address && address < end; }
  // Where in the file the byte at this address comes from; the address must lie inside.
  FileOffset file_offset(ProcessAddr address) const { return offset + (address - start); }
};

// The mappings of one loading of one file, lowest address first. A file that is loaded twice (dlmopen, or
// mapped by hand as data) gives two of these. The load bias is: mapping.start - (the page-aligned p_vaddr of
// the segment that has mapping.offset), which symbols computes.
struct MappedImage {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  bool deleted = false;
  bool has_code = false;  // some part is executable
  std::vector<Mapping> mappings;

  ProcessAddr start() const { return mappings.front().start; }
  ProcessAddr end() const { return mappings.back().end; }
};

class Maps {
 public:
  // Reads the maps of a live process. Also works when its first thread has exited and others live on.
  static Result<Maps> of(pid_t pid);
  static Result<Maps> parse(std::string_view text);

  std::span<const Mapping> all() const { return mappings_; }
  // The mapping around an address, or nullptr.
  const Mapping* find(ProcessAddr address) const;
  // The first mapping with this path ("[vdso]", "/usr/lib/libc.so.6"), or nullptr.
  const Mapping* find_path(std::string_view path) const;
  // Every file that is mapped, each loading of it apart, in address order. `images` leaves out the ones that
  // hold no code (locale archives, fonts, a database).
  std::vector<MappedImage> files() const;
  std::vector<MappedImage> images() const;

 private:
  std::vector<Mapping> mappings_;
};

// A path that, opened by us, leads to the very file that is mapped: through /proc/PID/root (so a container's
// files are found), or by way of /proc/PID/map_files or /proc/PID/exe when that name is gone or now leads to
// another file. An Error says why there is none.
Result<std::string> path_to_mapped_file(pid_t pid, const Mapping& mapping);

}  // namespace uscope::process
