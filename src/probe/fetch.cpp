#include "probe/fetch.h"

#include <array>

#include "probe/place.h"

namespace uscope::probe {
namespace {

using image::Member;
using image::Type;
using image::TypeId;
using Kind = image::Type::Kind;

// A value on the way from the variable to the field asked for.
struct Cursor {
  Place place;
  TypeId type;
  std::string path;                  // as the user would write it so far, for messages
  const Member* bitfield = nullptr;  // the last step was a bitfield of the object at `place`
};

bool is_pointer(Kind kind) {
  return kind == Kind::Pointer || kind == Kind::Reference || kind == Kind::RvalueReference;
}

bool has_members(const Type& type) {
  return type.kind == Kind::Struct || type.kind == Kind::Class || type.kind == Kind::Union ||
         type.kind == Kind::GoString || type.kind == Kind::GoSlice || type.kind == Kind::GoInterface;
}

class Walker {
 public:
  explicit Walker(const FetchSite& site) : site_(site) {}

  const Type& stripped(TypeId id) const { return strip_aliases(site_.type(id), site_.type); }

  Result<Cursor> dereferenced(const Cursor& from) const {
    const Type& type = stripped(from.type);
    if (!is_pointer(type.kind)) return fail("`" + from.path + "` is not a pointer");
    Cursor to;
    to.place = pointee(from.place.select(0, 8));
    to.type = type.target;
    to.path = from.path;
    return to;
  }

  // Pointers and references on the way are followed, as Go's `.` and C's `->` do.
  Result<Cursor> field(Cursor from, const std::string& name) const {
    for (int depth = 0; is_pointer(stripped(from.type).kind); ++depth) {
      if (depth > 8) return fail("`" + from.path + "` is a pointer to a pointer to a pointer…");
      TRY(from, dereferenced(from));
    }
    const Type& type = stripped(from.type);
    if (!has_members(type)) return fail("`" + from.path + "` has no fields, so no `" + name + "`");
    uint64_t offset = 0;
    std::string refusal;
    const Member* member = find_member(type, name, offset, refusal, 0);
    if (!refusal.empty()) return fail("`" + from.path + "." + name + "` " + refusal);
    if (member == nullptr) return fail("`" + from.path + "` has no field `" + name + "`" + field_list(type));
    Cursor to;
    to.path = from.path + "." + name;
    to.type = member->type;
    if (member->bit_size != 0) {
      to.place = from.place.at(offset);
      to.bitfield = member;
    } else {
      to.place = from.place.at(offset + member->offset);
    }
    return to;
  }

  Result<Cursor> element(const Cursor& from, int64_t index) const {
    const Type& type = stripped(from.type);
    bool is_array = type.kind == Kind::Array;
    if (!is_array && type.kind != Kind::GoSlice && !is_pointer(type.kind))
      return fail("`" + from.path + "` is not an array, a slice or a pointer, so it takes no index");
    if (is_array && type.dimensions.size() > 1)
      return fail("`" + from.path + "` has several dimensions; uscope takes one index");
    Cursor to;
    to.path = from.path + "[" + std::to_string(index) + "]";
    to.type = type.target;
    if (index < 0 && !is_pointer(type.kind))
      return fail("`" + to.path + "`: there is no element before the first");
    if (is_array && !type.dimensions.empty() && type.dimensions[0] && uint64_t(index) >= *type.dimensions[0])
      return fail("`" + to.path + "` is past the end: it has " + std::to_string(*type.dimensions[0]) +
                  " elements");
    uint64_t size = stripped(to.type).size;
    if (size == 0) return fail("`" + from.path + "`: the size of its elements is unknown");
    if (is_array) {
      to.place = from.place.at(uint64_t(index) * size);
    } else {
      to.place = pointee(from.place.select(0, 8));
      to.place.parts[0].operand.offset += index * int64_t(size);
    }
    return to;
  }

  std::string field_list(const Type& type) const {
    std::string list;
    for (const Member& member : type.members)
      if (!member.name.empty() && !member.is_static && !member.is_artificial)
        list += (list.empty() ? "; it has " : ", ") + member.name;
    return list;
  }

