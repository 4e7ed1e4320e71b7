#include "session/jit_names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "process/info.h"

namespace uscope::session {
namespace {

constexpr uint64_t kLargestMap = uint64_t(256) << 20;

}  // namespace

void JitNames::read_more(File& file) {
  // What is no plain file must not be waited for.
  Fd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (info.st_uid != 0 && file.owner && info.st_uid != *file.owner) return;
  auto size = std::min<uint64_t>(uint64_t(info.st_size), kLargestMap);
  // Another file, or written anew: by another program that the process has executed.
  if (info.st_ino != file.inode || size < file.size) {
    file.map = {};
    file.size = 0;
    file.inode = info.st_ino;
  }
  if (size <= file.size) return;
  std::string text(size - file.size, '\0');
  ssize_t got = ::pread(fd.get(), text.data(), text.size(), off_t(file.size));
  if (got <= 0) return;
  text.resize(size_t(got));
  file.size += uint64_t(got);
  file.map.append(std::move(text));
}

std::optional<JitName> JitNames::find(uint32_t pid, uint64_t address, uint64_t batch) {
  auto [at, is_new] = files_.try_emplace(pid);
  File& file = at->second;
  if (is_new) {
    // A process that is gone has left its map in our own /tmp, if it was there.
    file.path = "/tmp/perf-" + std::to_string(pid) + ".map";
    if (auto info = process::read_process(pid_t(pid))) {
      file.path =
          "/proc/" + std::to_string(pid) + "/root/tmp/perf-" + std::to_string(info->own_pid()) + ".map";
      file.owner = info->status.effective_uid;
    }
  }
  const bool is_looked_at = !is_new && file.batch == batch;
  if (!is_looked_at) read_more(file);
  file.batch = batch;
  const image::PerfMapEntry* entry = file.map.find(ProcessAddr{address});
  if (entry == nullptr && is_looked_at) {
    read_more(file);
    entry = file.map.find(ProcessAddr{address});
  }
  if (entry == nullptr) return std::nullopt;
  return JitName{std::string(entry->name), entry->address};
}

}  // namespace uscope::session
