// ustack: the thread's registers into an UnwindBlock, then one callback a frame (unwind.h). Where the kernel
// does not say how it lays out mappings, its own walk by frame pointers must do.
#include <array>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"
#include "codegen/unwind.h"

namespace uscope::codegen {

using enum Reg;

namespace {

// Where pt_regs has each register, by DWARF's numbers.
constexpr std::array<int32_t, 16> kInContext = {80, 96, 88, 40, 104, 112, 32, 152,
                                                72, 64, 56, 48, 24,  16,  8,  0};
constexpr int32_t kInstructionInContext = 128;
constexpr int32_t kAllKnown = 0xffff;

bool is_function_entry(const CodeSite& site) {
  const lang::AttachSpec& point = *site.attach;
  return point.kind == lang::ProbeKind::kUprobe && !point.function.empty() && point.offset == 0 &&
         point.source_file.empty();
}

}  // namespace

// See event/aggregate.h. The thread is left out: equal stacks of two threads are one key.
void CodeGenerator::user_stack(const Expr& expr, Place to) {
  uint64_t size = size_of(expr.type);
  if (size <= kStackHeader) return unsupported(expr.span, "ustack here");
  // uscope itself runs these: nobody's stack.
  if (site_.kind == CodeKind::RunOnce || site_.kind == CodeKind::Timer) return clear(to, size);
  const auto* call = expr.as<lang::Call>();
  const auto* plain = expr.as<lang::Builtin>();  // without arguments
  Label end = asm_.label();
  if ((call && call->name == "dw_ustack") || (plain && plain->name == "dw_ustack")) {
    unit_.out.uses_dw_ustack = true;
    if (unit_.inputs.dwarf_processes) check_dwarf_process(expr, size, to, end);
  }
  if (const VmaLayout* layout = unit_.vma_layout()) {
    unwound_stack(*layout, size, to);
    return asm_.bind(end);
  }
  if (unit_.inputs.in_process) {
    engines_stack(size, to);
    return asm_.bind(end);
  }
  clear(to, size);
  pid_tid(false, true);
  asm_.store(Width::B4, to.base, to.offset, R0);
  kernels_frames(size, to, BPF_F_USER_STACK);
  asm_.bind(end);
}

// Behind a stack's cleared header: the frames that the kernel's helper finds, and how many. None where it
// fails.
void CodeGenerator::kernels_frames(uint64_t size, Place to, uint64_t flags) {
  asm_.mov(R1, kContext);
  address(R2, to.at(kStackHeader));
  asm_.mov(R3, int64_t(size - kStackHeader));
  asm_.mov(R4, int64_t(flags));
  asm_.call(BPF_FUNC_get_stack);
  Label failed = asm_.label();
  asm_.jump_if(Cond::SLt, R0, 0, failed);
  asm_.alu(Alu::Rsh, R0, 3);
  asm_.store(Width::B8, to.base, to.offset + 8, R0);
  asm_.bind(failed);
}

void CodeGenerator::engines_stack(uint64_t size, Place to) {
  pid_tid(false, true);
  asm_.store(Width::B4, to.base, to.offset, R0);
  asm_.mov(R1, kContext);
  address(R2, to);
  asm_.mov(R3, int64_t(size));
  asm_.mov(R4, is_function_entry(site_) ? 1 : 0);
  asm_.load_map(R5, *unit_.unwind_maps().state);
  asm_.call(kUnwindStack);
}

// Elsewhere the stack is empty.
void CodeGenerator::check_dwarf_process(const Expr& expr, uint64_t size, Place to, Label end) {
  Label is_one = asm_.label();
  pid_tid(false, true);
  for (uint32_t process : *unit_.inputs.dwarf_processes) {
    asm_.mov(R1, process);
    asm_.jump_if(Cond::Eq, R0, R1, is_one);
  }
  event::Format format{event::FormatKind::Warnf,
                       "No DWARF unwind data available for this process. Use -p or --dwarf-pid to specify "
                       "target PIDs.",
                       {},
                       unit_.place(expr.span)};
  format.arguments.kind = event::Layout::Kind::Tuple;
  send(begin_record(event::RecordKind::Printf, unit_.add_format(std::move(format)), 0), 8);
  clear(to, size);
  asm_.jump(end);
  asm_.bind(is_one);
}

uint32_t CodeGenerator::unwind_function(const VmaLayout& layout) {
  if (!unwind_function_) {
    frame_.make_room_for_functions();
    functions_.push_back(unwind_mapping(layout));
    functions_.push_back(
        unwind_step(unit_.unwind_maps(), unit_.events_map(), uint32_t(functions_.size() - 1)));
    unwind_function_ = uint32_t(functions_.size() - 1);
  }
  return *unwind_function_;
}

void CodeGenerator::unwound_stack(const VmaLayout& layout, uint64_t size, Place to) {
  Temporaries temporaries(frame_);
  Place block = frame_.allocate_scratch(UnwindBlock::kSize + (size + 7) / 8 * 8);
  Place state = frame_.allocate_stack(UnwindFrame::kSize);
  clear(block.at(UnwindBlock::kStack), size);
  pid_tid(false, true);
  asm_.store(Width::B4, block.base, block.offset + UnwindBlock::kProcess, R0);
  take_registers(block);
  asm_.mov(R1, 0);
  for (int32_t slot = 0; slot < int32_t(UnwindFrame::kSize); slot += 8)
    store_slot(state.at(uint64_t(slot)), R1);
  address(R1, block);
  store_slot(state.at(UnwindFrame::kBlock), R1);
  auto depth = int64_t((size - kStackHeader) / 8);
  asm_.mov(R1, depth);
  store_slot(state.at(UnwindFrame::kDepth), R1);
  asm_.mov(R1, is_function_entry(site_) ? 1 : 0);
  store_slot(state.at(UnwindFrame::kIsEntry), R1);
  asm_.mov(R1, depth);
  asm_.load_function(R2, unwind_function(layout));
  address(R3, state);
  asm_.mov(R4, 0);
  asm_.call(BPF_FUNC_loop);
  copy(to, block.at(UnwindBlock::kStack), size);
}

// As they are at the probe; elsewhere, as they were when the thread last left its program.
void CodeGenerator::take_registers(Place block) {
  Reg from = kContext;
  if (site_.kind != CodeKind::UserProbe) {
    asm_.call(BPF_FUNC_get_current_task_btf);
    asm_.mov(R1, R0);
    asm_.call(BPF_FUNC_task_pt_regs);
    asm_.mov(R7, R0);
    from = R7;
  }
  auto take = [&](int32_t offset, int32_t slot) {
    asm_.load(Width::B8, R1, from, offset);
    asm_.store(Width::B8, block.base, block.offset + slot, R1);
  };
  for (size_t i = 0; i < kInContext.size(); i++)
    take(kInContext[i], UnwindBlock::kRegisters + 8 * int32_t(i));
  take(kInstructionInContext, UnwindBlock::kInstruction);
  asm_.store(Width::B8, block.base, block.offset + UnwindBlock::kValid, kAllKnown);
  asm_.store(Width::B8, block.base, block.offset + UnwindBlock::kIsExact, 1);
}

}  // namespace uscope::codegen
