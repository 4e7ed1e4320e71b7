#include "x86/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace uscope::x86 {
namespace {

using Reason = WindowRefusal::Reason;

std::unexpected<WindowRefusal> refuse(Reason reason, uint64_t address) {
  return std::unexpected(WindowRefusal{reason, address});
}

// Running off the end says nothing about jumps inside; every other gap may hide one.
bool knows_leaders(const Flow& flow) { return flow.complete() || flow.gap() == Gap::falls_off_end; }

bool is_call(const Instruction& i) { return i.kind == Kind::call || i.kind == Kind::indirect_call; }

const CodeRange* part_of(const Flow& flow, uint64_t address) {
  for (const CodeRange& part : flow.parts()) {
    if (part.contains(address)) return &part;
  }
  return nullptr;
}

// How many of the bytes needed from here on are padding that nothing reaches, between blocks or behind the
// function.
uint64_t padding_after(const Flow& flow, uint64_t from, uint64_t enough, uint64_t padding_behind) {
  uint64_t at = from;
  while (at - from < enough) {
    if (flow.is_leader(at) || flow.find(at)) break;
    const auto instruction = decode(flow.bytes_at(at), at);
    if (!instruction || !instruction->is_padding() || flow.has_leader(at, instruction->end())) break;
    at = instruction->end();
  }
  const CodeRange* part = part_of(flow, from - 1);
  if (part && at == part->end()) at += padding_behind;
  return std::min(at - from, enough);
}

// A branch inside the window back to the window's middle would be fine, but is too rare to tell apart.
std::optional<WindowRefusal> check_inside(const Flow& flow, const Window& window) {
  for (const Instruction& i : window.instructions) {
    if (i.address != window.start && flow.is_leader(i.address))
      return WindowRefusal{Reason::jumped_into, i.address};
  }
  auto leader = std::upper_bound(flow.leaders().begin(), flow.leaders().end(), window.start);
  if (leader != flow.leaders().end() && *leader < window.start + window.size()) {
    return WindowRefusal{Reason::jumped_into, *leader};
  }
  if (window.instructions.size() > 1 && !knows_leaders(flow)) {
    return WindowRefusal{Reason::leaders_unknown, flow.gap_address()};
  }
  return std::nullopt;
}

// Makes the window longer by the instruction that runs into it.
std::optional<WindowRefusal> take_in_before(const Flow& flow, Window& window) {
  const Instruction* before = nullptr;
  for (unsigned back = 1; back <= max_instruction_length; ++back) {
    const Instruction* candidate = flow.find(window.start - back);
    if (candidate && candidate->end() == window.start && candidate->falls_through()) before = candidate;
  }
  if (!before) return WindowRefusal{Reason::function_ends, window.start};
  if (is_call(*before)) return WindowRefusal{Reason::call_returns, before->address};
  window.start = before->address;
  window.instructions.insert(window.instructions.begin(), *before);
  return std::nullopt;
}

}  // namespace

std::expected<Window, WindowRefusal> window_at(const Flow& flow, uint64_t site, unsigned need,
                                               uint64_t padding_behind) {
  Window window{.start = site, .end = site};
  while (window.size() < need) {
    const Instruction* next = flow.find(window.end);
    const bool goes_on = window.instructions.empty() || window.instructions.back().falls_through();
    if (!next || !goes_on) {
      if (window.instructions.empty()) return refuse(Reason::no_instruction, site);
      window.padding = padding_after(flow, window.end, need - window.size(), padding_behind);
      if (window.size() >= need) break;
      const uint64_t stop = window.end + window.padding;
      return refuse(flow.find(stop) ? Reason::jumped_into : Reason::function_ends, stop);
    }
    if (!window.instructions.empty() && is_call(window.instructions.back())) {
      return refuse(Reason::call_returns, window.instructions.back().address);
    }
    window.instructions.push_back(*next);
    window.end = next->end();
  }
  window.padding =
      std::min<uint64_t>(window.padding, window.end - site >= need ? 0 : need - (window.end - site));
  if (auto refusal = check_inside(flow, window)) return std::unexpected(*refusal);
  return window;
}

std::expected<Window, WindowRefusal> window_before(const Flow& flow, uint64_t site, unsigned need,
                                                   uint64_t padding_behind) {
  const Instruction* last = flow.find(site);
  if (!last) return refuse(Reason::no_instruction, site);
  Window window{.start = site, .end = last->end(), .instructions = {*last}};
  if (window.size() < need && !last->falls_through()) {
    window.padding = padding_after(flow, window.end, need - window.size(), padding_behind);
  }
  while (window.size() < need) {
    if (flow.is_leader(window.start)) return refuse(Reason::jumped_into, window.start);
    if (auto refusal = take_in_before(flow, window)) return std::unexpected(*refusal);
  }
  if (auto refusal = check_inside(flow, window)) return std::unexpected(*refusal);
  return window;
}

std::expected<Window, WindowRefusal> window_up_to(const Flow& flow, uint64_t end, unsigned need) {
  Window window{.start = end, .end = end};
  while (window.size() < need) {
    if (!window.instructions.empty() && flow.is_leader(window.start))
      return refuse(Reason::jumped_into, window.start);
    if (auto refusal = take_in_before(flow, window)) return std::unexpected(*refusal);
  }
  if (auto refusal = check_inside(flow, window)) return std::unexpected(*refusal);
  return window;
}

std::string WindowRefusal::text() const {
  switch (reason) {
    case Reason::no_instruction:
      return fmt::format("no instruction is known to start at {:#x}", address);
    case Reason::jumped_into:
      return fmt::format("something jumps to {:#x}, inside the bytes to patch", address);
    case Reason::function_ends:
      return fmt::format("the code ends at {:#x}, before there is room for a jump", address);
    case Reason::call_returns:
      return fmt::format("the call at {:#x} returns into the bytes to patch", address);
    case Reason::leaders_unknown:
      return fmt::format("something may jump into the bytes to patch: see {:#x}", address);
  }
  return {};
}

}  // namespace uscope::x86
