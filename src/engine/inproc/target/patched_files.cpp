#include "engine/inproc/target/patched_files.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>

#include "base/fd.h"
#include "engine/inproc/target/journal.h"
#include "engine/inproc/target/surgeon.h"
#include "process/maps.h"

namespace uscope::engine::inproc {
namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir("/proc"), ::closedir);
  while (const dirent* entry = dir ? ::readdir(dir.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

bool is_guardian(pid_t pid) {
  auto name = read_text_file(fmt::format("/proc/{}/comm", pid));
  return name && name->starts_with(guardian_name);
}

// Most processes have nothing of ours, and many mappings.
bool has_area(pid_t pid) {
  auto text = read_text_file(fmt::format("/proc/{}/maps", pid));
  return text && text->find(fmt::format("/memfd:{}", area_name)) != std::string::npos;
}

void add_patched_files(pid_t pid, std::vector<PatchedFile>& files) {
  auto maps = process::Maps::of(pid);
  auto memory = process::RemoteMemory::open(pid);
  if (!maps || !memory) return;
  std::map<std::pair<dev_t, ino_t>, PatchedFile> found;  // by what the maps say, which may not be stat()'s
  for (const JournalContents& journal : Journal::find_all(*memory, *maps))
    for (const Patch& patch : journal.patches) {
      const process::Mapping* mapping = maps->find(patch.address);
      if (mapping == nullptr || mapping->kind != process::MappingKind::File) continue;
      PatchedFile& file = found[{mapping->device, mapping->inode}];
      if (file.pid == 0) {
        file.pid = pid;
        struct stat info {};
        auto path = process::path_to_mapped_file(pid, *mapping);
        if (!path || ::stat(path->c_str(), &info) != 0) continue;
        file.device = info.st_dev;
        file.inode = info.st_ino;
      }
      const FileOffset begin = mapping->file_offset(patch.address);
      file.places.push_back({begin, begin + std::max(patch.size, patch.moved)});
    }
  for (auto& [shown, file] : found) {
    std::ranges::sort(file.places, {}, &PatchedFile::Place::begin);
    files.push_back(std::move(file));
  }
}

}  // namespace

bool PatchedFile::covers(FileOffset offset) const {
  auto after = std::ranges::upper_bound(places, offset, {}, &Place::begin);
  return after != places.begin() && offset < std::prev(after)->end;
}

// /proc/locks would show it in one read, if guardians held a lock; but that read takes 10 ms.
bool is_guardian_at_work() { return std::ranges::any_of(all_processes(), is_guardian); }

std::vector<PatchedFile> find_patched_files(std::optional<pid_t> pid) {
  std::vector<PatchedFile> files;
  if (pid) {
    if (has_area(*pid)) add_patched_files(*pid, files);
    return files;
  }
  for (pid_t each : all_processes())
    if (has_area(each)) add_patched_files(each, files);
  return files;
}

}  // namespace uscope::engine::inproc
