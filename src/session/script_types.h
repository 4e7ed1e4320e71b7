// What a script may know of types, for the compiler: implements lang's TypeSource over the debug info of the
// images that the script's probes are in, and, for names that they don't know, the running kernel's BTF,
// which is read when a script first names such a type. Owns the opened images; names found once stay
// found, so the compiler and the code generator see the same layouts. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "lang/type_source.h"
#include "session/reached_members.h"
#include "session/result_use.h"
#include "session/same_types.h"
#include "session/type_table.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// A type's name as the program has it, without the mark of one among several.
std::string without_marks(std::string_view name);

class ScriptTypes final : public lang::TypeSource {
 public:
  // Debug files are looked for in these, too.
  explicit ScriptTypes(std::vector<std::string> debug_folders = {})
      : debug_folders_(std::move(debug_folders)) {}

  // Opens the image once and keeps it. Struct names are looked for in the images opened so far, in that
  // order.
  Result<const symbols::ImageSymbols*> image(const std::string& path, const std::string& root = "");

  // Where a probe on a function sits, in an image opened before; nothing if there is no such function.
  struct Place {
    const symbols::ImageSymbols* image = nullptr;
    ImageAddr address;
  };
  std::optional<Place> site(const lang::AttachSpec& probe) const;
  // Nothing if it was not opened.
  const symbols::ImageSymbols* image_of(const lang::AttachSpec& probe) const;
  // Of an image opened before.
  const ResultUse& result_use(const symbols::ImageSymbols& image) const;

  std::optional<lang::StructLayout> find_struct(std::string_view name) const override;
  std::optional<lang::Type> find_type(std::string_view name) const override;
  std::optional<lang::WrittenType> find_written(std::string_view name,
                                                const lang::AttachSpec* probe) const override;
  std::string doubt_of(std::string_view struct_name) const override;
  std::vector<lang::Constant> find_constants(std::string_view name) const override;
  std::optional<lang::Constant> find_kernel_constant(std::string_view name) const override;
  std::vector<lang::Enumerator> enumerators(std::string_view enum_name) const override;
  std::optional<std::vector<lang::NamedValue>> arguments(const lang::AttachSpec& probe) const override;
  std::optional<std::vector<lang::NamedValue>> locals(const lang::AttachSpec& probe) const override;
  std::optional<lang::Type> return_type(const lang::AttachSpec& probe) const override;
  std::string why_no_result(const lang::AttachSpec& probe) const override;
  std::optional<lang::Type> global(const lang::AttachSpec& probe, std::string_view name) const override;

 private:
  // arg0 and so on of a usdt probe.
  std::optional<std::vector<lang::NamedValue>> usdt_values(const lang::AttachSpec& probe) const;

  using Named = NamedType;

  // Where the probe sits: the function's entry, plus its offset.
  std::optional<ImageAddr> address_of(const symbols::ImageSymbols& image,
                                      const lang::AttachSpec& probe) const;
  lang::Type to_type(const symbols::ImageSymbols& image, image::TypeId id) const;
  lang::Type to_type(const TypeTable& table, image::TypeId id, int depth = 0) const;
  // `count` is of those inside its parts, and too large if they are not all there.
  ReachedMembers members_of(const Named& named, int depth, size_t& count) const;
  // A struct, class or union, also by the name of a typedef.
  std::optional<Named> find_record(std::string_view name) const;
  // Of a struct, union or enum: the name by which it is found again. Types of one name that differ get a mark
  // behind it.
  std::string register_name(const TypeTable& table, image::TypeId id) const;
  std::string unique_name(const std::string& name, const Named& named) const;
  std::optional<Named> find_named(std::string_view name) const;
  // All that the programs define by this name, C's tag included.
  std::vector<Named> definitions(std::string_view name) const;
  // Those of the probed function, else of its unit.
  std::vector<Named> definitions_at(const lang::AttachSpec& probe, std::string_view name) const;
  // Why the first of them may not be the one that is meant.
  std::string doubt(std::string_view name, const std::vector<Named>& candidates) const;
  bool programs_know(std::string_view name) const;
  // Nothing if the kernel does not tell its types.
  const TypeTable* kernel() const;

  std::vector<std::string> debug_folders_;
  std::map<std::string, std::unique_ptr<symbols::ImageSymbols>> images_;
  std::map<const symbols::ImageSymbols*, std::unique_ptr<TypeTable>> tables_;
  std::vector<const TypeTable*> order_;
  mutable std::map<const symbols::ImageSymbols*, ResultUse> result_uses_;
  mutable std::optional<std::unique_ptr<TypeTable>> kernel_;  // nothing: not asked for yet
  mutable std::unordered_map<std::string, Named> known_;
  // What unique_name() has given.
  mutable std::map<std::tuple<const TypeTable*, uint64_t, std::string>, std::string> names_;
  // Structs that declarations have led to, and what doubt_of() has found of each.
  mutable std::map<std::string, std::optional<std::string>, std::less<>> declared_;
  mutable SameTypes same_types_;
};

// The global variable of that name of the unit that the probe is in.
std::optional<image::dwarf::Variable> own_variable(const ScriptTypes::Place& site, std::string_view name);

}  // namespace uscope::session
