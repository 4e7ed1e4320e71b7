// The types of values in a script. A Type is a small value: copying it is cheap, comparing it compares
// structure. Structs of the traced program are named, not contained (TypeSource has their fields), so that
// recursive C types need no cycles here. What a map does with its values (count, hist, ...) is a type too.
//
// The model, for a code generator: Int and Bool are scalars of `size` bytes; Pointer is 8 bytes; String and
// Buffer are inline bytes of `size` (the text with its NUL; a buffer's bytes without its 4-byte length);
// Tuple and Record hold their fields at the offsets given; Array is `count` elements in a row; everything
// else is an opaque value that only the reader (event/, view/) turns into text. Three things are converted
// where they are read: count, sum, min, max and avg to an integer wherever a plain value is wanted (in a
// variable, an operator, a tuple, a key); an integer to the wider type of the variable, map or operator that
// takes it; and a struct's `char name[N]`, N bytes in memory, to a String of N + 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::lang {

// grouped by meaning
// clang-format off
enum class TypeKind : uint8_t {
  kNone,  // not known yet
  kVoid,
  kBool,
  kInt,
  kFloat,
  kEnum,
  kPointer,
  kArray,
  kString,
  kBuffer,
  kStruct,
  kTuple,
  kRecord,
  // What a map aggregates.
  kCount,
  kSum,
  kMin,
  kMax,
  kAvg,
  kStats,
  kHist,
  kLhist,
  kTseries,
  // Values only the reader understands.
  kUserStack,
  kKernelStack,
  kUserSymbol,
  kKernelSymbol,
  kInet,
  kMacAddress,
  kTimestamp,
  kUsername,
  kCgroupPath,
  kStrerror,
  kSignalName,
  // Names that only certain functions take: perf, monotonic, curr_ns.
  kMode,
};
// clang-format on

// Frames that ustack and kstack take where nobody says how many.
constexpr uint64_t kDefaultStackDepth = 127;

// How a stack is shown.
enum class StackMode : uint8_t { kBpftrace, kPerf, kRaw, kBuildId };

enum class AddressSpace : uint8_t { kNone, kUser, kKernel };

struct TypeField;

class Type {
 public:
  Type() = default;

  static Type none() { return {}; }
  static Type void_type() { return Type(TypeKind::kVoid, 0); }
  static Type boolean() { return Type(TypeKind::kBool, 1); }
  static Type integer(unsigned bits, bool is_signed);
  static Type int8() { return integer(8, true); }
  static Type int32() { return integer(32, true); }
  static Type int64() { return integer(64, true); }
  static Type uint8() { return integer(8, false); }
  static Type uint32() { return integer(32, false); }
  static Type uint64() { return integer(64, false); }
  static Type floating(unsigned bits) { return Type(TypeKind::kFloat, bits / 8, true); }
  // `bytes` includes the NUL; 0: any length ("string" without a size).
  static Type string(uint64_t bytes) { return Type(TypeKind::kString, bytes); }
  static Type buffer(uint64_t bytes) { return Type(TypeKind::kBuffer, bytes); }
  static Type pointer(Type to, AddressSpace space = AddressSpace::kNone);
  // C++'s T&: a pointer that is read through wherever it is named.
  static Type reference(Type to, AddressSpace space = AddressSpace::kNone);
  static Type array(Type of, uint64_t count, uint64_t element_size);
  // "struct foo", "union bar": the name as C spells it; the size from the TypeSource.
  static Type structure(std::string name, uint64_t size);
  static Type enumeration(std::string name, uint64_t size, bool is_signed);
  static Type tuple(const std::vector<Type>& elements);
  static Type record(std::vector<std::pair<std::string, Type>> fields);
  // One of the aggregate or opaque kinds.
  static Type opaque(TypeKind kind, uint64_t size = 8, bool is_signed = true) {
    return Type(kind, size, is_signed);
  }

  // Of up to `depth` addresses: 16 bytes of ids and count, then the addresses. Shown as `mode` says.
  static Type stack(TypeKind kind, uint64_t depth, StackMode mode = StackMode::kBpftrace) {
    Type type(kind, 16 + 8 * depth);
    type.count_ = uint64_t(mode);
    return type;
  }

  TypeKind kind() const { return kind_; }
  uint64_t size() const { return size_; }
  bool is_signed() const { return signed_; }
  AddressSpace address_space() const { return space_; }
  Type in_space(AddressSpace space) const;

  bool is(TypeKind kind) const { return kind_ == kind; }
  bool is_reference() const { return reference_; }
  bool known() const { return kind_ != TypeKind::kNone; }
  bool is_integer() const { return kind_ == TypeKind::kInt || kind_ == TypeKind::kEnum; }
  bool is_scalar() const { return is_integer() || kind_ == TypeKind::kBool || kind_ == TypeKind::kPointer; }
  bool is_aggregate() const { return kind_ >= TypeKind::kCount && kind_ <= TypeKind::kTseries; }
  // Aggregates that read as a plain integer in an expression: count, sum, min, max, avg.
  bool casts_to_integer() const { return kind_ >= TypeKind::kCount && kind_ <= TypeKind::kAvg; }
  bool is_stack() const { return kind_ == TypeKind::kUserStack || kind_ == TypeKind::kKernelStack; }

  const Type& pointee() const;                                // kPointer
  const Type& element() const;                                // kArray
  uint64_t count() const { return count_; }                   // kArray
  StackMode stack_mode() const { return StackMode(count_); }  // kUserStack, kKernelStack
  const std::string& name() const;                            // kStruct, kEnum
  const std::vector<TypeField>& fields() const;               // kTuple, kRecord: in order, with offsets

  // As bpftrace spells it in messages: int8, string[16], struct foo *, (int8,string[2]), count_t.
  std::string spell() const;
  bool operator==(const Type& other) const;

 private:
  struct Detail;
  Type(TypeKind kind, uint64_t size, bool is_signed = false) : kind_(kind), signed_(is_signed), size_(size) {}
  Detail& own_detail();
  std::string spell_fields() const;

  TypeKind kind_ = TypeKind::kNone;
  bool signed_ = false;
  bool reference_ = false;
  AddressSpace space_ = AddressSpace::kNone;
  uint64_t size_ = 0;
  uint64_t count_ = 0;
  std::shared_ptr<const Detail> detail_;
};

// A field of a tuple, a record or a struct.
struct TypeField {
  std::string name;  // "0", "1", ... in a tuple
  Type type;
  uint64_t offset = 0;      // in bytes; of the storage unit for a bitfield
  uint32_t bit_offset = 0;  // from the least significant bit of the storage unit
  uint32_t bit_width = 0;   // 0: no bitfield

  bool operator==(const TypeField&) const = default;
};

// What a value's place in memory is a multiple of, in a tuple, a record, a map and on the stack.
uint64_t alignment_of(const Type& type);

struct StructLayout {
  std::string name;  // "struct foo"
  uint64_t size = 0;
  uint64_t alignment = 1;
  std::vector<TypeField> fields;
  // Names that several bases have, so that none is meant; as a message lists them: "Left::v, Right::v".
  std::map<std::string, std::string, std::less<>> unclear;

  const TypeField* find(std::string_view field) const;
};

}  // namespace uscope::lang
