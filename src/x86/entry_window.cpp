#include "x86/entry_window.h"

#include "x86/effects.h"

namespace uscope::x86 {
namespace {

constexpr unsigned most_instructions = 24;

// Straight on from an address, as far as there is one way only.
bool are_flags_dead(const CodeRange& code, uint64_t address) {
  FlagSet open = arithmetic_flags;
  Decoder decoder(code.bytes.subspan(address - code.address), address);
  for (unsigned n = 0; n < most_instructions; ++n) {
    auto i = decoder.next();
    if (!i || (i->flags_read & open) != 0) return false;
    const auto effects = effects_of(code.bytes.subspan(i->address - code.address, i->length));
    if (!effects || (effects->flags_read & open) != 0) return false;
    open &= ~effects->flags_overwritten;
    if (open == 0) return true;
    switch (i->kind) {
      case Kind::other:
      case Kind::nop:
      case Kind::endbr64:
        break;
      case Kind::ret:
      case Kind::indirect_call:
        return true;
      case Kind::call:
        // Hand-written code calls its own pieces by conventions of its own.
        return !code.contains(i->target) || i->target == code.address;
      default:
        return false;
    }
  }
  return false;
}

// Straight on from an address.
std::optional<Window> window_from(const CodeRange& code, uint64_t address) {
  Decoder decoder(code.bytes.subspan(address - code.address), address);
  Window window{.start = address, .end = address};
  for (;;) {
    const auto next = decoder.next();
    if (!next) return std::nullopt;
    window.instructions.push_back(*next);
    window.end = next->end();
    const bool is_enough = window.size() >= near_jump_size;
    const bool is_plain =
        next->kind == Kind::other || next->kind == Kind::nop || next->kind == Kind::conditional_jump;
    if (is_enough && (is_plain || next->kind == Kind::call || next->kind == Kind::indirect_call ||
                      next->kind == Kind::jump))
      return window;
    if (is_enough || !is_plain) return std::nullopt;
  }
}

}  // namespace

std::optional<EntryWindow> entry_window(const CodeRange& code, RegisterSet read) {
  EntryWindow entry;
  entry.behind = step_behind_entry(code.bytes, read, true);
  auto window = window_from(code, code.address + (entry.behind ? entry.behind->length : 0));
  if (!window) return std::nullopt;
  entry.window = std::move(*window);
  entry.flags_dead = are_flags_dead(code, entry.window.start);
  return entry;
}

}  // namespace uscope::x86