 private:
  // Looks through anonymous members, base classes and Go's embedded fields. `offset` sums up the way there.
  const Member* find_member(const Type& type, const std::string& name, uint64_t& offset, std::string& refusal,
                            int depth) const {
    if (depth > 16) return nullptr;
    for (const Member& member : type.members) {
      if (member.name != name || member.is_base) continue;
      if (member.is_static) {
        refusal = "is a static member: it is not in the object";
        return nullptr;
      }
      return &member;
    }
    for (const Member& member : type.members) {
      if (!member.name.empty() && !member.is_base && !member.is_embedded) continue;
      const Type& inner = stripped(member.type);
      if (!has_members(inner)) continue;
      uint64_t inner_offset = 0;
      const Member* found = find_member(inner, name, inner_offset, refusal, depth + 1);
      if (found == nullptr) continue;
      if (member.is_virtual_base) {
        refusal = "is in a virtual base class, whose place is known only at run time";
        return nullptr;
      }
      offset += member.offset + inner_offset;
      return found;
    }
    return nullptr;
  }

  const FetchSite& site_;
};

class Emitter {
 public:
  Emitter(const FetchSite& site, const Walker& walker) : site_(site), walker_(walker) {}

  Result<FetchResult> emit(const Cursor& cursor, const std::string& name, const std::string& wanted) {
    const Type& type = walker_.stripped(cursor.type);
    if (cursor.bitfield != nullptr) return bitfield(cursor, type, name);
    if (wanted == "string" || wanted == "ustring") return string(cursor, type, name, wanted);
    if (!wanted.empty()) return plain(cursor, type.size != 0 && type.size <= 8 ? type.size : 8, name, wanted);
    switch (type.kind) {
      case Kind::GoString:
        return text_with_length(cursor, name, 0, 8, "Go");
      case Kind::GoSlice:
        return parts(
            cursor, {{name + "_ptr", 0, "x64"}, {name + "_len", 8, "s64"}, {name + "_cap", 16, "s64"}},
            "`" + cursor.path + "` is a slice: its address, length and capacity; name an element, as in " +
                cursor.path + "[0]");
      case Kind::GoInterface:
        return parts(cursor, {{name + "_type", 0, "x64"}, {name + "_data", 8, "x64"}},
                     "`" + cursor.path + "` is an interface: the address of its type and of its data");
      case Kind::Struct:
      case Kind::Class:
      case Kind::Union:
        return structure(cursor, type, name);
      case Kind::Array:
        return array(cursor, type, name);
      case Kind::Float:
        return floating(cursor, type, name);
      default:
        break;
    }
    std::string scalar = kernel_type(type, site_.type);
    if (scalar.empty()) return fail("`" + cursor.path + "` is of a type the kernel's syntax has no word for");
    return plain(cursor, type.size != 0 ? type.size : 8, name, scalar);
  }

 private:
  struct PartSpec {
    std::string name;
    uint64_t offset;
    std::string type;
  };

  static Error unavailable(const Cursor& cursor, const Operand& operand) {
    return Error("`" + cursor.path + "` " + operand.reason)
        .with_hint("-V shows what has a place where, and -V FUNC:LINE on another line");
  }

  Result<FetchResult> plain(const Cursor& cursor, uint64_t size, const std::string& name,
                            const std::string& type) {
    Operand operand = cursor.place.select(0, size);
    if (operand.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, operand));
    FetchArgument argument{name, operand.text(), type};
    if (operand.kind == Operand::Kind::Register && operand.bit_offset != 0) {
      if (type[0] == 's')
        return fail("`" + cursor.path + "` is a signed part of the register " + operand.inner +
                    ", and the kernel shows parts of registers unsigned only");
      argument.type = "b" + std::to_string(size * 8) + "@" + std::to_string(operand.bit_offset) + "/64";
    }
    return FetchResult{{argument}, {}};
  }

