// What a type looks like in memory: its members with offsets and sizes, the holes between them, base classes,
// vtable pointers, bitfields, enumerators, the variants of a Rust enum. Plain data made from Type values
// through a resolver; print_type() in type_print.h writes it as source code. Offsets count from the start of
// the outermost object, also in expanded members. Cyclic and oversized definitions are cut, and say so. Owns
// nothing it is given; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "image/types.h"
#include "symbols/type_spelling.h"

namespace uscope::symbols {

struct LayoutItem {
  enum class Kind {
    Member,
    Bitfield,
    Base,
    VirtualBase,  // its offset is known only at run time
    VtablePointer,
    Static,  // no place in the object
    Hole,
    Padding,      // the unused end
    VirtualArea,  // the end of an object that has virtual bases: they and padding share it
    Discriminant,
    Variant,
    Enumerator,
    Cut,  // the definition goes on; text says why it is not shown
  };
  Kind kind = Kind::Member;
  std::string name;
  std::string type;  // spelled as source code
  // As source code declares it: `int fd`, `fd int`; of an expanded item the part before `{` and the part
  // after `}`.
  std::string text, text_after;
  std::optional<uint64_t> bit_offset;
  uint64_t bit_size = 0;
  std::optional<int64_t> value;  // Enumerator
  std::string note;              // `embedded`; a variant's discriminant values: `= 1`
  bool is_tuple = false;         // Variant: its fields have no names
  bool is_expanded = false;      // items holds the members of its type, even if there are none
  std::vector<LayoutItem> items;
};

struct TypeLayout {
  std::string name;               // full, shortened as spell_type does
  std::string keyword;            // struct, class, union, enum, enum class; empty when neither
  std::string alias_of;           // a typedef: what it stands for
  std::string alias_declaration;  // the same as C declares it: `struct node *list`
  std::string bases;              // `Base, virtual Other`
  image::Language language = image::Language::Unknown;
  uint64_t size = 0;
  uint64_t alignment = 0;  // 0: unknown
  bool is_packed = false;
  bool is_incomplete = false;  // only declared
  std::string underlying;      // an enum's integer type
  unsigned holes = 0;          // without the padding at the end
  uint64_t hole_bits = 0;
  uint64_t padding_bits = 0;
  std::string decl_file;
  uint32_t decl_line = 0;
  std::vector<LayoutItem> items;
};

// `depth`: how many levels of named member types to write out; anonymous ones always are.
TypeLayout layout_type(image::TypeId id, const image::TypeLookup& resolve, int depth = 0);

// The alignment a compiler gives a type on x86-64; 0 if its size is unknown.
uint64_t alignment_of(image::TypeId id, const image::TypeLookup& resolve);

}  // namespace uscope::symbols
