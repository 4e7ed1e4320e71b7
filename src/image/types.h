// The type model: what a program's types look like, whatever debug format or language they came from.
// Plain values. A Type refers to other types by TypeId, so recursive types need no ownership cycles; whoever
// made the ids (dwarf::DebugInfo, a script's C definitions) resolves them. Knows no debug format and prints
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace uscope::image {

// Those of C and C++, which do not pass everything alike.
enum class Compiler { Unknown, Gcc, Llvm };

enum class Language { Unknown, C, Cpp, Rust, Go, DotNet, Assembly, Other };

// Names a type within the source that handed it out. 0 is `void` (or Go's and Rust's nothing).
struct TypeId {
  uint64_t value = 0;
  friend auto operator<=>(TypeId, TypeId) = default;
  explicit operator bool() const { return value != 0; }
};

struct Member {
  std::string name;  // empty: anonymous struct or union, whose members are reached as if they were here
  TypeId type;
  uint64_t offset = 0;  // bytes from the start of the enclosing object
  // Bitfields: width in bits and the position of the lowest bit, counted from the start of the object.
  uint32_t bit_size = 0;  // 0: not a bitfield
  uint64_t bit_offset = 0;
  bool is_base = false;          // a base class; name is the class's name
  bool is_virtual_base = false;  // its offset is known only at run time, through the vtable
  bool is_static = false;        // has no place in the object
  bool is_artificial = false;    // made by the compiler: _vptr.X
  bool is_embedded = false;      // Go: an embedded field, whose members are promoted
};

struct Enumerator {
  std::string name;
  int64_t value = 0;  // an unsigned underlying type stores its bits
};

// One alternative of a Rust enum (or any DW_TAG_variant_part).
struct Variant {
  std::string name;
  std::vector<uint64_t> discriminants;                // empty: the default variant (niche)
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // inclusive
  TypeId type;
  uint64_t offset = 0;
};

struct VariantPart {
  std::optional<Member> discriminant;  // none: a single variant, always present
  std::vector<Variant> variants;
};

struct TemplateArgument {
  std::string name;
  TypeId type;
  std::optional<int64_t> value;  // a value parameter
};

struct Type {
  enum class Kind {
    Void,
    Bool,
    Integer,
    Character,  // char, char16_t, Rust's char: prints as text
    Float,
    Complex,
    Pointer,
    Reference,
    RvalueReference,
    MemberPointer,
    Array,
    Struct,
    Class,
    Union,
    Enum,
    Typedef,
    Const,
    Volatile,
    Restrict,
    Atomic,
    Function,
    Unspecified,  // decltype(nullptr) and the like
    // Go's own, laid out as in memory: see members for the fields the runtime gives them.
    GoString,
    GoSlice,
    GoMap,
    GoChannel,
    GoInterface,
  };

  Kind kind = Kind::Void;
  std::string name;       // unqualified, as declared; empty for anonymous and for derived types (T*, T[4])
  std::string qualified;  // with namespaces and enclosing classes, `ns::Outer::name`; Go and Rust: the path
  Language language = Language::Unknown;
  uint64_t size = 0;            // bytes; 0 if unknown
  bool is_signed = false;       // Integer, Character, Enum
  bool is_declaration = false;  // incomplete: only declared anywhere uscope could find
  TypeId target;  // pointee, element, aliased or underlying type, return type; Go: element or value type
  TypeId key;     // Go map's key; MemberPointer: the containing class
  std::vector<Member> members;  // struct, class, union: bases first, then in order of declaration
  std::vector<VariantPart> variant_parts;
  std::vector<Enumerator> enumerators;
  bool is_enum_class = false;
  std::vector<TemplateArgument> template_arguments;
  std::vector<std::optional<uint64_t>>
      dimensions;                  // Array: element counts, outermost first; nothing: unknown ([])
  std::vector<TypeId> parameters;  // Function
  bool is_variadic = false;        // Function
  bool is_vector = false;          // Array: a SIMD vector
  // Classes: passed by reference, because copying is not trivial. Nothing: the debug info does not say.
  std::optional<bool> passed_by_reference;
  uint64_t alignment = 0;  // when the debug info says it (alignas)
  std::string decl_file;
  uint32_t decl_line = 0;
};

using TypeLookup = std::function<const Type&(TypeId)>;

// Typedefs and qualifiers: another name for, or a view of, their target.
bool is_alias(Type::Kind kind);
// The type behind them. A cycle of aliases, which only broken debug info has, ends somewhere in it.
const Type& strip_aliases(const Type& type, const TypeLookup& lookup);

}  // namespace uscope::image
