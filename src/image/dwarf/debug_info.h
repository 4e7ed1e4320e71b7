// What an image's DWARF (4 and 5) says: functions, inlined copies, variables with their places, lines and
// types. Read by uscope's own bounded reader (docs/decisions/dwarf-reader.md). Opens lazily: asking about one
// function reads one compilation unit, found by address, however large the rest is. Owns the files it finds
// (separate debug file, .dwo, .dwp, dwz supplement); the image's bytes stay the ElfFile's, which must outlive
// it but may be moved. One thread. Looks up, never guesses: what the debug info does not say is reported as
// absent, with a reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "image/location.h"
#include "image/types.h"

namespace uscope::image {
class ElfFile;
}

namespace uscope::image::dwarf {

struct AddressRange {
  ImageAddr begin, end;  // end excluded
  bool contains(ImageAddr a) const { return begin <= a && a < end; }
};

struct SourceLine {
  std::string file;  // full path as the compiler recorded it
  uint32_t line = 0;
  uint32_t column = 0;
};

struct Variable {
  std::string name;
  TypeId type;
  bool is_parameter = false;
  bool is_result = false;      // Go: a result (DW_AT_variable_parameter)
  bool is_artificial = false;  // `this` and the like
  bool is_global = false;
  bool in_inlined = false;  // belongs to a function inlined here
  SourceLine declared;
  Location location;   // at the address asked for
  Location at_return;  // Go's results, of function_at(): at the function's RET
};

struct Function {
  std::string name;       // unqualified, as declared
  std::string qualified;  // ns::Class::name; Go: pkg.(*T).Name; Rust: crate::path::name
  std::string linkage_name;
  Language language = Language::Unknown;
  ImageAddr entry;
  std::vector<AddressRange> ranges;  // entry's range first; `.cold` parts after
  TypeId return_type;
  std::vector<Variable> parameters;  // with their places at the entry
  bool has_parameters = false;       // also where they were not read
  bool is_external = false;
  Compiler compiler = Compiler::Unknown;
  bool has_other_convention = false;  // said to be called in another way than the platform's
  bool is_noreturn = false;
  SourceLine declared;
};

// A copy of a function's body inside another function.
struct InlinedCopy {
  std::string callee;  // qualified
  std::string caller;  // the concrete function around it, qualified
  ImageAddr address;   // its first instruction
  SourceLine call_site;
};

struct LineRow {
  ImageAddr address;
  SourceLine source;
  bool is_statement = true;
  bool prologue_end = false;
};

// Who compiled what, as the units say it.
struct Producer {
  Language language = Language::Unknown;
  std::string text;  // "GNU C17 12.2.0 -mtune=generic -O2", "rustc version 1.95.0"
  size_t units = 0;
};

class DebugInfo {
 public:
  // Finds the debug info that belongs to the image (itself, separate debug file, split units). `root`
  // prefixes file-system look-ups (/proc/PID/root). An image without any is not an Error: is_empty() is true,
  // why_empty() says where was looked.
  static Result<DebugInfo> open(const ElfFile& image, const std::string& root = "",
                                const std::vector<std::string>& debug_folders = {});
  // An empty one, for images that have no DWARF by nature.
  static DebugInfo none(std::string why);
  DebugInfo(DebugInfo&&) noexcept;
  DebugInfo& operator=(DebugInfo&&) noexcept;
  ~DebugInfo();

  bool is_empty() const;
  const std::string& why_empty() const;
  // Where it came from: the image itself or the separate file's path; empty if none.
  const std::string& source_path() const;
  // What could not be read (missing .dwo, broken unit), one sentence each; grows as units are visited.
  const std::vector<std::string>& problems() const;

  // Each compiler and its options once, the most used first. Reads the head of every unit.
  std::vector<Producer> producers() const;

  // The concrete function whose ranges hold the address.
  std::optional<Function> function_at(ImageAddr address) const;
  // The same without its parameters, which take most of the time.
  std::optional<Function> function_head_at(ImageAddr address) const;
  // Every variable in scope at an instruction: parameters, locals of the enclosing blocks, innermost first
  // wins; with_globals adds the unit's globals. Locations hold at exactly this address.
  std::vector<Variable> variables_at(ImageAddr address, bool with_globals = false) const;
  // The parameters of the function around an instruction, where they are at this address; not those of
  // functions inlined there, nor what inner blocks have under their names.
  std::vector<Variable> parameters_at(ImageAddr address) const;
  // Inlined frames at an address, innermost first: what a stack trace should show above the concrete
  // function.
  std::vector<InlinedCopy> inlined_at(ImageAddr address) const;

  // Every concrete function of every unit; slow on large files. Stops when the callback returns false.
  void for_each_function(const std::function<bool(const Function&)>& visit) const;
  // Where a function was inlined; name as mangled, qualified or unqualified. Reads every unit.
  std::vector<InlinedCopy> inlined_copies(std::string_view name, size_t limit = 1000) const;
  // A global variable by (qualified) name.
  std::optional<Variable> global(std::string_view name) const;

  std::optional<SourceLine> line_at(ImageAddr address) const;
  // Rows of the line table between two addresses, in address order.
  std::vector<LineRow> lines_between(ImageAddr begin, ImageAddr end) const;
  // Every row of the source files whose path ends in `file` (on a path-component border); line 0: all lines.
  std::vector<LineRow> lines_of_file(std::string_view file, uint32_t line = 0) const;
  std::vector<std::string> source_files() const;

  const Type& type(TypeId id) const;
  // Follows a declaration to the definition elsewhere, if there is one.
  TypeId definition_of(TypeId id) const;
  // Named types (struct, class, union, enum, typedef; Go and Rust types) whose unqualified or qualified name
  // equals `name` or matches it as a glob. Each distinct type once.
  std::vector<TypeId> find_types(std::string_view name, size_t limit = 100000) const;
  // Those that the unit of an instruction defines itself; of the function there only, if it has some.
  std::vector<TypeId> find_types_at(ImageAddr address, std::string_view name) const;

 private:
  struct Impl;
  explicit DebugInfo(std::unique_ptr<Impl> impl);
  std::optional<Function> read_function(ImageAddr address, bool with_parameters) const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uscope::image::dwarf
