// Which methods of a .NET image have native code in the file, what they are called, and where to probe them.
//   read_native_image   one PE image: ReadyToRun, composite, or IL only
//   read_native_images  the same, or every assembly of a single-file bundle
// Everything returned is owned by the result; the file's bytes may go away. A file without native code is no
// error: kind and explanation() say what it is. What could only be read in part says so in notes. It knows
// nothing of processes: the caller finds the mapping (address − mapping start + mapping file offset).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "image/pe/metadata.h"
#include "image/pe/pe_file.h"

namespace uscope::image {

// A part of a method's code.
struct NativeCode {
  ImageAddr rva;
  uint64_t size = 0;
  FileOffset offset;  // in the mapped file
};

struct NativeMethod {
  // As .NET's own maps spell it: "instance string [app] Ns.Type::Method(string)".
  std::string name;
  // What a generic method is instantiated over, "[System.Int32,System.__Canon]"; the maps leave it out.
  std::string type_arguments;
  ImageAddr rva;
  // Body and funclets (catch and finally blocks), which lie in one piece; 0 when the image does not say.
  uint64_t size = 0;
  // The body alone: what a return probe has to look through.
  uint64_t body_size = 0;
  // Where to probe the entry, in the file that processes map.
  FileOffset offset;
  // The part moved away by hot/cold splitting, where there is one.
  std::optional<NativeCode> cold;
  uint32_t token = 0;  // of the MethodDef or MemberRef
  bool unboxing_stub = false;
  bool async_variant = false;

  // "Ns.Type::Method": what a user types.
  std::string_view qualified_name() const;
  // The name with its type arguments: "[app] Ns.Type::Method[System.Int32](!!0)".
  std::string full_name() const;

  // Where in `name` "Ns.Type::Method" begins and ends.
  uint32_t qualified_begin = 0;
  uint32_t qualified_end = 0;
};

enum class NativeImageKind {
  kReadyToRun,   // native code for its own assembly
  kComposite,    // native code for several assemblies
  kComponent,    // an assembly whose native code is in a composite image
  kCompressed,   // compressed in its bundle, so never mapped from the file
  kOtherNative,  // native code of a format older than ReadyToRun, which only its crossgen map can name
  kIlOnly,       // a managed assembly without native code
  kNotManaged,   // a PE file that .NET has nothing to do with
};

struct NativeImage {
  NativeImageKind kind = NativeImageKind::kNotManaged;
  std::string path;
  std::string bundle_entry;  // the assembly's name in its bundle; empty outside one
  std::string assembly;
  Guid mvid{};
  FileOffset start;  // where the PE image begins in the file; not 0 in a bundle
  PeMachine machine = PeMachine::kUnknown;
  PeSystem system = PeSystem::kWindows;
  std::string compiler;
  // What the image's .ni.r2rmap must carry as its signature: 32 hexadecimal digits; empty when the image
  // names none.
  std::string map_signature;
  std::string composite;  // kComponent: the file name of the composite image with the code
  std::vector<PeSection> sections;
  std::vector<NativeMethod> methods;  // sorted by rva
  std::vector<uint32_t> cold_order;   // the methods with a cold part, sorted by it
  // What is missing and why, a sentence each. Empty: the list is complete.
  std::vector<std::string> notes;

  // A sentence on why there are no methods to probe; empty when there are.
  std::string explanation() const;
  // The method whose code (cold part included) covers the address.
  const NativeMethod* find(ImageAddr rva) const;
  const NativeMethod* find(FileOffset offset) const;
  // Methods by full name, name, or Ns.Type::Method; each may be a glob, in which brackets stand for
  // themselves.
  std::vector<const NativeMethod*> match(std::string_view pattern) const;
};

// Hands over the bytes of the assembly with that simple name ("System.Runtime"), or nothing. The bytes must
// stay for as long as the reading lasts. Signatures of composite images and of images compiled together name
// types there.
using AssemblySource = std::function<std::optional<Bytes>(std::string_view simple_name)>;

// `path` is where the bytes come from: its name goes into the result, and assemblies beside it are opened
// when signatures need them and `source` is empty.
Result<NativeImage> read_native_image(Bytes image, const std::string& path, FileOffset start = {},
                                      const AssemblySource& source = {});

// A plain PE image gives one; a bundle one for each assembly in it.
Result<std::vector<NativeImage>> read_native_images(Bytes file, const std::string& path);

}  // namespace uscope::image
