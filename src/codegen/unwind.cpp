#include "codegen/unwind.h"

#include <cerrno>
#include <cstddef>

#include "event/plan.h"
#include "event/stack_end.h"

namespace uscope::codegen {

using enum Reg;
using event::StackEnd;
using Label = Assembler::Label;
using F = UnwindFrame;
using B = UnwindBlock;

namespace {

constexpr uint8_t kSaved[] = {3, 6, 12, 13, 14, 15};  // as RuleEntry::saved has them
constexpr int32_t kPreserved = 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12;
constexpr int32_t kFramePointer = 6, kStackPointer = 7;
constexpr int32_t kExecutable = 4;  // VM_EXEC
// Enough for 2^24 rows.
constexpr int32_t kSearchSteps = 24;
constexpr int32_t kPage = 4096;

// Of the 32 bytes that a callback's own stack may have.
constexpr int32_t kTemporary = -8, kKey = -16, kCounter = -24, kHalf = -32;
constexpr int32_t kNext = -24, kSavedFrom = -16;  // once the search is over

constexpr int32_t reg(int32_t number) { return B::kRegisters + 8 * number; }

// R6 the UnwindFrame, R7 the UnwindBlock; R8 the index, a row, then the rule; R9 a row count, then the CFA.
class Step {
 public:
  Step(const UnwindMaps& maps, uint32_t events_map, uint32_t mapping_function)
      : maps_(maps), events_(events_map), mapping_function_(mapping_function) {
    stop_ = a.label();
    by_frame_pointer_ = a.label();
    unknown_ = a.label();
    use_rule_ = a.label();
  }

  Assembler run() {
    a.mov(R6, R2);
    a.load(Width::B8, R7, R6, F::kBlock);
    a.mov(R8, R1);
    note_address();
    find_mapping();
    count_frame();
    find_image();
    search_rows();
    unknown_code();
    frame_pointer();
    a.bind(use_rule_);
    leave_frame();
    a.bind(stop_);
    a.store(Width::B4, R7, B::kEnd, R1);
    a.mov(R0, 1);
    a.exit();
    return std::move(a);
  }

 private:
  void stop(StackEnd why) {
    a.mov(R1, int32_t(why));
    a.jump(stop_);
  }
  void stop_if(Cond cond, Reg left, int32_t right, StackEnd why) {
    Label go_on = a.label();
    a.jump_if(inverse(cond), left, right, go_on);
    stop(why);
    a.bind(go_on);
  }
  void lookup(uint32_t map, Reg key_base, int32_t key) {
    a.mov(R2, key_base);
    a.alu(Alu::Add, R2, key);
    a.load_map(R1, map);
    a.call(BPF_FUNC_map_lookup_elem);
  }
  // To a slot of our stack, from the address in R3.
  void read_user(int32_t slot) {
    a.mov(R1, R10);
    a.alu(Alu::Add, R1, slot);
    a.mov(R2, 8);
    a.call(BPF_FUNC_probe_read_user);
    stop_if(Cond::Ne, R0, 0, StackEnd::Unreadable);
  }
  void load_signed(Reg dst, Width width, Reg base, int32_t offset) {
    int32_t shift = width == Width::B2 ? 48 : 32;
    a.load(width, dst, base, offset);
    a.alu(Alu::Lsh, dst, shift);
    a.alu(Alu::Arsh, dst, shift);
  }
  // Goes to `if_not` unless the register whose number is in `number` is known. Spoils R1.
  void check_known(Reg number, Label if_not) {
    a.load(Width::B8, R1, R7, B::kValid);
    a.alu(Alu::Rsh, R1, number);
    a.alu(Alu::And, R1, 1);
    a.jump_if(Cond::Eq, R1, 0, if_not);
  }

  // The frame's address into the value; kAddress to look up: one less where it is behind a call.
  void note_address() {
    a.load(Width::B8, R1, R6, F::kDepth);
    Label room = a.label();
    a.jump_if(Cond::Lt, R8, R1, room);
    a.mov(R0, 1);
    a.exit();
    a.bind(room);
    a.mov(R2, R8);
    a.alu(Alu::Lsh, R2, 3);
    a.alu(Alu::Add, R2, R7);
    a.load(Width::B8, R3, R7, B::kInstruction);
    a.load(Width::B8, R4, R7, B::kIsExact);
    a.mov(R5, R3);
    a.alu(Alu::Add, R5, R4);
    a.alu(Alu::Sub, R5, 1);
    a.store(Width::B8, R6, F::kAddress, R5);
    a.alu(Alu::Lsh, R4, kExactBit);
    a.alu(Alu::Or, R3, R4);
    a.store(Width::B8, R2, B::kAddresses, R3);
  }

