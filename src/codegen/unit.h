// What all codes of one program share while they are generated: maps, formats, the plan, and the first
// problem met. Lives for one call of generate().
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/generate.h"

namespace uscope::codegen {

class Unit {
 public:
  Unit(const lang::TypedProgram& typed, const Inputs& inputs);

  struct ScriptMap {
    const lang::MapInfo* info = nullptr;
    uint32_t program_map = 0;
    uint32_t plan_map = 0;
    uint64_t key_size = 8;
    uint64_t value_size = 8;
    bool is_per_cpu = false;
  };
  // The program's map behind "@name"; makes it on first use.
  const ScriptMap& script_map(const std::string& name);
  void make_all_script_maps();

  uint32_t events_map() const { return 0; }
  uint32_t lost_map() const { return 1; }
  uint32_t scratch_map(uint64_t bytes_needed);
  uint32_t start_time_map();
  // An Array whose only value nobody ever writes to.
  uint32_t zeroes_map(uint64_t size);
  // An Array of names by cookie, `size` bytes each.
  uint32_t probe_names_map(uint64_t size);

  // Null: stacks are the engine's work.
  const VmaLayout* vma_layout();
  const UnwindMaps& unwind_maps();

  uint32_t add_format(event::Format format);
  uint32_t add_value(event::Layout layout);
  uint32_t add_map_print(uint32_t plan_map);
  uint32_t add_error_place(std::string helper, lang::Span span);
  uint32_t add_warning_place(std::string message, lang::Span span);

  // Asked for once.
  const std::optional<TaskLayout>& task_layout();

  // "script.bt:1:5-9", as messages print it.
  std::string place(lang::Span span) const;
  // The script's line and a marker below it.
  std::string marked_line(lang::Span span) const;
  // Remembers the first problem; code after it is generated but never used.
  void problem(lang::Span span, const std::string& message);
  // The first problem of each probe is said.
  void begin_probe() { said_in_probe_ = false; }
  const std::optional<Error>& first_problem() const { return problem_; }

  // For what stands at `span`, where it is said if there is none.
  event::Layout layout(const lang::Type& type, lang::Span span);

  const lang::TypedProgram& typed;
  const Inputs& inputs;
  Compiled out;

 private:
  uint32_t add_map(MapSpec spec);
  event::Layout checked(Result<event::Layout> layout, lang::Span span);
  uint32_t add_error(event::HelperErrorPlace error);

  std::map<std::string, ScriptMap> script_maps_;
  std::optional<uint32_t> scratch_map_, probe_names_map_, zeroes_map_;
  std::optional<Error> problem_;
  bool said_in_probe_ = false;
  bool asked_for_vma_layout_ = false;
  std::optional<VmaLayout> vma_layout_;
  std::optional<TaskLayout> task_layout_;
  bool has_asked_for_task_ = false;
};

// Scratch memory is held in a per-CPU array of this many entries, each with a flag in front that says whether
// someone has it: a probe's program may be preempted, and another one run, on the same CPU.
constexpr uint32_t kScratchEntries = 4;
constexpr uint32_t kScratchHeader = 8;
// The kernel's limit for a per-CPU value.
constexpr uint64_t kMaxScratch = 32u << 10;

}  // namespace uscope::codegen
