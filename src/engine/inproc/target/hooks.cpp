#include "engine/inproc/target/hooks.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "engine/inproc/target/loadings.h"
#include "process/beginnings.h"
#include "process/proc_dir.h"

namespace uscope::engine::inproc {
namespace {

using process::Mapping;

// glibc's and musl's dynamic linkers call it twice each time: when they begin, and when what they have mapped
// can be used; glibc's before the library's code is relocated or run.
constexpr std::array<std::string_view, 2> kLibraryFunctions = {"_dl_debug_state", "dl_debug_state"};
constexpr std::array<std::string_view, 4> kExecFunctions = {"execve", "__execve", "execveat", "fexecve"};

bool is_c_library(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl");
}

void add_hook(const std::string& file, std::string_view function, uint32_t code, const FactsSource& facts,
              std::vector<Attachment>& hooks) {
  auto image = facts(file);
  if (!image) return;
  auto offset = (*image)->offset_of(function);
  if (!offset) return;
  for (const Attachment& hook : hooks)
    if (hook.file == file && hook.code == code && hook.sites[0].offset == *offset) return;
  Attachment hook;
  hook.code = code;
  hook.kind = Attachment::Kind::UserProbe;
  hook.file = file;
  hook.sites = {{*offset, 0, std::nullopt}};
  hooks.push_back(std::move(hook));
}

// A static program has none.
const Mapping* find_linker(pid_t pid, const process::Maps& maps) {
  const auto beginnings = process::read_beginnings(pid);
  return beginnings && beginnings->linker.value != 0 ? maps.find(beginnings->linker) : nullptr;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return a == b || (::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 &&
                    one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

// The name that the user's probes have for a file, if there are any in it: what is in one file is planned
// together.
std::optional<std::string> name_as_probed(const std::string& file,
                                          const std::vector<Attachment>& attachments) {
  std::set<std::string_view> others;
  for (const Attachment& attachment : attachments) {
    if (attachment.kind != Attachment::Kind::UserProbe || !others.insert(attachment.file).second) continue;
    if (is_same_file(attachment.file, file)) return attachment.file;
  }
  return std::nullopt;
}

// Where functions of the C library are.
struct LibraryFile {
  std::string name;
  bool is_probed = false;
};
std::vector<LibraryFile> library_files(pid_t pid, const process::Maps& maps, bool is_static,
                                       const std::vector<Attachment>& attachments) {
  std::vector<LibraryFile> files;
  for (const process::MappedImage& image : maps.images()) {
    if (!is_static && !is_c_library(image.path)) continue;
    auto file = process::path_to_mapped_file(pid, image.mappings.front());
    if (!file) continue;
    const auto probed = name_as_probed(*file, attachments);
    files.push_back({probed.value_or(*file), probed.has_value()});
  }
  return files;
}

// Whether its hooks are late_hooks(): nobody else needs to know anything of it.
bool is_late(const LibraryFile& file, const HookCodes& codes, const Mapping* linker) {
  return !codes.wants_exec && linker != nullptr && !file.is_probed;
}

void add_sandbox_hooks(const std::string& file, const HookCodes& codes, const FactsSource& facts,
                       std::vector<Attachment>& hooks) {
  add_hook(file, "prctl", codes.prctl, facts, hooks);
  add_hook(file, "syscall", codes.syscall, facts, hooks);
}

std::vector<Attachment> find_hooks(pid_t pid, const process::Maps& maps,
                                   const std::vector<Attachment>& attachments, const HookCodes& codes,
                                   bool wants_libraries, const FactsSource& facts) {
  std::vector<Attachment> hooks;
  const Mapping* linker = find_linker(pid, maps);
  if (wants_libraries && linker != nullptr)
    if (auto file = process::path_to_mapped_file(pid, *linker))
      for (std::string_view function : kLibraryFunctions)
        add_hook(name_as_probed(*file, attachments).value_or(*file), function, codes.libraries, facts, hooks);
  for (const LibraryFile& file : library_files(pid, maps, linker == nullptr, attachments)) {
    if (!is_late(file, codes, linker)) add_sandbox_hooks(file.name, codes, facts, hooks);
    if (!codes.wants_exec) continue;
    for (std::string_view function : kExecFunctions) add_hook(file.name, function, codes.exec, facts, hooks);
  }
  return hooks;
}

// Whether it is the program that the process runs, or its C library: neither comes later, nor goes.
bool is_always_loaded(pid_t pid, const process::Maps& maps, const std::string& file) {
  if (is_same_file(process::living_proc_dir(pid) + "/exe", file)) return true;
  return is_c_library(file) && !find_loadings(pid, maps, file).empty();
}

}  // namespace

std::vector<Attachment> with_hooks(pid_t pid, const std::vector<Attachment>& attachments,
                                   const HookCodes& codes, const FactsSource& facts) {
  std::vector<Attachment> all = attachments;
  auto maps = process::Maps::of(pid);
  if (!maps) return all;
  const bool wants_libraries = std::ranges::any_of(attachments, [&](const Attachment& attachment) {
    return attachment.kind == Attachment::Kind::UserProbe && !is_always_loaded(pid, *maps, attachment.file);
  });
  std::ranges::move(find_hooks(pid, *maps, attachments, codes, wants_libraries, facts),
                    std::back_inserter(all));
  return all;
}

std::vector<Attachment> late_hooks(pid_t pid, const std::vector<Attachment>& attachments,
                                   const HookCodes& codes, const FactsSource& facts) {
  std::vector<Attachment> hooks;
  auto maps = process::Maps::of(pid);
  if (!maps) return hooks;
  const Mapping* linker = find_linker(pid, *maps);
  for (const LibraryFile& file : library_files(pid, *maps, linker == nullptr, attachments))
    if (is_late(file, codes, linker)) add_sandbox_hooks(file.name, codes, facts, hooks);
  return hooks;
}

}  // namespace uscope::engine::inproc
