#include "session/kernel_symbols.h"

#include <algorithm>
#include <charconv>

#include "base/fd.h"

namespace uscope::session {

void KernelSymbols::load_once() {
  if (is_loaded_) return;
  auto text = read_text_file("/proc/kallsyms");
  load(text ? std::string_view(*text) : std::string_view());
}

void KernelSymbols::load(std::string_view text) {
  is_loaded_ = true;
  text_ = text;
  symbols_.clear();
  std::string_view all = text_;
  for (size_t line = 0; line < all.size();) {
    size_t end = std::min(all.find('\n', line), all.size());
    Symbol symbol;
    auto [after, error] = std::from_chars(all.data() + line, all.data() + end, symbol.address, 16);
    size_t name = size_t(after - all.data()) + 3;  // " T "
    // Hidden addresses are all zero; per-CPU variables have small ones, which are no addresses.
    if (error == std::errc() && name < end && symbol.address > UINT32_MAX) {
      size_t name_end = std::min(all.find_first_of("\t \n", name), end);
      symbol.name = uint32_t(name);
      symbol.name_size = uint32_t(name_end - name);
      std::string_view rest = all.substr(name_end, end - name_end);
      size_t open = rest.find('['), close = rest.find(']');
      if (open != std::string_view::npos && close != std::string_view::npos && close > open) {
        symbol.module = uint32_t(name_end + open + 1);
        symbol.module_size = uint32_t(close - open - 1);
      }
      symbols_.push_back(symbol);
    }
    line = end + 1;
  }
  std::ranges::stable_sort(symbols_, {}, &Symbol::address);
}

std::optional<KernelSymbols::Found> KernelSymbols::at(uint64_t address) {
  load_once();
  auto after = std::ranges::upper_bound(symbols_, address, {}, &Symbol::address);
  if (after == symbols_.begin()) return std::nullopt;
  uint64_t start = std::prev(after)->address;
  // Of several names at one address, the first that the kernel lists.
  auto found = std::ranges::lower_bound(symbols_, start, {}, &Symbol::address);
  return Found{text_.substr(found->name, found->name_size), address - start,
               text_.substr(found->module, found->module_size)};
}

std::optional<uint64_t> KernelSymbols::address_of(std::string_view name) {
  load_once();
  for (const Symbol& symbol : symbols_)
    if (std::string_view(text_).substr(symbol.name, symbol.name_size) == name) return symbol.address;
  return std::nullopt;
}

}  // namespace uscope::session
