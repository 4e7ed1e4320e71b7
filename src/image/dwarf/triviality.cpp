#include "image/dwarf/triviality.h"

#include <dwarf.h>

namespace uscope::image::dwarf {
namespace {

constexpr int max_depth = 16;
// Broken debug info may have a class inherit itself, several times.
constexpr size_t max_classes = 100'000;

bool is_class(const Die& die) {
  return die.tag() == DW_TAG_class_type || die.tag() == DW_TAG_structure_type ||
         die.tag() == DW_TAG_union_type;
}

// Through typedefs, qualifiers and arrays.
Die peel(Die die) {
  for (int hop = 0; die && hop < 64; hop++) {
    if (auto signature = die.attr(DW_AT_signature)) {
      if (Die real = die.unit->reference(*signature)) die = real;
    }
    uint16_t tag = die.tag();
    bool is_wrapper = tag == DW_TAG_typedef || tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
                      tag == DW_TAG_array_type;
    if (!is_wrapper) return die;
    die = die.reference(DW_AT_type);
  }
  return {};
}

// A constructor that takes one reference to its own class: copy or move.
bool copies(const Die& method, const Die& owner) {
  int count = 0;
  bool own = false;
  for_each_child(method, [&](const Die& child) {
    if (child.tag() != DW_TAG_formal_parameter || child.flag(DW_AT_artificial)) return true;
    count++;
    Die type = child.reference(DW_AT_type);
    bool is_reference =
        type && (type.tag() == DW_TAG_reference_type || type.tag() == DW_TAG_rvalue_reference_type);
    if (count == 1 && is_reference) {
      Die target = peel(type.reference(DW_AT_type));
      own = target && (target.offset == owner.offset || name_of(target) == name_of(owner));
    }
    return count < 3;
  });
  return own && count == 1;
}

// `judged` counts the classes that were looked at.
std::optional<bool> judge(const Die& die, int depth, size_t& judged) {
  if (depth > max_depth || ++judged > max_classes || die.flag(DW_AT_declaration)) return {};
  if (auto convention = die.number(DW_AT_calling_convention)) {
    if (*convention == DW_CC_pass_by_reference) return true;
    if (*convention == DW_CC_pass_by_value) return false;
  }
  std::string_view name = name_of(die);
  std::string_view plain = name.substr(0, name.find('<'));
  bool by_reference = false, unknown = false;
  int copy_constructors = 0, deleted = 0, children = 0;
  for_each_child(die, [&](const Die& child) {
    if (child.tag() == DW_TAG_subprogram) {
      std::string_view method = name_of(child);
      bool is_virtual = child.number(DW_AT_virtuality).value_or(0) != 0;
      bool is_default =
          child.flag(DW_AT_artificial) || child.number(DW_AT_defaulted).value_or(0) == DW_DEFAULTED_in_class;
      bool is_copy = (method == name || method == plain) && copies(child, die);
      copy_constructors += is_copy;
      deleted += is_copy && child.flag(DW_AT_deleted);
      by_reference |=
          is_virtual || ((method.starts_with('~') || is_copy) && !is_default && !child.flag(DW_AT_deleted));
    } else if (child.tag() == DW_TAG_inheritance || child.tag() == DW_TAG_member) {
      if (child.flag(DW_AT_external) || child.flag(DW_AT_declaration)) return true;  // static
      by_reference |= child.tag() == DW_TAG_inheritance && child.number(DW_AT_virtuality).value_or(0) != 0;
      Die type = peel(child.reference(DW_AT_type));
      if (type && is_class(type)) {
        auto inner = judge(type, depth + 1, judged);
        by_reference |= inner.value_or(false);
        unknown |= !inner;
      }
    }
    return ++children < 100000 && !by_reference;
  });
  if (by_reference) return true;
  if (copy_constructors > 0 && deleted == copy_constructors) return true;
  return unknown ? std::nullopt : std::optional(false);
}

}  // namespace

std::optional<bool> is_passed_by_reference(const Die& class_die) {
  size_t judged = 0;
  return judge(class_die, 0, judged);
}

}  // namespace uscope::image::dwarf
