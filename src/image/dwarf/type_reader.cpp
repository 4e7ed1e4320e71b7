#include "image/dwarf/type_reader.h"

#include <dwarf.h>

#include "image/dwarf/go_attributes.h"
#include "image/dwarf/triviality.h"

namespace uscope::image::dwarf {
namespace {

using Kind = Type::Kind;
constexpr int max_chain = 64;
constexpr size_t max_children = 1'000'000;
constexpr unsigned offset_bits = 39;

std::optional<Kind> simple_kind(uint16_t tag) {
  switch (tag) {
    case DW_TAG_pointer_type:
      return Kind::Pointer;
    case DW_TAG_reference_type:
      return Kind::Reference;
    case DW_TAG_rvalue_reference_type:
      return Kind::RvalueReference;
    case DW_TAG_typedef:
    case DW_TAG_template_alias:
      return Kind::Typedef;
    case DW_TAG_const_type:
    case DW_TAG_immutable_type:
      return Kind::Const;
    case DW_TAG_volatile_type:
      return Kind::Volatile;
    case DW_TAG_restrict_type:
      return Kind::Restrict;
    case DW_TAG_atomic_type:
      return Kind::Atomic;
    case DW_TAG_structure_type:
      return Kind::Struct;
    case DW_TAG_class_type:
    case DW_TAG_interface_type:
      return Kind::Class;
    case DW_TAG_union_type:
      return Kind::Union;
    case DW_TAG_enumeration_type:
      return Kind::Enum;
    case DW_TAG_array_type:
      return Kind::Array;
    case DW_TAG_subroutine_type:
      return Kind::Function;
    case DW_TAG_ptr_to_member_type:
      return Kind::MemberPointer;
    case DW_TAG_base_type:
      return Kind::Integer;
    case DW_TAG_unspecified_type:
      return Kind::Unspecified;
    default:
      return {};
  }
}

// How many elements one subrange has.
std::optional<uint64_t> count_of(const Die& range) {
  if (auto count = range.number(DW_AT_count)) return *count;
  auto upper = range.attr(DW_AT_upper_bound);
  if (!upper || !upper->is_constant()) return {};
  uint64_t lower = range.number(DW_AT_lower_bound).value_or(0);
  uint64_t count = upper->value - lower + 1;  // an upper bound of -1: no elements
  if (upper->form == DW_FORM_data4 && upper->value == 0xffffffff) return 0;
  return count > (uint64_t(1) << 48) ? std::nullopt : std::optional(count);
}

std::vector<std::optional<uint64_t>> dimensions_of(const Die& array) {
  std::vector<std::optional<uint64_t>> dimensions;
  for_each_child(array, [&](const Die& child) {
    if (child.tag() == DW_TAG_subrange_type || child.tag() == DW_TAG_enumeration_type) {
      dimensions.push_back(count_of(child));
    }
    return dimensions.size() < 64;
  });
  if (dimensions.empty()) dimensions.emplace_back();
  return dimensions;
}

// DW_AT_data_member_location: a number, or an expression that adds one.
std::optional<uint64_t> member_offset(const Die& die) {
  auto attr = die.attr(DW_AT_data_member_location);
  if (!attr) return 0;
  if (attr->is_constant()) return attr->value;
  if (!attr->is_block() || attr->block.empty()) return {};
  ByteReader reader(attr->block);
  uint8_t op = reader.u8();
  if (op != DW_OP_plus_uconst && op != DW_OP_constu) return {};
  uint64_t value = reader.uleb128();
  if (!reader || !reader.at_end()) return {};
  return value;
}

}  // namespace

TypeId TypeReader::id_of(const Die& die) {
  if (!die) return {};
  Die target = die;
  if (auto signature = die.attr(DW_AT_signature)) {
    if (Die real = die.unit->reference(*signature)) target = real;
  }
  return {uint64_t(target.unit->file->index + 1) << (offset_bits + 1) |
          uint64_t(target.unit->in_types) << offset_bits | target.offset};
}

Die TypeReader::die_of(TypeId id) const {
  if (!id) return {};
  const File* file = store_.file(uint32_t(id.value >> (offset_bits + 1)) - 1);
  if (!file) return {};
  uint64_t offset = id.value & ((uint64_t(1) << offset_bits) - 1);
  const Unit* unit = file->unit_at(offset, (id.value >> offset_bits) & 1);
  return unit ? unit->die_at(offset) : Die();
}

TypeId TypeReader::type_attr(const Die& die, uint16_t name) {
  return id_of(die.inherited_reference(name ? name : uint16_t(DW_AT_type)));
}

bool TypeReader::is_passed_by_address(TypeId id) {
  auto lookup = [this](TypeId of) -> const Type& { return get(of); };
  return strip_aliases(get(id), lookup).passed_by_reference.value_or(false);
}

uint64_t TypeReader::size_of(const Die& start) {
  Die die = start;
  uint64_t factor = 1;
  for (int hop = 0; die && hop < max_chain; hop++) {
    if (auto signature = die.attr(DW_AT_signature)) {
      if (Die real = die.unit->reference(*signature)) die = real;
    }
    uint64_t size = 0;
    bool known = true;
    if (auto bytes = die.number(DW_AT_byte_size)) {
      size = *bytes;
    } else if (die.tag() == DW_TAG_pointer_type || die.tag() == DW_TAG_reference_type ||
               die.tag() == DW_TAG_rvalue_reference_type) {
      size = 8;
    } else if (die.tag() == DW_TAG_ptr_to_member_type) {
      Die target = die.reference(DW_AT_type);
      size = target && target.tag() == DW_TAG_subroutine_type ? 16 : 8;
    } else {
      known = false;
    }
    if (known) return __builtin_mul_overflow(size, factor, &size) ? 0 : size;
    if (die.tag() == DW_TAG_array_type) {
      for (auto count : dimensions_of(die)) {
        if (!count || __builtin_mul_overflow(factor, *count, &factor)) return 0;
      }
    } else if (die.tag() == DW_TAG_structure_type || die.tag() == DW_TAG_class_type ||
               die.tag() == DW_TAG_union_type || die.tag() == DW_TAG_subroutine_type) {
      return 0;
    }
    die = die.reference(DW_AT_type);
  }
  return 0;
}

std::string TypeReader::decl_file(const Die& die) {
  Die holder;
  auto index = die.inherited(DW_AT_decl_file, &holder);
  return index ? file_name(*holder.unit, index->value) : std::string();
}

std::string TypeReader::file_name(const Unit& unit, uint64_t index) {
  auto [found, is_new] = lines_.try_emplace(&unit);
  if (is_new) found->second = LineProgram::of(unit);
  return found->second ? found->second->file_name(index) : std::string();
}

const Type& TypeReader::get(TypeId id) {
  auto& slot = types_[id.value];
  if (slot) return *slot;
  slot = std::make_unique<Type>();
  Type& type = *slot;
  Die die = die_of(id);
  if (!die) {
    if (id) type.kind = Kind::Unspecified;
    return type;
  }
  fill(type, die);
  return type;
}

void TypeReader::fill(Type& type, const Die& die) {
  type.kind = simple_kind(die.tag()).value_or(Kind::Unspecified);
  type.language = die.unit->facts().language;
  type.name = name_of(die);
  type.size = size_of(die);
  type.alignment = die.number(DW_AT_alignment).value_or(0);
  type.is_declaration = die.flag(DW_AT_declaration);
  type.target = type_attr(die);
  type.decl_line = uint32_t(die.inherited(DW_AT_decl_line).value_or(Attr{}).value);
  if (type.decl_line != 0) type.decl_file = decl_file(die);
  switch (type.kind) {
    case Kind::Integer:
      fill_base(type, die);
      break;
    case Kind::Struct:
    case Kind::Class:
    case Kind::Union:
      fill_members(type, die);
      break;
    case Kind::Enum:
      fill_enum(type, die);
      break;
    case Kind::Array:
      type.dimensions = dimensions_of(die);
      type.is_vector = die.flag(DW_AT_GNU_vector);
      break;
    case Kind::Function:
      fill_function(type, die);
      break;
    case Kind::MemberPointer:
      type.key = type_attr(die, DW_AT_containing_type);
      break;
    default:
      break;
  }
  if (type.language == Language::Go) {
    fill_go(type, die);
  } else if (!type.name.empty()) {
    bool is_builtin = die.tag() == DW_TAG_base_type || die.tag() == DW_TAG_unspecified_type;
    type.qualified = is_builtin ? type.name : qualified_name(die);
  }
}

void TypeReader::fill_base(Type& type, const Die& die) {
  switch (die.number(DW_AT_encoding).value_or(0)) {
    case DW_ATE_boolean:
      type.kind = Kind::Bool;
      break;
    case DW_ATE_float:
    case DW_ATE_decimal_float:
      type.kind = Kind::Float;
      break;
    case DW_ATE_complex_float:
      type.kind = Kind::Complex;
      break;
    case DW_ATE_signed_char:
    case DW_ATE_unsigned_char:
      type.kind = Kind::Character;
      break;
    case DW_ATE_UTF:
      type.kind = Kind::Character;
      break;
    default:
      break;
  }
  uint64_t encoding = die.number(DW_AT_encoding).value_or(0);
  type.is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
  // Rust spells `()` and `!` as base types of no size.
  if (type.size == 0 && type.language == Language::Rust) type.kind = Kind::Void;
}

Member TypeReader::read_member(const Die& die) {
  Member member;
  member.name = name_of(die);
  member.type = type_attr(die);
  member.is_artificial = die.flag(DW_AT_artificial);
  member.is_embedded = die.flag(DW_AT_go_embedded_field);
  bool is_static = die.tag() == DW_TAG_variable || (die.flag(DW_AT_external) && die.flag(DW_AT_declaration));
  member.is_static = is_static && die.tag() != DW_TAG_inheritance;
  auto offset = member_offset(die);
  member.offset = offset.value_or(0);
  if (die.tag() == DW_TAG_inheritance) {
    member.is_base = true;
    member.is_virtual_base = die.number(DW_AT_virtuality).value_or(0) == DW_VIRTUALITY_virtual || !offset;
    if (member.is_virtual_base) member.offset = 0;
    if (Die base = die.reference(DW_AT_type)) member.name = name_of(base);
    return member;
  }
  if (auto bits = die.number(DW_AT_bit_size)) {
    member.bit_size = uint32_t(*bits);
    if (auto from_start = die.number(DW_AT_data_bit_offset)) {
      member.bit_offset = *from_start;
      member.offset = *from_start / 8;
    } else {
      // DWARF 3: counted from the most significant bit of a storage unit.
      Die type = die.reference(DW_AT_type);
      uint64_t storage = 8 * die.number(DW_AT_byte_size).value_or(type ? size_of(type) : 0);
      uint64_t from_top = die.number(DW_AT_bit_offset).value_or(0);
      member.bit_offset = member.offset * 8 + storage - from_top - *bits;
    }
  }
  return member;
}

VariantPart TypeReader::read_variant_part(const Die& die) {
  VariantPart part;
  if (Die discriminant = die.reference(DW_AT_discr)) part.discriminant = read_member(discriminant);
  for_each_child(die, [&](const Die& child) {
    if (child.tag() != DW_TAG_variant) return true;
    Variant variant;
    if (auto value = child.attr(DW_AT_discr_value)) {
      uint64_t number = value->value;
      if (value->form == DW_FORM_data16 && value->block.size() == 16)
        std::memcpy(&number, value->block.data(), 8);
      variant.discriminants.push_back(number);
    }
    if (auto list = child.attr(DW_AT_discr_list); list && list->is_block()) {
      ByteReader reader(list->block);
      while (reader && !reader.at_end()) {
        bool is_range = reader.u8() == DW_DSC_range;
        uint64_t low = reader.uleb128();
        if (!is_range) {
          variant.discriminants.push_back(low);
        } else {
          variant.ranges.emplace_back(low, reader.uleb128());
        }
      }
    }
    for_each_child(child, [&](const Die& member) {
      if (member.tag() != DW_TAG_member) return true;
      Member read = read_member(member);
      variant.name = read.name;
      variant.type = read.type;
      variant.offset = read.offset;
      return false;
    });
    part.variants.push_back(std::move(variant));
    return part.variants.size() < max_children;
  });
  return part;
}

void TypeReader::read_template_argument(Type& type, const Die& die, int depth) {
  if (die.tag() == DW_TAG_GNU_template_parameter_pack) {
    for_each_child(die, [&](const Die& child) {
      if (depth < 4) read_template_argument(type, child, depth + 1);
      return type.template_arguments.size() < 10000;
    });
    return;
  }
  if (die.tag() != DW_TAG_template_type_parameter && die.tag() != DW_TAG_template_value_parameter) return;
  TemplateArgument argument;
  argument.name = name_of(die);
  argument.type = type_attr(die);
  if (die.tag() == DW_TAG_template_value_parameter) {
    if (auto value = die.attr(DW_AT_const_value); value && value->is_constant())
      argument.value = value->as_signed();
  }
  type.template_arguments.push_back(std::move(argument));
}

void TypeReader::fill_members(Type& type, const Die& die) {
  if (type.language == Language::C) type.passed_by_reference = false;
  // The partial units that dwz makes do not say their language; what C can declare is passed by value.
  if (type.language == Language::Cpp || type.language == Language::Unknown) {
    type.passed_by_reference = is_passed_by_reference(die);
  }
  std::vector<Member> members;
  for_each_child(die, [&](const Die& child) {
    switch (child.tag()) {
      case DW_TAG_inheritance:
        type.members.push_back(read_member(child));
        break;
      case DW_TAG_member:
      case DW_TAG_variable:
        members.push_back(read_member(child));
        break;
      case DW_TAG_variant_part:
        type.variant_parts.push_back(read_variant_part(child));
        break;
      default:
        read_template_argument(type, child, 0);
    }
    return members.size() < max_children;
  });
  type.members.insert(type.members.end(), std::make_move_iterator(members.begin()),
                      std::make_move_iterator(members.end()));
}

void TypeReader::fill_enum(Type& type, const Die& die) {
  type.is_enum_class = die.flag(DW_AT_enum_class);
  if (Die underlying = die.reference(DW_AT_type)) {
    for (int hop = 0; underlying && underlying.tag() != DW_TAG_base_type && hop < max_chain; hop++) {
      underlying = underlying.reference(DW_AT_type);
    }
    uint64_t encoding = underlying ? underlying.number(DW_AT_encoding).value_or(0) : 0;
    type.is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
  }
  for_each_child(die, [&](const Die& child) {
    if (child.tag() != DW_TAG_enumerator) return true;
    Enumerator enumerator{std::string(name_of(child)), 0};
    if (auto value = child.attr(DW_AT_const_value)) {
      enumerator.value = value->as_signed();
      if (value->form == DW_FORM_sdata && enumerator.value < 0 && !type.target) type.is_signed = true;
    }
    type.enumerators.push_back(std::move(enumerator));
    return type.enumerators.size() < max_children;
  });
}

void TypeReader::fill_function(Type& type, const Die& die) {
  for_each_child(die, [&](const Die& child) {
    if (child.tag() == DW_TAG_formal_parameter) type.parameters.push_back(type_attr(child));
    if (child.tag() == DW_TAG_unspecified_parameters) type.is_variadic = true;
    return type.parameters.size() < 10000;
  });
}

void TypeReader::fill_go(Type& type, const Die& die) {
  type.qualified = type.name;
  type.name = std::string(unqualified_go_name(type.name));
  auto kind = die.number(DW_AT_go_kind);
  if (!kind) return;
  TypeId element = type_attr(die, DW_AT_go_elem);
  auto as_pointer = [&] {
    // A map or channel is a pointer to what the runtime keeps.
    Member pointer;
    pointer.name = "ptr";
    pointer.type = type.target;
    type.members.assign(1, pointer);
    type.size = 8;
  };
  switch (*kind & 31) {
    case go_kind_string:
      type.kind = Kind::GoString;
      break;
    case go_kind_slice:
      type.kind = Kind::GoSlice;
      type.target = element;
      break;
    case go_kind_map:
      type.kind = Kind::GoMap;
      as_pointer();
      type.key = type_attr(die, DW_AT_go_key);
      type.target = element;
      break;
    case go_kind_chan:
      type.kind = Kind::GoChannel;
      as_pointer();
      type.target = element;
      break;
    case go_kind_interface: {
      type.kind = Kind::GoInterface;
      Die layout = die;
      for (int hop = 0; layout && layout.tag() == DW_TAG_typedef && hop < max_chain; hop++) {
        layout = layout.reference(DW_AT_type);
      }
      if (layout) fill_members(type, layout);
      type.target = {};
      break;
    }
    case go_kind_func:
      // A function value is a pointer to its closure, whatever the DIE's tag.
      if (type.kind == Kind::Function) type.size = 8;
      break;
    default:
      break;
  }
}

}  // namespace uscope::image::dwarf
