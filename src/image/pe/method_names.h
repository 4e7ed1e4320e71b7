// Names for the entry points of a ReadyToRun image, as .NET's maps spell them. One class, used while an image
// is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "image/pe/metadata.h"
#include "image/pe/module_set.h"
#include "image/pe/native_image.h"

namespace uscope::image {

// What went wrong while naming, for the reader's notes.
struct NamingProblems {
  size_t unreadable_signatures = 0;  // such methods are named without their types
  size_t unknown_modules = 0;        // such methods are named by token
  size_t skipped_instances = 0;      // entries that could not be read at all
};

class MethodNames {
 public:
  explicit MethodNames(const ModuleSet& modules) : modules_(modules) {}

  // The method of a MethodDef row; `metadata` is null when the assembly's metadata is not at hand, and then
  // `assembly` is all there is to say.
  NativeMethod of_definition(const Metadata* metadata, std::string_view assembly, uint32_t row);

  struct Instance {
    NativeMethod method;
    uint32_t function = 0;  // index of its runtime function
  };
  // Reads an instance entry: a method signature and an entry point. Nothing: malformed.
  std::optional<Instance> of_instance(Bytes table, uint64_t offset);

  const NamingProblems& problems() const { return problems_; }

 private:
  struct Context;
  void name(NativeMethod& method, const Metadata& metadata, std::string_view assembly, std::string_view owner,
            std::string_view name, Bytes signature);
  void name_by_token(NativeMethod& method, std::string_view assembly, std::string_view owner);
  bool read_owner(ByteReader& reader, Context& context);
  bool read_arguments(ByteReader& reader, const Metadata* metadata, std::string& out);
  void name_instance(NativeMethod& method, const Context& context, uint32_t row);

  const ModuleSet& modules_;
  NamingProblems problems_;
};

}  // namespace uscope::image
