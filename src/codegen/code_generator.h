// One probe -> one code. One class, its parts by file: code_generator.cpp (the frame around), statement.cpp,
// expression.cpp, expression_binary.cpp, float.cpp, value.cpp (values in memory), user_memory.cpp,
// result.cpp, builtin.cpp, user_stack.cpp, kernel_values.cpp, address.cpp, call.cpp, string.cpp,
// text_search.cpp, map_access.cpp, map_loop.cpp, aggregate.cpp, print.cpp.
//
// The scheme: a scalar is computed into R0, as 64 bits that its type's sign extends; what must outlive the
// next computation is kept in a slot of the Frame. Everything larger lives in memory and is stored where it
// is wanted (`store`). R6 holds the context, R9 scratch memory; R7 is used within one construct only; R8 is
// the stack of the probe in the functions that work on it (map_loop.cpp). Strings are zero-padded to their
// size, so that equal strings are equal bytes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "codegen/assembler.h"
#include "codegen/frame.h"
#include "codegen/unit.h"

namespace uscope::codegen {

struct CodeSite {
  const lang::TypedProbe* probe = nullptr;
  const lang::AttachSpec* attach = nullptr;  // the one it is for, or the first of those that share it
  CodeKind kind = CodeKind::UserProbe;
  bool is_shared = false;  // by several attach points: the cookie tells them apart
  uint64_t cookie = 0;     // where it is not shared
  size_t usdt_site = 0;    // which of a usdt probe's
};

constexpr uint64_t kRecordHeader = 8;  // event/plan.h: kind and number

class CodeGenerator {
 public:
  CodeGenerator(Unit& unit, const CodeSite& site) : unit_(unit), site_(site), frame_(kScratchHeader) {}
  // Problems go to the Unit.
  Result<Code> run();
  // Whether another attach point of the same kind may need other code.
  bool depends_on_place() const { return depends_on_place_; }

 private:
  using Expr = lang::Expr;
  using Type = lang::Type;
  using Label = Assembler::Label;

  // Where the bytes of a value lie: in our memory, or outside at R0 + offset, where they are to be read from:
  // in the program's memory or (is_kernel) at an address of the kernel's, as our own variables have too.
  struct Located {
    bool is_outside = false;
    bool is_kernel = false;
    Place place;
    uint64_t offset = 0;
    bool is_copied = false;  // ours, but as the program had it: its texts may end without a NUL
  };
  static Located outside(bool is_kernel, uint64_t offset) { return {true, is_kernel, {}, offset}; }
  static Located ours(Place place, uint64_t offset = 0) { return {false, false, place, offset}; }
  static Located copied(Place place) { return {false, false, place, 0, true}; }
  struct Loop {
    Label on_break, on_continue;
  };
  // A probe or a function called from it.
  struct Scope {
    const std::vector<lang::VariableInfo>* variables = nullptr;
    std::vector<Place> slots;
    Label end;
    const lang::TypedFunction* function = nullptr;
    Place result;
    std::vector<Loop> loops;
  };
  // Frees, at its end, what was allocated during its life.
  class Temporaries {
   public:
    explicit Temporaries(Frame& frame) : frame_(frame), mark_(frame.mark()) {}
    ~Temporaries() { frame_.release(mark_); }
    Temporaries(const Temporaries&) = delete;

   private:
    Frame& frame_;
    Frame::Mark mark_;
  };

  // code_generator.cpp
  Assembler prologue();
  Scope make_scope(const std::vector<lang::VariableInfo>& variables);
  void unsupported(lang::Span span, const std::string& what);
  void address(Reg dst, Place place);  // dst = &place
  void load_slot(Reg dst, Place place) { asm_.load(Width::B8, dst, place.base, place.offset); }
  void store_slot(Place place, Reg src) { asm_.store(Width::B8, place.base, place.offset, src); }
  Place keep(Reg src);  // in a new slot
  void clear(Place place, uint64_t size);
  void copy(Place to, Place from, uint64_t size);
  void store_text(Place place, std::string_view text, uint64_t size);
  void extend(Reg reg, const Type& type);  // to 64 bits, by its sign
  void load_scalar(Reg dst, Place place, const Type& type);
  void clamp(Reg reg, int32_t most);  // unsigned

