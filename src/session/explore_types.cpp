#include "session/explore_types.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/glob.h"
#include "image/dwarf/debug_info.h"
#include "session/missing_debug_info.h"
#include "symbols/image_symbols.h"
#include "symbols/name_pattern.h"
#include "symbols/short_names.h"
#include "symbols/type_print.h"

namespace uscope::session {
namespace {

using image::Language;
using image::Type;
using image::TypeId;
using image::dwarf::DebugInfo;
using Kind = Type::Kind;

const std::string& full_name(const Type& type) { return type.qualified.empty() ? type.name : type.qualified; }

// The same name as a user would write it.
std::string short_name(const Type& type) {
  switch (type.language) {
    case Language::Cpp:
      return symbols::short_cpp_name(full_name(type));
    case Language::Rust:
      return symbols::short_rust_name(full_name(type));
    case Language::Go:
      return symbols::short_go_name(full_name(type));
    default:
      return full_name(type);
  }
}

std::string kind_word(const Type& type) {
  switch (type.kind) {
    case Kind::Struct:
      return type.variant_parts.empty() ? "struct" : "enum";
    case Kind::Class:
      return "class";
    case Kind::Union:
      return "union";
    case Kind::Enum:
      return "enum";
    case Kind::Typedef:
      return type.language == Language::Go ? "type" : "typedef";
    case Kind::GoString:
      return "string";
    case Kind::GoSlice:
      return "slice";
    case Kind::GoMap:
      return "map";
    case Kind::GoChannel:
      return "chan";
    case Kind::GoInterface:
      return "interface";
    case Kind::Function:
      return "func";
    case Kind::Pointer:
      return "pointer";
    case Kind::Array:
      return "array";
    default:
      return "base";
  }
}

// `struct conn` means conn.
std::string_view without_tag(std::string_view pattern) {
  for (std::string_view tag : {"struct ", "class ", "union ", "enum ", "typedef ", "type "}) {
    if (pattern.starts_with(tag)) return pattern.substr(tag.size());
  }
  return pattern;
}

// Every named type, without the structs that rustc makes of an enum's variants: they are shown with the enum.
std::vector<TypeId> named_types(const DebugInfo& info, std::string_view pattern) {
  std::vector<TypeId> found = info.find_types(pattern);
  std::set<uint64_t> variants;
  for (TypeId id : found) {
    for (const auto& part : info.type(id).variant_parts) {
      for (const auto& variant : part.variants) variants.insert(variant.type.value);
    }
  }
  if (!variants.empty()) std::erase_if(found, [&](TypeId id) { return variants.contains(id.value); });
  return found;
}

class TypeFinder {
 public:
  explicit TypeFinder(const DebugInfo& info) : info_(info) {}

  std::vector<TypeId> find(std::string_view pattern) const {
    std::vector<TypeId> found = named_types(info_, pattern);
    if (found.empty()) found = named_types(info_, without_tag(pattern));
    // Names that users write otherwise than compilers do: std::string, Vec<u8>, []dns.Question; or the end of
    // a path.
    if (found.empty()) found = by_short_name(without_tag(pattern));
    return definitions(found);
  }

  std::vector<std::string> nearest(std::string_view pattern) const {
    std::vector<std::string> names;
    for (TypeId id : named_types(info_, "*")) names.push_back(short_name(info_.type(id)));
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return symbols::nearest_names(without_tag(pattern), {names.begin(), names.end()});
  }

 private:
  std::vector<TypeId> by_short_name(std::string_view pattern) const {
    std::vector<TypeId> found;
    for (TypeId id : named_types(info_, "*")) {
      const Type& type = info_.type(id);
      const std::string name = short_name(type);
      // Go's own brackets are no glob.
      const bool is_end = name.ends_with(std::string("::").append(pattern));
      if (is_end || name == pattern || full_name(type) == pattern || glob_match(pattern, name))
        found.push_back(id);
    }
    return found;
  }

