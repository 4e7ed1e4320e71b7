#include "x86/flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "x86/graph.h"
#include "x86/jump_table.h"
#include "x86/stack_depth.h"

namespace uscope::x86 {
namespace {

// The largest function seen in the wild is a few megabytes (interpreters, generated parsers).
constexpr uint64_t max_function_size = uint64_t(64) << 20;
constexpr size_t max_parts = 64;
// Each round follows the tables found in the round before; nested switches need as many rounds as they nest.
constexpr unsigned max_rounds = 64;
// Code is aligned to 64 bytes at most in practice.
constexpr unsigned max_padding = 64;

bool is_call(const Instruction& i) { return i.kind == Kind::call || i.kind == Kind::indirect_call; }

}  // namespace

class FlowBuilder {
 public:
  // `filler_at`: where the filler begins that the first part has been made longer by; 0: it has not.
  explicit FlowBuilder(const FunctionCode& code, uint64_t filler_at = 0)
      : code_(code), filler_at_(filler_at), graph_(code.parts) {}

  Flow build() &&;

 private:
  void add_root(uint64_t address);
  // A root that not (only) a direct branch leads to.
  void add_hidden_root(uint64_t address);
  void add_hidden_leader(uint64_t address);
  void explore_all();
  void explore(uint64_t address);
  // Handles what follows an instruction; the next address to go on with, if any.
  std::optional<uint64_t> follow(const Instruction& instruction);
  void note_labels(const Instruction& instruction);
  void branch_to(const Instruction& branch);
  bool adopt_part(uint64_t address);
  void reach_end(uint64_t address);
  bool run_into_next(uint64_t address, const Instruction* last);
  bool check_overlap(const Instruction& instruction);
  void resolve_jumps();
  void judge_jump(const Instruction& jump, const JumpTargets& targets);
  void check_labels();
  void check_leftovers();
  void check_filler();
  void add_exit(const Instruction& at, ExitKind kind);
  void note_gap(Gap gap, uint64_t address);
  void finish();

