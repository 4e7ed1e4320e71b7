#include "symbols/function_code.h"

namespace uscope::symbols {
namespace {

// What one function may be at most; a symbol that claims more lies.
constexpr uint64_t largest_function = uint64_t(64) << 20;

}  // namespace

std::optional<x86::FunctionCode> function_code(const ImageSymbols& image, const FunctionSymbol& function) {
  if (function.size == 0 || function.size > largest_function) return std::nullopt;
  auto bytes = image.code_at(function.address, function.size);
  if (!bytes) return std::nullopt;
  x86::FunctionCode code;
  code.parts.push_back({function.address.value, *bytes});
  code.read_image = [&image](uint64_t address, uint64_t size) {
    return image.code_at(ImageAddr{address}, size).value_or(Bytes());
  };
  if (const image::Pclntab* go = image.pclntab()) {
    // No instruction jumps there: the runtime does.
    const image::GoFunction* known = go->function_at(function.address);
    if (known != nullptr && known->deferreturn != 0)
      code.landing_pads.push_back(known->entry.value + known->deferreturn);
  }
  return code;
}

}  // namespace uscope::symbols
