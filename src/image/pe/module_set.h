// The metadata of the assemblies that a ReadyToRun image's signatures refer to: its own, those embedded in a
// composite image, and others found through an AssemblySource (or beside the image). Opened on first use,
// each at most once, and kept for the set's life. A module that cannot be had is null, and its name is
// remembered for the reader's notes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "image/pe/metadata.h"
#include "image/pe/native_image.h"
#include "image/pe/pe_file.h"
#include "image/pe/ready_to_run.h"
#include "image/pe/signature.h"

namespace uscope::image {

class ModuleSet : public ModuleLookup {
 public:
  // `own` is the image's own metadata, null in a composite image. All arguments must outlive the set.
  ModuleSet(const PeFile& file, const ReadyToRun& image, const Metadata* own, const AssemblySource& source);

  const Metadata* own() const { return own_; }
  const Metadata* module(uint32_t index) const override;
  const Metadata* by_name(std::string_view simple_name) const;
  // The metadata of a composite image's component: embedded in the image, else by name.
  const Metadata* component(size_t index) const;
  const std::set<std::string>& missing() const { return missing_; }

 private:
  std::string_view module_name(uint32_t index) const;
  std::optional<Metadata> open(std::string_view simple_name) const;

  const PeFile& file_;
  const ReadyToRun& image_;
  const Metadata* own_;
  const AssemblySource& source_;
  mutable std::map<std::string, std::optional<Metadata>, std::less<>> opened_;
  mutable std::set<std::string> missing_;
};

// Opens NAME.dll in the folder of `path`. What it opened stays mapped for as long as a copy of the source
// lives.
AssemblySource assemblies_beside(const std::string& path);

}  // namespace uscope::image
