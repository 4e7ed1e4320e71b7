#include "engine/inproc/target/hooks.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>
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

std::vector<Attachment> find_hooks(pid_t pid, const process::Maps& maps, const HookCodes& codes,
                                   bool wants_libraries, const FactsSource& facts) {
  std::vector<Attachment> hooks;
  const auto beginnings = process::read_beginnings(pid);
  // A static program has none.
  const bool has_linker = beginnings && beginnings->linker.value != 0;
  const Mapping* linker = has_linker ? maps.find(beginnings->linker) : nullptr;
  if (wants_libraries && linker != nullptr)
    if (auto file = process::path_to_mapped_file(pid, *linker))
      for (std::string_view function : kLibraryFunctions)
        add_hook(*file, function, codes.libraries, facts, hooks);
  if (!codes.wants_exec) return hooks;
  for (const process::MappedImage& image : maps.images()) {
    const Mapping& mapping = image.mappings.front();
    if (linker != nullptr && !is_c_library(image.path)) continue;
    auto file = process::path_to_mapped_file(pid, mapping);
    if (!file) continue;
    for (std::string_view function : kExecFunctions) add_hook(*file, function, codes.exec, facts, hooks);
  }
  return hooks;
}

// Whether it is the program that the process runs, or its C library: neither comes later, nor goes.
bool is_always_loaded(pid_t pid, const process::Maps& maps, const std::string& file) {
  struct stat program {
  }, named{};
  if (::stat(file.c_str(), &named) != 0) return false;
  if (::stat((process::living_proc_dir(pid) + "/exe").c_str(), &program) == 0 &&
      program.st_dev == named.st_dev && program.st_ino == named.st_ino)
    return true;
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
  std::ranges::move(find_hooks(pid, *maps, codes, wants_libraries, facts), std::back_inserter(all));
  return all;
}

}  // namespace uscope::engine::inproc
