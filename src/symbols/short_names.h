// Long names made by compilers, shortened to what a user would write. Pure text work, on names from debug
// info and from demanglers alike. A part is dropped only where it equals the default that the library's own
// declaration gives it, so a shortened name still means the same type. Text that does not parse comes back as
// it is.
#pragma once

#include <string>
#include <string_view>

namespace uscope::symbols {

// `std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >` -> `std::string`,
// `std::vector<int, std::allocator<int> >` -> `std::vector<int>`; inline ABI namespaces go, `> >` closes up.
std::string short_cpp_name(std::string_view name);

// `core::option::Option<alloc::boxed::Box<T, alloc::alloc::Global>>` -> `Option<Box<T>>`.
std::string short_rust_name(std::string_view name);

// `[]github.com/miekg/dns.Question` -> `[]dns.Question`, `map[string]gopkg.in/yaml%2ev2.Node` ->
// `map[string]yaml.v2.Node`.
std::string short_go_name(std::string_view name);

}  // namespace uscope::symbols
