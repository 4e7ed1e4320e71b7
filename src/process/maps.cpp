#include "process/maps.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "base/fd.h"
#include "process/proc_dir.h"

namespace uscope::process {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

// Takes a number off the front of text, which must then go on with `separator`.
template <typename T>
bool take_number(std::string_view& text, int base, char separator, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data() + text.size() || *end != separator) return false;
  text.remove_prefix(size_t(end - text.data()) + 1);
  return true;
}

bool take_permissions(std::string_view& text, Permissions& perms) {
  if (text.size() < 5 || text[4] != ' ') return false;
  perms = {text[0] == 'r', text[1] == 'w', text[2] == 'x', text[3] == 's'};
  text.remove_prefix(5);
  return true;
}

// The kernel writes a newline in a name as \012, and nothing else so: a backslash stays a backslash.
std::string decode_newlines(std::string_view text) {
  std::string decoded;
  for (size_t at; (at = text.find("\\012")) != text.npos; text.remove_prefix(at + 4)) {
    decoded += text.substr(0, at);
    decoded += '\n';
  }
  decoded += text;
  return decoded;
}

void classify(Mapping& mapping) {
  std::string_view path = mapping.path_as_shown;
  if (path.empty() || path.starts_with("[anon")) {
    mapping.kind = MappingKind::Anonymous;
  } else if (path.front() == '[') {
    mapping.kind = MappingKind::Special;
  } else if (path.starts_with("/memfd:")) {
    mapping.kind = MappingKind::Memfd;
  } else if (path.starts_with("/SYSV") && path.ends_with(kDeleted)) {
    mapping.kind = MappingKind::Anonymous;  // System V shared memory has no file
  } else if (path == "/dev/zero (deleted)") {
    mapping.kind = MappingKind::Anonymous;  // shared anonymous memory
  } else {
    mapping.kind =
        path.front() == '/' ? MappingKind::File : MappingKind::Special;  // e.g. anon_inode:[perf_event]
  }
  mapping.deleted = path.ends_with(kDeleted);
}

std::optional<Mapping> parse_line(std::string_view line) {
  Mapping mapping;
  unsigned device_major = 0, device_minor = 0;
  bool good = take_number(line, 16, '-', mapping.start.value) &&
              take_number(line, 16, ' ', mapping.end.value) && take_permissions(line, mapping.perms) &&
              take_number(line, 16, ' ', mapping.offset.value) && take_number(line, 16, ':', device_major) &&
              take_number(line, 16, ' ', device_minor);
  if (!good || mapping.end < mapping.start) return std::nullopt;
  // A line without a name ends with the inode, with or without a blank behind it.
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), mapping.inode);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(size_t(end - line.data()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));

  mapping.device = makedev(device_major, device_minor);
  mapping.path_as_shown = line;
  classify(mapping);
  if (mapping.deleted) line.remove_suffix(kDeleted.size());
  mapping.path = decode_newlines(line);
  return mapping;
}

// Whether `next` begins another loading of the file than `file`. Within one loading offsets grow with
// addresses. Two segments may share a page of the file: then their permissions differ, unless the second is
// what the dynamic linker has made read-only after relocating it, which follows at once and is never the
// file's first page.
bool begins_another_loading(const MappedImage& file, const Mapping& next) {
  const Mapping& last = file.mappings.back();
  if (next.offset != last.offset) return next.offset < last.offset;
  if (next.perms != last.perms) return false;
  return next.start != last.end || next.offset == file.mappings.front().offset;
}

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return std::nullopt;
  return FileIdentity{st.st_dev, st.st_ino};
}

}  // namespace

Result<Maps> Maps::parse(std::string_view text) {
  Maps maps;
  size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    size_t end = std::min(text.find('\n'), text.size());
    auto mapping = parse_line(text.substr(0, end));
    if (!mapping) return fail(fmt::format("line {} of the memory map is malformed", line_number));
    maps.mappings_.push_back(std::move(*mapping));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::ranges::stable_sort(maps.mappings_, {}, &Mapping::start);
  return maps;
}

