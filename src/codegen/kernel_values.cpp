// What is known of the kernel: its stacks and symbols, the current task's parent, and messages to its log.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

constexpr uint64_t kCommSize = 16;

}  // namespace

// See event/aggregate.h. Where no code was interrupted there is no stack to show: it has no frames.
void CodeGenerator::kernel_stack(const Expr& expr, Place to) {
  uint64_t size = size_of(expr.type);
  if (size <= kStackHeader) return unsupported(expr.span, "kstack here");
  if (!kernel_is_there(expr, "kstack")) return;
  clear(to, size);
  if (site_.kind == CodeKind::RunOnce || site_.kind == CodeKind::Timer) return;
  kernels_frames(size, to, 0);
}

// Whether the code can see what is the kernel's own; says so where it cannot.
bool CodeGenerator::kernel_is_there(const Expr& expr, const std::string& name) {
  if (!unit_.inputs.in_process) return true;
  unit_.problem(expr.span, name +
                               " is the kernel's own, out of sight for code inside the process; use --engine "
                               "kernel");
  return false;
}

// The address of the current task's parent -> R0; false if it cannot be found.
bool CodeGenerator::parent_task(const Expr& expr, const std::string& name) {
  if (!unit_.task_layout()) {
    unit_.problem(expr.span, name + " needs the kernel's own type information (/sys/kernel/btf/vmlinux)");
    return false;
  }
  asm_.call(BPF_FUNC_get_current_task);
  read_kernel_number(unit_.task_layout()->real_parent, 8);
  return true;
}

// The number at R0 + offset of the kernel's memory -> R0; 0 where there is none.
void CodeGenerator::read_kernel_number(uint64_t offset, uint64_t size) {
  asm_.mov(R3, R0);
  asm_.alu(Alu::Add, R3, int32_t(offset));
  asm_.store(Width::B8, R10, Frame::kBrief.offset, 0);
  address(R1, Frame::kBrief);
  asm_.mov(R2, int64_t(size));
  asm_.call(BPF_FUNC_probe_read_kernel);
  asm_.load(width_of(size), R0, R10, Frame::kBrief.offset);
}

void CodeGenerator::parent_pid(const Expr& expr) {
  if (unit_.inputs.in_process) {
    asm_.mov(R1, 0);
    asm_.mov(R2, 0);
    return asm_.call(kParentProcess);
  }
  if (!parent_task(expr, "ppid")) return;
  read_kernel_number(unit_.task_layout()->tgid, 4);
}

void CodeGenerator::store_parent_comm(const Expr& expr, Place to, uint64_t size) {
  if (unit_.inputs.in_process) {
    address(R1, to);
    asm_.mov(R2, int64_t(size));
    return asm_.call(kParentProcess);
  }
  clear(to, size);
  if (!parent_task(expr, "pcomm")) return;
  asm_.mov(R3, R0);
  asm_.alu(Alu::Add, R3, int32_t(unit_.task_layout()->comm));
  address(R1, to);
  asm_.mov(R2, int64_t(std::min(size, kCommSize)));
  asm_.call(BPF_FUNC_probe_read_kernel_str);
}

void CodeGenerator::kernel_address(const Expr& expr, const lang::Call& node) {
  const std::string& name = node.arguments[0]->as<lang::StringLiteral>()->value;
  auto found = unit_.inputs.kernel_address ? unit_.inputs.kernel_address(name) : std::nullopt;
  if (!found) return unit_.problem(expr.span, fmt::format("Failed to resolve kernel symbol: {}", name));
  asm_.mov(R0, int64_t(*found));
}

void CodeGenerator::cgroup_number(const Expr& expr, const lang::Call& node) {
  const std::string& path = node.arguments[0]->as<lang::StringLiteral>()->value;
  if (!unit_.inputs.cgroup_id) return unsupported(expr.span, "cgroupid() here");
  auto found = unit_.inputs.cgroup_id(path);
  if (!found) return unit_.problem(expr.span, found.error().message());
  asm_.mov(R0, int64_t(*found));
}

// To the kernel's trace log. Text is handed over by its address, every number in 8 bytes.
void CodeGenerator::debug_print(const Expr& expr, const lang::Call& node) {
  const std::string& format = node.arguments[0]->as<lang::StringLiteral>()->value;
  Place text = frame_.allocate(format.size() + 1);
  store_text(text, format, format.size() + 1);
  size_t count = node.arguments.size() - 1;
  Place data = frame_.allocate(8 * std::max<size_t>(count, 1));
  for (size_t i = 0; i < count; i++) {
    const Expr& argument = *node.arguments[i + 1];
    if (argument.type.is(TypeKind::kString)) {
      address(R0, place_of(argument));
    } else if (plain_type(argument.type).is_scalar()) {
      scalar(argument);
    } else {
      return unsupported(argument.span, "debugf() of " + argument.type.spell());
    }
    store_slot(data.at(8 * i), R0);
  }
  (void)expr;
  address(R1, text);
  asm_.mov(R2, int64_t(format.size() + 1));
  if (count == 0)
    asm_.mov(R3, 0);
  else
    address(R3, data);
  asm_.mov(R4, int64_t(8 * count));
  asm_.call(BPF_FUNC_trace_vprintk);
}

}  // namespace uscope::codegen
