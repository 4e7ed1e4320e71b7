#include "symbols/type_spelling.h"

#include <utility>

#include "symbols/short_names.h"

namespace uscope::symbols {
namespace {

using image::Language;
using image::Type;
using image::TypeId;
using Kind = Type::Kind;

constexpr int deepest = 48;
// Types visited for one name; a hostile file can nest function types so that the text would grow
// exponentially.
constexpr int most_visits = 2000;
constexpr const char* cut_short = "...";

bool is_qualifier(Kind kind) {
  return kind == Kind::Const || kind == Kind::Volatile || kind == Kind::Restrict || kind == Kind::Atomic;
}

bool starts_as_word(std::string_view text) {
  return !text.empty() && text[0] != '*' && text[0] != '&' && text[0] != '(' && text[0] != '[' &&
         text[0] != ')';
}

const std::string& full_name(const Type& type) { return type.qualified.empty() ? type.name : type.qualified; }

class Speller {
 public:
  Speller(const image::TypeLookup& resolve, TypeStyle style)
      : resolve_(resolve), plain_(style == TypeStyle::Perf), tight_(style != TypeStyle::Source) {}

  std::string spell(TypeId id, std::string declarator, int depth = 0) {
    switch (language_of(id, resolve_)) {
      case Language::Go:
        return go(id, depth);
      case Language::Rust:
        return rust(id, depth);
      default:
        return c(id, std::move(declarator), "", depth);
    }
  }

 private:
  bool exhausted(int depth) { return depth > deepest || ++visits_ > most_visits; }

  // C's declarators read inside out: what the name is wrapped in so far, then the type around it.
  std::string c(TypeId id, std::string declarator, std::string qualifiers, int depth) {
    if (exhausted(depth)) return cut_short + declarator;
    const Type* type = &resolve_(id);
    for (int i = 0; is_qualifier(type->kind) && i < deepest; ++i) {
      if (!plain_) add_qualifier(qualifiers, type->kind);
      id = type->target;
      type = &resolve_(id);
    }
    switch (type->kind) {
      case Kind::Pointer:
      case Kind::Reference:
      case Kind::RvalueReference:
      case Kind::MemberPointer:
        return c_pointer(*type, std::move(declarator), qualifiers, depth);
      case Kind::Array: {
        std::string dimensions;
        for (const auto& count : type->dimensions)
          dimensions += count ? "[" + std::to_string(*count) + "]" : "[]";
        if (type->dimensions.empty()) dimensions = "[]";
        return c(type->target, declarator + dimensions, std::move(qualifiers), depth + 1);
      }
      case Kind::Function:
        return c(type->target, declarator + "(" + c_parameters(*type, TypeId{}, depth) + ")", "", depth + 1);
      default:
        break;
    }
    std::string base = c_base(*type, depth);
    if (!qualifiers.empty()) base = qualifiers + " " + base;
    if (declarator.empty()) return base;
    const bool space = tight_ ? starts_as_word(declarator) : declarator[0] != '[';
    return base + (space ? " " : "") + declarator;
  }

  std::string c_pointer(const Type& pointer, std::string declarator, const std::string& qualifiers,
                        int depth) {
    std::string mark = pointer.kind == Kind::Reference         ? "&"
                       : pointer.kind == Kind::RvalueReference ? "&&"
                                                               : "*";
    if (pointer.kind == Kind::MemberPointer) mark = spell(pointer.key, "", depth + 1) + "::*";
    if (!qualifiers.empty()) mark += qualifiers + (starts_as_word(declarator) ? " " : "");
    declarator = mark + declarator;
    const Type* target = &resolve_(pointer.target);
    for (int i = 0; is_qualifier(target->kind) && i < deepest; ++i) target = &resolve_(target->target);
    if (target->kind == Kind::Array) declarator = "(" + declarator + ")";
    if (target->kind == Kind::Function) {
      // A method's own `this` is no part of how its pointer is spelled.
      declarator = "(" + declarator + ")(" + c_parameters(*target, pointer.key, depth) + ")";
      return c(target->target, std::move(declarator), "", depth + 1);
    }
    return c(pointer.target, std::move(declarator), "", depth + 1);
  }

  std::string c_parameters(const Type& function, TypeId method_of, int depth) {
    std::string out;
    for (size_t i = 0; i < function.parameters.size() && visits_ <= most_visits; ++i) {
      if (i == 0 && method_of && points_to(function.parameters[0], method_of)) continue;
      out += (out.empty() ? "" : ", ") + spell(function.parameters[i], "", depth + 1);
    }
    if (function.is_variadic) return out.empty() ? "..." : out + ", ...";
    if (out.empty() && function.language == Language::C) return "void";
    return out;
  }

  bool points_to(TypeId id, TypeId target) {
    for (int i = 0; i < 4 && id; ++i) {
      if (id == target) return true;
      const Type& type = resolve_(id);
      if (type.kind != Kind::Pointer && !is_qualifier(type.kind)) return false;
      id = type.target;
    }
    return false;
  }

  std::string c_base(const Type& type, int depth) {
    const char* tag = type.kind == Kind::Struct  ? "struct"
                      : type.kind == Kind::Class ? "class"
                      : type.kind == Kind::Union ? "union"
                      : type.kind == Kind::Enum  ? "enum"
                                                 : nullptr;
    if (tag && full_name(type).empty()) return std::string(tag) + " {...}";
    if (type.kind == Kind::Void) return "void";
    if (type.kind == Kind::Integer) return base_name(full_name(type));
    if (type.language == Language::Cpp) return short_cpp_name(full_name(type));
    if (tag && type.language == Language::C) return std::string(tag) + " " + type.name;
    if (!full_name(type).empty()) return full_name(type);
    return type.target ? spell(type.target, "", depth + 1) : "<unnamed type>";
  }

