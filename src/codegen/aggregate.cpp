// Aggregations: the words of event/aggregate.h, one copy for each CPU. A probe's program may be preempted and
// another run on the same CPU, so words are added to atomically.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

void CodeGenerator::aggregate(lang::Span span, const lang::MapAccess& access, const lang::Call& node) {
  const Unit::ScriptMap& map = unit_.script_map(access.name);
  const lang::MapInfo& info = *map.info;
  TypeKind kind = info.value.kind();
  if (kind == TypeKind::kTseries) return tseries(span, map, access, node);
  Place operand;
  if (!node.arguments.empty()) {
    scalar(*node.arguments[0]);
    if (kind == TypeKind::kHist) hist_bucket(info.hist_bits);
    if (kind == TypeKind::kLhist) lhist_bucket(info);
    operand = keep(R0);
  }
  Place key = map_key(map, access.key.get());
  Label failed = asm_.label();
  lookup_or_add(map, key, span, failed);
  switch (kind) {
    case TypeKind::kCount:
      asm_.mov(R1, 1);
      asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
      break;
    case TypeKind::kSum:
      load_slot(R1, operand);
      asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
      break;
    case TypeKind::kAvg:
    case TypeKind::kStats:
      load_slot(R1, operand);
      asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
      asm_.mov(R1, 1);
      asm_.atomic(BPF_ADD, Width::B8, R0, 8, R1);
      break;
    case TypeKind::kMin:
    case TypeKind::kMax:
      extreme(operand, kind == TypeKind::kMax, info.value.is_signed());
      break;
    case TypeKind::kHist:
    case TypeKind::kLhist: {
      // The verifier must see that the bucket is one of the value's.
      load_slot(R1, operand);
      asm_.jump_if(Cond::Gt, R1, int32_t(map.value_size / 8 - 1), failed);
      asm_.alu(Alu::Lsh, R1, 3);
      asm_.alu(Alu::Add, R0, R1);
      asm_.mov(R1, 1);
      asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
      break;
    }
    default:
      unsupported(span, node.name + "()");
  }
  asm_.bind(failed);
}

// The interval's words at R0: {value, count, epoch}; see event/aggregate.h.
void CodeGenerator::tseries(lang::Span span, const Unit::ScriptMap& map, const lang::MapAccess& access,
                            const lang::Call& node) {
  const lang::MapInfo& info = *map.info;
  const std::string& how = info.tseries_aggregation;
  auto intervals = int32_t(map.value_size / 24);
  scalar(*node.arguments[0]);
  Place value = keep(R0);
  series_time();
  Place now = keep(R0);
  asm_.mov(R1, int64_t(info.tseries_interval_ns));
  asm_.alu(Alu::Div, R0, R1);
  Place epoch = keep(R0);
  Place key = map_key(map, access.key.get());
  Label failed = asm_.label(), fresh = asm_.label();
  lookup_or_add(map, key, span, failed);
  load_slot(R3, epoch);
  asm_.mov(R1, R3);
  asm_.alu(Alu::Mod, R1, intervals);
  asm_.jump_if(Cond::Gt, R1, intervals - 1, failed);  // for the verifier
  asm_.alu(Alu::Mul, R1, 24);
  asm_.alu(Alu::Add, R0, R1);
  load_slot(R1, value);
  asm_.mov(R4, 1);
  if (how.empty()) load_slot(R4, now);
  if (!unit_.typed.settings.series_clock_map.empty()) epoch_zero(fresh);
  asm_.load(Width::B8, R2, R0, 16);
  asm_.jump_if(Cond::Ne, R2, R3, fresh);
  asm_.load(Width::B8, R5, R0, 8);
  asm_.jump_if(Cond::Eq, R5, 0, fresh);
  if (how.empty()) {
    asm_.jump(fresh);
  } else {
    asm_.alu(Alu::Add, R4, R5);
    asm_.load(Width::B8, R2, R0, 0);
    if (how == "min" || how == "max") {
      Label take = asm_.label();
      bool is_signed = info.value.is_signed();
      Cond takes = how == "min" ? (is_signed ? Cond::SLt : Cond::Lt) : (is_signed ? Cond::SGt : Cond::Gt);
      asm_.jump_if(takes, R1, R2, take);
      asm_.mov(R1, R2);
      asm_.bind(take);
    } else {
      asm_.alu(Alu::Add, R1, R2);
    }
  }
  asm_.bind(fresh);
  asm_.store(Width::B8, R0, 0, R1);
  asm_.store(Width::B8, R0, 8, R4);
  asm_.store(Width::B8, R0, 16, R3);
  asm_.bind(failed);
}