  void find_mapping() {
    Label found = a.label(), look = a.label(), have = a.label(), is_code = a.label();
    a.load(Width::B8, R3, R6, F::kAddress);
    a.load(Width::B8, R1, R6, F::kStart);
    a.jump_if(Cond::Lt, R3, R1, look);
    a.load(Width::B8, R1, R6, F::kEnd);
    a.jump_if(Cond::Lt, R3, R1, have);
    a.bind(look);
    a.call(BPF_FUNC_get_current_task_btf);
    a.mov(R1, R0);
    a.load(Width::B8, R2, R6, F::kAddress);
    a.load_function(R3, mapping_function_);
    a.mov(R4, R6);
    a.mov(R5, 0);
    a.call(BPF_FUNC_find_vma);
    a.jump_if(Cond::Eq, R0, 0, found);
    stop_if(Cond::Eq, R0, -EBUSY, StackEnd::Busy);
    stop(StackEnd::NotCode);
    a.bind(found);
    note_mapping();
    a.bind(have);
    a.load(Width::B8, R1, R6, F::kIsCode);
    a.jump_if(Cond::Ne, R1, 0, is_code);
    stop(StackEnd::NotCode);
    a.bind(is_code);
  }

  // For naming the frame when the process is gone. Another file may have come to lie where one was.
  void note_mapping() {
    Label known = a.label(), differs = a.label();
    a.load(Width::B4, R1, R7, B::kProcess);
    a.store(Width::B8, R10, kKey, R1);
    a.load(Width::B8, R1, R6, F::kStart);
    a.store(Width::B8, R10, kKey + 8, R1);
    lookup(maps_.mappings, R10, kKey);
    a.jump_if(Cond::Eq, R0, 0, differs);
    for (int32_t word = 0; word < int32_t(sizeof(MappingEntry)); word += 8) {
      a.load(Width::B8, R1, R0, word);
      a.load(Width::B8, R2, R6, F::kMapping + word);
      a.jump_if(Cond::Ne, R1, R2, differs);
    }
    a.jump(known);
    a.bind(differs);
    a.load_map(R1, maps_.mappings);
    a.mov(R2, R10);
    a.alu(Alu::Add, R2, kKey);
    a.mov(R3, R6);
    a.alu(Alu::Add, R3, F::kMapping);
    a.mov(R4, BPF_ANY);
    a.call(BPF_FUNC_map_update_elem);
    a.bind(known);
  }

  void count_frame() {
    a.alu(Alu::Add, R8, 1);
    a.store(Width::B8, R7, B::kCount, R8);
    a.load(Width::B8, R1, R6, F::kDepth);
    Label go_on = a.label();
    a.jump_if(Cond::Lt, R8, R1, go_on);
    stop(StackEnd::Limit);
    a.bind(go_on);
  }

  // R8 = the image's first row, R9 = how many it has; kFileOffset is set.
  void find_image() {
    a.load(Width::B8, R1, R6, F::kAddress);
    a.load(Width::B8, R2, R6, F::kStart);
    a.alu(Alu::Sub, R1, R2);
    a.load(Width::B8, R2, R6, F::kOffset);
    a.alu(Alu::Add, R1, R2);
    a.store(Width::B8, R6, F::kFileOffset, R1);
    a.load(Width::B8, R1, R6, F::kInode);
    a.jump_if(Cond::Eq, R1, 0, by_frame_pointer_);
    Label known = a.label();
    lookup(maps_.images, R6, F::kMapping);
    a.jump_if(Cond::Ne, R0, 0, known);
    ask_for_image();
    a.bind(known);
    a.load(Width::B4, R8, R0, offsetof(ImageEntry, first_row));
    a.load(Width::B4, R9, R0, offsetof(ImageEntry, row_count));
    a.load(Width::B4, R1, R0, offsetof(ImageEntry, flags));
    a.jump_if(Cond::Eq, R1, int32_t(ImageEntry::kFramePointers), by_frame_pointer_);
    stop_if(Cond::Eq, R9, 0, StackEnd::UnknownImage);
  }