  // GCC writes `long unsigned int` where people write `unsigned long`; perf shows what GCC writes.
  std::string base_name(const std::string& name) const {
    constexpr std::pair<std::string_view, std::string_view> usual[] = {
        {"long unsigned int", "unsigned long"},           {"long int", "long"},
        {"short unsigned int", "unsigned short"},         {"short int", "short"},
        {"long long unsigned int", "unsigned long long"}, {"long long int", "long long"},
    };
    for (auto [gcc, people] : usual) {
      if (!plain_ && name == gcc) return std::string(people);
    }
    return name;
  }

  static void add_qualifier(std::string& qualifiers, Kind kind) {
    const char* word = kind == Kind::Const      ? "const"
                       : kind == Kind::Volatile ? "volatile"
                       : kind == Kind::Restrict ? "restrict"
                                                : "_Atomic";
    if (qualifiers.find(word) != std::string::npos) return;
    qualifiers += (qualifiers.empty() ? "" : " ") + std::string(word);
  }

  std::string go(TypeId id, int depth) {
    if (exhausted(depth)) return cut_short;
    const Type& type = resolve_(id);
    if (!full_name(type).empty()) return short_go_name(full_name(type));
    const auto target = [&] { return spell(type.target, "", depth + 1); };
    switch (type.kind) {
      case Kind::Void:
        return "";
      case Kind::Pointer:
        return type.target ? "*" + target() : "unsafe.Pointer";
      case Kind::Array: {
        std::string out;
        for (const auto& count : type.dimensions) out += "[" + (count ? std::to_string(*count) : "") + "]";
        return out + target();
      }
      case Kind::GoString:
        return "string";
      case Kind::GoSlice:
        return "[]" + target();
      case Kind::GoMap:
        return "map[" + spell(type.key, "", depth + 1) + "]" + target();
      case Kind::GoChannel:
        return "chan " + target();
      case Kind::GoInterface:
        return "interface {...}";
      case Kind::Struct:
        return type.members.empty() ? "struct {}" : "struct {...}";
      case Kind::Function:
        return "func(" + list(type, depth) + ")" + (type.target ? " " + target() : "");
      default:
        return type.target ? target() : "<unnamed type>";
    }
  }

  std::string rust(TypeId id, int depth) {
    if (exhausted(depth)) return cut_short;
    const Type& type = resolve_(id);
    // rustc names references, tuples and the like by their spelling, which has no path of its own.
    const bool spelled =
        !type.name.empty() && std::string_view("&*([").find(type.name[0]) != std::string_view::npos;
    const std::string& name = spelled || type.kind == Kind::Pointer ? type.name : full_name(type);
    if (!name.empty()) return short_rust_name(name);
    const auto target = [&] { return type.target ? spell(type.target, "", depth + 1) : std::string("()"); };
    switch (type.kind) {
      case Kind::Void:
        return "()";
      case Kind::Pointer:
        return "*mut " + target();
      case Kind::Reference:
        return "&" + target();
      case Kind::Array: {
        std::string out = target();
        for (size_t i = type.dimensions.size(); i-- > 0;) {
          const auto& count = type.dimensions[i];
          out = "[" + out + (count ? "; " + std::to_string(*count) : "") + "]";
        }
        return out;
      }
      case Kind::Function:
        return "fn(" + list(type, depth) + ")" + (type.target ? " -> " + target() : "");
      case Kind::Struct:
        return "struct {...}";
      case Kind::Union:
        return "union {...}";
      case Kind::Enum:
        return "enum {...}";
      default:
        return type.target ? target() : "<unnamed type>";
    }
  }

  std::string list(const Type& function, int depth) {
    std::string out;
    for (size_t i = 0; i < function.parameters.size() && visits_ <= most_visits; ++i) {
      out += (i ? ", " : "") + spell(function.parameters[i], "", depth + 1);
    }
    return out;
  }

  const image::TypeLookup& resolve_;
  bool plain_;  // no qualifiers, GCC's own names of integers
  bool tight_;  // no blank before * and &
  int visits_ = 0;
};

}  // namespace

Language language_of(TypeId id, const image::TypeLookup& resolve) {
  for (int i = 0; i < deepest && id; ++i) {
    const Type& type = resolve(id);
    if (type.language != Language::Unknown) return type.language;
    id = type.target;
  }
  return Language::Unknown;
}

std::string spell_type(TypeId id, const image::TypeLookup& resolve, TypeStyle style) {
  return Speller(resolve, style).spell(id, "");
}

std::string spell_declaration(TypeId id, std::string_view name, const image::TypeLookup& resolve,
                              TypeStyle style) {
  if (name.empty()) return spell_type(id, resolve, style);
  if (style == TypeStyle::Perf) return spell_type(id, resolve, style) + "\t" + std::string(name);
  if (style == TypeStyle::Bpftrace) {
    // A parameter that is itself const says nothing to a caller: `AddressBook* this`.
    for (int i = 0; is_qualifier(resolve(id).kind) && i < deepest; ++i) id = resolve(id).target;
    return spell_type(id, resolve, style) + " " + std::string(name);
  }
  switch (language_of(id, resolve)) {
    case Language::Go:
      return std::string(name) + " " + spell_type(id, resolve, style);
    case Language::Rust:
      return std::string(name) + ": " + spell_type(id, resolve, style);
    default:
      return Speller(resolve, style).spell(id, std::string(name));
  }
}

}  // namespace uscope::symbols
