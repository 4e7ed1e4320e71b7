// Builtin values: who runs, when, where, and the registers of the probed instruction.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"
#include "lang/functions.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

struct RegisterName {
  std::string_view name;
  uint32_t offset;  // in pt_regs
};
constexpr std::array kRegisters = {
    RegisterName{"r15", 0},        RegisterName{"r14", 8},   RegisterName{"r13", 16},
    RegisterName{"r12", 24},       RegisterName{"bp", 32},   RegisterName{"bx", 40},
    RegisterName{"r11", 48},       RegisterName{"r10", 56},  RegisterName{"r9", 64},
    RegisterName{"r8", 72},        RegisterName{"ax", 80},   RegisterName{"cx", 88},
    RegisterName{"dx", 96},        RegisterName{"si", 104},  RegisterName{"di", 112},
    RegisterName{"orig_ax", 120},  RegisterName{"ip", 128},  RegisterName{"cs", 136},
    RegisterName{"flags", 144},    RegisterName{"sp", 152},  RegisterName{"ss", 160},
    RegisterName{"rbp", 32},       RegisterName{"rbx", 40},  RegisterName{"rax", 80},
    RegisterName{"rcx", 88},       RegisterName{"rdx", 96},  RegisterName{"rsi", 104},
    RegisterName{"rdi", 112},      RegisterName{"rip", 128}, RegisterName{"rsp", 152},
    RegisterName{"orig_rax", 120},
};
constexpr std::array<int32_t, 6> kArguments = {112, 104, 96, 88, 72, 64};  // System V: di si dx cx r8 r9
constexpr int32_t kStackPointer = 152, kInstruction = 128, kCodeSegment = 136, kFlags = 144;

constexpr int32_t kNoProbe = -1;  // in a UserSymbol: the address is what counts

}  // namespace

void CodeGenerator::builtin(const Expr& expr, const std::string& name) {
  if (int number = lang::argument_number(name); number >= 0) return argument_number(expr, name, number);
  bool has_registers = site_.kind == CodeKind::UserProbe || site_.kind == CodeKind::PerfEvent;
  if (name == "pid" || name == "tid") return pid_tid(name == "tid", true);
  if (name == "uid" || name == "gid") {
    asm_.call(BPF_FUNC_get_current_uid_gid);
    if (name == "uid") asm_.alu(Alu::Lsh, R0, 32);
    asm_.alu(Alu::Rsh, R0, 32);
  } else if (name == "nsecs") {
    clock("boot", expr.span);
  } else if (name == "elapsed") {
    asm_.store(Width::B4, R10, Frame::kBrief.offset, 0);
    address(R2, Frame::kBrief);
    asm_.load_map(R1, unit_.start_time_map());
    asm_.call(BPF_FUNC_map_lookup_elem);
    asm_.mov(R7, 0);
    Label none = asm_.label();
    asm_.jump_if(Cond::Eq, R0, 0, none);
    asm_.load(Width::B8, R7, R0, 0);
    asm_.bind(none);
    clock("boot", expr.span);
    asm_.alu(Alu::Sub, R0, R7);
  } else if (name == "cpu") {
    asm_.call(BPF_FUNC_get_smp_processor_id);
  } else if (name == "ncpus") {
    asm_.mov(R0, unit_.inputs.possible_cpus);
  } else if (name == "rand") {
    asm_.call(BPF_FUNC_get_prandom_u32);
  } else if (name == "cgroup") {
    asm_.call(BPF_FUNC_get_current_cgroup_id);
  } else if (name == "numaid") {
    asm_.call(BPF_FUNC_get_numa_node_id);
  } else if (name == "jiffies") {
    if (kernel_is_there(expr, name)) asm_.call(BPF_FUNC_jiffies64);
  } else if (name == "curtask") {
    if (kernel_is_there(expr, name)) asm_.call(BPF_FUNC_get_current_task);
  } else if (name == "retval" && has_registers) {
    scalar_result(expr);
  } else if (name == "took" && site_.kind == CodeKind::UserProbe) {
    reads_took_ = true;
    load_slot(R0, Frame::kTook);
  } else if (name == "cpid") {
    child_pid(expr);
  } else if (name == "ppid") {
    parent_pid(expr);
  } else if (name == "goid") {
    if (!unit_.inputs.places || site_.kind != CodeKind::UserProbe)
      return unsupported(expr.span, "goid at this probe");
    depends_on_place_ = true;
    place_number(expr, unit_.inputs.places->goroutine(*site_.attach));
  } else if (name == "has_cpid") {
    asm_.mov(R0, unit_.inputs.child_pid ? 1 : 0);
  } else if (name == "usermode") {
    user_mode();
  } else if (name == "ctx") {
    // A number, as address_of() makes one.
    Place number = frame_.allocate_scratch(8);
    store_slot(number, kContext);
    load_slot(R0, number);
  } else {
    unsupported(expr.span, name + " at this probe");
  }
}