  // statement.cpp
  void block(const lang::Block& block);       // a value that it ends with is discarded
  void statements(const lang::Block& block);  // all but that value
  void statement(const lang::Stmt& stmt);
  bool has_room(lang::Span span);  // for more code; else that is said
  void set_variable(uint32_t slot, const Expr& value);
  void assign_variable(const lang::Stmt& stmt, const lang::AssignVariable& node);
  void loop(lang::Span span, const std::function<void(Label out)>& condition, const lang::Block& body,
            const std::function<void()>& step);
  void blur_variables();
  void while_loop(const lang::Stmt& stmt, const lang::While& node);
  void for_loop(const lang::Stmt& stmt, const lang::For& node);
  void unroll(const lang::Unroll& node);
  void jump(const lang::Stmt& stmt, const lang::Jump& node);
  // Inlined; its result, if it has one, is in the place.
  Place call_function(const Expr& expr, const lang::Call& node, const lang::TypedFunction& function);

  // expression.cpp
  void scalar(const Expr& expr);                       // -> R0
  void scalar_as(const Expr& expr, const Type& type);  // -> R0, cut to the type
  void cut(const Type& from, const Type& to);          // R0
  bool load_simple(Reg dst, const Expr& expr);
  void unary(const Expr& expr, const lang::Unary& node);
  void increment(const Expr& expr, const lang::Increment& node);
  void cast(const Expr& expr, const lang::Cast& node);
  void address_of(const Expr& expr, const Expr& operand);
  void entry_address(const Expr& expr, const lang::MapAccess& access);
  void discard(const Expr& expr);
  void choose(const Expr& expr, const std::function<void(const Expr&)>& take);
  bool is_choice(const Expr& expr) const;

  // expression_binary.cpp
  void condition(const Expr& expr, Label if_false);
  static Cond condition_of(lang::BinaryOp op, bool is_signed);
  void binary(const Expr& expr, const lang::Binary& node);
  void operands(const Expr& left, const Expr& right);  // -> R0, R1
  // R0 = R0 op R1; the span is what a division by zero points at.
  void arithmetic(lang::BinaryOp op, const Type& left, const Type& result, const Expr& right,
                  lang::Span span);
  void pointer_arithmetic(const Expr& expr, const lang::Binary& node);
  void signed_division(bool remainder);
  void compare(const lang::Binary& node, Label if_false);
  void compare_memory(const lang::Binary& node, Label if_false);
  Place place_as(const Expr& expr, const Type& type);
  void divide(lang::BinaryOp op, const Type& result, const Expr& divisor, lang::Span span);

  // float.cpp
  void real(const Expr& expr);  // -> R0
  void store_real(const Expr& expr, const Type& want, Place to);
  void int_to_double(bool is_signed);
  void float_to_double();
  void double_to_int();
  void compare_real(const lang::Binary& node, Label if_false);

  // value.cpp
  void store(const Expr& expr, const Type& want, Place to);
  Place place_of(const Expr& expr);
  void convert(Place from, const Type& type, Place to, const Type& want);
  void store_fields(const std::vector<const Expr*>& parts, const Type& want, Place to);
  void store_record(const lang::Record& node, const Type& want, Place to);
  Located locate(const Expr& expr);

  // user_memory.cpp
  Located locate_field(const Expr& expr, const lang::Field& node);
  Located locate_index(const Expr& expr, const lang::Index& node);
  Located locate_argument(const Expr& expr, const lang::Field& node, bool is_local);
  void store_parts(const std::vector<ArgumentPlace::Part>& parts, Place to, uint64_t size);
  void place_value(const ArgumentPlace& place);
  Located locate_in_context(const Expr& expr, const ArgumentPlace& place);
  // Reports, if asked to, the failure that R0 holds; R0 stays.
  void report_failed_read(const std::string& helper);
  void read_user(Place to, uint64_t size);  // from R0
  void read_outside(const Located& from, Place to, uint64_t size);
  // R0 = its length with the NUL, or an error.
  void read_user_text(Place to, uint64_t size, bool is_kernel = false);
  void call_text_read(bool is_kernel);
  void store_arguments(const Expr& expr, bool is_local, const Type& want, Place to);
  void user_address(const Located& located);  // -> R0
  void load_located(const Located& located, const Type& type, uint32_t bit_offset, uint32_t bit_width);
  void load_bits(const Located& located, const Type& type, uint32_t bit_offset, uint32_t bit_width);
  void store_located(const Located& located, const Type& type, Place to, const Type& want);
  const lang::TypeField* find_field(const Type& type, const std::string& name, lang::TypeField& found);

