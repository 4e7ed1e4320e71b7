#include "symbols/library_search.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/fd.h"
#include "base/mapped_file.h"
#include "image/elf/ld_cache.h"
#include "symbols/loader_config.h"

namespace uscope::symbols {
namespace {

using image::ElfFile;

constexpr size_t most_libraries = 4096;
constexpr int most_links = 40;  // what the kernel follows, too

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find_first_of(separators);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

// $ORIGIN, ${ORIGIN}, $LIB, $PLATFORM as ld.so(8) has them.
std::string expand_tokens(std::string text, const std::string& origin) {
  const std::pair<std::string_view, std::string> tokens[] = {
      {"ORIGIN", origin}, {"LIB", "lib/x86_64-linux-gnu"}, {"PLATFORM", "x86_64"}};
  for (const auto& [name, value] : tokens) {
    for (const std::string& spelled : {"${" + std::string(name) + "}", "$" + std::string(name)}) {
      for (size_t at = 0; (at = text.find(spelled, at)) != std::string::npos; at += value.size()) {
        text.replace(at, spelled.size(), value);
        if (text.size() > PATH_MAX) return text;
      }
    }
  }
  return text;
}

// An object that is loaded, or would be.
struct Loaded {
  std::string path;
  std::string origin;
  std::vector<std::string> needed;
  std::string rpath, runpath;
  bool no_default_folders = false;
  int loader = -1;  // who asked for it first
};

class Search {
 public:
  explicit Search(const LibrarySearch& search)
      : root_(search.root), library_path_(search.library_path), level_(image::supported_hwcaps_level()) {}

  std::vector<Library> run(const ElfFile& program, std::string image_path);

 private:
  struct Place {
    std::string path;
    std::string found_by;
  };

  void read_configuration();
  void add_loaded(const ElfFile& file, std::string path, int loader);
  void resolve_needs_of(int index);
  void resolve(const std::string& name, int requester);
  std::optional<Place> locate(const std::string& name, const Loaded& requester) const;
  std::optional<Place> in_folders(const std::string& folders, const std::string& origin,
                                  const std::string& name, std::string found_by) const;
  std::optional<Place> in_cache(const std::string& name) const;
  std::optional<std::string> usable(const std::string& path) const;
  std::string why_not(const std::string& name) const;

