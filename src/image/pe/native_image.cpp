#include "image/pe/native_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/glob.h"
#include "image/pe/bundle.h"
#include "image/pe/method_names.h"
#include "image/pe/module_set.h"
#include "image/pe/ready_to_run.h"
#include "image/perfmap/managed_name.h"

namespace uscope::image {
namespace {

// Fills a NativeImage from one ReadyToRun image. Lives for one reading.
class ImageReader {
 public:
  ImageReader(const PeFile& file, const ReadyToRun& code, const Metadata* own, const AssemblySource& source,
              NativeImage& out)
      : file_(file), code_(code), modules_(file, code, own, source), names_(modules_), out_(out) {}

  void read();

 private:
  struct Found {
    NativeMethod method;
    uint32_t function;
  };
  void add_definitions();
  void add_instances();
  void add(NativeMethod method, uint32_t function);
  void place_all();
  bool place(NativeMethod& method, uint32_t function);
  std::optional<NativeCode> code_of(uint32_t first, uint32_t end) const;
  void write_notes();

  const PeFile& file_;
  const ReadyToRun& code_;
  ModuleSet modules_;
  MethodNames names_;
  NativeImage& out_;
  std::vector<Found> found_;
  std::vector<uint32_t> method_end_;  // by runtime function: where the run of its method ends
  std::vector<HotColdPair> splits_;   // sorted by hot
  size_t name_bytes_ = 0;
  size_t misplaced_ = 0;
  bool out_of_budget_ = false;
  bool instances_complete_ = true;
};

void ImageReader::read() {
  add_definitions();
  add_instances();
  place_all();
  write_notes();
}

// Tables that lie can describe far more names than the file has bytes for; honest ones stay well below this.
void ImageReader::add(NativeMethod method, uint32_t function) {
  name_bytes_ += method.name.size() + method.type_arguments.size() + sizeof(Found);
  if (name_bytes_ > (size_t(1) << 20) + file_.bytes().size() * 8) out_of_budget_ = true;
  if (!out_of_budget_) found_.push_back({std::move(method), function});
}

void ImageReader::add_definitions() {
  auto add_from = [&](const ReadyToRunSections& sections, const Metadata* metadata,
                      std::string_view assembly) {
    for (const MethodEntry& entry : code_.method_entries(sections)) {
      if (out_of_budget_) return;
      add(names_.of_definition(metadata, assembly, entry.row), entry.function);
    }
  };
  add_from(code_.sections(), modules_.own(), out_.assembly);
  for (size_t i = 0; i < code_.components().size() && !out_of_budget_; ++i) {
    const ReadyToRunComponent& component = code_.components()[i];
    if (component.sections.find(ReadyToRunSection::kMethodEntryPoints)) {
      add_from(component.sections, modules_.component(i), component.name);
    }
  }
}

void ImageReader::add_instances() {
  Bytes table = code_.instance_entry_bytes();
  for (uint64_t offset : code_.instance_entries(instances_complete_)) {
    if (out_of_budget_) return;
    if (auto instance = names_.of_instance(table, offset))
      add(std::move(instance->method), instance->function);
  }
}

void ImageReader::place_all() {
  uint32_t count = uint32_t(code_.functions().size());
  splits_ = code_.hot_cold_pairs();
  uint32_t first_cold = count;
  for (const HotColdPair& pair : splits_) first_cold = std::min(first_cold, pair.cold);
  std::sort(splits_.begin(), splits_.end(), [](const auto& a, const auto& b) { return a.hot < b.hot; });

  // A method's funclets follow its body, up to the next method's entry or the first cold part.
  std::vector<bool> is_entry(count, false);
  for (const Found& found : found_) {
    if (found.function < count) is_entry[found.function] = true;
  }
  method_end_.assign(count, count);
  for (uint32_t i = count; i-- > 0;) {
    bool ends = i + 1 >= count || is_entry[i + 1] || i + 1 == first_cold;
    method_end_[i] = ends ? i + 1 : method_end_[i + 1];
  }
  out_.methods.reserve(found_.size());
  for (Found& found : found_) {
    if (place(found.method, found.function)) {
      out_.methods.push_back(std::move(found.method));
    } else {
      ++misplaced_;
    }
  }
  std::stable_sort(out_.methods.begin(), out_.methods.end(),
                   [](const NativeMethod& a, const NativeMethod& b) { return a.rva < b.rva; });
  for (uint32_t i = 0; i < out_.methods.size(); ++i) {
    if (out_.methods[i].cold) out_.cold_order.push_back(i);
  }
  std::sort(out_.cold_order.begin(), out_.cold_order.end(),
            [&](uint32_t a, uint32_t b) { return out_.methods[a].cold->rva < out_.methods[b].cold->rva; });
}

std::optional<NativeCode> ImageReader::code_of(uint32_t first, uint32_t end) const {
  const auto& functions = code_.functions();
  if (first >= functions.size()) return std::nullopt;
  ImageAddr begin = functions[first].begin;
  const PeSection* section = file_.section_of(begin);
  auto offset = file_.file_offset(begin);
  if (!offset || section == nullptr || !section->executable()) return std::nullopt;
  ImageAddr last = functions[std::min<size_t>(end, functions.size()) - 1].end;
  uint64_t size = last > begin ? last - begin : 0;
  uint64_t available = section->file_size - (begin - section->address);
  return NativeCode{begin, std::min(size, available), *offset};
}

bool ImageReader::place(NativeMethod& method, uint32_t function) {
  if (function >= code_.functions().size()) return false;
  auto code = code_of(function, method_end_[function]);
  auto body = code_of(function, function + 1);
  if (!code || !body) return false;
  method.rva = code->rva;
  method.size = code->size;
  method.body_size = std::min(body->size, code->size);
  method.offset = code->offset;
  auto split = std::lower_bound(splits_.begin(), splits_.end(), function,
                                [](const HotColdPair& pair, uint32_t hot) { return pair.hot < hot; });
  if (split != splits_.end() && split->hot == function) {
    // Cold parts stand in the order of their hot parts, so the next pair's part ends this one.
    auto next = split + 1;
    uint32_t end =
        next != splits_.end() && next->cold > split->cold ? next->cold : uint32_t(method_end_.size());
    method.cold = code_of(split->cold, end);
  }
  return true;
}

void ImageReader::write_notes() {
  auto note = [&](size_t count, std::string_view text) {
    if (count != 0) out_.notes.push_back(fmt::format("{} {}", count, text));
  };
  const NamingProblems& problems = names_.problems();
  note(problems.unreadable_signatures,
       "methods have a signature that cannot be read; their parameters show as (?)");
  note(problems.unknown_modules, "names hold tokens, because the metadata of an assembly is not at hand");
  note(problems.skipped_instances, "generic instances could not be read and are left out");
  note(misplaced_, "methods point outside the image's code and are left out");
  for (const std::string& name : modules_.missing()) {
    out_.notes.push_back(fmt::format("the assembly {} was not found beside the image", name));
  }
  if (!instances_complete_)
    out_.notes.push_back("the table of generic instances is damaged; some are left out");
  if (code_.functions_damaged())
    out_.notes.push_back("the table of runtime functions is damaged; sizes may be wrong");
  if (out_of_budget_)
    out_.notes.push_back("the image's tables describe more than the file can hold; reading stopped");
  if (file_.machine() != PeMachine::kX64 && !out_.methods.empty()) {
    out_.notes.push_back(
        "for this machine the image does not say where functions end; sizes run to the next one");
  }
  if (file_.system() != PeSystem::kLinux && !out_.methods.empty()) {
    out_.notes.push_back(
        fmt::format("the native code is for {}; a Linux runtime ignores it and compiles the IL",
                    name_of(file_.system())));
  }
}

bool has_other_native_code(const PeFile& file) {
  PeDirectory header = file.cor_header()->managed_native_header;
  if (!header.present()) return false;
  ByteReader reader(file.bytes_from(header.address));
  uint32_t signature = reader.u32();
  return !reader.failed() && signature != ReadyToRun::kSignature;
}

std::optional<Metadata> read_metadata(const PeFile& file, NativeImage& out) {
  if (!file.cor_header()) return std::nullopt;
  auto bytes = file.bytes_at(file.cor_header()->metadata);
  if (!bytes) {
    out.notes.push_back("the metadata lies outside the file");
    return std::nullopt;
  }
  auto metadata = Metadata::parse(*bytes);
  if (!metadata) {
    out.notes.push_back(metadata.error().message());
    return std::nullopt;
  }
  if (metadata->truncated()) out.notes.push_back("the metadata is cut short; some names are missing");
  out.assembly = metadata->assembly_name();
  out.mvid = metadata->mvid();
  return std::move(*metadata);
}

}  // namespace

std::string_view NativeMethod::qualified_name() const {
  return std::string_view(name).substr(qualified_begin, qualified_end - qualified_begin);
}

std::string NativeMethod::full_name() const {
  std::string text = name;
  return text.insert(qualified_end, type_arguments);
}

std::string NativeImage::explanation() const {
  switch (kind) {
    case NativeImageKind::kIlOnly:
      return "IL only: no native code in the file; publish with PublishReadyToRun or probe the JIT's code by "
             "name";
    case NativeImageKind::kComponent:
      return fmt::format("the native code of {} is in the composite image {}", assembly, composite);
    case NativeImageKind::kCompressed:
      return "compressed in its bundle: the runtime unpacks it into memory of its own, where file probes "
             "cannot reach; "
             "publish without EnableCompressionInSingleFile";
    case NativeImageKind::kOtherNative:
      return methods.empty() ? "native code of a format older than ReadyToRun, which only its crossgen map "
                               "(NAME.ni.{MVID}.map) can name"
                             : "";
    case NativeImageKind::kNotManaged:
      return "not a .NET image: a PE file without a CLI header";
    case NativeImageKind::kReadyToRun:
    case NativeImageKind::kComposite:
      break;
  }
  return methods.empty() ? "a ReadyToRun image in which no method is compiled" : "";
}

const NativeMethod* NativeImage::find(ImageAddr rva) const {
  auto after =
      std::upper_bound(methods.begin(), methods.end(), rva,
                       [](ImageAddr value, const NativeMethod& method) { return value < method.rva; });
  if (after != methods.begin()) {
    const NativeMethod& method = *(after - 1);
    if (rva - method.rva < std::max<uint64_t>(method.size, 1)) return &method;
  }
  auto cold =
      std::upper_bound(cold_order.begin(), cold_order.end(), rva,
                       [&](ImageAddr value, uint32_t index) { return value < methods[index].cold->rva; });
  if (cold == cold_order.begin()) return nullptr;
  const NativeMethod& method = methods[*(cold - 1)];
  return rva - method.cold->rva < method.cold->size ? &method : nullptr;
}

const NativeMethod* NativeImage::find(FileOffset offset) const {
  for (const PeSection& section : sections) {
    FileOffset begin = start + section.file_offset.value;
    if (offset >= begin && offset - begin < section.file_size)
      return find(section.address + (offset - begin));
  }
  return nullptr;
}

std::vector<const NativeMethod*> NativeImage::match(std::string_view pattern) const {
  std::vector<const NativeMethod*> matching;
  std::string glob = managed_glob(pattern);
  for (const NativeMethod& method : methods) {
    if (glob_match(glob, method.qualified_name()) || glob_match(glob, method.name) ||
        (!method.type_arguments.empty() && glob_match(glob, method.full_name()))) {
      matching.push_back(&method);
    }
  }
  return matching;
}

Result<NativeImage> read_native_image(Bytes image, const std::string& path, FileOffset start,
                                      const AssemblySource& source) {
  auto parsed = PeFile::parse(image, start);
  if (!parsed) return fail(std::move(parsed).error().while_doing("reading " + path));
  const PeFile& file = *parsed;
  NativeImage out;
  out.path = path;
  out.start = start;
  out.machine = file.machine();
  out.system = file.system();
  out.sections = file.sections();
  out.map_signature = file.map_signature();
  std::optional<Metadata> own = read_metadata(file, out);
  if (file.cor_header() && has_other_native_code(file)) {
    out.kind = NativeImageKind::kOtherNative;
    return out;
  }
  auto code = ReadyToRun::read(file);
  if (!code) return fail(std::move(code).error().while_doing("reading " + path));
  if (!*code) {
    out.kind = file.cor_header() ? NativeImageKind::kIlOnly : NativeImageKind::kNotManaged;
    return out;
  }
  out.compiler = (*code)->compiler();
  if ((*code)->is_component()) {
    out.kind = NativeImageKind::kComponent;
    out.composite = (*code)->owner_composite();
    return out;
  }
  bool composite = (*code)->is_composite();
  out.kind = composite ? NativeImageKind::kComposite : NativeImageKind::kReadyToRun;
  AssemblySource found_beside = source ? source : assemblies_beside(path);
  // A composite image's own metadata exists for debuggers only: its tokens mean nothing in signatures.
  ImageReader(file, **code, !composite && own ? &*own : nullptr, found_beside, out).read();
  return out;
}

Result<std::vector<NativeImage>> read_native_images(Bytes file, const std::string& path) {
  std::vector<NativeImage> images;
  if (looks_like_pe(file)) {
    TRY(NativeImage image, read_native_image(file, path));
    images.push_back(std::move(image));
    return images;
  }
  auto bundle = read_bundle(file);
  if (!bundle) return fail(std::move(bundle).error().while_doing("reading " + path));
  if (!*bundle) return fail(path + " is neither a .NET image nor a single-file bundle");
  AssemblySource in_bundle = [&](std::string_view simple_name) -> std::optional<Bytes> {
    for (const BundleEntry& entry : (*bundle)->entries) {
      if (entry.path.ends_with(".dll") && entry.path.substr(0, entry.path.size() - 4) == simple_name) {
        return bytes_of(entry, file);
      }
    }
    return std::nullopt;
  };
  for (const BundleEntry& entry : (*bundle)->entries) {
    if (entry.type != BundleFileType::kAssembly) continue;
    NativeImage image;
    auto bytes = bytes_of(entry, file);
    if (bytes) {
      auto read = read_native_image(*bytes, path, entry.offset, in_bundle);
      if (read) image = std::move(*read);
      if (!read) image.notes.push_back(read.error().message());
    } else {
      image.kind = NativeImageKind::kCompressed;
    }
    image.path = path;
    image.bundle_entry = entry.path;
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace uscope::image