  // result.cpp
  std::vector<ArgumentPlace> result_places(const Expr& expr);  // empty: a problem, which is said
  Located locate_place(const Expr& expr, const ArgumentPlace& place, const Type& type);
  Located locate_result(const Expr& expr);
  void scalar_result(const Expr& expr);

  // builtin.cpp
  void builtin(const Expr& expr, const std::string& name);
  void store_builtin(const Expr& expr, const std::string& name, Place to, const Type& want);
  void pid_tid(bool is_tid, bool in_namespace);
  void argument_number(const Expr& expr, const std::string& name, int number);
  void register_at(const Expr& expr, std::string_view name);
  void cookie(Reg dst);
  void clock(std::string_view mode, lang::Span span);
  void user_symbol(Place to, bool with_probe);  // of the address in R0

  // user_stack.cpp
  void user_stack(const Expr& expr, Place to);
  void check_dwarf_process(const Expr& expr, uint64_t size, Place to, Label end);
  void kernels_frames(uint64_t size, Place to, uint64_t flags);
  void engines_stack(uint64_t size, Place to);
  void unwound_stack(const VmaLayout& layout, uint64_t size, Place to);
  void take_registers(Place block);
  uint32_t unwind_function(const VmaLayout& layout);
  void place_number(const Expr& expr, const Result<ArgumentPlace>& place);  // -> R0
  void child_pid(const Expr& expr);
  void user_mode();

  // kernel_values.cpp
  void kernel_stack(const Expr& expr, Place to);
  bool kernel_is_there(const Expr& expr, const std::string& name);
  bool parent_task(const Expr& expr, const std::string& name);
  void read_kernel_number(uint64_t offset, uint64_t size);
  void parent_pid(const Expr& expr);
  void store_parent_comm(const Expr& expr, Place to, uint64_t size);
  void kernel_address(const Expr& expr, const lang::Call& node);
  void cgroup_number(const Expr& expr, const lang::Call& node);
  void debug_print(const Expr& expr, const lang::Call& node);

  // address.cpp
  void store_bytes(const Expr& expr, uint64_t size, Place to);
  void store_ntop(const Expr& expr, const lang::Call& node, Place to);
  void store_macaddr(const Expr& expr, const lang::Call& node, Place to);
  void store_pton(const Expr& expr, const lang::Call& node, Place to);

  // call.cpp
  void call(const Expr& expr, const lang::Call& node);
  void store_call(const Expr& expr, const lang::Call& node, const Type& want, Place to);
  void exit_call(const lang::Call& node);
  void assert_call(const Expr& expr, const lang::Call& node);
  void send_message(event::Format format);
  void assert_message(const std::string& text, lang::Span span);
  void message(event::FormatKind kind, std::string_view text, lang::Span span);
  void signal_call(const Expr& expr, const lang::Call& node);

  // string.cpp
  void store_str(const Expr& expr, const lang::Call& node, Place to, uint64_t size);
  void store_buf(const Expr& expr, const lang::Call& node, Place to);
  void text_address(const Expr& expr);  // -> R0, in user memory
  Place text_place(const Expr& expr, uint64_t& size);
  void text_length(const lang::Call& node);
  void text_compare(const lang::Call& node);
  void equal_bytes(Place left, Place right, uint64_t size, Label if_different);
  void order_bytes(Place left, Place right, uint64_t size, lang::BinaryOp op, Label if_false);