  // A declaration stands for its definition; an alias of the same name tells the whole story.
  std::vector<TypeId> definitions(const std::vector<TypeId>& found) const {
    std::vector<TypeId> out;
    std::set<uint64_t> seen;
    for (TypeId id : found) {
      if (info_.type(id).is_declaration) id = info_.definition_of(id);
      if (seen.insert(id.value).second) out.push_back(id);
    }
    std::set<std::string> defined;
    std::set<uint64_t> aliased;
    for (TypeId id : out) {
      const Type& type = info_.type(id);
      if (!type.is_declaration) defined.insert(full_name(type));
      if (type.kind == Kind::Typedef && type.target && info_.type(type.target).name == type.name) {
        aliased.insert(type.target.value);
      }
    }
    std::erase_if(out, [&](TypeId id) {
      const Type& type = info_.type(id);
      return aliased.contains(id.value) || (type.is_declaration && defined.contains(full_name(type)));
    });
    return out;
  }

  const DebugInfo& info_;
};

std::vector<TypeSummary> list_types(const DebugInfo& info) {
  std::vector<TypeSummary> out;
  std::set<std::tuple<std::string, std::string, uint64_t>> seen;
  for (TypeId id : named_types(info, "*")) {
    const Type& type = info.type(info.type(id).is_declaration ? info.definition_of(id) : id);
    if (type.is_declaration) continue;
    uint64_t size = type.size;
    TypeId target = type.target;
    for (int i = 0; size == 0 && type.kind == Kind::Typedef && target && i < 32; ++i) {
      size = info.type(target).size;
      target = info.type(target).target;
    }
    TypeSummary summary{kind_word(type), size,
                        type.language == Language::Go ? full_name(type) : short_name(type)};
    if (summary.name.empty()) continue;
    if (seen.emplace(summary.name, summary.kind, summary.size).second) out.push_back(std::move(summary));
  }
  std::ranges::sort(out, {}, [](const TypeSummary& t) { return std::tie(t.name, t.kind, t.size); });
  return out;
}

// Laid out, sorted, those that look the same once.
std::vector<symbols::TypeLayout> lay_out(const DebugInfo& info, const std::vector<TypeId>& ids, int depth) {
  const image::TypeLookup resolve = [&info](TypeId id) -> const Type& {
    const Type& type = info.type(id);
    return type.is_declaration ? info.type(info.definition_of(id)) : type;
  };
  std::vector<symbols::TypeLayout> out;
  std::set<std::string> seen;
  for (TypeId id : ids) {
    auto layout = symbols::layout_type(id, resolve, depth);
    if (seen.insert(symbols::print_type(layout)).second) out.push_back(std::move(layout));
  }
  std::ranges::stable_sort(
      out, {}, [](const symbols::TypeLayout& t) { return std::tie(t.name, t.decl_file, t.decl_line); });
  return out;
}

}  // namespace

Result<TypesAnswer> explore_types(const TypesRequest& request) {
  const Target& target = request.target;
  TRY(const symbols::ImageSymbols image, symbols::ImageSymbols::open(target.path, target.root));
  const DebugInfo& info = image.debug_info();
  if (info.is_empty()) {
    return fail(Error("no types in " + target.shown + ": " + info.why_empty())
                    .with_hint(how_to_get_debug_info(image, target)));
  }
  TypesAnswer answer;
  answer.debug_source = info.source_path();
  if (request.pattern.empty()) {
    answer.listed = list_types(info);
  } else {
    const TypeFinder finder(info);
    const std::vector<TypeId> ids = finder.find(request.pattern);
    if (ids.empty()) {
      Error error("no type `" + request.pattern + "` in the debug info of " + target.shown);
      std::string names;
      for (const std::string& name : finder.nearest(request.pattern))
        names += (names.empty() ? "`" : ", `") + name + "`";
      if (names.empty()) return fail(std::move(error));
      return fail(std::move(error).with_hint("did you mean " + names + "?"));
    }
    answer.definitions = lay_out(info, ids, request.depth);
  }
  answer.problems = info.problems();
  return answer;
}

}  // namespace uscope::session
