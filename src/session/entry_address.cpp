#include "session/entry_address.h"

#include "symbols/function_code.h"
#include "x86/entry_site.h"

namespace uscope::session {

ImageAddr entry_address(const symbols::ImageSymbols& image, ImageAddr address, bool is_inproc) {
  if (is_inproc && image.language() != image::Language::Go) return address;
  const symbols::FunctionSymbol* function = image.function_at(address);
  if (function == nullptr || function->address != address) return address;
  auto code = symbols::function_code(image, *function);
  if (!code) return address;
  x86::Flow flow = x86::analyze(*code);
  x86::EntryRequest request;
  request.go = image.language() == image::Language::Go;
  // Only a site where the stack and every register are as they came shows the same arguments and stacks.
  request.exact = true;
  return ImageAddr{x86::cheapest_entry_site(flow, request).address};
}

}  // namespace uscope::session
