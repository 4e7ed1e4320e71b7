#include "image/dwarf/debug_info.h"

#include <dwarf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/glob.h"
#include "image/dwarf/functions.h"
#include "image/dwarf/lines.h"
#include "image/dwarf/name_index.h"
#include "image/dwarf/store.h"
#include "image/dwarf/type_reader.h"
#include "image/dwarf/variables.h"
#include "image/elf/debug_files.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf {

struct DebugInfo::Impl {
  // An image without debug info has everything below `why_empty` absent.
  std::string why_empty;
  std::string source_path;
  std::optional<ElfFile> image;  // a view of the caller's, which may move
  std::optional<ElfFile> debug_file;
  std::unique_ptr<Store> store;
  std::unique_ptr<TypeReader> types;
  std::unique_ptr<FrameTable> frames;
  std::unique_ptr<FunctionReader> functions;
  std::unique_ptr<NameIndex> names;
  std::vector<std::string> no_problems;
  Type no_type;

  const NameIndex& name_index() {
    if (!names) names = std::make_unique<NameIndex>(*store);
    return *names;
  }

  void for_each_function_die(const std::function<bool(const Die&)>& visit) const {
    store->for_each_unit([&](const Unit& unit) {
      bool go_on = true;
      // A copy: reading a function may lead to other units and back.
      std::vector<uint64_t> concrete = unit.index().concrete;
      for (uint64_t offset : concrete) {
        Die die = unit.die_at(offset);
        if (die && go_on) go_on = visit(die);
      }
      unit.file->forget(unit);
      return go_on;
    });
  }
};