  const FunctionCode& code_;
  uint64_t filler_at_;
  Graph graph_;
  Flow flow_;
  std::vector<uint64_t> pending_;
  std::vector<uint64_t> indirect_jumps_;
  std::vector<uint64_t> labels_;  // places inside whose address an instruction takes
  std::vector<uint64_t> leaders_;
  std::optional<StackDepths> depths_;
  bool has_code_pointers_ = false;
  std::optional<uint64_t> runs_into_next_;  // its last nop
};

void FlowBuilder::note_gap(Gap gap, uint64_t address) {
  if (flow_.gap_ != Gap::none) return;  // the first one is the one to tell
  flow_.gap_ = gap;
  flow_.gap_address_ = address;
}

void FlowBuilder::add_exit(const Instruction& at, ExitKind kind) {
  flow_.exits_.push_back({kind, at.address, at.length, at.condition, at.target});
}

void FlowBuilder::add_root(uint64_t address) {
  leaders_.push_back(address);
  pending_.push_back(address);
}

void FlowBuilder::add_hidden_leader(uint64_t address) {
  leaders_.push_back(address);
  flow_.hidden_leaders_.push_back(address);
}

void FlowBuilder::add_hidden_root(uint64_t address) {
  add_hidden_leader(address);
  pending_.push_back(address);
}

Flow FlowBuilder::build() && {
  if (code_.parts.empty() || code_.parts.front().bytes.empty()) {
    note_gap(Gap::empty, code_.parts.empty() ? 0 : code_.parts.front().address);
    return std::move(flow_);
  }
  if (graph_.size() > max_function_size || code_.parts.size() > max_parts) {
    note_gap(Gap::too_large, graph_.entry());
    flow_.parts_ = graph_.parts();
    return std::move(flow_);
  }
  flow_.runs_through_filler_ = filler_at_ != 0;
  add_hidden_root(graph_.entry());
  for (uint64_t pad : code_.landing_pads) {
    if (graph_.contains(pad)) add_hidden_root(pad);
  }
  for (uint64_t pointer : code_.code_pointers) {
    if (!graph_.contains(pointer) || pointer == graph_.entry()) continue;
    has_code_pointers_ = true;
    add_hidden_root(pointer);
  }
  explore_all();
  resolve_jumps();
  check_labels();
  check_leftovers();
  check_filler();
  finish();
  return std::move(flow_);
}

void FlowBuilder::explore_all() {
  while (!pending_.empty()) {
    const uint64_t address = pending_.back();
    pending_.pop_back();
    explore(address);
  }
}

void FlowBuilder::explore(uint64_t address) {
  for (std::optional<uint64_t> here = address; here;) {
    const CodeRange* part = graph_.part_of(*here);
    if (!part) return reach_end(*here);
    if (graph_.at(*here)) return;
    const auto instruction = decode(part->bytes.subspan(*here - part->address), *here);
    if (!instruction) return reach_end(*here);
    if (!check_overlap(*instruction)) return;
    graph_.add(*instruction);
    here = follow(*instruction);
  }
}

std::optional<uint64_t> FlowBuilder::follow(const Instruction& i) {
  switch (i.kind) {
    case Kind::ret:
      add_exit(i, ExitKind::ret);
      return std::nullopt;
    case Kind::undefined:
    case Kind::hlt:
      add_exit(i, ExitKind::no_return);
      return std::nullopt;
    case Kind::int3:
      // Nobody means to go on behind a trap in the filler.
      if (filler_at_ == 0 || i.address < filler_at_ || i.address >= graph_.parts().front().end())
        return i.end();
      add_exit(i, ExitKind::no_return);
      return std::nullopt;
    case Kind::unusual_transfer:
      note_gap(Gap::unusual_instruction, i.address);
      return std::nullopt;
    case Kind::indirect_jump:
      indirect_jumps_.push_back(i.address);
      return std::nullopt;
    case Kind::jump:
      branch_to(i);
      return std::nullopt;
    case Kind::conditional_jump:
    case Kind::counted_jump:
    case Kind::xbegin:
      branch_to(i);
      return i.end();
    case Kind::call:
      // `call next; pop` reads rip, and hand-written code calls its own pieces: the target is a leader like
      // any other.
      if (graph_.contains(i.target) && i.target != graph_.entry()) add_hidden_root(i.target);
      if (code_.never_returns && code_.never_returns(i.target)) {
        add_exit(i, ExitKind::no_return);
        return std::nullopt;
      }
      return i.end();
    default:
      break;
  }
  note_labels(i);
  return i.end();
}

void FlowBuilder::note_labels(const Instruction& i) {
  auto is_inside = [&](uint64_t address) { return graph_.contains(address) && address != graph_.entry(); };
  if (i.rip_relative && is_inside(i.memory_target)) {
    add_hidden_leader(i.memory_target);
    const auto operands = operands_of(graph_.bytes_of(i));
    if (operands && operands->operation == Operation::lea) labels_.push_back(i.memory_target);
  }
  if (!code_.is_fixed) return;
  visit_numbers(graph_.bytes_of(i), is_inside, [&](uint64_t address) {
    add_hidden_leader(address);
    labels_.push_back(address);
  });
}

void FlowBuilder::branch_to(const Instruction& branch) {
  if (graph_.contains(branch.target) || adopt_part(branch.target)) {
    add_root(branch.target);
    return;
  }
  add_exit(branch, branch.kind == Kind::jump ? ExitKind::tail_jump : ExitKind::conditional_tail_jump);
}

bool FlowBuilder::adopt_part(uint64_t address) {
  if (!code_.part_at || graph_.parts().size() >= max_parts) return false;
  const auto part = code_.part_at(address);
  if (!part || !part->contains(address)) return false;
  if (graph_.size() + part->bytes.size() > max_function_size) {
    note_gap(Gap::too_large, address);
    return false;
  }
  graph_.add_part(*part);
  return true;
}

// Execution cannot go on at this address: it is behind the function's end, or no instruction. That is no loss
// when what stands before is a call, which then never returns (abort, __stack_chk_fail), or a system call
// that ends the thread.
void FlowBuilder::reach_end(uint64_t address) {
  const Instruction* last = graph_.falling_into(address);
  const Instruction* before = last;
  for (unsigned n = 0; n < max_padding && before && before->is_padding(); ++n) {
    before = graph_.falling_into(before->address);
  }
  if (before && (is_call(*before) || before->kind == Kind::syscall)) {
    add_exit(*before, ExitKind::no_return);
  } else if (run_into_next(address, last)) {
    return;
  } else if (graph_.contains(address)) {
    note_gap(Gap::undecodable, address);
  } else {
    note_gap(Gap::falls_off_end, before ? before->address : address);
  }
}

// Behind the filler the next function begins: the same as a jump to it from the last nop, if nothing of this
// function's is on the stack any more.
bool FlowBuilder::run_into_next(uint64_t address, const Instruction* last) {
  if (filler_at_ == 0 || address != graph_.parts().front().end()) return false;
  if (last == nullptr || last->kind != Kind::nop) return false;
  runs_into_next_ = last->address;
  flow_.exits_.push_back({ExitKind::tail_jump, last->address, last->length, 0, address});
  return true;
}

// Two readings of the same bytes are fine only where a jump skips prefixes (glibc jumps over `lock`): both
// then end at the same place. False: the bytes were read differently before.
bool FlowBuilder::check_overlap(const Instruction& instruction) {
  if (graph_.is_free(instruction.address, instruction.length)) return true;
  const Instruction* other = graph_.straddling(instruction.address);
  for (uint64_t a = instruction.address + 1; !other && a < instruction.end(); ++a) other = graph_.at(a);
  if (!other || other->end() == instruction.end()) return true;
  note_gap(Gap::overlapping, instruction.address);
  return false;
}

void FlowBuilder::resolve_jumps() {
  if (indirect_jumps_.empty()) return;
  std::vector<JumpTargets> outcomes;
  std::unordered_map<uint64_t, std::unordered_set<uint64_t>> known;
  JumpResolver resolver(graph_, code_);
  for (unsigned round = 0; round < max_rounds; ++round) {
    outcomes.clear();
    for (uint64_t jump : indirect_jumps_) outcomes.push_back(resolver.resolve(*graph_.at(jump)));
    // Only then: a graph that grows between questions would have to be sorted for each.
    bool grew = false;
    for (size_t n = 0; n < outcomes.size(); ++n) {
      for (uint64_t target : outcomes[n].inside) {
        if (!known[indirect_jumps_[n]].insert(target).second) continue;
        grew = true;
        graph_.add_edge(indirect_jumps_[n], target);
        add_hidden_root(target);
      }
    }
    if (!grew || flow_.gap_ == Gap::overlapping) break;
    explore_all();
    if (round + 1 == max_rounds || resolver.exhausted())
      note_gap(Gap::unrecovered_jump, indirect_jumps_.back());
  }
  for (size_t n = 0; n < outcomes.size(); ++n) judge_jump(*graph_.at(indirect_jumps_[n]), outcomes[n]);
}

void FlowBuilder::judge_jump(const Instruction& jump, const JumpTargets& targets) {
  flow_.tables_.insert(flow_.tables_.end(), targets.tables.begin(), targets.tables.end());
  if (targets.leaves) note_gap(Gap::table_leaves_function, jump.address);
  if (!targets.inside.empty() && !targets.unknown && !targets.pointer && !targets.computed) return;
  if (!depths_) depths_.emplace(graph_);
  const auto depth = depths_->at(jump);
  // A tail call leaves the stack as the function found it. A pointer may also lead to a place inside when the
  // function gives such addresses away.
  const bool may_stay = has_code_pointers_ || !labels_.empty() || !targets.inside.empty();
  const bool frame_gone = targets.computed ? depth == 0 : depth.value_or(0) == 0;
  const bool is_tail = !targets.unknown && !may_stay && frame_gone;
  add_exit(jump, ExitKind::indirect_tail_jump);
  if (!is_tail) note_gap(Gap::unrecovered_jump, jump.address);
}

void FlowBuilder::check_labels() {
  for (uint64_t label : labels_) {
    if (!graph_.at(label)) note_gap(Gap::unreached_label, label);
  }
}

// Code that nothing known leads to is dead, data, or entered in a way we were not told of. An exit there
// would be missed; a branch from there may lead into the known code.
void FlowBuilder::check_leftovers() {
  for (const CodeRange& part : graph_.parts()) {
    for (uint64_t at = part.address; at < part.end();) {
      if (const Instruction* known = graph_.at(at)) {
        at = known->end();
        continue;
      }
      // Goes on with the next known code whatever stands here, so that data does not lead astray for long.
      const auto instruction = decode(part.bytes.subspan(at - part.address), at);
      if (!instruction || !graph_.is_free(at, instruction->length)) {
        ++at;
        continue;
      }
      const bool inside = graph_.contains(instruction->target);
      if (instruction->is_direct_branch() && inside) add_hidden_leader(instruction->target);
      const bool leaves = instruction->kind == Kind::ret || instruction->kind == Kind::indirect_jump ||
                          (instruction->is_direct_branch() && !inside);
      if (leaves) note_gap(Gap::unreached_exit, at);
      at = instruction->end();
    }
  }
}

// A stack that is not as the caller left it: then the two are one function with a name in its middle.
void FlowBuilder::check_filler() {
  if (!runs_into_next_) return;
  if (!depths_) depths_.emplace(graph_);
  if (depths_->at(*graph_.at(*runs_into_next_)) != 0) note_gap(Gap::falls_off_end, *runs_into_next_);
}

void FlowBuilder::finish() {
  flow_.parts_ = graph_.parts();
  flow_.instructions_ = graph_.instructions();
  std::sort(flow_.instructions_.begin(), flow_.instructions_.end(),
            [](const Instruction& a, const Instruction& b) { return a.address < b.address; });
  std::sort(leaders_.begin(), leaders_.end());
  leaders_.erase(std::unique(leaders_.begin(), leaders_.end()), leaders_.end());
  flow_.leaders_ = std::move(leaders_);
  std::sort(flow_.hidden_leaders_.begin(), flow_.hidden_leaders_.end());
  auto& exits = flow_.exits_;
  std::sort(exits.begin(), exits.end(), [](const Exit& a, const Exit& b) { return a.address < b.address; });
  auto same = [](const Exit& a, const Exit& b) { return a.address == b.address; };
  exits.erase(std::unique(exits.begin(), exits.end(), same), exits.end());
}

Flow analyze(const FunctionCode& code) {
  Flow flow = FlowBuilder(code).build();
  if (flow.gap() != Gap::falls_off_end || !code.up_to_next) return flow;
  FunctionCode longer = code;
  longer.parts.front() = *code.up_to_next;
  return FlowBuilder(longer, code.parts.front().end()).build();
}

const Instruction* Flow::find(uint64_t address) const {
  auto by_address = [](const Instruction& i, uint64_t a) { return i.address < a; };
  auto found = std::lower_bound(instructions_.begin(), instructions_.end(), address, by_address);
  return found != instructions_.end() && found->address == address ? &*found : nullptr;
}

bool Flow::has_leader(uint64_t begin, uint64_t end) const {
  auto found = std::lower_bound(leaders_.begin(), leaders_.end(), begin);
  return found != leaders_.end() && *found < end;
}

std::optional<std::vector<const Instruction*>> Flow::ways_to(uint64_t address) const {
  if (!complete() || std::binary_search(hidden_leaders_.begin(), hidden_leaders_.end(), address))
    return std::nullopt;
  std::vector<const Instruction*> ways;
  for (const Instruction& i : instructions_) {
    if ((i.falls_through() && i.end() == address) || (i.is_direct_branch() && i.target == address))
      ways.push_back(&i);
  }
  return ways;
}

Bytes Flow::bytes_at(uint64_t address) const {
  for (const CodeRange& part : parts_) {
    if (part.contains(address)) return part.bytes.subspan(address - part.address);
  }
  return {};
}

std::string Flow::gap_text() const {
  switch (gap_) {
    case Gap::none:
      return {};
    case Gap::empty:
      return "the function has no bytes";
    case Gap::too_large:
      return "the function is too large to analyse";
    case Gap::undecodable:
      return fmt::format("the bytes at {:#x} are no instruction", gap_address_);
    case Gap::falls_off_end:
      return fmt::format("execution runs off the function's end at {:#x}", gap_address_);
    case Gap::unrecovered_jump:
      return fmt::format("where the jump at {:#x} goes is not known", gap_address_);
    case Gap::table_leaves_function:
      return fmt::format("the switch at {:#x} has cases outside of the function's known parts", gap_address_);
    case Gap::overlapping:
      return fmt::format("the instruction at {:#x} overlaps another", gap_address_);
    case Gap::unusual_instruction:
      return fmt::format("a far jump or return at {:#x}", gap_address_);
    case Gap::unreached_label:
      return fmt::format("who jumps to {:#x} is not known", gap_address_);
    case Gap::unreached_exit:
      return fmt::format("how execution gets to the exit at {:#x} is not known", gap_address_);
  }
  return {};
}

}  // namespace uscope::x86