// bpftrace takes interval number 0 for one that holds nothing yet, and shows 0 for it. No real clock is
// there; the one that tests make starts there.
void CodeGenerator::epoch_zero(Label fresh) {
  Label later = asm_.label();
  asm_.jump_if(Cond::Ne, R3, 0, later);
  asm_.mov(R1, 0);
  asm_.mov(R4, 1);
  asm_.jump(fresh);
  asm_.bind(later);
}

// The time that a value of a series belongs to -> R0: now, or what the script keeps in the map that the
// environment names, by which tests make the time go on.
void CodeGenerator::series_time() {
  const std::string& clock = unit_.typed.settings.series_clock_map;
  auto found = clock.empty() ? unit_.typed.maps.end() : unit_.typed.maps.find(clock);
  if (found == unit_.typed.maps.end() || found->second.key || !found->second.value.is_scalar())
    return asm_.call(BPF_FUNC_ktime_get_boot_ns);
  lang::MapAccess access;
  access.name = clock;
  read_map(Expr(), access);
}

// [R0] = {value, is_set}.
void CodeGenerator::extreme(Place value, bool is_max, bool is_signed) {
  Label take = asm_.label(), done = asm_.label();
  load_slot(R1, value);
  asm_.load(Width::B8, R2, R0, 8);
  asm_.jump_if(Cond::Eq, R2, 0, take);
  asm_.load(Width::B8, R2, R0, 0);
  Cond stays = is_max ? (is_signed ? Cond::SLe : Cond::Le) : (is_signed ? Cond::SGe : Cond::Ge);
  asm_.jump_if(stays, R1, R2, done);
  asm_.bind(take);
  asm_.store(Width::B8, R0, 0, R1);
  asm_.mov(R2, 1);
  asm_.store(Width::B8, R0, 8, R2);
  asm_.bind(done);
}

// R0 = the bucket of R0: 0 for negative numbers, then each number up to 2^bits, then 2^bits for each power of
// two. See event::bucket_of_hist.
void CodeGenerator::hist_bucket(uint64_t bits) {
  auto low = int32_t(bits);
  int64_t mask = (int64_t(1) << bits) - 1;
  Label negative = asm_.label(), small = asm_.label(), done = asm_.label();
  asm_.jump_if(Cond::SLt, R0, 0, negative);
  asm_.jump_if(Cond::Le, R0, int32_t(mask), small);
  asm_.mov(R2, 0);  // how far R0 was shifted so that its highest bit is at `bits`
  // Without branches: the verifier would follow all 64 ways through them.
  for (int32_t step : {32, 16, 8, 4, 2, 1}) {
    asm_.mov(R1, R0);
    asm_.alu(Alu::Rsh, R1, low + step);
    asm_.neg(R1);
    asm_.alu(Alu::Rsh, R1, 63);  // 1 if anything is left
    asm_.alu(Alu::Mul, R1, step);
    asm_.alu(Alu::Rsh, R0, R1);
    asm_.alu(Alu::Add, R2, R1);
  }
  if (low > 0) asm_.alu(Alu::Lsh, R2, low);
  asm_.alu(Alu::And, R0, int32_t(mask));
  asm_.alu(Alu::Add, R0, R2);
  asm_.alu(Alu::Add, R0, int32_t(mask + 2));
  asm_.jump(done);
  asm_.bind(negative);
  asm_.mov(R0, -1);
  asm_.bind(small);
  asm_.alu(Alu::Add, R0, 1);
  asm_.bind(done);
}

