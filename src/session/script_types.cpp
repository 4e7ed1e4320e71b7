#include "session/script_types.h"

#include <algorithm>

#include "codegen/layout_of.h"
#include "image/usdt/notes.h"
#include "session/function_result.h"
#include "session/tracepoint_arguments.h"
#include "symbols/lookup.h"

namespace uscope::session {
namespace {

using image::Member;
using image::Type;
using image::TypeId;
using lang::AttachSpec;
using symbols::ImageSymbols;
using Kind = image::Type::Kind;

constexpr int deepest_type = 32;
// Anonymous structs and base classes inside each other.
constexpr int deepest_part = 12;
// Members that are reached through those. Broken debug info may have a class inherit itself, several times.
constexpr size_t most_reached = 50'000;
// Behind the name of a kernel's struct where the traced program has one of that name.
constexpr std::string_view kernel_mark = " (kernel)";

// Behind the name of a type where another one has that name: "struct node #2".
constexpr std::string_view number_mark = " #";

bool is_record(Kind kind) {
  return kind == Kind::Struct || kind == Kind::Class || kind == Kind::Union || kind == Kind::GoString ||
         kind == Kind::GoSlice || kind == Kind::GoInterface;
}

// A bare name, as scripts write it, without C's tag.
std::string_view without_tag(std::string_view name) {
  for (std::string_view tag : {"struct ", "union ", "enum ", "class "})
    if (name.starts_with(tag)) return name.substr(tag.size());
  return name;
}

const std::string& full_name(const Type& type) { return type.qualified.empty() ? type.name : type.qualified; }

lang::TypeField to_field(const Member& member, lang::Type type) {
  lang::TypeField field;
  field.name = member.name;
  field.offset = member.offset;
  if (member.bit_size != 0) {
    uint64_t unit = std::max<uint64_t>(type.size(), 1) * 8;
    // A packed struct's may cross its unit: it is then read from the byte it starts in.
    if (member.bit_offset % unit + member.bit_size > unit) unit = 8;
    field.offset = member.bit_offset / unit * (unit / 8);
    field.bit_offset = uint32_t(member.bit_offset % unit);
    field.bit_width = member.bit_size;
  }
  field.type = std::move(type);
  return field;
}

// `char` itself: arrays of it are text, arrays of signed and unsigned char are numbers.
bool is_plain_char(const TypeTable& table, TypeId id) {
  for (int i = 0; id && i < deepest_type; ++i) {
    const Type& type = table.type(id);
    bool is_wrapper = type.kind == Kind::Typedef || type.kind == Kind::Const || type.kind == Kind::Volatile;
    if (!is_wrapper) return type.size == 1 && type.name == "char";
    id = type.target;
  }
  return false;
}

// Those that a script may mean by the name.
void add_fitting(const TypeTable& table, const std::vector<TypeId>& ids, std::string_view name,
                 std::vector<NamedType>& found) {
  for (TypeId id : ids) {
    const Type& type = table.type(id);
    if (type.is_declaration) continue;
    if (name.starts_with("struct ") && !is_record(type.kind)) continue;
    if (name.starts_with("union ") && type.kind != Kind::Union) continue;
    if (name.starts_with("enum ") && type.kind != Kind::Enum) continue;
    found.push_back({&table, id});
  }
}

}  // namespace

std::string without_marks(std::string_view name) {
  std::string plain;
  while (!name.empty()) {
    size_t mark = std::min(name.find(number_mark), name.size());
    plain += name.substr(0, mark);
    name.remove_prefix(mark);
    if (name.empty()) break;
    name.remove_prefix(number_mark.size());
    name.remove_prefix(std::min(name.find_first_not_of("0123456789"), name.size()));
  }
  return plain;
}

Result<const ImageSymbols*> ScriptTypes::image(const std::string& path, const std::string& root) {
  auto known = images_.find(path);
  if (known != images_.end()) return known->second.get();
  TRY(ImageSymbols opened, ImageSymbols::open(path, root, debug_folders_));
  auto& kept = images_[path] = std::make_unique<ImageSymbols>(std::move(opened));
  auto& table = tables_[kept.get()] = std::make_unique<TypeTable>(types_of_image(*kept));
  order_.push_back(table.get());
  return kept.get();
}

const ImageSymbols* ScriptTypes::image_of(const AttachSpec& probe) const {
  auto known = images_.find(probe.target);
  return known == images_.end() ? nullptr : known->second.get();
}

const ResultUse& ScriptTypes::result_use(const ImageSymbols& image) const {
  return result_uses_.try_emplace(&image, image).first->second;
}

std::optional<ScriptTypes::Place> ScriptTypes::site(const AttachSpec& probe) const {
  const ImageSymbols* image = image_of(probe);
  if (image == nullptr) return std::nullopt;
  if (probe.address) return Place{image, ImageAddr{*probe.address}};
  symbols::Lookup lookup = symbols::find_functions(
      *image, probe.function, probe.cpp ? symbols::Spelling::Demangled : symbols::Spelling::Any);
  if (lookup.found.empty()) return std::nullopt;
  return Place{image, lookup.found.front()->address + probe.offset};
}

const TypeTable* ScriptTypes::kernel() const {
  if (!kernel_) kernel_ = std::make_unique<TypeTable>(types_of_kernel());
  return (*kernel_)->find ? kernel_->get() : nullptr;
}

std::string ScriptTypes::register_name(const TypeTable& table, TypeId id) const {
  const Type& type = table.type(id);
  bool is_c = type.language == image::Language::C;
  std::string tag = type.kind == Kind::Enum    ? "enum "
                    : !is_c                    ? ""
                    : type.kind == Kind::Union ? "union "
                                               : "struct ";
  std::string name = full_name(type);
  bool is_anonymous = name.empty();
  if (is_anonymous) name = "(anonymous)";
  name = tag + name;
  // Types are found again by their names: the kernel's must not be taken for the program's.
  if (table.is_kernel() && (is_anonymous || programs_know(name))) name += kernel_mark;
  return unique_name(name, {&table, id});
}

std::string ScriptTypes::unique_name(const std::string& name, const Named& named) const {
  auto [given, is_new] = names_.try_emplace({named.table, named.type.value, name});
  for (int i = 1; is_new; ++i) {
    given->second = i == 1 ? name : name + std::string(number_mark) + std::to_string(i);
    auto known = known_.try_emplace(given->second, named).first;
    is_new = !same_types_.same(known->second, named);
  }
  return given->second;
}

lang::Type ScriptTypes::to_type(const ImageSymbols& image, TypeId id) const {
  return to_type(*tables_.at(&image), id);
}

lang::Type ScriptTypes::to_type(const TypeTable& table, TypeId id, int depth) const {
  if (!id) return lang::Type::void_type();
  const Type& type = table.type(id);
  if (depth > deepest_type) return lang::Type::void_type();
  switch (type.kind) {
    case Kind::Typedef:
    case Kind::Const:
    case Kind::Volatile:
    case Kind::Restrict:
    case Kind::Atomic:
      return to_type(table, type.target, depth + 1);
    case Kind::Bool:
      return lang::Type::boolean();
    case Kind::Integer:
    case Kind::Character:
      return type.size == 1 || type.size == 2 || type.size == 4 || type.size == 8 || type.size == 16
                 ? lang::Type::integer(unsigned(type.size * 8), type.is_signed)
                 : lang::Type::array(lang::Type::uint8(), type.size, 1);
    case Kind::Float:
      if (type.name.starts_with("_Decimal"))
        return lang::Type::array(lang::Type::uint8(), type.size, 1);  // not of the format that is known here
      return lang::Type::floating(unsigned(type.size * 8));
    case Kind::Complex:  // its real part, then its imaginary one
      return lang::Type::array(lang::Type::floating(unsigned(type.size * 4)), 2, type.size / 2);
    case Kind::Enum:
      return lang::Type::enumeration(register_name(table, id), type.size, type.is_signed);
    case Kind::Pointer:
    case Kind::Reference:
    case Kind::RvalueReference: {
      // Only the name of what is behind a pointer matters: deeper types are looked up when they are used.
      lang::Type target = to_type(table, type.target, depth + 1);
      return type.kind == Kind::Pointer ? lang::Type::pointer(std::move(target), table.pointers)
                                        : lang::Type::reference(std::move(target), table.pointers);
    }
    case Kind::GoMap:
    case Kind::GoChannel:
    case Kind::Function:
      return lang::Type::uint64();
    case Kind::MemberPointer:  // to a function: its address, and what is added to `this`
      return type.size == 16 ? lang::Type::array(lang::Type::uint64(), 2, 8) : lang::Type::uint64();
    case Kind::Array: {
      lang::Type element = to_type(table, type.target, depth + 1);
      uint64_t size = codegen::user_size(element);  // of a text of the program: without our NUL
      bool is_text = is_plain_char(table, type.target);
      for (size_t i = type.dimensions.size(); i-- > 0;) {
        uint64_t count = type.dimensions[i].value_or(0);
        if (std::exchange(is_text, false) && count != 0) {
          element = lang::Type::string(count + 1);  // with room for a NUL that the program may not have
          size = count;
          continue;
        }
        element = lang::Type::array(std::move(element), count, size);
        size *= count;
      }
      return element;
    }
    default:
      break;
  }
  if (is_record(type.kind)) {
    TypeId whole = table.definition_of(id);
    std::string name = register_name(table, whole);
    if (whole != id) declared_.try_emplace(name);
    return lang::Type::structure(std::move(name), table.type(whole).size);
  }
  return lang::Type::void_type();
}

ReachedMembers ScriptTypes::members_of(const Named& named, int depth, size_t& count) const {
  ReachedMembers reached;
  if (depth > 0) count += named.table->type(named.type).members.size();
  if (count > most_reached) return reached;
  for (const Member& member : named.table->type(named.type).members) {
    if (member.is_static) reached.hide(member.name);
    if (member.is_static || member.is_virtual_base) continue;
    lang::Type inner = to_type(*named.table, member.type);
    if (!member.name.empty()) reached.add(to_field(member, inner));
    // Members of anonymous structs, base classes and embedded structs are reached as if they were here.
    bool transparent = member.name.empty() || member.is_base || member.is_embedded;
    if (!transparent || !inner.is(lang::TypeKind::kStruct) || depth >= deepest_part) continue;
    PartKind kind = member.is_base       ? PartKind::Base
                    : member.is_embedded ? PartKind::Embedded
                                         : PartKind::Anonymous;
    if (auto part = find_record(inner.name()))
      reached.add_part(members_of(*part, depth + 1, count), kind, member.name, member.offset);
  }
  // Which of an enum's variants it is, and so what is in it, is not told: its bytes are.
  if (const Type& type = named.table->type(named.type); !type.variant_parts.empty()) {
    lang::TypeField data;
    data.name = "<enum with data>";
    data.type = lang::Type::array(lang::Type::uint8(), type.size, 1);
    reached.add(std::move(data));
  }
  reached.settle();
  return reached;
}

std::vector<ScriptTypes::Named> ScriptTypes::definitions(std::string_view name) const {
  std::vector<Named> found;
  for (const TypeTable* table : order_) add_fitting(*table, table->find(without_tag(name)), name, found);
  return found;
}

std::vector<ScriptTypes::Named> ScriptTypes::definitions_at(const AttachSpec& probe,
                                                            std::string_view name) const {
  auto at = site(probe);
  if (!at) return {};
  std::vector<Named> found;
  add_fitting(*tables_.at(at->image), at->image->debug_info().find_types_at(at->address, without_tag(name)),
              name, found);
  return found;
}

std::string ScriptTypes::doubt(std::string_view name, const std::vector<Named>& candidates) const {
  auto place = [](const Named& named) {
    const Type& type = named.table->type(named.type);
    return type.decl_file + ":" + std::to_string(type.decl_line);
  };
  for (const Named& other : candidates)
    if (!same_types_.same(candidates.front(), other))
      return "Several types are named \"" + std::string(name) + "\": this takes the one of " +
             place(candidates.front()) + ", not the one of " + place(other);
  return {};
}

// A unit that only declares a struct does not say which of the others' it means.
std::string ScriptTypes::doubt_of(std::string_view struct_name) const {
  auto declared = declared_.find(struct_name);
  auto known = known_.find(std::string(struct_name));
  if (declared == declared_.end() || known == known_.end()) return {};
  if (!declared->second) {
    const Named& taken = known->second;
    const std::string name = full_name(taken.table->type(taken.type));
    std::vector<Named> candidates = {taken};
    for (TypeId id : taken.table->find(name)) {
      const Type& type = taken.table->type(id);
      if (is_record(type.kind) && !type.is_declaration && full_name(type) == name)
        candidates.push_back({taken.table, id});
    }
    declared->second = doubt(without_marks(struct_name), candidates);
  }
  return *declared->second;
}

// Also if a program only declares it: its own struct of that name is another one than the kernel's.
bool ScriptTypes::programs_know(std::string_view name) const {
  return std::ranges::any_of(order_,
                             [&](const TypeTable* table) { return !table->find(without_tag(name)).empty(); });
}

std::optional<ScriptTypes::Named> ScriptTypes::find_named(std::string_view name) const {
  auto known = known_.find(std::string(name));
  if (known != known_.end()) return known->second;
  std::vector<Named> found = definitions(name);
  if (found.empty() && !programs_know(name) && kernel())
    add_fitting(*kernel(), kernel()->find(without_tag(name)), name, found);
  if (found.empty()) return std::nullopt;
  return known_.emplace(std::string(name), found.front()).first->second;
}

std::optional<ScriptTypes::Named> ScriptTypes::find_record(std::string_view name) const {
  auto named = find_named(name);
  if (!named) return std::nullopt;
  const Type* type = &named->table->type(named->type);
  // `foo_t` may name a struct through a typedef.
  for (int i = 0; type->kind == Kind::Typedef && i < deepest_type; ++i) {
    named->type = type->target;
    type = &named->table->type(named->type);
  }
  if (!is_record(type->kind) || (named->table->is_kernel() && type->is_declaration)) return std::nullopt;
  return named;
}

std::optional<lang::StructLayout> ScriptTypes::find_struct(std::string_view name) const {
  auto named = find_record(name);
  if (!named) return std::nullopt;
  const Type& type = named->table->type(named->type);
  lang::StructLayout layout;
  layout.name = name;
  layout.size = type.size;
  layout.alignment = std::max<uint64_t>(type.alignment, 1);
  size_t count = 0;
  ReachedMembers members = members_of(*named, 0, count);
  if (count > most_reached) return std::nullopt;
  members.fill(layout);
  return layout;
}

std::optional<lang::Type> ScriptTypes::find_type(std::string_view name) const {
  auto named = find_named(name);
  if (!named) return std::nullopt;
  return to_type(*named->table, named->type);
}

std::optional<lang::WrittenType> ScriptTypes::find_written(std::string_view name,
                                                           const AttachSpec* probe) const {
  std::vector<Named> candidates = probe ? definitions_at(*probe, name) : std::vector<Named>();
  if (candidates.empty()) {
    candidates = definitions(name);
    const ImageSymbols* own = probe ? image_of(*probe) : nullptr;
    const TypeTable* nearest = own ? tables_.at(own).get() : nullptr;
    std::ranges::stable_partition(candidates, [&](const Named& each) { return each.table == nearest; });
  }
  // The kernel's, or one that types of the program have led to.
  if (candidates.empty()) return TypeSource::find_written(name, probe);
  lang::WrittenType written;
  written.doubt = doubt(name, candidates);
  std::string unique = unique_name(std::string(name), candidates.front());
  auto layout = find_struct(unique);
  written.type = layout ? lang::Type::structure(unique, layout->size)
                        : to_type(*candidates.front().table, candidates.front().type);
  return written;
}

std::vector<lang::Constant> ScriptTypes::find_constants(std::string_view name) const {
  // Enumerators are found among the enums that the script's probes lead to; a search of every type would read
  // every unit for each bare word.
  std::vector<lang::Constant> found;
  for (const auto& [known_name, named] : known_) {
    const Type& type = named.table->type(named.type);
    if (type.kind != Kind::Enum) continue;
    for (const auto& enumerator : type.enumerators)
      if (enumerator.name == name)
        found.push_back({lang::Type::enumeration(known_name, type.size, type.is_signed), enumerator.value});
  }
  std::ranges::sort(found, {}, [](const lang::Constant& each) { return each.type.name(); });
  return found;
}

std::optional<lang::Constant> ScriptTypes::find_kernel_constant(std::string_view name) const {
  const TypeTable* table = kernel();
  auto id = table && table->find_enum_with ? table->find_enum_with(name) : std::nullopt;
  if (!id) return std::nullopt;
  const Type& type = table->type(*id);
  for (const auto& enumerator : type.enumerators)
    if (enumerator.name == name)
      return lang::Constant{lang::Type::enumeration(register_name(*table, *id), type.size, type.is_signed),
                            enumerator.value};
  return std::nullopt;
}

std::vector<lang::Enumerator> ScriptTypes::enumerators(std::string_view enum_name) const {
  std::vector<lang::Enumerator> out;
  auto named = find_named(enum_name);
  if (!named) return out;
  for (const auto& enumerator : named->table->type(named->type).enumerators)
    out.push_back({enumerator.name, enumerator.value});
  return out;
}

std::optional<std::vector<lang::NamedValue>> ScriptTypes::usdt_values(const AttachSpec& probe) const {
  const ImageSymbols* image = image_of(probe);
  if (image == nullptr || !image->is_elf()) return std::nullopt;
  for (const image::UsdtProbe& usdt : image::read_usdt_probes(image->elf())) {
    if (usdt.provider != probe.provider || usdt.name != probe.function || usdt.sites.empty()) continue;
    std::vector<lang::NamedValue> values;
    for (const image::UsdtArgument& first : usdt.sites.front().arguments) {
      // The probe may be in several places of the source, with narrower numbers in some.
      image::UsdtArgument widest = first;
      for (const image::UsdtSite& other : usdt.sites)
        if (values.size() < other.arguments.size() && other.arguments[values.size()].size > widest.size &&
            !widest.is_float)
          widest = other.arguments[values.size()];
      values.push_back({"arg" + std::to_string(values.size()),
                        widest.is_float ? lang::Type::floating(widest.size * 8u)
                                        : lang::Type::integer(widest.size * 8u, widest.is_signed)});
    }
    return values;
  }
  return std::nullopt;
}

std::optional<std::vector<lang::NamedValue>> ScriptTypes::arguments(const AttachSpec& probe) const {
  if (probe.kind == lang::ProbeKind::kTracepoint) {
    auto values = tracepoint_arguments(probe);
    // The record's description names structs; only the kernel's types say what they hold.
    for (lang::NamedValue& value : values ? *values : std::vector<lang::NamedValue>()) {
      bool names_struct =
          value.type.is(lang::TypeKind::kPointer) && value.type.pointee().is(lang::TypeKind::kStruct);
      if (!names_struct) continue;
      auto known = find_struct(value.type.pointee().name());
      value.type = lang::Type::pointer(
          known ? lang::Type::structure(known->name, known->size) : lang::Type::void_type(),
          value.type.address_space());
    }
    return values;
  }
  if (probe.kind == lang::ProbeKind::kUsdt) return usdt_values(probe);
  auto at = site(probe);
  auto function = at ? at->image->debug_info().function_at(at->address) : std::nullopt;
  if (!function) return std::nullopt;
  std::vector<lang::NamedValue> values;
  for (const auto& parameter : function->parameters)
    if (!parameter.is_result && !parameter.name.empty())
      values.push_back({parameter.name, to_type(*at->image, parameter.type)});
  return values;
}

std::optional<std::vector<lang::NamedValue>> ScriptTypes::locals(const AttachSpec& probe) const {
  auto at = site(probe);
  if (!at || at->image->debug_info().is_empty()) return std::nullopt;
  std::vector<lang::NamedValue> values;
  for (const auto& variable : at->image->debug_info().variables_at(at->address)) {
    bool hidden =
        std::any_of(values.begin(), values.end(), [&](auto& other) { return other.name == variable.name; });
    if (!hidden) values.push_back({variable.name, to_type(*at->image, variable.type)});
  }
  return values;
}

std::optional<lang::Type> ScriptTypes::return_type(const AttachSpec& probe) const {
  auto at = site(probe);
  auto results = at ? result_types(*at->image, at->address) : std::nullopt;
  if (!results) return std::nullopt;
  if (results->empty()) return lang::Type::void_type();
  if (results->size() == 1) return to_type(*at->image, results->front());
  std::vector<lang::Type> types;
  for (TypeId id : *results) types.push_back(to_type(*at->image, id));
  return lang::Type::tuple(types);
}

std::string ScriptTypes::why_no_result(const AttachSpec& probe) const {
  auto at = site(probe);
  if (!at) return {};
  auto places = result_places(*at->image, at->address, result_use(*at->image));
  return places ? std::string() : places.error().message();
}

std::optional<image::dwarf::Variable> own_variable(const ScriptTypes::Place& site, std::string_view name) {
  for (auto& variable : site.image->debug_info().variables_at(site.address, true))
    if (variable.name == name && variable.is_global) return std::move(variable);
  return std::nullopt;
}

std::optional<lang::Type> ScriptTypes::global(const AttachSpec& probe, std::string_view name) const {
  auto at = site(probe);
  if (!at) return std::nullopt;
  auto variable = own_variable(*at, name);
  if (!variable) variable = at->image->debug_info().global(name);
  if (!variable) return std::nullopt;
  return to_type(*at->image, variable->type);
}

}  // namespace uscope::session
