#include "session/explore_offsets.h"

#include <algorithm>
#include <map>

#include "base/glob.h"
#include "base/mapped_file.h"
#include "process/maps.h"
#include "process/memory.h"
#include "session/native_images.h"
#include "symbols/function_code.h"
#include "symbols/image_symbols.h"
#include "symbols/lookup.h"
#include "x86/boundaries.h"

namespace uscope::session {
namespace {

using process::MappedImage;
using process::Mapping;

// The file that is asked about, and where a process has it.
struct Subject {
  std::string path;  // to open
  std::string shown;
  std::string root;
  std::optional<MappedImage> mapped;
};

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool means(const std::string& wanted, const std::string& path) {
  return path == wanted || path.ends_with("/" + wanted) ||
         (has_glob(wanted) && glob_match(wanted, file_name(path)));
}

Result<Subject> find_mapped(const Target& target, const std::string& wanted) {
  TRY(const process::Maps maps, process::Maps::of(*target.pid));
  std::map<std::string, MappedImage> found;
  std::vector<std::string> names;
  for (MappedImage& image : maps.files()) {
    names.push_back(file_name(image.path));
    if (!means(wanted, image.path)) continue;
    // One file may be mapped as data and as code; the parts belong together.
    auto [at, is_new] = found.try_emplace(image.path, image);
    if (is_new) continue;
    at->second.has_code |= image.has_code;
    at->second.mappings.insert(at->second.mappings.end(), image.mappings.begin(), image.mappings.end());
  }
  if (found.size() > 1) {
    std::string paths;
    for (const auto& [path, image] : found) paths += (paths.empty() ? "" : ", ") + path;
    return fail(
        Error("`" + wanted + "` means several files of process " + std::to_string(*target.pid) + ": " + paths)
            .with_hint("give more of the path"));
  }
  if (found.empty()) {
    Error error("process " + std::to_string(*target.pid) + " has no file `" + wanted + "` mapped");
    const auto nearest = symbols::nearest_names(wanted, {names.begin(), names.end()}, 1);
    if (nearest.empty() || wanted.size() < 3) return fail(std::move(error));
    return fail(std::move(error).with_hint("did you mean `" + nearest[0] + "`?"));
  }
  MappedImage& image = found.begin()->second;
  Subject subject{.shown = image.path, .root = target.root};
  TRY(subject.path, process::path_to_mapped_file(*target.pid, image.mappings.front()));
  subject.mapped = std::move(image);
  return subject;
}

Result<Subject> find_subject(const OffsetsRequest& request) {
  if (request.target.pid) return find_mapped(request.target, request.image);
  return Subject{request.target.path, request.target.shown, request.target.root, std::nullopt};
}

void add_methods(const NativeImages& images, const std::string& pattern, std::vector<OffsetRow>& rows) {
  for (const auto& image : images.images) {
    const auto add = [&](const image::NativeMethod& method) {
      OffsetRow row{.offset = method.offset, .size = method.size, .name = method.full_name()};
      rows.push_back(std::move(row));
    };
    if (pattern.empty()) {
      std::ranges::for_each(image.methods, add);
    } else {
      for (const auto* method : image.match(pattern)) add(*method);
    }
  }
}

Status add_functions(const Subject& subject, const std::string& pattern, OffsetsAnswer& answer) {
  TRY(const symbols::ImageSymbols image, symbols::ImageSymbols::open(subject.path, subject.root));
  const symbols::NamePattern wanted(pattern.empty() ? "*" : pattern, symbols::Spelling::Any);
  for (const auto& function : image.functions()) {
    if (!wanted.matches_all() && !wanted.matches(function.name)) continue;
    const auto offset = image.file_offset(function.address);
    if (!offset) continue;
    OffsetRow row{.offset = *offset, .size = function.size, .name = symbols::display_name(function.name)};
    if (row.name != function.name) row.symbol = function.name;
    answer.rows.push_back(std::move(row));
  }
  answer.notes.insert(answer.notes.end(), image.problems().begin(), image.problems().end());
  if (answer.rows.empty() && !pattern.empty()) {
    return fail(symbols::explain_missing(image, pattern, symbols::find_functions(image, pattern)));
  }
  if (image.is_stripped())
    answer.notes.push_back(subject.shown + " is stripped: only its exported functions have names");
  return {};
}

// The mapping that a probe at this offset would hit; executable ones before others.
const Mapping* mapping_of(const MappedImage& image, FileOffset offset) {
  const Mapping* found = nullptr;
  for (const Mapping& mapping : image.mappings) {
    if (offset < mapping.offset || offset - mapping.offset >= mapping.size()) continue;
    if (mapping.perms.execute) return &mapping;
    if (!found) found = &mapping;
  }
  return found;
}

void place_in_memory(const Subject& subject, pid_t pid, Bytes file, OffsetsAnswer& answer) {
  constexpr uint64_t compared = 32;
  auto memory = process::RemoteMemory::open(pid);
  size_t unmapped = 0, different = 0, checked = 0;
  for (OffsetRow& row : answer.rows) {
    const Mapping* mapping = mapping_of(*subject.mapped, row.offset);
    if (!mapping || !mapping->perms.execute) {
      ++unmapped;
      continue;
    }
    row.address = mapping->start + (row.offset - mapping->offset);
    const uint64_t count = std::min({row.size ? row.size : 1, compared, mapping->end - *row.address});
    const auto expected = slice(file, row.offset.value, count);
    uint8_t actual[compared];
    if (!memory || !expected || !memory->read(*row.address, {actual, count})) continue;
    ++checked;
    row.differs_in_memory = !std::ranges::equal(*expected, std::span(actual, count));
    different += row.differs_in_memory;
  }
  if (unmapped) {
    answer.notes.push_back(
        std::to_string(unmapped) + " of " + std::to_string(answer.rows.size()) +
        " functions lie in parts of the file that the process has not mapped as code; the kernel "
        "cannot probe them there");
  }
  if (!memory) {
    answer.notes.push_back("not compared with the process's memory: " + memory.error().message());
  } else if (different) {
    answer.notes.push_back(
        std::to_string(different) + " of " + std::to_string(checked) +
        " functions have other bytes in memory than in the file (a probe, a patch, or code that is "
        "not from this file)");
  }
}

}  // namespace

Result<OffsetsAnswer> explore_offsets(const OffsetsRequest& request) {
  TRY(const Subject subject, find_subject(request));
  TRY(const MappedFile file, MappedFile::open(subject.path));
  OffsetsAnswer answer{.image = subject.shown};
  const bool is_pe = image::looks_like_pe(file.bytes());
  if (holds_assemblies(file.bytes())) {
    TRY(const NativeImages images,
        read_named_images(file.bytes(), subject.path, subject.root, request.map_file));
    add_methods(images, request.pattern, answer.rows);
    answer.notes = images.notes;
    if (is_pe && answer.rows.empty()) {
      if (request.pattern.empty()) {
        return fail("no native code in " + subject.shown +
                    (answer.notes.empty() ? "" : ": " + answer.notes.front()));
      }
      return fail(Error("no method `" + request.pattern + "` with native code in " + subject.shown)
                      .with_hint("a glob finds parts of names: '*Name*'"));
    }
  } else if (!request.map_file.empty()) {
    return fail("a map names the methods of a .NET image, and " + subject.shown + " is none");
  }
  if (!is_pe) {
    Status added = add_functions(subject, request.pattern, answer);
    if (!added && answer.rows.empty()) return fail(std::move(added.error()));
  }
  std::ranges::stable_sort(answer.rows, {}, &OffsetRow::offset);
  if (subject.mapped) place_in_memory(subject, *request.target.pid, file.bytes(), answer);
  return answer;
}

}  // namespace uscope::session