void CodeGenerator::lhist_bucket(const lang::MapInfo& info) {
  Label below = asm_.label(), above = asm_.label(), done = asm_.label();
  int64_t steps = int64_t((uint64_t(info.lhist_max) - uint64_t(info.lhist_min)) / uint64_t(info.lhist_step));
  asm_.mov(R1, info.lhist_min);
  asm_.jump_if(Cond::SLt, R0, R1, below);
  asm_.mov(R2, info.lhist_max);
  asm_.jump_if(Cond::SGe, R0, R2, above);
  asm_.alu(Alu::Sub, R0, R1);
  asm_.mov(R1, info.lhist_step);
  asm_.alu(Alu::Div, R0, R1);
  asm_.alu(Alu::Add, R0, 1);
  asm_.jump(done);
  asm_.bind(below);
  asm_.mov(R0, 0);
  asm_.jump(done);
  asm_.bind(above);
  asm_.mov(R0, steps + 1);
  asm_.bind(done);
}

// R0 = what all CPUs have together.
void CodeGenerator::read_aggregate(const Unit::ScriptMap& map, Place key) {
  const Type& type = map.info->value;
  bool is_extreme = type.is(TypeKind::kMin) || type.is(TypeKind::kMax);
  Place total = frame_.allocate_stack(8), count = frame_.allocate_stack(8);
  Label again = asm_.label(), next = asm_.label(), done = asm_.label();
  asm_.mov(R7, 0);
  store_slot(total, R7);
  store_slot(count, R7);
  asm_.bind(again);
  address(R2, key);
  asm_.mov(R3, R7);
  asm_.load_map(R1, map.program_map);
  asm_.call(BPF_FUNC_map_lookup_percpu_elem);
  // Threads are numbered without gaps, as CPUs may not be.
  asm_.jump_if(Cond::Eq, R0, 0, unit_.inputs.in_process ? done : next);
  if (is_extreme) {
    Label take = asm_.label();
    asm_.load(Width::B8, R2, R0, 8);
    asm_.jump_if(Cond::Eq, R2, 0, next);
    asm_.load(Width::B8, R1, R0, 0);
    load_slot(R2, count);
    asm_.jump_if(Cond::Eq, R2, 0, take);
    load_slot(R2, total);
    bool is_max = type.is(TypeKind::kMax);
    Cond stays =
        is_max ? (type.is_signed() ? Cond::SLe : Cond::Le) : (type.is_signed() ? Cond::SGe : Cond::Ge);
    asm_.jump_if(stays, R1, R2, next);
    asm_.bind(take);
    store_slot(total, R1);
    asm_.mov(R1, 1);
    store_slot(count, R1);
  } else {
    asm_.load(Width::B8, R1, R0, 0);
    load_slot(R2, total);
    asm_.alu(Alu::Add, R2, R1);
    store_slot(total, R2);
    if (type.is(TypeKind::kAvg)) {
      asm_.load(Width::B8, R1, R0, 8);
      load_slot(R2, count);
      asm_.alu(Alu::Add, R2, R1);
      store_slot(count, R2);
    }
  }
  asm_.bind(next);
  asm_.alu(Alu::Add, R7, 1);
  asm_.jump_if(
      Cond::Lt, R7,
      int32_t(std::max<uint32_t>(std::max(unit_.inputs.value_copies, unit_.inputs.possible_cpus), 1)), again);
  asm_.bind(done);
  load_slot(R0, total);
  if (!type.is(TypeKind::kAvg)) return;
  load_slot(R1, count);
  if (type.is_signed()) return signed_division(false);
  asm_.alu(Alu::Div, R0, R1);
}

}  // namespace uscope::codegen