  // Once for each image: the first to miss it puts a mark there and reports. The registers are not needed any
  // more, their memory is.
  void ask_for_image() {
    Label asked = a.label();
    a.mov(R1, 0);
    a.store(Width::B8, R10, kKey, R1);
    a.mov(R1, int32_t(ImageEntry::kAsked));
    a.store(Width::B8, R10, kKey + 8, R1);
    a.load_map(R1, maps_.images);
    a.mov(R2, R6);
    a.alu(Alu::Add, R2, F::kMapping);
    a.mov(R3, R10);
    a.alu(Alu::Add, R3, kKey);
    a.mov(R4, BPF_NOEXIST);
    a.call(BPF_FUNC_map_update_elem);
    a.jump_if(Cond::Ne, R0, 0, asked);
    a.store(Width::B4, R7, 0, int32_t(event::RecordKind::UnknownImage));
    a.store(Width::B4, R7, 4, 0);
    a.load(Width::B4, R1, R7, B::kProcess);
    a.store(Width::B8, R7, 8, R1);
    for (int32_t word = 0; word < int32_t(sizeof(MappingEntry)); word += 8) {
      a.load(Width::B8, R1, R6, F::kMapping + word);
      a.store(Width::B8, R7, 16 + word, R1);
    }
    a.load_map(R1, events_);
    a.mov(R2, R7);
    a.mov(R3, 16 + sizeof(MappingEntry));
    a.mov(R4, 0);
    a.call(BPF_FUNC_ringbuf_output);
    a.jump_if(Cond::Eq, R0, 0, asked);
    a.load_map(R1, maps_.images);
    a.mov(R2, R6);
    a.alu(Alu::Add, R2, F::kMapping);
    a.call(BPF_FUNC_map_delete_elem);
    a.bind(asked);
    stop(StackEnd::UnknownImage);
  }

  // The last row at or before kFileOffset; goes to use_rule_ with its rule.
  void search_rows() {
    Label again = a.label(), found = a.label(), before = a.label(), missing = a.label();
    a.mov(R1, 0);
    a.store(Width::B8, R10, kCounter, R1);
    a.bind(again);
    a.jump_if(Cond::Le, R9, 1, found);
    a.load(Width::B8, R1, R10, kCounter);
    a.alu(Alu::Add, R1, 1);
    a.store(Width::B8, R10, kCounter, R1);
    a.jump_if(Cond::Gt, R1, kSearchSteps, missing);
    a.mov(R1, R9);
    a.alu(Alu::Rsh, R1, 1);
    a.store(Width::B8, R10, kHalf, R1);
    a.alu(Alu::Add, R1, R8);
    a.store(Width::B4, R10, kTemporary, R1);
    lookup(maps_.rows, R10, kTemporary);
    a.jump_if(Cond::Eq, R0, 0, missing);
    a.load(Width::B4, R1, R0, offsetof(RowEntry, offset));
    a.load(Width::B8, R2, R6, F::kFileOffset);
    a.load(Width::B8, R3, R10, kHalf);
    a.jump_if(Cond::Gt, R1, R2, before);
    a.alu(Alu::Add, R8, R3);
    a.alu(Alu::Sub, R9, R3);
    a.jump(again);
    a.bind(before);
    a.mov(R9, R3);
    a.jump(again);
    a.bind(found);
    a.store(Width::B4, R10, kTemporary, R8);
    lookup(maps_.rows, R10, kTemporary);
    a.jump_if(Cond::Eq, R0, 0, missing);
    a.load(Width::B4, R1, R0, offsetof(RowEntry, rule));
    load_rule();
    a.load(Width::B1, R1, R8, offsetof(RuleEntry, kind));
    a.jump_if(Cond::Eq, R1, RuleEntry::Unknown, unknown_);
    stop_if(Cond::Eq, R1, RuleEntry::End, StackEnd::Complete);
    stop_if(Cond::Eq, R1, RuleEntry::OtherStack, StackEnd::OtherStack);
    a.jump(use_rule_);
    a.bind(missing);
    stop(StackEnd::NoRule);
  }

  // R8 = the rule whose number is in R1.
  void load_rule() {
    a.store(Width::B4, R10, kTemporary, R1);
    lookup(maps_.rules, R10, kTemporary);
    stop_if(Cond::Eq, R0, 0, StackEnd::NoRule);
    a.mov(R8, R0);
  }

  // At a function's first instruction nothing need be known of it.
  void unknown_code() {
    a.bind(unknown_);
    a.load(Width::B8, R1, R6, F::kIsEntry);
    stop_if(Cond::Eq, R1, 0, StackEnd::NoRule);
    a.mov(R1, int32_t(kLeafRule));
    load_rule();
    a.jump(use_rule_);
  }

