#include "image/pe/module_set.h"

#include <memory>

namespace uscope::image {
namespace {

constexpr size_t kMaxModules = 4096;

// Names come from the file: they must not lead anywhere but to a sibling.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() < 250 && name[0] != '.' && name.find('/') == std::string_view::npos;
}

}  // namespace

ModuleSet::ModuleSet(const PeFile& file, const ReadyToRun& image, const Metadata* own,
                     const AssemblySource& source)
    : file_(file), image_(image), own_(own), source_(source) {}

// Index 0 is the image's own module; then come its assembly references; then the manifest's. The index
// between the two means the manifest itself, which holds no types that have code.
std::string_view ModuleSet::module_name(uint32_t index) const {
  uint32_t own_references = own_ != nullptr ? own_->row_count(MetadataTable::kAssemblyRef) : 0;
  if (index <= own_references) return own_ != nullptr ? own_->assembly_ref_name(index) : std::string_view();
  if (!image_.manifest()) return {};
  // Before version 6.3 composite images had no index for the manifest itself.
  uint32_t skipped = image_.is_composite() && !image_.at_least(6, 3) ? 0 : 1;
  return image_.manifest()->assembly_ref_name(index - own_references - skipped);
}

const Metadata* ModuleSet::module(uint32_t index) const {
  if (index == 0) return own_;
  std::string_view name = module_name(index);
  if (name.empty()) return nullptr;
  if (own_ != nullptr && own_->assembly_name() == name) return own_;
  return by_name(name);
}

const Metadata* ModuleSet::by_name(std::string_view simple_name) const {
  auto found = opened_.find(simple_name);
  if (found == opened_.end()) {
    if (opened_.size() >= kMaxModules) return nullptr;
    found = opened_.emplace(std::string(simple_name), open(simple_name)).first;
    if (!found->second) missing_.insert(found->first);
  }
  return found->second ? &*found->second : nullptr;
}

const Metadata* ModuleSet::component(size_t index) const { return by_name(image_.components()[index].name); }

std::optional<Metadata> ModuleSet::open(std::string_view simple_name) const {
  for (const ReadyToRunComponent& component : image_.components()) {
    if (component.name != simple_name || !component.cor_header) continue;
    auto bytes = file_.bytes_at(component.cor_header->metadata);
    if (!bytes) continue;
    if (auto metadata = Metadata::parse(*bytes)) return std::move(*metadata);
  }
  if (!source_ || !is_plain_name(simple_name)) return std::nullopt;
  auto bytes = source_(simple_name);
  if (!bytes) return std::nullopt;
  auto file = PeFile::parse(*bytes);
  if (!file || !file->cor_header()) return std::nullopt;
  auto metadata_bytes = file->bytes_at(file->cor_header()->metadata);
  if (!metadata_bytes) return std::nullopt;
  auto metadata = Metadata::parse(*metadata_bytes);
  if (!metadata) return std::nullopt;
  return std::move(*metadata);
}

AssemblySource assemblies_beside(const std::string& path) {
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  auto files = std::make_shared<std::vector<MappedFile>>();
  return [folder, files](std::string_view simple_name) -> std::optional<Bytes> {
    auto file = MappedFile::open(folder + std::string(simple_name) + ".dll");
    if (!file) return std::nullopt;
    files->push_back(std::move(*file));
    return files->back().bytes();
  };
}

}  // namespace uscope::image