  std::string root_, library_path_;
  int level_;
  bool is_musl_ = false;
  std::optional<MappedFile> cache_file_;
  std::optional<image::LdCache> cache_;
  std::vector<std::string> standard_;
  std::deque<Loaded> loaded_;
  std::vector<Library> libraries_;
  std::unordered_map<std::string, size_t> by_name_;       // into libraries_
  std::unordered_map<std::string, size_t> by_real_path_;  // into libraries_
};

void Search::read_configuration() {
  if (is_musl_) {
    standard_ = musl_folders(root_);
    return;
  }
  standard_ = {
      "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
  if (auto file = MappedFile::open(root_ + "/etc/ld.so.cache")) {
    cache_file_ = std::move(*file);
    if (auto cache = image::LdCache::parse(cache_file_->bytes())) cache_ = *cache;
  }
}

void Search::add_loaded(const ElfFile& file, std::string path, int loader) {
  const image::DynamicInfo dynamic = file.dynamic();
  Loaded object;
  object.origin = folder_of(real_path_below(root_, path));
  object.path = std::move(path);
  for (std::string_view name : dynamic.needed) object.needed.emplace_back(name);
  object.rpath = dynamic.rpath;
  object.runpath = dynamic.runpath;
  object.no_default_folders = (dynamic.flags_1 & DF_1_NODEFLIB) != 0;
  object.loader = loader;
  loaded_.push_back(std::move(object));
}

// The file, if it is one that the loader would take: it passes over libraries for other machines.
std::optional<std::string> Search::usable(const std::string& path) const {
  const std::string real = real_path_below(root_, path);
  auto file = ElfFile::open(root_ + real);
  if (!file || file->header().e_type != ET_DYN) return std::nullopt;
  return real;
}

std::optional<Search::Place> Search::in_folders(const std::string& folders, const std::string& origin,
                                                const std::string& name, std::string found_by) const {
  for (std::string folder : split(folders, ":;")) {
    folder = expand_tokens(folder.empty() ? "." : std::move(folder), origin);
    for (int level = is_musl_ ? 1 : level_; level >= 1; --level) {
      const std::string sub = level > 1 ? "/glibc-hwcaps/x86-64-v" + std::to_string(level) : "";
      std::string path = folder + sub + "/" + name;
      if (::access((root_ + path).c_str(), F_OK) != 0 && root_.empty()) continue;
      if (usable(path)) return Place{std::move(path), std::move(found_by)};
    }
  }
  return std::nullopt;
}

std::optional<Search::Place> Search::in_cache(const std::string& name) const {
  if (!cache_) return std::nullopt;
  std::vector<std::string_view> paths = cache_->find(name);
  std::erase_if(paths, [&](std::string_view path) { return image::hwcaps_level(path) > level_; });
  std::ranges::stable_sort(paths, std::greater<>(), image::hwcaps_level);
  for (std::string_view path : paths) {
    if (usable(std::string(path))) return Place{std::string(path), "ld.so.cache"};
  }
  return std::nullopt;
}

std::optional<Search::Place> Search::locate(const std::string& name, const Loaded& requester) const {
  if (name.find('/') != std::string::npos) {
    std::string path = expand_tokens(name, requester.origin);
    if (usable(path)) return Place{std::move(path), "its own path"};
    return std::nullopt;
  }
  // RPATH is inherited from whoever loaded the requester, RUNPATH is not, and switches RPATH off. musl knows
  // one kind.
  if (requester.runpath.empty() || is_musl_) {
    for (const Loaded* object = &requester; object;
         object = object->loader >= 0 ? &loaded_[size_t(object->loader)] : nullptr) {
      const std::string& folders = is_musl_ && object->rpath.empty() ? object->runpath : object->rpath;
      if (folders.empty() || (!is_musl_ && !object->runpath.empty())) continue;
      if (auto place = in_folders(folders, object->origin, name, "RPATH of " + object->path)) return place;
    }
  }
  if (!library_path_.empty()) {
    if (auto place = in_folders(library_path_, requester.origin, name, "LD_LIBRARY_PATH")) return place;
  }
  if (!requester.runpath.empty() && !is_musl_) {
    if (auto place = in_folders(requester.runpath, requester.origin, name, "RUNPATH of " + requester.path))
      return place;
  }
  if (requester.no_default_folders) return std::nullopt;
  if (auto place = in_cache(name)) return place;
  for (const std::string& folder : standard_) {
    if (auto place = in_folders(folder, "", name, "standard folder")) return place;
  }
  return std::nullopt;
}

// A library that ldconfig would find, though its cache does not have it yet, is the usual case.
std::string Search::why_not(const std::string& name) const {
  if (is_musl_ || name.find('/') != std::string::npos) return "";
  for (const std::string& folder : configured_folders(root_)) {
    if (usable(folder + "/" + name)) {
      return "it is in " + folder + ", which /etc/ld.so.conf names; run ldconfig";
    }
  }
  return "";
}

void Search::resolve(const std::string& name, int requester) {
  const std::string& asker = loaded_[size_t(requester)].path;
  const auto note_asker = [&](Library& library) {
    if (std::ranges::find(library.needed_by, asker) == library.needed_by.end())
      library.needed_by.push_back(asker);
  };
  if (auto known = by_name_.find(name); known != by_name_.end()) return note_asker(libraries_[known->second]);
  if (libraries_.size() >= most_libraries) return;

  Library library{.name = name};
  std::optional<ElfFile> file;
  if (auto place = locate(name, loaded_[size_t(requester)])) {
    library.real_path = real_path_below(root_, place->path);
    if (auto known = by_real_path_.find(library.real_path); known != by_real_path_.end()) {
      by_name_[name] = known->second;
      return note_asker(libraries_[known->second]);
    }
    if (auto opened = ElfFile::open(root_ + library.real_path)) file = std::move(*opened);
    library.path = std::move(place->path);
    library.found_by = std::move(place->found_by);
  } else {
    library.hint = why_not(name);
  }
  note_asker(library);
  by_name_[name] = libraries_.size();
  if (!library.path.empty()) by_real_path_[library.real_path] = libraries_.size();
  if (file) {
    // Others may ask for it by its own name.
    if (auto soname = file->dynamic().soname; !soname.empty()) by_name_.emplace(soname, libraries_.size());
    add_loaded(*file, library.path, requester);
  }
  libraries_.push_back(std::move(library));
}

void Search::resolve_needs_of(int index) {
  const std::vector<std::string> needed = loaded_[size_t(index)].needed;
  for (const std::string& name : needed) resolve(name, index);
}

std::vector<Library> Search::run(const ElfFile& program, std::string image_path) {
  const std::string interpreter(program.interpreter());
  is_musl_ = interpreter.find("ld-musl-") != std::string::npos;
  read_configuration();
  add_loaded(program, std::move(image_path), -1);
  // The loader itself is there before it looks for anything.
  std::optional<Library> loader;
  if (!interpreter.empty()) {
    if (auto file = ElfFile::open(root_ + real_path_below(root_, interpreter))) {
      loader = Library{.name = std::string(file->dynamic().soname),
                       .path = interpreter,
                       .real_path = real_path_below(root_, interpreter),
                       .found_by = "interpreter"};
      if (loader->name.empty()) loader->name = interpreter.substr(interpreter.rfind('/') + 1);
      libraries_.push_back(*loader);
      by_name_[loader->name] = 0;
      by_real_path_[loader->real_path] = 0;
      // musl's loader is its C library.
      if (is_musl_) by_name_["libc.so"] = by_name_["libc.musl-x86_64.so.1"] = 0;
    }
  }
  for (size_t i = 0; i < loaded_.size(); ++i) resolve_needs_of(int(i));
  if (loader) std::ranges::rotate(libraries_, libraries_.begin() + 1);  // last, as ldd has it
  return std::move(libraries_);
}

}  // namespace

std::string real_path_below(const std::string& root, std::string_view path) {
  std::deque<std::string> todo;
  for (auto& part : split(path, "/")) todo.push_back(std::move(part));
  std::vector<std::string> done;
  const bool is_absolute = path.starts_with('/');
  bool from_top = is_absolute;
  int links = 0;
  const auto joined = [&] {
    std::string text = from_top ? "/" : "";
    for (size_t i = 0; i < done.size(); ++i) text += (i ? "/" : "") + done[i];
    return text.empty() ? std::string(".") : text;
  };
  while (!todo.empty()) {
    std::string part = std::move(todo.front());
    todo.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == ".." && (from_top || (!done.empty() && done.back() != ".."))) {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(std::move(part));
    char target[PATH_MAX];
    const ssize_t length = ::readlink((root + joined()).c_str(), target, sizeof target);
    if (length <= 0) continue;
    if (++links > most_links) return std::string(path);
    done.pop_back();
    const std::string_view link(target, size_t(length));
    if (link.starts_with('/')) {
      done.clear();
      from_top = true;
    }
    auto parts = split(link, "/");
    todo.insert(todo.begin(), parts.begin(), parts.end());
  }
  return joined();
}

std::vector<Library> find_libraries(const ElfFile& program, const LibrarySearch& search) {
  return Search(search).run(program, search.image_path.empty() ? program.path() : search.image_path);
}

}  // namespace uscope::symbols