Result<Maps> Maps::of(pid_t pid) {
  TRY(std::string text, read_text_file(living_proc_dir(pid) + "/maps"));
  auto maps = parse(text);
  if (!maps)
    return fail(
        std::move(maps).error().while_doing(fmt::format("reading the memory map of process {}", pid)));
  return maps;
}

const Mapping* Maps::find(ProcessAddr address) const {
  auto after = std::ranges::upper_bound(mappings_, address, {}, &Mapping::start);
  if (after == mappings_.begin()) return nullptr;
  const Mapping& candidate = *std::prev(after);
  return candidate.contains(address) ? &candidate : nullptr;
}

const Mapping* Maps::find_path(std::string_view path) const {
  auto found = std::ranges::find(mappings_, path, &Mapping::path);
  return found == mappings_.end() ? nullptr : &*found;
}

std::vector<MappedImage> Maps::files() const {
  std::vector<MappedImage> files;
  for (const Mapping& mapping : mappings_) {
    if (mapping.kind != MappingKind::File) continue;
    // The loading that this belongs to is most often the last one; the parts of two can interleave, so look
    // back a little, which keeps a process with very many mappings linear.
    constexpr size_t kLookBack = 8;
    MappedImage* home = nullptr;
    for (size_t back = 1; back <= std::min(files.size(), kLookBack) && !home; ++back) {
      MappedImage& file = files[files.size() - back];
      bool same_file =
          file.inode == mapping.inode && file.device == mapping.device && file.path == mapping.path;
      if (same_file && !begins_another_loading(file, mapping)) home = &file;
      if (same_file) break;
    }
    if (!home) home = &files.emplace_back(mapping.path, mapping.device, mapping.inode, mapping.deleted);
    home->mappings.push_back(mapping);
    home->has_code |= mapping.perms.execute;
  }
  return files;
}

std::vector<MappedImage> Maps::images() const {
  std::vector<MappedImage> with_code = files();
  std::erase_if(with_code, [](const MappedImage& file) { return !file.has_code; });
  return with_code;
}

Result<std::string> path_to_mapped_file(pid_t pid, const Mapping& mapping) {
  if (mapping.kind != MappingKind::File && mapping.kind != MappingKind::Memfd)
    return fail(fmt::format("{} is not a file",
                            mapping.path_as_shown.empty() ? "anonymous memory" : mapping.path_as_shown));
  const std::string dir = living_proc_dir(pid);
  const FileIdentity wanted{mapping.device, mapping.inode};

  // The decoded name first; then as shown, for a file that is really called "x (deleted)" or has \012 in its
  // name.
  std::string same_inode;
  for (const std::string& name : {mapping.path, mapping.path_as_shown}) {
    std::string path = dir + "/root" + name;
    auto found = identity_of(path);
    if (found == wanted) return path;
    // On overlayfs and btrfs the map shows another device than stat does, so this may be the file all the
    // same.
    if (found && found->inode == wanted.inode && same_inode.empty()) same_inode = path;
  }
  std::string map_file = fmt::format("{}/map_files/{:x}-{:x}", dir, mapping.start.value, mapping.end.value);
  auto mapped = identity_of(map_file);
  int why = errno;
  if (mapped) return !same_inode.empty() && identity_of(same_inode) == mapped ? same_inode : map_file;
  // map_files wants CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; the executable is also reachable without them.
  if (auto exe = identity_of(dir + "/exe"); exe == wanted) return dir + "/exe";
  if (!same_inode.empty()) return same_inode;
  Error error(fmt::format("{} as process {} maps it is {}", mapping.path, pid,
                          mapping.deleted ? "deleted" : "no longer the file of that name"));
  if (why == EPERM || why == EACCES)
    return fail(std::move(error).with_hint("as root it can be read all the same"));
  return fail(std::move(error));
}

}  // namespace uscope::process