// What was interrupted is the program's own code, except where a timer of the processor interrupts.
void CodeGenerator::user_mode() {
  asm_.mov(R0, 1);
  if (site_.kind != CodeKind::PerfEvent) return;
  asm_.load(Width::B8, R1, kContext, kCodeSegment);
  Label done = asm_.label();
  asm_.alu(Alu::And, R1, 3);  // the privilege level: 3 is the program's, 0 the kernel's
  asm_.jump_if(Cond::Ne, R1, 0, done);
  asm_.mov(R0, 0);
  asm_.bind(done);
}

void CodeGenerator::child_pid(const Expr& expr) {
  if (!unit_.inputs.child_pid)
    message(event::FormatKind::Warnf, "No child command (`-c`); cpid is zero", expr.span);
  asm_.mov(R0, int64_t(unit_.inputs.child_pid.value_or(0)));
}

void CodeGenerator::place_number(const Expr& expr, const Result<ArgumentPlace>& place) {
  if (!place) return unit_.problem(expr.span, place.error().message());
  reading_ = expr.span;
  place_value(*place);
}

void CodeGenerator::pid_tid(bool is_tid, bool in_namespace) {
  if (in_namespace && unit_.inputs.pid_namespace) {
    // Fails, and gives 0, for a process outside of the namespace.
    asm_.mov(R1, int64_t(unit_.inputs.pid_namespace->device));
    asm_.mov(R2, int64_t(unit_.inputs.pid_namespace->inode));
    address(R3, Frame::kBrief);
    asm_.mov(R4, 8);
    asm_.call(BPF_FUNC_get_ns_current_pid_tgid);
    asm_.load(Width::B4, R0, R10, Frame::kBrief.offset + (is_tid ? 0 : 4));
    return;
  }
  asm_.call(BPF_FUNC_get_current_pid_tgid);
  if (is_tid) asm_.alu(Alu::Lsh, R0, 32);
  asm_.alu(Alu::Rsh, R0, 32);
}

void CodeGenerator::argument_number(const Expr& expr, const std::string& name, int number) {
  if (site_.attach->kind == lang::ProbeKind::kUsdt) {
    if (!unit_.inputs.places) return unsupported(expr.span, name + " of a usdt probe");
    depends_on_place_ = true;
    auto place = unit_.inputs.places->usdt_argument(*site_.attach, site_.usdt_site, size_t(number));
    if (!place) return unit_.problem(expr.span, place.error().message());
    // The probe may be in several places of the source, with other types of arguments there.
    bool wants_float = expr.type.is(TypeKind::kFloat);
    if (wants_float != place->is_float || (wants_float && place->size != expr.type.size()))
      return unit_.problem(expr.span,
                           fmt::format("`{}` has another type at another site of the probe", name));
    place_value(*place);
    if (place->is_address) {
      read_user(Frame::kBrief, place->size);
      asm_.load(width_of(place->size), R0, Frame::kBrief.base, Frame::kBrief.offset);
    }
    return extend(R0, Type::integer(place->size * 8, place->is_signed));
  }
  if (site_.kind != CodeKind::UserProbe) return unsupported(expr.span, name + " at this probe");
  if (unit_.inputs.places) {
    auto is_c = unit_.inputs.places->numbered_arguments(*site_.attach);
    if (!is_c) return unit_.problem(expr.span, fmt::format("`{}`: {}", name, is_c.error().message()));
  }
  if (size_t(number) < kArguments.size())
    return asm_.load(Width::B8, R0, kContext, kArguments[size_t(number)]);
  // Behind the return address, at a function's first instruction.
  asm_.load(Width::B8, R0, kContext, kStackPointer);
  asm_.alu(Alu::Add, R0, 8 * (number - int(kArguments.size()) + 1));
  read_user(Frame::kBrief, 8);
  load_slot(R0, Frame::kBrief);
}

void CodeGenerator::register_at(const Expr& expr, std::string_view name) {
  auto found = std::ranges::find(kRegisters, name, &RegisterName::name);
  bool has_registers = site_.kind == CodeKind::UserProbe || site_.kind == CodeKind::PerfEvent;
  if (found == kRegisters.end() || !has_registers)
    return unsupported(expr.span, fmt::format("reg(\"{}\") at this probe", name));
  if (found->offset == kFlags && unit_.inputs.in_process)
    return unit_.problem(
        expr.span,
        "reg(\"flags\") is not kept by the in-process engine, as most code does not need it; "
        "use --engine kernel");
  reads_result_ = true;  // or what goes with it
  asm_.load(Width::B8, R0, kContext, int32_t(found->offset));
}

