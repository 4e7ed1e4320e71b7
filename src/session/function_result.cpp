#include "session/function_result.h"

#include "image/abi_rust.h"
#include "image/abi_sysv.h"
#include "image/go/build_info.h"
#include "image/go/pclntab.h"

namespace uscope::session {
namespace {

using image::Language;
using image::Location;
using image::LocOp;
using image::LocPiece;
using image::Type;
using image::TypeId;
using image::dwarf::Function;
using symbols::ImageSymbols;

constexpr uint32_t kRax = 0;  // DWARF's number
constexpr int kFirstInRegisters = 17;

Location in_rax() {
  return {{{.kind = LocPiece::Kind::Register, .ops = {{LocOp::Code::Register, kRax, 0}}}}};
}

image::TypeLookup types_of(const ImageSymbols& image) {
  return [&image](TypeId id) -> const Type& { return image.debug_info().type(id); };
}

const image::GoFunction* go_function(const ImageSymbols& image, ImageAddr entry) {
  const image::Pclntab* table = image.is_elf() ? image.pclntab() : nullptr;
  return table ? table->function_at(entry) : nullptr;
}

bool is_go_assembly(const ImageSymbols& image, ImageAddr entry) {
  const image::GoFunction* function = go_function(image, entry);
  if (function == nullptr) return false;
  auto lines = image.pclntab()->lines(*function);
  return !lines.empty() && lines.front().file.ends_with(".s");
}

// Assembly may have an entry in the debug info, without types: Go's even as a function of no results.
std::optional<Function> typed_function(const ImageSymbols& image, ImageAddr entry) {
  auto function = image.debug_info().function_head_at(entry);
  if (!function || function->language == Language::Assembly || function->entry != entry) return std::nullopt;
  if (function->language != Language::Go) return function;
  if (is_go_assembly(image, entry)) return std::nullopt;
  return image.debug_info().function_at(entry);  // its results are among the parameters
}

// Where nothing but the code is known. Go has two conventions: code compiled by Go 1.17 and later begins its
// results in rax, as C does; before that, and in assembly at any time, they are on the stack.
Result<Location> untyped_place(const ImageSymbols& image, ImageAddr entry) {
  if (go_function(image, entry) == nullptr) return in_rax();
  if (is_go_assembly(image, entry))
    return fail(
        "is on the stack, where Go's assembly leaves results; the debug info does not say at which place");
  auto built = image::read_go_build_info(image.elf());
  if (built && built->minor_version() != 0 && built->minor_version() < kFirstInRegisters)
    return fail("is on the stack, where " + std::string(built->version) +
                " leaves results; without debug info the place is not known");
  return in_rax();
}

bool is_plain(const Type& type) {
  switch (type.kind) {
    case Type::Kind::Struct:
    case Type::Kind::Class:
    case Type::Kind::Union:
    case Type::Kind::Array:
    case Type::Kind::Complex:
      return false;
    default:
      return true;
  }
}

std::string why_unknown(const Type& type) {
  if (type.kind == Type::Kind::Float || type.kind == Type::Kind::Complex)
    return "is in a floating-point register that probes do not see";
  if (type.language == Language::Rust)
    return "is of a type that Rust's versions and `extern \"C\"` return in different places";
  // Of what else is so large it is known that it is in memory.
  constexpr uint64_t two_registers = 16;
  if (type.size > two_registers && (type.is_vector || type.passed_by_reference))
    return "holds a vector of more than 16 bytes, which may be in a register that probes do not see whole";
  return "is of a type whose class the debug info does not tell, so its registers are not known";
}

// gcc does not write down that a function is Microsoft's, but there the first parameter is in another
// register.
bool is_called_otherwise(const ImageSymbols& image, const Function& function) {
  if (function.has_other_convention) return true;
  auto with_parameters = image.debug_info().function_at(function.entry);
  if (!with_parameters || with_parameters->parameters.empty()) return false;
  constexpr uint32_t rsi = 4, rdi = 5, first_vector = 17;
  auto number = with_parameters->parameters[0].location.as_register();
  return number && *number != rdi && *number != rsi && *number < first_vector;
}

Result<Location> native_place(const ImageSymbols& image, const Function& function) {
  auto lookup = types_of(image);
  const Type& type = strip_aliases(lookup(function.return_type), lookup);
  if (type.kind == Type::Kind::Integer && type.size > 8)
    return fail("is a number of " + std::to_string(type.size) + " bytes, and a script's have 8");
  const bool is_native = function.language == Language::C || function.language == Language::Cpp;
  if (is_native && !is_plain(type) && is_called_otherwise(image, function))
    return fail("is left where another calling convention than the system's has it");
  std::optional<Location> place;
  if (function.language == Language::Rust)
    place = image::rust_result(function.return_type, lookup);
  else if (is_native || is_plain(type))
    place = image::sysv_result(function.return_type, lookup, function.compiler);
  if (!place) return fail(why_unknown(type));
  return *place;
}

}  // namespace

std::optional<std::vector<TypeId>> result_types(const ImageSymbols& image, ImageAddr entry) {
  auto function = typed_function(image, entry);
  if (!function) return std::nullopt;
  std::vector<TypeId> types;
  if (function->language == Language::Go) {
    for (const auto& parameter : function->parameters)
      if (parameter.is_result) types.push_back(parameter.type);
    return types;
  }
  auto lookup = types_of(image);
  const Type& type = strip_aliases(lookup(function->return_type), lookup);
  if (function->return_type && type.kind != Type::Kind::Void) types.push_back(function->return_type);
  // Debug info for lines only has functions without types.
  if (types.empty() && !function->has_parameters) return std::nullopt;
  return types;
}

Result<std::vector<Location>> result_places(const ImageSymbols& image, ImageAddr entry,
                                            const ResultUse& use) {
  auto function = typed_function(image, entry);
  if (!function) {
    TRY(Location place, untyped_place(image, entry));
    return std::vector<Location>{place};
  }
  std::vector<Location> places;
  if (function->language != Language::Go) {
    TRY(Location place, native_place(image, *function));
    const bool is_by_gcc = function->compiler == image::Compiler::Gcc;
    if (use.is_in_doubt(entry, is_by_gcc) && !use.is_proven(entry, place, is_by_gcc))
      return fail(
          "is not certain: the compiler saw all callers of the function and may have dropped its result, "
          "which "
          "none of them is seen to use");
    if (!place.pieces.empty()) places.push_back(std::move(place));
    return places;
  }
  for (const auto& parameter : function->parameters) {
    if (!parameter.is_result) continue;
    for (const LocPiece& piece : parameter.at_return.pieces)
      if (piece.kind == LocPiece::Kind::OptimizedOut) return fail(piece.reason);
    places.push_back(parameter.at_return);
  }
  return places;
}

}  // namespace uscope::session
