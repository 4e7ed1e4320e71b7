// Hand-made types for tests: a table that hands out TypeIds and resolves them.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "symbols/type_spelling.h"

namespace uscope::symbols {

class TypeTable {
 public:
  using Type = image::Type;
  using TypeId = image::TypeId;
  using Kind = Type::Kind;

  explicit TypeTable(image::Language language) : language_(language) { types_.emplace_back(); }

  TypeId add(Type type) {
    if (type.language == image::Language::Unknown) type.language = language_;
    types_.push_back(std::move(type));
    return {types_.size() - 1};
  }
  TypeId base(std::string name, uint64_t size, Kind kind = Kind::Integer, bool is_signed = true) {
    return add({.kind = kind, .name = std::move(name), .size = size, .is_signed = is_signed});
  }
  TypeId named(Kind kind, std::string name, uint64_t size = 0) {
    return add({.kind = kind, .name = name, .qualified = name, .size = size});
  }
  TypeId derived(Kind kind, TypeId target, uint64_t size = 8) {
    return add({.kind = kind, .size = size, .target = target});
  }
  TypeId pointer(TypeId target) { return derived(Kind::Pointer, target); }
  TypeId constant(TypeId target) { return derived(Kind::Const, target, at(target).size); }
  TypeId array(TypeId target, std::vector<std::optional<uint64_t>> dimensions) {
    uint64_t size = at(target).size;
    for (auto d : dimensions) size *= d.value_or(0);
    return add({.kind = Kind::Array, .size = size, .target = target, .dimensions = std::move(dimensions)});
  }
  TypeId function(TypeId result, std::vector<TypeId> parameters, bool variadic = false) {
    return add({.kind = Kind::Function,
                .target = result,
                .parameters = std::move(parameters),
                .is_variadic = variadic});
  }
  Type& at(TypeId id) { return types_[id.value]; }

  image::TypeLookup resolver() const {
    return [this](TypeId id) -> const Type& { return types_[id.value < types_.size() ? id.value : 0]; };
  }

 private:
  image::Language language_;
  std::deque<Type> types_;
};

}  // namespace uscope::symbols
