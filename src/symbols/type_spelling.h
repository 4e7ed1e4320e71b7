// A type's name as its language spells it: `const char *`, `std::vector<int>`, `&str`, `[]dns.Question`.
// Works on plain Type values through a resolver, so it needs no debug info at hand and owns nothing. Names
// that compilers write out in full are spelled as a user would write them: std::string, not
// basic_string<char, …>; Option<Box<T>> (and the other names of Rust's prelude) without their paths and
// default allocators. Cyclic or absurdly deep types come out shortened with `...`, never endless. Prints no
// definitions: see type_layout.h.
#pragma once

#include <string>
#include <string_view>

#include "image/types.h"

namespace uscope::symbols {

enum class TypeStyle {
  Source,    // as in source code: `const char *`, and `const char *name` with a name
  Bpftrace,  // bpftrace -lv: the type without blanks before * and &, then the name: `const char* name`
  Perf,      // perf probe -V: no qualifiers, no spaces: `char*`, `struct addrinfo**`
};

std::string spell_type(image::TypeId id, const image::TypeLookup& resolve,
                       TypeStyle style = TypeStyle::Source);

// A variable or member with its type: `int (*handler)(void *)`, Go's `name []byte`, Rust's `name: &str`;
// bpftrace's `char* name`; perf's type and name with a tab between them.
std::string spell_declaration(image::TypeId id, std::string_view name, const image::TypeLookup& resolve,
                              TypeStyle style = TypeStyle::Source);

// The language a type belongs to; a derived type without its own (T*, T[4]) takes its target's.
image::Language language_of(image::TypeId id, const image::TypeLookup& resolve);

}  // namespace uscope::symbols