void CodeGenerator::cookie(Reg dst) {
  if (!site_.is_shared) return asm_.mov(dst, int64_t(site_.cookie));
  asm_.mov(R1, kContext);
  asm_.call(BPF_FUNC_get_attach_cookie);
  if (dst != R0) asm_.mov(dst, R0);
}

void CodeGenerator::clock(std::string_view mode, lang::Span span) {
  if (mode == "boot") return asm_.call(BPF_FUNC_ktime_get_boot_ns);
  if (mode == "monotonic") return asm_.call(BPF_FUNC_ktime_get_ns);
  if (mode == "tai") return asm_.call(BPF_FUNC_ktime_get_tai_ns);
  if (mode == "sw_tai") {
    asm_.call(BPF_FUNC_ktime_get_boot_ns);
    asm_.mov(R1, unit_.inputs.boot_to_tai_ns);
    return asm_.alu(Alu::Add, R0, R1);
  }
  unsupported(span, fmt::format("nsecs({})", mode));
}

void CodeGenerator::store_builtin(const Expr& expr, const std::string& name, Place to, const Type& want) {
  uint64_t size = size_of(want);
  if (name == "comm" && want.is(TypeKind::kString)) {
    if (size > 16) clear(to, size);
    address(R1, to);
    asm_.mov(R2, int64_t(std::min<uint64_t>(size, 16)));
    asm_.call(BPF_FUNC_get_current_comm);
    return;
  }
  if (name == "retval" && site_.kind == CodeKind::UserProbe)
    return store_located(locate_result(expr), expr.type, to, want);
  if (int number = lang::argument_number(name); number >= 0 && want.is(TypeKind::kFloat)) {
    argument_number(expr, name, number);
    return asm_.store(width_of(want.size()), to.base, to.offset, R0);
  }
  if (name == "probetype" && want.is(TypeKind::kString))
    return store_text(to, lang::probe_type(site_.attach->kind), size);
  if (name == "probe" && want.is(TypeKind::kString)) {
    if (!site_.is_shared) return store_text(to, unit_.out.plan.probes[site_.cookie], size);
    clear(to, size);
    uint32_t map = unit_.probe_names_map(size);
    cookie(R0);
    asm_.store(Width::B4, R10, Frame::kBrief.offset, R0);
    address(R2, Frame::kBrief);
    asm_.load_map(R1, map);
    asm_.call(BPF_FUNC_map_lookup_elem);
    Label none = asm_.label();
    asm_.jump_if(Cond::Eq, R0, 0, none);
    asm_.mov(R3, R0);
    address(R1, to);
    asm_.mov(R2, int64_t(std::min<uint64_t>(size, unit_.out.program.maps[map].value_size)));
    asm_.call(BPF_FUNC_probe_read_kernel_str);
    asm_.bind(none);
    return;
  }
  if (name == "func" && want.is(TypeKind::kUserSymbol)) {
    if (site_.kind != CodeKind::UserProbe && site_.kind != CodeKind::PerfEvent)
      return unsupported(expr.span, "func at this probe");
    // A function has one entry but several exits: there, the probe says which function it is.
    if (site_.attach->kind == lang::ProbeKind::kUretprobe)
      asm_.mov(R0, 0);
    else
      asm_.load(Width::B8, R0, kContext, kInstruction);
    return user_symbol(to, site_.kind == CodeKind::UserProbe);
  }
  if (name == "username") {
    asm_.call(BPF_FUNC_get_current_uid_gid);
    asm_.alu(Alu::Lsh, R0, 32);
    asm_.alu(Alu::Rsh, R0, 32);
    return store_slot(to, R0);
  }
  if (name == "pcomm" && want.is(TypeKind::kString)) return store_parent_comm(expr, to, size);
  if (name == "ustack" || name == "dw_ustack") return user_stack(expr, to);
  if (name == "kstack") return kernel_stack(expr, to);
  if (name == "args" || name == "locals") return store_arguments(expr, name == "locals", want, to);
  unsupported(expr.span, name);
}

void CodeGenerator::user_symbol(Place to, bool with_probe) {
  asm_.store(Width::B8, to.base, to.offset, R0);
  pid_tid(false, true);
  asm_.store(Width::B4, to.base, to.offset + 8, R0);
  if (!with_probe) return asm_.store(Width::B4, to.base, to.offset + 12, kNoProbe);
  cookie(R0);
  asm_.store(Width::B4, to.base, to.offset + 12, R0);
}

}  // namespace uscope::codegen