  // text_search.cpp
  void text_search(const Expr& expr, const lang::Call& node, bool wants_position);
  void search_literal(Place text, uint64_t size, const std::string& wanted, Label found, Label not_found);
  void search_text(Place text, uint64_t size, Place wanted, uint64_t wanted_size, Label found);
  void memory_compare(const Expr& expr, const lang::Call& node);
  void store_concatenation(const Expr& expr, const lang::Call& node, Place to, uint64_t size);

  // map_access.cpp
  Place map_key(const Unit::ScriptMap& map, const Expr* key);
  void lookup(const Unit::ScriptMap& map, Place key);  // -> R0
  void zero_value(uint64_t size, Label if_failed);
  void lookup_or_add(const Unit::ScriptMap& map, Place key, lang::Span span, Label if_failed);
  void read_map(const Expr& expr, const lang::MapAccess& node);  // a scalar -> R0
  void store_map_value(const Expr& expr, const lang::MapAccess& node, Place to, const Type& want);
  void assign_map(const lang::Stmt& stmt, const lang::AssignMap& node);
  void aggregate_value(const lang::Stmt& stmt, const lang::MapAccess& access, const Expr& value);
  void increment_map(const Expr& expr, const lang::Increment& node, const lang::MapAccess& access);
  void update(const Unit::ScriptMap& map, Place key, Place value, lang::Span span);
  void delete_key(const Expr& expr, const lang::Call& node);
  void find_key(const Expr& expr, const lang::Call& node);
  void report_missing_entry(lang::Span span);
  void report_error(const std::string& helper, lang::Span span);  // R0 holds the helper's result
  void warn(const std::string& message, lang::Span span);
  void report(uint32_t error_place);

  // map_loop.cpp
  void map_loop(const lang::Stmt& stmt, const lang::For& node);
  void map_loop_body(const lang::Block& body, Place left_by);
  void make_entry(const lang::For& node);
  void load_entry(const Unit::ScriptMap& map, const lang::For& node);
  void call_for_each(uint32_t map, Assembler function);
  void length(const Expr& expr, const lang::Call& node);  // -> R0

  // aggregate.cpp
  void aggregate(lang::Span span, const lang::MapAccess& access, const lang::Call& node);
  void extreme(Place value, bool is_max, bool is_signed);
  void tseries(lang::Span span, const Unit::ScriptMap& map, const lang::MapAccess& access,
               const lang::Call& node);
  void series_time();
  void epoch_zero(Label fresh);
  void hist_bucket(uint64_t bits);
  void lhist_bucket(const lang::MapInfo& info);
  void read_aggregate(const Unit::ScriptMap& map, Place key);

  // print.cpp
  void print_format(const Expr& expr, const lang::Call& node, event::FormatKind kind);
  void print(const Expr& expr, const lang::Call& node);
  void print_map(const lang::Call& node, const lang::MapAccess& access);
  void map_record(const lang::Call& node, event::RecordKind kind);
  void join(const Expr& expr, const lang::Call& node);
  std::string expansion_text(event::FormatKind kind) const;
  std::optional<Place> entry_with_header(const Expr& value) const;
  void write_header(Place record, event::RecordKind kind, uint32_t id);
  Place begin_record(event::RecordKind kind, uint32_t id, uint64_t payload);
  void send(Place record, uint64_t size);
  void send_sized(Place record);  // of R3 bytes
  bool can_trim(const Expr& last, Place record) const;
  void send_trimmed(const Expr& last, Place record, uint64_t offset);

  Unit& unit_;
  CodeSite site_;
  Assembler asm_;
  std::vector<Assembler> functions_;         // callbacks that the code gives to helpers
  std::optional<uint32_t> unwind_function_;  // of those: the one for each frame of a stack
  Frame frame_;
  std::vector<Scope> scopes_;
  Label end_;
  bool depends_on_place_ = false;
  bool reads_result_ = false;
  bool reads_took_ = false;
  std::vector<lang::Span> expansions_;  // calls of macros that the code is in
  lang::Span reading_;                  // what a read of memory is for, should it fail
  uint64_t loop_weight_ = 0;            // instructions that the verifier walks in the loops so far
  uint64_t loop_branches_ = 0;          // branches among them
  size_t steps_ = 0;                    // statements, calls and unrolled rounds so far
};

}  // namespace uscope::codegen
