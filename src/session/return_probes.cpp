#include "session/return_probes.h"

#include <algorithm>
#include <array>

#include "image/go/pclntab.h"
#include "session/entry_address.h"
#include "session/goroutine_number.h"
#include "symbols/function_code.h"
#include "x86/entry_site.h"

namespace uscope::session {
namespace {

using engine::Attachment;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;
using x86::ExitKind;

// How many functions one jump may lead through before it is given up.
constexpr size_t most_successors = 16;
constexpr size_t most_named = 3;

// What unwinds or switches stacks, and what may bring it in unseen.
constexpr std::array<std::string_view, 9> stack_movers = {"longjmp", "setjmp",         "_Unwind_",
                                                          "context", "pthread_cancel", "pthread_exit",
                                                          "dlopen",  "libstdc++",      "libc++"};

bool is_jump(const x86::Exit& exit) { return exit.kind != ExitKind::ret && exit.kind != ExitKind::no_return; }

codegen::JumpCondition condition_of(const x86::Exit& jump) {
  if (jump.kind != ExitKind::conditional_tail_jump) return std::nullopt;
  return jump.condition;
}

// Where a call of the function can be told from a jump within it: every call passes there once.
Result<ImageAddr> once_a_call(const ReturnProbe& probe, bool is_inproc) {
  const FunctionSymbol* function = probe.image->function_at(probe.function);
  auto code = function != nullptr && function->address == probe.function
                  ? symbols::whole_function_code(*probe.image, *function)
                  : std::nullopt;
  if (!code) return fail(probe.name + ": its code is not in the file");
  const x86::Flow flow = x86::analyze(*code);
  x86::EntryRequest request;
  request.go = probe.image->language() == image::Language::Go;
  request.exact = true;
  const x86::EntrySite found = x86::cheapest_entry_site(flow, request);
  // The in-process engine finds its own place behind an entry.
  const uint64_t site = is_inproc && !request.go ? probe.function.value : found.address;
  for (const x86::Instruction& each : flow.instructions()) {
    const bool leads_here =
        each.is_direct_branch() && each.target >= probe.function.value && each.target <= site;
    // Go's stack check is made again on a larger stack; the probe is behind it.
    const bool is_check_again = found.after_go_stack_check && each.target < site;
    if (leads_here && !is_check_again)
      return fail(probe.name +
                  ": how long it takes is not known: it jumps back to its first instructions, which does not "
                  "look different from a call");
  }
  return ImageAddr{site};
}

// By thread, or by goroutine where one runs the function.
Result<codegen::PairedBy> paired_by(const ReturnProbe& probe) {
  if (probe.image->language() != image::Language::Go) return codegen::PairedBy{};
  const image::Pclntab* table = probe.image->pclntab();
  if (table != nullptr && table->function_at(probe.function) == nullptr) return codegen::PairedBy{};
  TRY(uint64_t offset, goid_offset(*probe.image, probe.function));
  return codegen::PairedBy{offset};
}

std::string names(const std::vector<std::string>& all) {
  std::string text;
  for (size_t i = 0; i < all.size() && i < most_named; ++i) text += (i == 0 ? "" : ", ") + all[i];
  if (all.size() > most_named) text += " and " + std::to_string(all.size() - most_named) + " more";
  return text;
}

}  // namespace

bool is_safe_for_kernel_returns(const ImageSymbols& image) {
  if (!image.is_elf() || image.language() != image::Language::C) return false;
  image::ElfType type = image.elf().type();
  if (type != image::ElfType::Executable && type != image::ElfType::PieExecutable) return false;
  image::DynamicInfo dynamic = image.elf().dynamic();
  Bytes table = image.elf().bytes_from(dynamic.string_table);
  std::string_view imports =
      as_text(table.first(std::min<uint64_t>(table.size(), dynamic.string_table_size)));
  if (!dynamic.present || imports.empty()) return false;
  return std::ranges::none_of(stack_movers,
                              [&](auto word) { return imports.find(word) != std::string_view::npos; });
}

const ReturnProbes::Exits& ReturnProbes::exits_of(const ImageSymbols& image, ImageAddr address) {
  auto [at, is_new] = exits_.try_emplace(Key{&image, address.value});
  Exits& found = at->second;
  if (!is_new) return found;
  const FunctionSymbol* function = image.function_from(address);
  auto code = function != nullptr ? symbols::whole_function_code(image, *function) : std::nullopt;
  if (!code) {
    found.gap = "its code is not in the file";
    return found;
  }
  x86::Flow flow = x86::analyze(*code);
  found.gap = flow.gap_text();
  found.exits = flow.exits();
  for (const x86::Instruction& each : flow.instructions())
    found.loops_to_entry |= each.is_direct_branch() && each.target == flow.entry();
  for (const x86::Exit& exit : found.exits) {
    const x86::Instruction* instruction = flow.find(exit.address);
    if (exit.kind == ExitKind::conditional_tail_jump &&
        (instruction == nullptr || instruction->kind != x86::Kind::conditional_jump))
      found.gap = "it leaves by a jump that counts";
  }
  return found;
}

std::optional<ReturnProbes::Functions> ReturnProbes::successors(const ReturnProbe& probe,
                                                                const x86::Exit& jump) {
  // Go moves stacks, and with them the stack pointers that marks go by.
  if (probe.image->language() == image::Language::Go || jump.kind == ExitKind::indirect_tail_jump)
    return std::nullopt;
  Functions functions = {jump.target};
  for (size_t i = 0; i < functions.size(); ++i) {
    // Back in the function itself, one return would end two of its calls.
    if (functions[i] == probe.function.value) return std::nullopt;
    const Exits& exits = exits_of(*probe.image, ImageAddr{functions[i]});
    if (!exits.gap.empty() || exits.loops_to_entry) return std::nullopt;
    for (const x86::Exit& exit : exits.exits) {
      if (!is_jump(exit)) continue;
      if (exit.kind == ExitKind::indirect_tail_jump) return std::nullopt;
      if (std::ranges::find(functions, exit.target) == functions.end()) functions.push_back(exit.target);
    }
    if (functions.size() > most_successors) return std::nullopt;
  }
  return functions;
}

codegen::JumpCondition ReturnProbes::in_code(const x86::Exit& jump) const {
  return engine_.judges_jumps ? std::nullopt : condition_of(jump);
}
codegen::JumpCondition ReturnProbes::in_engine(const x86::Exit& jump) const {
  return engine_.judges_jumps ? condition_of(jump) : std::nullopt;
}

Status ReturnProbes::add(const ReturnProbe& probe, const AtSite& at, std::vector<Placed>& placed) const {
  auto offset = probe.image->file_offset(ImageAddr{at.address});
  if (!offset) return fail(probe.name + " is not in the file");
  engine::Site site{*offset, at.cookie, std::nullopt, at.only_if, at.is_own};
  placed.push_back({at.code, Attachment::Kind::UserProbe, site});
  return {};
}

Status ReturnProbes::add_once(const ReturnProbe& probe, const AtSite& at, std::vector<Placed>& placed) {
  if (!followed_.insert({probe.image, at.address, at.code, at.cookie}).second) return {};
  return add(probe, at, placed);
}

// Calls of different functions share the marks' sites where the code does not tell them apart.
uint64_t ReturnProbes::mark_cookie(const ReturnProbe& probe) {
  const auto& instructions = program_.codes[probe.code].instructions;
  bool asks = std::ranges::any_of(instructions, [](const bpf_insn& each) {
    return each.code == (BPF_JMP | BPF_CALL) && each.src_reg == 0 && each.imm == BPF_FUNC_get_attach_cookie;
  });
  asks |= program_.codes[probe.code].reads_took;  // each function has its own times
  return asks ? probe.cookie : mark_cookies_.try_emplace(probe.code, probe.cookie).first->second;
}

Status ReturnProbes::follow(const ReturnProbe& probe, const x86::Exit& jump, const Functions& functions,
                            std::vector<Placed>& placed) {
  uint64_t cookie = mark_cookie(probe);
  TRY(uint32_t leave, tail_calls_.leave_mark(in_code(jump)));
  TRY(uint32_t take_up, tail_calls_.take_up());
  TRY(uint32_t finish, tail_calls_.finish(probe.code));
  TRY_STATUS(add_once(probe, {jump.address, leave, cookie, in_engine(jump)}, placed));
  for (uint64_t function : functions) {
    const uint64_t entry = entry_address(*probe.image, ImageAddr{function}, is_inproc()).value;
    TRY_STATUS(add_once(probe, {entry, take_up, cookie}, placed));
    for (const x86::Exit& exit : exits_of(*probe.image, ImageAddr{function}).exits) {
      if (exit.kind == ExitKind::ret) TRY_STATUS(add_once(probe, {exit.address, finish, cookie}, placed));
      if (!is_jump(exit)) continue;
      TRY(uint32_t pass_on, tail_calls_.pass_on(in_code(exit)));
      TRY_STATUS(add_once(probe, {exit.address, pass_on, cookie, in_engine(exit)}, placed));
    }
  }
  return {};
}

// A jump to nobody knows where: what the function will return is not to be seen here, that it ends is.
Status ReturnProbes::add_blind_jump(const ReturnProbe& probe, const x86::Exit& jump,
                                    std::vector<Placed>& placed) {
  bool is_reported = !program_.codes[probe.code].reads_result;
  std::vector<std::string>& said = is_reported ? early_ : unreported_;
  if (said.empty() || said.back() != probe.name) said.push_back(probe.name);
  TRY(uint32_t code,
      is_reported ? tail_calls_.only_if(probe.code, in_code(jump)) : tail_calls_.count(in_code(jump)));
  return add(probe, {jump.address, code, probe.cookie, in_engine(jump), true}, placed);
}

Status ReturnProbes::add_exits(const ReturnProbe& probe, const Exits& exits, std::vector<Placed>& placed) {
  for (const x86::Exit& exit : exits.exits) {
    if (exit.kind == ExitKind::ret)
      TRY_STATUS(add(probe, {exit.address, probe.code, probe.cookie, {}, true}, placed));
    if (!is_jump(exit)) continue;
    if (auto functions = successors(probe, exit))
      TRY_STATUS(follow(probe, exit, *functions, placed));
    else
      TRY_STATUS(add_blind_jump(probe, exit, placed));
  }
  return {};
}

Status ReturnProbes::add_by_kernel(const ReturnProbe& probe, std::vector<Placed>& placed) const {
  TRY_STATUS(add(probe, {probe.function.value, probe.code, probe.cookie}, placed));
  placed.back().kind = Attachment::Kind::UserReturn;
  return {};
}

Result<ReturnProbe> ReturnProbes::add_timing(const ReturnProbe& probe, bool by_kernel,
                                             std::vector<Placed>& placed) {
  TRY(ImageAddr entry, once_a_call(probe, is_inproc()));
  TRY(codegen::PairedBy by, paired_by(probe));
  TRY(uint32_t enter, pairing_.enter(by));
  TRY_STATUS(add(probe, {entry.value, enter, probe.cookie, {}, true}, placed));
  // There the return address is off the stack already.
  if (by_kernel) by.stack_adjustment = -8;
  ReturnProbe timed = probe;
  TRY(timed.code, pairing_.leave(probe.code, by));
  return timed;
}

Result<std::vector<ReturnProbes::Placed>> ReturnProbes::place(const ReturnProbe& probe) {
  const Exits& exits = exits_of(*probe.image, probe.function);
  bool is_seen_whole = exits.gap.empty() && std::ranges::all_of(exits.exits, [&](const x86::Exit& exit) {
                         return !is_jump(exit) || successors(probe, exit).has_value();
                       });
  const bool by_kernel = use_kernel_returns_ || (engine_.has_kernel_returns && !is_seen_whole &&
                                                 is_safe_for_kernel_returns(*probe.image));
  if (!by_kernel && !exits.gap.empty()) {
    Error error(probe.name + ": not every return of it can be probed: " + exits.gap);
    return fail(engine_.has_kernel_returns
                    ? std::move(error).with_hint(
                          "config = { kernel_return_probes = true } uses the kernel's own return probes; an "
                          "exception, longjmp or a Go traceback through one kills the program")
                    : std::move(error));
  }
  std::vector<Placed> placed;
  ReturnProbe last = probe;
  if (program_.codes[probe.code].reads_took) {
    TRY(last, add_timing(probe, by_kernel, placed));
  }
  TRY_STATUS(by_kernel ? add_by_kernel(last, placed) : add_exits(last, exits, placed));
  return placed;
}

std::vector<std::string> ReturnProbes::warnings() const {
  std::vector<std::string> texts;
  if (!early_.empty())
    texts.push_back(
        names(early_) +
        ": ends in a jump to a function that cannot be followed; such a call is reported at the jump, "
        "before that function has run");
  if (!unreported_.empty())
    texts.push_back(
        names(unreported_) +
        ": ends in a jump to a function that cannot be followed, so `retval` is not known there; such "
        "calls are counted, not reported");
  return texts;
}

}  // namespace uscope::session
