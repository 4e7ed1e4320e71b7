// Calls: functions of the code itself, the runtime's, and those that are served in place: lookups whose map
// and key are known, the clocks, the thread's id. What is served in place changes rax, rcx, rdx and rsi only,
// which a call may.
#include "engine/inproc/code/served_calls.h"
#include "engine/inproc/code/translator.h"
#include "engine/inproc/runtime/hash_map.h"

namespace uscope::engine::inproc {

namespace x86 = asmjit::x86;
using asmjit::imm;

namespace {

bool is_32_bit(uint64_t value) { return value <= INT32_MAX; }

size_t clock_base(int32_t helper) {
  switch (helper) {
    case BPF_FUNC_ktime_get_ns:
      return offsetof(TickClock, monotonic_base);
    case BPF_FUNC_ktime_get_boot_ns:
      return offsetof(TickClock, boottime_base);
    case BPF_FUNC_ktime_get_tai_ns:
      return offsetof(TickClock, tai_base);
    default:
      return 0;
  }
}

}  // namespace

bool Translator::is_pairing(const bpf_insn& call) {
  return call.imm == codegen::kEnterFunction || call.imm == codegen::kLeaveFunction;
}

bool Translator::can_inline(uint32_t at) const {
  const bpf_insn& i = code_.instructions[at];
  if (i.src_reg != 0 || facts_.functions.size() > 1) return false;
  if (clock_base(i.imm) != 0 || i.imm == BPF_FUNC_get_current_pid_tgid || is_pairing(i)) return true;
  if (!flow_.is_known_lookup(at)) return false;
  const MapInfo& map = plan_.maps[flow_.before(at, 1).map];
  if (map.kind == Kind::Ring || !is_32_bit(map.thread_values + map.value_stride)) return false;
  return is_array(map.kind) || map.key_size == 8 || map.key_size == 4;
}

void Translator::call_runtime(uint32_t at) {
  if (flow_.is_known_lookup(at)) {
    // What would have set these was needless.
    out_.movabs(x86::rdi, imm(places_.maps + flow_.before(at, 1).map * sizeof(MapInfo)));
    out_.lea(x86::rsi, x86::ptr(x86::r12, int32_t(flow_.before(at, 2).number)));
  }
  out_.mov(x86::r9, x86::r12);
  if (facts_.uses_may_goto) out_.sub(x86::qword_ptr(x86::r12, offsetof(Slot, rounds_left)), kRoundsOfCall);
  const std::string_view symbol =
      flow_.looks_up_text(at) ? "uscope_map_lookup_text" : served_call(code_.instructions[at].imm)->symbol;
  out_.call(imm(places_.blob + blob_offset(symbol)));
}

Status Translator::call(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  if (i.src_reg == BPF_PSEUDO_CALL) {
    out_.call(functions_[facts_.function_of(uint32_t(int32_t(at) + 1 + i.imm))]);
    return {};
  }
  const auto served = served_call(i.imm);
  if (!served) return refuse(at, "a call that this engine does not serve");
  if (can_inline(at))
    inline_call(at);
  else
    call_runtime(at);
  return {};
}

x86::Mem Translator::constant(uint64_t value) {
  for (const auto& [known, label] : constants_)
    if (known == value) return x86::qword_ptr(label);
  constants_.push_back({value, out_.newLabel()});
  return x86::qword_ptr(constants_.back().second);
}

void Translator::inline_call(uint32_t at) {
  const bpf_insn& i = code_.instructions[at];
  auto& misses = version_ == Version::Quick ? upgrades_ : misses_;
  misses.push_back({at, out_.newLabel(), out_.newLabel()});
  const Miss miss = misses.back();
  if (i.imm == BPF_FUNC_get_current_pid_tgid) {
    read_pid_tgid(miss.here);
  } else if (i.imm == codegen::kEnterFunction) {
    enter_function(miss.here);
  } else if (i.imm == codegen::kLeaveFunction) {
    leave_function(miss.here);
  } else if (size_t base = clock_base(i.imm)) {
    read_clock(base, miss.here);
  } else {
    const MapInfo& map = plan_.maps[flow_.before(at, 1).map];
    const auto key = int32_t(flow_.before(at, 2).number);
    if (is_array(map.kind))
      lookup_in_array(map, key, miss.here);
    else if (map.bucket_mask == 0)
      lookup_only_key(map, key, miss.here);
    else
      lookup_in_hash(map, key, miss.here);
  }
  out_.bind(miss.back);
}

void Translator::lookup_in_array(const MapInfo& map, int32_t key, Label miss) {
  out_.mov(x86::eax, x86::dword_ptr(x86::r12, key));
  out_.cmp(x86::eax, imm(map.max_entries));
  out_.jae(miss);
  if (map.max_entries > 1) out_.imul(x86::rax, x86::rax, imm(map.value_stride));
  if (map.kind == Kind::Array) {
    if (map.max_entries > 1)
      out_.add(x86::rax, constant(places_.shared + map.elements));
    else
      out_.mov(x86::rax, constant(places_.shared + map.elements));
    return;
  }
  const x86::Mem values = x86::qword_ptr(x86::r12, offsetof(Slot, values));
  map.max_entries > 1 ? out_.add(x86::rax, values) : out_.mov(x86::rax, values);
  out_.add(x86::rax, imm(map.thread_values));
}

// A map of one entry: maps without a key.
void Translator::lookup_only_key(const MapInfo& map, int32_t key, Label miss) {
  const bool wide = map.key_size == 8;
  const x86::Gp word = wide ? x86::Gp(x86::rdx) : x86::Gp(x86::edx);
  out_.mov(x86::rcx, constant(places_.shared + map.buckets));
  out_.cmp(x86::dword_ptr(x86::rcx, offsetof(Bucket, first)), imm(1));
  out_.jne(miss);
  out_.mov(x86::rcx, constant(places_.shared + map.elements));
  out_.mov(word, x86::ptr(x86::r12, key));
  out_.cmp(x86::ptr(x86::rcx, sizeof(Element), wide ? 8 : 4), word);
  out_.jne(miss);
  if (is_lru(map.kind)) {
    out_.test(x86::dword_ptr(x86::rcx, offsetof(Element, flags)), imm(kReferenced));
    out_.je(miss);
  }
  if (!is_per_thread(map.kind)) {
    out_.lea(x86::rax, x86::ptr(x86::rcx, sizeof(Element) + 8));
    return;
  }
  out_.mov(x86::rax, x86::qword_ptr(x86::r12, offsetof(Slot, values)));
  out_.add(x86::rax, imm(map.thread_values));
}

// The first two elements of the key's bucket.
void Translator::lookup_in_hash(const MapInfo& map, int32_t key, Label miss) {
  const bool wide = map.key_size == 8;
  const x86::Gp word = wide ? x86::Gp(x86::rdx) : x86::Gp(x86::edx);
  Label found = out_.newLabel();
  out_.mov(word, x86::ptr(x86::r12, key));
  out_.mov(x86::rax, imm(kSlotHash));
  out_.imul(x86::rax, x86::rdx);
  out_.shr(x86::rax, 32);
  out_.and_(x86::eax, imm(map.bucket_mask));
  out_.mov(x86::rcx, constant(places_.shared + map.buckets));
  out_.mov(x86::ecx, x86::dword_ptr(x86::rcx, x86::rax, 3, offsetof(Bucket, first)));
  for (bool is_first : {true, false}) {
    out_.lea(x86::eax, x86::ptr(x86::rcx, -1));
    out_.cmp(x86::eax, imm(map.element_count));
    out_.jae(miss);  // none, or the end of a chain, or what somebody wrote there
    out_.imul(x86::rax, x86::rcx, imm(map.element_size));
    out_.add(x86::rax, constant(places_.shared + map.elements - map.element_size));
    out_.cmp(x86::ptr(x86::rax, sizeof(Element), wide ? 8 : 4), word);
    if (!is_first) {
      out_.jne(miss);
      break;
    }
    out_.je(found);
    out_.mov(x86::ecx, x86::dword_ptr(x86::rax, offsetof(Element, next)));
  }
  out_.bind(found);
  if (is_lru(map.kind)) {
    out_.test(x86::dword_ptr(x86::rax, offsetof(Element, flags)), imm(kReferenced));
    out_.je(miss);
  }
  if (!is_per_thread(map.kind)) {
    out_.add(x86::rax, imm(sizeof(Element) + 8));
    return;
  }
  out_.imul(x86::rax, x86::rcx, imm(map.value_stride));
  out_.add(x86::rax, x86::qword_ptr(x86::r12, offsetof(Slot, values)));
  out_.add(x86::rax, imm(int64_t(map.thread_values) - map.value_stride));
}

// See in_target/clock.cpp, which takes over when the parameters are just being changed.
void Translator::read_clock(size_t base, Label miss) {
  out_.mov(x86::rcx, constant(places_.shared + offsetof(SharedHeader, clock)));
  auto at = [](size_t offset, uint32_t size) { return x86::ptr(x86::rcx, int32_t(offset), size); };
  out_.cmp(at(offsetof(TickClock, uses_ticks), 4), 0);
  out_.je(miss);
  out_.mov(x86::esi, at(offsetof(TickClock, sequence), 4));
  out_.rdtsc();
  out_.shl(x86::rdx, 32);
  out_.or_(x86::rax, x86::rdx);
  out_.sub(x86::rax, at(offsetof(TickClock, tick_base), 8));
  out_.mul(at(offsetof(TickClock, multiplier), 8));
  out_.shrd(x86::rax, x86::rdx, 32);
  out_.add(x86::rax, at(base, 8));
  out_.test(x86::esi, 1);
  out_.jne(miss);
  out_.cmp(x86::esi, at(offsetof(TickClock, sequence), 4));
  out_.jne(miss);
}

void Translator::read_pid_tgid(Label miss) {
  out_.mov(x86::rcx, x86::qword_ptr(x86::r12, offsetof(Slot, tid_word)));
  out_.test(x86::rcx, x86::rcx);
  out_.je(miss);
  out_.mov(x86::eax, x86::dword_ptr(x86::r12, offsetof(Slot, tid)));
  out_.cmp(x86::dword_ptr(x86::rcx), x86::eax);
  out_.jne(miss);
  out_.mov(x86::ecx, x86::dword_ptr(x86::r12, offsetof(Slot, shown_pid)));
  out_.shl(x86::rcx, 32);
  out_.or_(x86::rax, x86::rcx);
}

asmjit::Label Translator::full_miss(uint32_t at) {
  auto [found, is_new] = full_misses_.try_emplace(at);
  if (is_new) found->second = out_.newLabel();
  return found->second;
}

void Translator::emit_upgrades(const std::function<void()>& save_rest) {
  for (const Miss& each : upgrades_) {
    out_.bind(each.here);
    save_rest();
    out_.jmp(each.back.isValid() ? full_miss(each.at) : labels_[size_t(Version::Full)][each.at]);
  }
}

void Translator::emit_rest() {
  for (const Miss& each : misses_) {
    out_.bind(each.here);
    out_.bind(full_miss(each.at));
    call_runtime(each.at);
    out_.jmp(each.back);
  }
  if (constants_.empty()) return;
  out_.align(asmjit::AlignMode::kData, 8);
  for (const auto& [value, label] : constants_) {
    out_.bind(label);
    out_.embedUInt64(value);
  }
}

}  // namespace uscope::engine::inproc
