// Where a return probe goes: on each RET of the function, and, where it ends in a jump to another function,
// on that one's exits for as long as it runs in the first one's place. The kernel's own return probes, which
// put another return address on the stack, kill programs that unwind or copy their stacks: they are taken
// only where that cannot happen, or when the script asks for them (config kernel_return_probes).
//
// Adds codes to the program, so that it is to be loaded afterwards. docs/decisions/return-probes.md has the
// reasons.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "codegen/pairing.h"
#include "codegen/tail_calls.h"
#include "engine/engine.h"
#include "symbols/image_symbols.h"
#include "x86/flow.h"

namespace uscope::session {

// What is to run at the return of one function.
struct ReturnProbe {
  std::string name;  // for messages
  std::string file;  // as opened
  const symbols::ImageSymbols* image = nullptr;
  ImageAddr function;
  uint32_t code = 0;
  uint64_t cookie = 0;
};

class ReturnProbes {
 public:
  // What the engine can do by itself.
  struct EngineTraits {
    bool has_kernel_returns = true;
    bool judges_jumps = false;  // runs a code only where a conditional jump will be taken (Site::only_if)
    bool pairs_calls = false;   // see codegen::Pairing
  };
  ReturnProbes(codegen::Program& program, bool use_kernel_returns, EngineTraits engine)
      : program_(program),
        tail_calls_(program),
        pairing_(program, engine.pairs_calls),
        use_kernel_returns_(use_kernel_returns),
        engine_(engine) {}

  bool is_inproc() const { return !engine_.has_kernel_returns; }

  struct Placed {
    uint32_t code = 0;
    engine::Attachment::Kind kind = engine::Attachment::Kind::UserProbe;
    engine::Site site;
  };
  // All places of one probe, or why there is no safe way.
  Result<std::vector<Placed>> place(const ReturnProbe& probe);

  // What the user has to know of the probes placed so far, one sentence each.
  std::vector<std::string> warnings() const;
  // A PerCpuArray that counts the calls that could not be reported; nothing if there are none such.
  std::optional<uint32_t> unreported_map() const { return tail_calls_.unreported(); }
  // What codegen::Pairing::Counter counts; nothing if no call is timed.
  std::optional<uint32_t> pairing_map() const { return pairing_.counters(); }

 private:
  struct Exits {
    std::string gap;  // not empty: not all are known
    std::vector<x86::Exit> exits;
    bool loops_to_entry = false;  // then an entry is not always a call
  };
  struct Key {
    const symbols::ImageSymbols* image;
    uint64_t function;
    auto operator<=>(const Key&) const = default;
  };
  using Functions = std::vector<uint64_t>;

  const Exits& exits_of(const symbols::ImageSymbols& image, ImageAddr function);
  // The functions that return in place of one that jumps to `target`; nothing if that cannot be told.
  std::optional<Functions> successors(const ReturnProbe& probe, const x86::Exit& jump);
  Status add_exits(const ReturnProbe& probe, const Exits& exits, std::vector<Placed>& placed);
  Status follow(const ReturnProbe& probe, const x86::Exit& jump, const Functions& functions,
                std::vector<Placed>& placed);
  Status add_blind_jump(const ReturnProbe& probe, const x86::Exit& jump, std::vector<Placed>& placed);
  // The probe that runs behind the hidden one at the function's entry, which times it.
  Result<ReturnProbe> add_timing(const ReturnProbe& probe, bool by_kernel, std::vector<Placed>& placed);
  // What is to run at a site, which may be a jump that is not always taken.
  struct AtSite {
    uint64_t address = 0;
    uint32_t code = 0;
    uint64_t cookie = 0;
    codegen::JumpCondition only_if = std::nullopt;  // by the engine
    bool is_own = false;                            // of the function itself, not of one it jumps to
  };
  Status add(const ReturnProbe& probe, const AtSite& at, std::vector<Placed>& placed) const;
  // The same, unless another jump has led there before.
  Status add_once(const ReturnProbe& probe, const AtSite& at, std::vector<Placed>& placed);
  // A jump's condition, for the code to look at and for the engine to judge: one of them.
  codegen::JumpCondition in_code(const x86::Exit& jump) const;
  codegen::JumpCondition in_engine(const x86::Exit& jump) const;
  Status add_by_kernel(const ReturnProbe& probe, std::vector<Placed>& placed) const;
  uint64_t mark_cookie(const ReturnProbe& probe);

  codegen::Program& program_;
  codegen::TailCalls tail_calls_;
  codegen::Pairing pairing_;
  bool use_kernel_returns_;
  EngineTraits engine_;
  std::map<Key, Exits> exits_;
  std::set<std::tuple<const symbols::ImageSymbols*, uint64_t, uint32_t, uint64_t>> followed_;
  std::map<uint32_t, uint64_t> mark_cookies_;    // by code, where the code does not ask for its cookie
  std::vector<std::string> early_, unreported_;  // functions whose jumps fire before their end, or not at all
};

// Whether nothing in the program of this image unwinds or leaves stacks: a C executable that imports none of
// what does. Libraries run in programs that nobody knows.
bool is_safe_for_kernel_returns(const symbols::ImageSymbols& image);

}  // namespace uscope::session
