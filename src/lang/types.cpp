#include "lang/types.h"

#include <fmt/format.h>

#include <algorithm>

namespace uscope::lang {

struct Type::Detail {
  Type inner;  // pointee or element
  std::string name;
  std::vector<TypeField> fields;
};

uint64_t alignment_of(const Type& type) {
  switch (type.kind()) {
    case TypeKind::kBool:
    case TypeKind::kInt:
    case TypeKind::kEnum:
    case TypeKind::kFloat:
      return std::clamp<uint64_t>(type.size(), 1, 8);
    case TypeKind::kString:
    case TypeKind::kMacAddress:
      return 1;
    case TypeKind::kBuffer:
      return 4;
    case TypeKind::kArray:
      return alignment_of(type.element());
    case TypeKind::kTuple:
    case TypeKind::kRecord: {
      uint64_t most = 1;
      for (const TypeField& field : type.fields()) most = std::max(most, alignment_of(field.type));
      return most;
    }
    default:
      return 8;
  }
}

namespace {

// Fields in order at their natural alignment; returns the size, padded at the end.
uint64_t lay_out(std::vector<TypeField>& fields) {
  uint64_t size = 0, most = 1;
  for (TypeField& field : fields) {
    uint64_t alignment = alignment_of(field.type);
    most = std::max(most, alignment);
    size = (size + alignment - 1) / alignment * alignment;
    field.offset = size;
    size += field.type.size();
  }
  return (size + most - 1) / most * most;
}

}  // namespace

Type::Detail& Type::own_detail() {
  auto made = detail_ ? std::make_shared<Detail>(*detail_) : std::make_shared<Detail>();
  detail_ = made;
  return *made;
}

Type Type::integer(unsigned bits, bool is_signed) { return Type(TypeKind::kInt, bits / 8, is_signed); }

Type Type::pointer(Type to, AddressSpace space) {
  Type type(TypeKind::kPointer, 8);
  type.space_ = space;
  type.own_detail().inner = std::move(to);
  return type;
}

Type Type::reference(Type to, AddressSpace space) {
  Type type = pointer(std::move(to), space);
  type.reference_ = true;
  return type;
}

Type Type::array(Type of, uint64_t count, uint64_t element_size) {
  Type type(TypeKind::kArray, count * element_size);
  type.count_ = count;
  type.own_detail().inner = std::move(of);
  return type;
}

Type Type::structure(std::string name, uint64_t size) {
  Type type(TypeKind::kStruct, size);
  type.own_detail().name = std::move(name);
  return type;
}

Type Type::enumeration(std::string name, uint64_t size, bool is_signed) {
  Type type(TypeKind::kEnum, size, is_signed);
  type.own_detail().name = std::move(name);
  return type;
}

Type Type::tuple(const std::vector<Type>& elements) {
  Type type(TypeKind::kTuple, 0);
  auto& fields = type.own_detail().fields;
  for (const Type& element : elements) fields.push_back(TypeField{fmt::to_string(fields.size()), element});
  type.size_ = lay_out(fields);
  return type;
}

Type Type::record(std::vector<std::pair<std::string, Type>> named) {
  Type type(TypeKind::kRecord, 0);
  auto& fields = type.own_detail().fields;
  for (auto& [name, field_type] : named) fields.push_back(TypeField{std::move(name), std::move(field_type)});
  type.size_ = lay_out(fields);
  return type;
}

Type Type::in_space(AddressSpace space) const {
  Type copy = *this;
  copy.space_ = space;
  return copy;
}

const Type& Type::pointee() const {
  static const Type kNothing;
  return detail_ ? detail_->inner : kNothing;
}

const Type& Type::element() const { return pointee(); }

const std::string& Type::name() const {
  static const std::string kNothing;
  return detail_ ? detail_->name : kNothing;
}

const std::vector<TypeField>& Type::fields() const {
  static const std::vector<TypeField> kNothing;
  return detail_ ? detail_->fields : kNothing;
}

std::string Type::spell_fields() const {
  bool record = kind_ == TypeKind::kRecord;
  std::string out;
  for (const TypeField& field : fields()) {
    if (!out.empty()) out += record ? ", " : ",";
    out += record ? fmt::format(".{} = {}", field.name, field.type.spell()) : field.type.spell();
  }
  return record ? "record { " + out + " }" : "(" + out + ")";
}

std::string Type::spell() const {
  switch (kind_) {
    case TypeKind::kNone:
      return "none";
    case TypeKind::kVoid:
      return "void";
    case TypeKind::kBool:
      return "bool";
    case TypeKind::kInt:
      return fmt::format("{}int{}", signed_ ? "" : "u", size_ * 8);
    case TypeKind::kFloat:
      return size_ == 4 ? "float" : "double";
    case TypeKind::kEnum:
    case TypeKind::kStruct:
      return name();
    case TypeKind::kPointer:
      return pointee().spell() + " *";
    case TypeKind::kArray:
      return fmt::format("{}[{}]", element().spell(), count_);
    case TypeKind::kString:
      return size_ == 0 ? "string" : fmt::format("string[{}]", size_);
    case TypeKind::kBuffer:
      return size_ == 0 ? "buffer" : fmt::format("buffer[{}]", size_);
    case TypeKind::kTuple:
    case TypeKind::kRecord:
      return spell_fields();
    case TypeKind::kCount:
      return "count_t";
    case TypeKind::kSum:
      return signed_ ? "sum_t" : "usum_t";
    case TypeKind::kMin:
      return signed_ ? "min_t" : "umin_t";
    case TypeKind::kMax:
      return signed_ ? "max_t" : "umax_t";
    case TypeKind::kAvg:
      return signed_ ? "avg_t" : "uavg_t";
    case TypeKind::kStats:
      return signed_ ? "stats_t" : "ustats_t";
    case TypeKind::kHist:
      return "hist_t";
    case TypeKind::kLhist:
      return "lhist_t";
    case TypeKind::kTseries:
      return "tseries_t";
    case TypeKind::kUserStack:
      return "ustack";
    case TypeKind::kKernelStack:
      return "kstack";
    case TypeKind::kUserSymbol:
      return "usym_t";
    case TypeKind::kKernelSymbol:
      return "ksym_t";
    case TypeKind::kInet:
      return "inet";
    case TypeKind::kMacAddress:
      return "mac_address";
    case TypeKind::kTimestamp:
      return "timestamp";
    case TypeKind::kUsername:
      return "username";
    case TypeKind::kCgroupPath:
      return "cgroup_path_t";
    case TypeKind::kStrerror:
      return "strerror";
    case TypeKind::kSignalName:
      return "signal_name";
    case TypeKind::kMode:
      return "mode";
  }
  return "none";
}

bool Type::operator==(const Type& other) const {
  if (kind_ != other.kind_ || size_ != other.size_ || signed_ != other.signed_ || count_ != other.count_ ||
      reference_ != other.reference_) {
    return false;
  }
  if (detail_ == other.detail_) return true;
  return pointee() == other.pointee() && name() == other.name() && fields() == other.fields();
}

const TypeField* StructLayout::find(std::string_view field) const {
  auto found = std::ranges::find(fields, field, &TypeField::name);
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace uscope::lang