DebugInfo::DebugInfo(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DebugInfo::DebugInfo(DebugInfo&&) noexcept = default;
DebugInfo& DebugInfo::operator=(DebugInfo&&) noexcept = default;
DebugInfo::~DebugInfo() = default;

DebugInfo DebugInfo::none(std::string why) {
  auto impl = std::make_unique<Impl>();
  impl->why_empty = std::move(why);
  return DebugInfo(std::move(impl));
}

Result<DebugInfo> DebugInfo::open(const ElfFile& callers, const std::string& root,
                                  const std::vector<std::string>& debug_folders) {
  auto impl = std::make_unique<Impl>();
  TRY(impl->image, ElfFile::from_bytes(callers.bytes(), callers.path()));
  const ElfFile& image = *impl->image;
  DebugFiles found = find_debug_files(image, {.root = root, .folders = debug_folders});
  bool in_itself = image.has_debug_info() || image.find_section(".debug_info.dwo");
  bool elsewhere = found.file && found.file->has_debug_info();
  if (!in_itself && !elsewhere) {
    impl->why_empty = image.path() + " has no debug info";
    if (!found.tried.empty()) impl->why_empty += fmt::format("; tried {}", fmt::join(found.tried, ", "));
    return DebugInfo(std::move(impl));
  }
  if (!in_itself) impl->debug_file = std::move(found.file);
  const ElfFile& debug = in_itself ? image : *impl->debug_file;
  impl->source_path = debug.path();
  impl->store = std::make_unique<Store>(image, debug, root);
  if (!found.alt_path.empty()) impl->store->set_alt(found.alt_path);
  if (!found.dwp_path.empty()) impl->store->set_package(found.dwp_path);
  impl->types = std::make_unique<TypeReader>(*impl->store);
  impl->frames = std::make_unique<FrameTable>(image, impl->store->main().section(SectionId::Frame));
  impl->functions = std::make_unique<FunctionReader>(*impl->store, *impl->types, *impl->frames);
  return DebugInfo(std::move(impl));
}

bool DebugInfo::is_empty() const { return !impl_->store; }
const std::string& DebugInfo::why_empty() const { return impl_->why_empty; }
const std::string& DebugInfo::source_path() const { return impl_->source_path; }
const std::vector<std::string>& DebugInfo::problems() const {
  return is_empty() ? impl_->no_problems : impl_->store->problems();
}

std::vector<Producer> DebugInfo::producers() const {
  std::vector<Producer> found;
  if (is_empty()) return found;
  std::map<std::pair<Language, std::string_view>, size_t> counts;
  impl_->store->for_each_unit([&](const Unit& unit) {
    const UnitFacts& facts = unit.facts();
    if (!unit.is_type_unit && !facts.producer.empty()) ++counts[{facts.language, facts.producer}];
    return true;
  });
  for (const auto& [who, units] : counts) found.push_back({who.first, std::string(who.second), units});
  std::ranges::stable_sort(found, std::greater<>(), &Producer::units);
  return found;
}

// --- functions and variables -------------------------------------------------------------------------------

std::optional<Function> DebugInfo::function_at(ImageAddr address) const {
  return read_function(address, true);
}

std::optional<Function> DebugInfo::function_head_at(ImageAddr address) const {
  return read_function(address, false);
}

std::optional<Function> DebugInfo::read_function(ImageAddr address, bool with_parameters) const {
  if (is_empty()) return {};
  const Unit* unit = impl_->store->unit_for(address.value);
  if (!unit) return {};
  Die die = impl_->functions->find(*unit, address.value);
  if (!die) return {};
  return impl_->functions->read(die, with_parameters);
}

std::vector<Variable> DebugInfo::variables_at(ImageAddr address, bool with_globals) const {
  if (is_empty()) return {};
  const Unit* unit = impl_->store->unit_for(address.value);
  if (!unit) return {};
  std::vector<Variable> variables;
  if (Die die = impl_->functions->find(*unit, address.value)) {
    variables = impl_->functions->variables_at(die, address.value);
  }
  if (with_globals) {
    for (Variable& variable : impl_->functions->globals_of(*unit)) variables.push_back(std::move(variable));
  }
  return variables;
}

std::vector<Variable> DebugInfo::parameters_at(ImageAddr address) const {
  if (is_empty()) return {};
  const Unit* unit = impl_->store->unit_for(address.value);
  Die die = unit ? impl_->functions->find(*unit, address.value) : Die();
  return die ? impl_->functions->parameters_at(die, address.value) : std::vector<Variable>();
}

std::vector<InlinedCopy> DebugInfo::inlined_at(ImageAddr address) const {
  if (is_empty()) return {};
  const Unit* unit = impl_->store->unit_for(address.value);
  Die die = unit ? impl_->functions->find(*unit, address.value) : Die();
  if (!die) return {};
  return impl_->functions->inlined_at(die, address.value);
}

void DebugInfo::for_each_function(const std::function<bool(const Function&)>& visit) const {
  if (is_empty()) return;
  impl_->for_each_function_die([&](const Die& die) {
    Function function = impl_->functions->read(die);
    // What the linker dropped is still described.
    if (!impl_->store->is_code(function.entry.value)) return true;
    return visit(function);
  });
}

std::vector<InlinedCopy> DebugInfo::inlined_copies(std::string_view name, size_t limit) const {
  std::vector<InlinedCopy> copies;
  if (is_empty() || limit == 0) return copies;
  std::string_view unqualified = last_component(name);
  impl_->for_each_function_die([&](const Die& function) {
    auto entry = function.attr(DW_AT_low_pc);
    auto address = entry ? function.unit->address(*entry) : std::nullopt;
    if (address && !impl_->store->is_code(*address)) return true;
    impl_->functions->for_each_inlined(function, [&](const Die& inlined) {
      std::string_view own = name_of(inlined);
      bool matches = own == name || inlined.inherited_string(DW_AT_linkage_name) == name ||
                     (own == unqualified && qualified_name(inlined) == name);
      if (matches) copies.push_back(impl_->functions->read_inlined(inlined, qualified_name(function)));
      return copies.size() < limit;
    });
    return copies.size() < limit;
  });
  return copies;
}

std::optional<Variable> DebugInfo::global(std::string_view name) const {
  if (is_empty()) return {};
  const NameIndex& names = impl_->name_index();
  std::optional<Variable> found;
  for (std::string_view key : {last_component(name), name.substr(name.rfind('.') + 1)}) {
    names.with_name(key, [&](const NameIndex::Entry& entry) {
      if (entry.is_type) return true;
      Die die = names.die_of(entry);
      if (!die || (name_of(die) != name && qualified_name(die) != name)) return true;
      VariableReader reader(*impl_->types, *impl_->frames, *die.unit, Die(), 0);
      found = reader.read(die);
      found->name = qualified_name(die);
      found->is_global = true;
      return false;
    });
    if (found) break;
  }
  return found;
}

// --- lines -------------------------------------------------------------------------------------------------

std::optional<SourceLine> DebugInfo::line_at(ImageAddr address) const {
  if (is_empty()) return {};
  return dwarf::line_at(*impl_->store, address.value);
}

std::vector<LineRow> DebugInfo::lines_between(ImageAddr begin, ImageAddr end) const {
  if (is_empty()) return {};
  return dwarf::lines_between(*impl_->store, begin.value, end.value);
}

std::vector<LineRow> DebugInfo::lines_of_file(std::string_view file, uint32_t line) const {
  if (is_empty()) return {};
  return dwarf::lines_of_file(*impl_->store, file, line);
}

std::vector<std::string> DebugInfo::source_files() const {
  if (is_empty()) return {};
  return dwarf::source_files(*impl_->store);
}

// --- types -------------------------------------------------------------------------------------------------

const Type& DebugInfo::type(TypeId id) const { return is_empty() ? impl_->no_type : impl_->types->get(id); }

TypeId DebugInfo::definition_of(TypeId id) const {
  if (is_empty()) return id;
  Die declaration = impl_->types->die_of(id);
  if (!declaration || !declaration.flag(DW_AT_declaration)) return id;
  std::string name(name_of(declaration));
  std::string qualified = qualified_name(declaration);
  uint16_t tag = declaration.tag();
  const NameIndex& names = impl_->name_index();
  TypeId found = id;
  names.with_name(name, [&](const NameIndex::Entry& entry) {
    if (!entry.is_type || entry.is_declaration) return true;
    Die die = names.die_of(entry);
    // `struct X` may be declared and `class X` defined.
    bool same_kind = die && ((die.tag() == DW_TAG_union_type) == (tag == DW_TAG_union_type)) &&
                     ((die.tag() == DW_TAG_enumeration_type) == (tag == DW_TAG_enumeration_type)) &&
                     die.tag() != DW_TAG_typedef;
    if (!same_kind || qualified_name(die) != qualified) return true;
    found = TypeReader::id_of(die);
    return false;
  });
  return found;
}

std::vector<TypeId> DebugInfo::find_types(std::string_view name, size_t limit) const {
  std::vector<TypeId> types;
  if (is_empty()) return types;
  const NameIndex& names = impl_->name_index();
  std::vector<TypeId> declarations;
  auto consider = [&](const NameIndex::Entry& entry, bool is_glob) {
    if (!entry.is_type) return true;
    Die die = names.die_of(entry);
    if (!die) return true;
    std::string_view own = name_of(die);
    auto matches = [&](std::string_view text) { return is_glob ? glob_match(name, text) : text == name; };
    if (!matches(own) && !matches(qualified_name(die)) &&
        !(die.unit->facts().language == Language::Go &&
          matches(impl_->types->get(TypeReader::id_of(die)).name))) {
      return true;
    }
    (entry.is_declaration ? declarations : types).push_back(TypeReader::id_of(die));
    return types.size() < limit;
  };
  if (has_glob(name)) {
    for (const auto& entry : names.entries()) {
      if (!consider(entry, true)) break;
    }
  } else {
    names.with_name(last_component(name), [&](const auto& entry) { return consider(entry, false); });
    if (types.empty()) {
      names.with_name(name.substr(name.rfind('.') + 1),
                      [&](const auto& entry) { return consider(entry, false); });
    }
  }
  // What is only declared counts if nothing of that name is defined.
  for (TypeId id : declarations) {
    if (types.size() >= limit) break;
    if (definition_of(id) == id) types.push_back(id);
  }
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

std::vector<TypeId> DebugInfo::find_types_at(ImageAddr address, std::string_view name) const {
  const Unit* unit = is_empty() ? nullptr : impl_->store->unit_for(address.value);
  if (!unit) return {};
  Die function = impl_->functions->find(*unit, address.value);
  std::vector<TypeId> of_unit, of_function;
  for (const Die& die : types_named(*unit, name)) {
    bool inside = function && function.unit == die.unit && function.offset < die.offset &&
                  die.offset < function.end_of_subtree();
    (inside ? of_function : of_unit).push_back(TypeReader::id_of(die));
  }
  return of_function.empty() ? of_unit : of_function;
}

}  // namespace uscope::image::dwarf