  // Code of no file (a JIT's), or of a file without tables.
  void frame_pointer() {
    Label use = a.label(), several_pages = a.label();
    a.bind(by_frame_pointer_);
    a.load(Width::B8, R1, R6, F::kIsEntry);
    a.mov(R2, int32_t(kLeafRule));
    a.jump_if(Cond::Ne, R1, 0, use);
    // A single page of code and no file: where the kernel's return probes make functions return to.
    a.load(Width::B8, R1, R6, F::kInode);
    a.jump_if(Cond::Ne, R1, 0, several_pages);
    a.load(Width::B8, R1, R6, F::kEnd);
    a.load(Width::B8, R2, R6, F::kStart);
    a.alu(Alu::Sub, R1, R2);
    stop_if(Cond::Le, R1, kPage, StackEnd::ReturnProbe);
    a.bind(several_pages);
    // By convention the outermost function has none.
    a.load(Width::B8, R1, R7, reg(kFramePointer));
    stop_if(Cond::Eq, R1, 0, StackEnd::Complete);
    a.mov(R2, int32_t(kFramePointerRule));
    a.bind(use);
    a.mov(R1, R2);
    load_rule();
  }

  // R8 = the rule.
  void leave_frame() {
    Label lost = a.label(), have_cfa = a.label(), not_plt = a.label();
    a.load(Width::B1, R2, R8, offsetof(RuleEntry, base));
    a.alu(Alu::And, R2, 15);
    check_known(R2, lost);
    a.alu(Alu::Lsh, R2, 3);
    a.mov(R3, R7);
    a.alu(Alu::Add, R3, R2);
    a.load(Width::B8, R9, R3, B::kRegisters);
    load_signed(R1, Width::B4, R8, offsetof(RuleEntry, offset));
    a.alu(Alu::Add, R9, R1);
    a.load(Width::B1, R1, R8, offsetof(RuleEntry, kind));
    a.jump_if(Cond::Eq, R1, RuleEntry::Register, have_cfa);
    a.jump_if(Cond::Ne, R1, RuleEntry::Plt, not_plt);
    a.load(Width::B8, R1, R7, B::kInstruction);
    a.alu(Alu::And, R1, 15);
    a.load(Width::B4, R2, R8, offsetof(RuleEntry, addend));
    a.jump_if(Cond::Lt, R1, R2, have_cfa);
    a.alu(Alu::Add, R9, 8);
    a.jump(have_cfa);
    a.bind(not_plt);
    a.mov(R3, R9);
    read_user(kTemporary);
    a.load(Width::B8, R9, R10, kTemporary);
    load_signed(R1, Width::B4, R8, offsetof(RuleEntry, addend));
    a.alu(Alu::Add, R9, R1);
    a.bind(have_cfa);
    find_saved_base(lost);
    read_return_address();
    restore_registers();
    go_to_caller();
    a.bind(lost);
    stop(StackEnd::LostRegister);
  }

  // kSavedFrom = what the offsets of the saved registers count from.
  void find_saved_base(Label lost) {
    Label from_cfa = a.label(), have = a.label();
    a.load(Width::B1, R2, R8, offsetof(RuleEntry, saved_base));
    a.jump_if(Cond::Eq, R2, RuleEntry::kFromCfa, from_cfa);
    a.alu(Alu::And, R2, 15);
    check_known(R2, lost);
    a.alu(Alu::Lsh, R2, 3);
    a.mov(R3, R7);
    a.alu(Alu::Add, R3, R2);
    a.load(Width::B8, R1, R3, B::kRegisters);
    a.store(Width::B8, R10, kSavedFrom, R1);
    a.jump(have);
    a.bind(from_cfa);
    a.store(Width::B8, R10, kSavedFrom, R9);
    a.bind(have);
  }

  void read_return_address() {
    Label by_cfa = a.label(), have = a.label();
    load_signed(R3, Width::B2, R8, offsetof(RuleEntry, return_address));
    a.load(Width::B1, R1, R8, offsetof(RuleEntry, flags));
    a.jump_if(Cond::Eq, R1, 0, by_cfa);
    a.load(Width::B8, R1, R10, kSavedFrom);
    a.alu(Alu::Add, R3, R1);
    a.jump(have);
    a.bind(by_cfa);
    // A caller's frame lies above: the walk ends, whatever the tables say. Handlers may have a stack of their
    // own.
    a.load(Width::B8, R1, R7, reg(kStackPointer));
    Label above = a.label();
    a.jump_if(Cond::Gt, R9, R1, above);
    stop(StackEnd::Damaged);
    a.bind(above);
    a.alu(Alu::Add, R3, R9);
    a.bind(have);
    read_user(kNext);
  }

