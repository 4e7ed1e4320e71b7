// Mangled names to names people read: C++ (Itanium ABI) and Rust (v0 and legacy, hash left out). Built on
// libiberty, with bounds of its own: a hostile name cannot hang, overflow the stack or fill memory; it just
// does not demangle. Pure; threads may call it at once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace uscope::image {

// Whether the name starts as mangled names do. Cheap; demangle() may still say no.
bool looks_mangled(std::string_view name);

// "ns::f(int) const", "void f<int>(int)", "f(int) [clone .cold]", "core::fmt::write". Nothing: not a mangled
// name.
std::optional<std::string> demangle(std::string_view name);

// The same without return type, parameters and qualifiers behind them: "ns::f", "f<int>", "f [clone
// .part.0]".
std::optional<std::string> demangle_without_parameters(std::string_view name);

// That, from text that is already demangled. A name without a parameter list (a C function, a Rust path)
// stays as it is. Parameters of enclosing functions stay: "main(int, char**)::{lambda(int)#1}::operator()".
std::string strip_parameters(std::string_view demangled);

}  // namespace uscope::image