  Result<FetchResult> bitfield(const Cursor& cursor, const Type& type, const std::string& name) {
    const Member& field = *cursor.bitfield;
    uint64_t container = type.size != 0 ? type.size : 4;
    uint64_t first = field.bit_offset / 8 / container * container;
    if (field.bit_offset + field.bit_size > (first + container) * 8) {
      // Packed over a border of its own type: a wider container from its first byte may hold it.
      first = field.bit_offset / 8;
      container = 8;
      if (field.bit_offset + field.bit_size > (first + container) * 8)
        return fail("`" + cursor.path + "` is a bitfield over more than 8 bytes");
    }
    if (type.is_signed)
      return fail("`" + cursor.path + "` is a signed bitfield, and the kernel shows bitfields unsigned only");
    Operand operand = cursor.place.select(first, container);
    if (operand.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, operand));
    uint64_t shift = field.bit_offset - first * 8 + operand.bit_offset;
    uint64_t bits = operand.kind == Operand::Kind::Register ? 64 : container * 8;
    std::string word =
        "b" + std::to_string(field.bit_size) + "@" + std::to_string(shift) + "/" + std::to_string(bits);
    return FetchResult{{{name, operand.text(), word}}, {}};
  }

  // A NUL-terminated string: behind a char pointer, or in a char array.
  Result<FetchResult> string(const Cursor& cursor, const Type& type, const std::string& name,
                             const std::string& word) {
    if (type.kind == Kind::GoString) return text_with_length(cursor, name, 0, 8, "Go");
    if (is_rust_str(type)) return rust_str(cursor, type, name);
    Operand text;
    if (type.kind == Kind::Array) {
      text = cursor.place.select(0, 1);
      if (text.kind == Operand::Kind::Register)
        return fail("`" + cursor.path + "` is an array in a register");
    } else if (is_pointer(type.kind) || type.kind == Kind::Integer) {
      text = pointee(cursor.place.select(0, 8)).select(0, 1);
    } else {
      return fail("`" + cursor.path + "` is neither a pointer to text nor an array of characters");
    }
    if (text.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, text));
    return FetchResult{{{name, text.text(), word}}, {}};
  }

  // Text that carries its length: the kernel reads on to the next NUL byte, so the length is fetched beside
  // it.
  Result<FetchResult> text_with_length(const Cursor& cursor, const std::string& name, uint64_t pointer,
                                       uint64_t length, const std::string& language) {
    Operand text = pointee(cursor.place.select(pointer, 8)).select(0, 1);
    Operand size = cursor.place.select(length, 8);
    if (text.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, text));
    if (size.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, size));
    FetchResult result;
    result.arguments = {{name, text.text(), "string"}, {name + "_len", size.text(), "s64"}};
    result.notes.push_back(
        language +
        " strings have no end mark, and the kernel reads on to the next NUL byte: only the first " + name +
        "_len bytes of " + name + " are the value");
    return result;
  }

  static bool is_rust_str(const Type& type) { return type.name == "&str" || type.name == "&mut str"; }

  Result<FetchResult> rust_str(const Cursor& cursor, const Type& type, const std::string& name) {
    uint64_t pointer = 0, length = 8;
    for (const Member& member : type.members) {
      if (member.name == "data_ptr") pointer = member.offset;
      if (member.name == "length") length = member.offset;
    }
    return text_with_length(cursor, name, pointer, length, "Rust");
  }

  Result<FetchResult> parts(const Cursor& cursor, const std::vector<PartSpec>& specs,
                            const std::string& note) {
    FetchResult result;
    for (const PartSpec& spec : specs) {
      Operand operand = cursor.place.select(spec.offset, 8);
      if (operand.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, operand));
      result.arguments.push_back({spec.name, operand.text(), spec.type});
    }
    result.notes.push_back(note);
    return result;
  }

  Result<FetchResult> structure(const Cursor& cursor, const Type& type, const std::string& name) {
    if (is_rust_str(type)) return rust_str(cursor, type, name);
    if (type.is_declaration)
      return fail("`" + cursor.path + "` is of the type " + type.name +
                  ", which the debug info only declares");
    return fail(Error("`" + cursor.path + "` is a whole " + (type.name.empty() ? "struct" : type.name) +
                      " of " + std::to_string(type.size) + " bytes" + walker_.field_list(type))
                    .with_hint("name a field: the kernel fetches numbers and text only"));
  }

  Result<FetchResult> array(const Cursor& cursor, const Type& type, const std::string& name) {
    const Type& element = walker_.stripped(type.target);
    if (type.dimensions.size() != 1 || !type.dimensions[0])
      return fail("`" + cursor.path + "` is an array of unknown or several dimensions; name an element");
    uint64_t count = *type.dimensions[0];
    Operand first = cursor.place.select(0, 1);
    if (first.kind == Operand::Kind::Unavailable) return fail(unavailable(cursor, first));
    std::string scalar = kernel_type(element, site_.type);
    if (scalar.empty())
      return fail("`" + cursor.path + "` is an array of structs; name an element and a field");
    if (first.kind == Operand::Kind::Register)
      return fail("`" + cursor.path + "` is an array in registers; name an element");
    if (count == 0) return fail("`" + cursor.path + "` has no elements");
    if (element.kind == Kind::Character && element.size == 1) scalar = "char";
    FetchResult result;
    uint64_t shown = std::min<uint64_t>(count, 64);
    result.arguments = {{name, first.text(), scalar + "[" + std::to_string(shown) + "]"}};
    if (shown < count)
      result.notes.push_back("`" + cursor.path + "` has " + std::to_string(count) +
                             " elements; the kernel fetches 64 at most");
    return result;
  }

  Result<FetchResult> floating(const Cursor& cursor, const Type& type, const std::string& name) {
    if (type.size != 4 && type.size != 8)
      return fail("`" + cursor.path + "` is a floating-point number of " + std::to_string(type.size) +
                  " bytes");
    auto result = plain(cursor, type.size, name, type.size == 8 ? "x64" : "x32");
    if (result)
      result->notes.push_back("`" + cursor.path +
                              "` is a floating-point number: the kernel shows its bits, not its value");
    return result;
  }

  const FetchSite& site_;
  const Walker& walker_;
};

}  // namespace