  void restore_registers() {
    for (size_t i = 0; i < std::size(kSaved); i++) {
      Label unchanged = a.label(), is_lost = a.label();
      int32_t bit = 1 << kSaved[i];
      load_signed(R3, Width::B2, R8, int32_t(offsetof(RuleEntry, saved) + 2 * i));
      a.jump_if(Cond::Eq, R3, RuleEntry::kUnchanged, unchanged);
      a.jump_if(Cond::Eq, R3, RuleEntry::kLost, is_lost);
      a.load(Width::B8, R1, R10, kSavedFrom);
      a.alu(Alu::Add, R3, R1);
      a.mov(R1, R7);
      a.alu(Alu::Add, R1, reg(kSaved[i]));
      a.mov(R2, 8);
      a.call(BPF_FUNC_probe_read_user);
      stop_if(Cond::Ne, R0, 0, StackEnd::Unreadable);
      a.load(Width::B8, R1, R7, B::kValid);
      a.alu(Alu::Or, R1, bit);
      a.store(Width::B8, R7, B::kValid, R1);
      a.jump(unchanged);
      a.bind(is_lost);
      a.load(Width::B8, R1, R7, B::kValid);
      a.alu(Alu::And, R1, ~bit);
      a.store(Width::B8, R7, B::kValid, R1);
      a.bind(unchanged);
    }
  }

  void go_to_caller() {
    a.load(Width::B8, R1, R7, B::kValid);
    a.alu(Alu::And, R1, kPreserved);
    a.store(Width::B8, R7, B::kValid, R1);
    a.store(Width::B8, R7, reg(kStackPointer), R9);
    a.load(Width::B1, R1, R8, offsetof(RuleEntry, flags));
    a.alu(Alu::And, R1, RuleEntry::kSignalFrame);
    a.store(Width::B8, R7, B::kIsExact, R1);
    a.load(Width::B8, R1, R10, kNext);
    a.store(Width::B8, R7, B::kInstruction, R1);
    stop_if(Cond::Eq, R1, 0, StackEnd::Complete);
    a.mov(R1, 0);
    a.store(Width::B8, R6, F::kIsEntry, R1);
    a.mov(R0, 0);
    a.exit();
  }

  Assembler a;
  const UnwindMaps& maps_;
  uint32_t events_, mapping_function_;
  Label stop_, by_frame_pointer_, unknown_, use_rule_;
};

}  // namespace

Assembler unwind_step(const UnwindMaps& maps, uint32_t events_map, uint32_t mapping_function) {
  return Step(maps, events_map, mapping_function).run();
}

Assembler unwind_mapping(const VmaLayout& layout) {
  Assembler a;
  Label end = a.label();
  auto copy = [&](uint32_t field, int32_t to) {
    a.load(Width::B8, R1, R2, int32_t(field));
    a.store(Width::B8, R3, to, R1);
  };
  copy(layout.vm_start, F::kStart);
  copy(layout.vm_end, F::kEnd);
  a.load(Width::B8, R1, R2, int32_t(layout.vm_pgoff));
  a.alu(Alu::Lsh, R1, 12);
  a.store(Width::B8, R3, F::kOffset, R1);
  a.load(Width::B8, R1, R2, int32_t(layout.vm_flags));
  a.alu(Alu::And, R1, kExecutable);
  a.store(Width::B8, R3, F::kIsCode, R1);
  a.mov(R1, 0);
  a.store(Width::B8, R3, F::kInode, R1);
  a.store(Width::B8, R3, F::kInode + 8, R1);
  a.load(Width::B8, R1, R2, int32_t(layout.vm_file));
  a.jump_if(Cond::Eq, R1, 0, end);
  a.load(Width::B8, R1, R1, int32_t(layout.f_inode));
  a.jump_if(Cond::Eq, R1, 0, end);
  a.load(Width::B8, R2, R1, int32_t(layout.i_ino));
  a.store(Width::B8, R3, F::kInode, R2);
  a.load(Width::B8, R1, R1, int32_t(layout.i_sb));
  a.jump_if(Cond::Eq, R1, 0, end);
  a.load(Width::B4, R1, R1, int32_t(layout.s_dev));
  a.store(Width::B8, R3, F::kInode + 8, R1);
  a.bind(end);
  a.mov(R0, 0);
  a.exit();
  return a;
}

}  // namespace uscope::codegen
