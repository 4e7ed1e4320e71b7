#include "image/types.h"

namespace uscope::image {

bool is_alias(Type::Kind kind) {
  using Kind = Type::Kind;
  return kind == Kind::Typedef || kind == Kind::Const || kind == Kind::Volatile || kind == Kind::Restrict ||
         kind == Kind::Atomic;
}

const Type& strip_aliases(const Type& type, const TypeLookup& lookup) {
  constexpr int longest_chain = 64;
  const Type* now = &type;
  for (int hop = 0; hop < longest_chain && is_alias(now->kind); hop++) now = &lookup(now->target);
  return *now;
}

}  // namespace uscope::image
