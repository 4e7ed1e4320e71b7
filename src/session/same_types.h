// Whether two types, of one program or of two, are the same to a script: laid out the same, and leading only
// to types that are the same as well. Two units may have a struct of one name that is another one in each.
// Remembers what it found to be the same. One thread.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "session/type_table.h"

namespace uscope::session {

// A type and who knows it.
struct NamedType {
  const TypeTable* table = nullptr;
  image::TypeId type;
};

class SameTypes {
 public:
  bool same(const NamedType& a, const NamedType& b);

 private:
  using Pair = std::tuple<const TypeTable*, uint64_t, const TypeTable*, uint64_t>;

  // Compares what the two say themselves; notes in `waiting_` what has to be the same, too.
  bool alike(NamedType a, NamedType b);
  bool alike_members(const NamedType& a, const image::Type& x, const NamedType& b, const image::Type& y);
  void also(const NamedType& a, image::TypeId of_a, const NamedType& b, image::TypeId of_b);

  std::set<Pair> proven_;
  std::set<Pair> seen_;
  std::vector<std::pair<NamedType, NamedType>> waiting_;
};

}  // namespace uscope::session
