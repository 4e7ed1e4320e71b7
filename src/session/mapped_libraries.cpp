// What a process has mapped, for explore_libs.
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/mapped_file.h"
#include "image/elf/elf_file.h"
#include "image/pe/pe_file.h"
#include "process/info.h"
#include "process/maps.h"
#include "session/explore_libs.h"

namespace uscope::session {
namespace {

using process::MappedImage;

// A mapped file with what decides whether somebody asked for it.
struct Object {
  LibraryFacts facts;
  std::vector<std::string> names;  // that a DT_NEEDED may call it by
  std::vector<std::string> needed;
  std::string interpreter;
  bool is_program = false;
  bool is_asked_for = false;
};

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_replaced(pid_t pid, const MappedImage& mapped) {
  struct stat now {};
  const std::string path = "/proc/" + std::to_string(pid) + "/root" + mapped.path;
  // Overlay file systems show one device in maps and another in stat; the inode is the same.
  return !mapped.deleted && ::stat(path.c_str(), &now) == 0 && now.st_ino != mapped.inode;
}

void read_elf(const std::string& path, Object& object) {
  auto file = image::ElfFile::open(path);
  if (!file) return;
  const image::DynamicInfo dynamic = file->dynamic();
  if (!dynamic.soname.empty()) object.names.emplace_back(dynamic.soname);
  for (std::string_view name : dynamic.needed) object.needed.emplace_back(name);
  object.interpreter = file->interpreter();
  if (!object.names.empty()) object.facts.name = object.names.front();
}

// Nothing: not a file that belongs in the list.
std::optional<Object> read_object(pid_t pid, const MappedImage& mapped) {
  Object object;
  object.facts.path = mapped.path;
  object.facts.address = mapped.start();
  object.facts.is_deleted = mapped.deleted;
  object.facts.is_replaced = is_replaced(pid, mapped);
  object.names.push_back(mapped.path);
  auto path = process::path_to_mapped_file(pid, mapped.mappings.front());
  if (!path) {
    object.facts.hint = path.error().message();
    object.names.push_back(file_name(mapped.path));
    return mapped.has_code ? std::optional(object) : std::nullopt;
  }
  auto file = MappedFile::open(*path);
  if (!file) return std::nullopt;
  if (image::looks_like_pe(file->bytes())) {
    auto pe = image::PeFile::parse(file->bytes());
    if (!pe || !pe->cor_header()) return std::nullopt;
    object.facts.managed = pe->cor_header()->managed_native_header.present() ? "ReadyToRun" : "IL only";
    object.facts.name = file_name(mapped.path);
    return object;
  }
  if (!mapped.has_code || !image::ElfFile::looks_like_elf(file->bytes())) return std::nullopt;
  object.names.clear();
  read_elf(*path, object);
  object.names.push_back(mapped.path);
  object.names.push_back(file_name(mapped.path));
  return object;
}

// Marks what is asked for, from the program on; the rest came by dlopen or LD_PRELOAD.
void follow_needs(std::vector<Object>& objects) {
  std::unordered_map<std::string, size_t> by_name;
  for (size_t i = 0; i < objects.size(); ++i) {
    for (const std::string& name : objects[i].names) by_name.emplace(name, i);
  }
  std::deque<size_t> todo;
  const auto ask = [&](const std::string& name, const std::string& asker) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return;
    Object& object = objects[found->second];
    if (!asker.empty()) object.facts.needed_by.push_back(asker);
    if (!std::exchange(object.is_asked_for, true)) todo.push_back(found->second);
  };
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!objects[i].is_program) continue;
    objects[i].is_asked_for = true;
    todo.push_back(i);
    const std::string loader = file_name(objects[i].interpreter);
    if (!loader.empty()) ask(loader, "");
  }
  while (!todo.empty()) {
    const Object& object = objects[todo.front()];
    todo.pop_front();
    for (const std::string& name : object.needed) ask(name, object.facts.path);
  }
}

}  // namespace

Result<std::vector<LibraryFacts>> mapped_libraries(pid_t pid) {
  TRY(const process::ProcessInfo info, process::read_process(pid));
  TRY(const process::Maps maps, process::Maps::of(pid));
  std::vector<Object> objects;
  const std::vector<MappedImage> files = maps.files();
  for (const MappedImage& mapped : files) {
    // .NET maps an assembly twice, as data and as code; where the code is counts.
    const auto is_file = [&](const MappedImage& other) {
      return other.path == mapped.path && other.has_code;
    };
    if (!mapped.has_code && std::ranges::any_of(files, is_file)) continue;
    auto object = read_object(pid, mapped);
    if (!object) continue;
    object->is_program = info.exe && mapped.path == *info.exe;
    objects.push_back(std::move(*object));
  }
  follow_needs(objects);
  std::vector<LibraryFacts> out;
  for (Object& object : objects) {
    if (object.is_program) continue;
    object.facts.is_opened_later = !object.is_asked_for && object.facts.managed.empty();
    out.push_back(std::move(object.facts));
  }
  return out;
}

}  // namespace uscope::session
