#include "x86/liveness.h"

#include <unordered_map>

#include "x86/effects.h"

namespace uscope::x86 {
namespace {

constexpr unsigned max_steps = 200;

// What is still undecided on a path.
struct Open {
  RegisterSet registers = all_registers;
  FlagSet flags = arithmetic_flags;
  bool none() const { return registers == 0 && flags == 0; }
};

class LivenessWalk {
 public:
  explicit LivenessWalk(const Flow& flow) : flow_(flow) {}

  Liveness from(uint64_t address) {
    pending_.emplace_back(address, Open());
    for (unsigned step = 0; !pending_.empty(); ++step) {
      auto [at, open] = pending_.back();
      pending_.pop_back();
      if (step >= max_steps) {
        need(open);
      } else {
        visit(at, open);
      }
    }
    return {all_registers & ~needed_.registers & ~system_bit, arithmetic_flags & ~needed_.flags};
  }

 private:
  void need(const Open& open) {
    needed_.registers |= open.registers;
    needed_.flags |= open.flags;
  }
  // What is known to be needed need not be followed further.
  void go_on(uint64_t at, Open open) {
    open.registers &= ~needed_.registers;
    open.flags &= ~needed_.flags;
    if (!open.none()) pending_.emplace_back(at, open);
  }
  void visit(uint64_t at, Open open);
  void leave(const Instruction& i, Open open);

  const Flow& flow_;
  Open needed_{0, 0};
  std::vector<std::pair<uint64_t, Open>> pending_;
  std::unordered_map<uint64_t, Open> visited_;
};

// Control goes somewhere else than to the next instruction, or out of sight.
void LivenessWalk::leave(const Instruction& i, Open open) {
  const bool to_known_code = flow_.find(i.target) != nullptr;
  switch (i.kind) {
    case Kind::jump:
      if (to_known_code) return go_on(i.target, open);
      open.flags = 0;
      return need(open);
    case Kind::conditional_jump:
    case Kind::counted_jump:
      go_on(i.end(), open);
      if (to_known_code) return go_on(i.target, open);
      open.flags = 0;
      return need(open);
    case Kind::call:
      // Hand-written code calls its own pieces by conventions of its own.
      if (!to_known_code || i.target == flow_.entry()) open.flags = 0;
      return need(open);
    case Kind::indirect_call:
    case Kind::ret:
      open.flags = 0;
      return need(open);
    default:
      return need(open);  // indirect jumps may keep a carry across; the rest is rare
  }
}

void LivenessWalk::visit(uint64_t at, Open open) {
  auto [seen, fresh] = visited_.try_emplace(at, Open{0, 0});
  open.registers &= ~seen->second.registers;
  open.flags &= ~seen->second.flags;
  if (open.none()) return;
  seen->second.registers |= open.registers;
  seen->second.flags |= open.flags;
  const Instruction* i = flow_.find(at);
  if (!i) return need(open);
  const auto effects = effects_of(flow_.bytes_at(at).first(i->length));
  if (!effects) return need(open);
  need({open.registers & effects->read, open.flags & effects->flags_read});
  open.registers &= ~(effects->read | effects->overwritten);
  open.flags &= ~(effects->flags_read | effects->flags_overwritten);
  if (i->kind == Kind::other || i->kind == Kind::nop || i->kind == Kind::endbr64)
    return go_on(i->end(), open);
  leave(*i, open);
}

}  // namespace

Liveness liveness_at(const Flow& flow, uint64_t address) { return LivenessWalk(flow).from(address); }

}  // namespace uscope::x86