std::string kernel_register(uint32_t number) {
  static constexpr std::array<const char*, 16> names = {"%ax",  "%dx",  "%cx",  "%bx", "%si",  "%di",
                                                        "%bp",  "%sp",  "%r8",  "%r9", "%r10", "%r11",
                                                        "%r12", "%r13", "%r14", "%r15"};
  if (number < names.size()) return names[number];
  return number == 16 ? "%ip" : "";
}

std::string kernel_type(const Type& type, const TypeLookup& lookup) {
  const Type& plain = strip_aliases(type, lookup);
  switch (plain.kind) {
    case Kind::Pointer:
    case Kind::Reference:
    case Kind::RvalueReference:
    case Kind::MemberPointer:
    case Kind::GoMap:
    case Kind::GoChannel:
    case Kind::Function:
      return "x64";
    case Kind::Bool:
      return "u8";
    case Kind::Integer:
    case Kind::Character:
    case Kind::Enum: {
      if (plain.size != 1 && plain.size != 2 && plain.size != 4 && plain.size != 8) return "";
      return (plain.is_signed ? "s" : "u") + std::to_string(plain.size * 8);
    }
    default:
      return "";
  }
}

Result<FetchResult> fetch_variable(const FetchSite& site, const image::dwarf::Variable& variable,
                                   const VariablePath& path, const std::string& name,
                                   const std::string& wanted_type) {
  Walker walker(site);
  Cursor cursor;
  cursor.place = place_of(variable.location, site.address.value - site.offset.value);
  cursor.type = variable.type;
  cursor.path = variable.name;
  for (const Accessor& accessor : path.accessors) {
    TRY(cursor,
        accessor.index ? walker.element(cursor, *accessor.index) : walker.field(cursor, accessor.field));
  }
  for (unsigned i = 0; i < path.dereferences; ++i) {
    TRY(cursor, walker.dereferenced(cursor));
  }
  // A C++ reference means what it refers to.
  const Type& type = walker.stripped(cursor.type);
  if (cursor.bitfield == nullptr && (type.kind == Kind::Reference || type.kind == Kind::RvalueReference) &&
      !kernel_type(site.type(type.target), site.type).empty()) {
    TRY(cursor, walker.dereferenced(cursor));
  }
  return Emitter(site, walker).emit(cursor, name, wanted_type);
}

}  // namespace uscope::probe
