// A typed program -> eBPF code, its maps, and the plan by which its reports are read. Pure: asks nobody but
// what Inputs names, touches neither files nor the kernel. What cannot be generated is an Error with its
// place in the script.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/argument_places.h"
#include "codegen/program.h"
#include "codegen/unwind_maps.h"
#include "event/plan.h"
#include "lang/diagnostics.h"
#include "lang/source.h"
#include "lang/type_source.h"
#include "lang/typed_program.h"

namespace uscope::codegen {

struct PidNamespace {
  uint64_t device = 0, inode = 0;  // of /proc/self/ns/pid
};

// What keeps a loop of the script from running for ever.
enum class Loops {
  Walked,     // the verifier sees every round: few rounds, any kernel
  MayGoto,    // the kernel counts (Linux 6.9)
  Unchecked,  // nobody verifies; the engine counts as the kernel does
};

// Where the kernel keeps what ppid and pcomm ask for, in its struct task_struct.
struct TaskLayout {
  uint64_t real_parent = 0, tgid = 0, comm = 0;
};

struct Inputs {
  const lang::SourceSet* sources = nullptr;  // for places in messages
  lang::Diagnostics* diagnostics = nullptr;  // may be null; gets what is wrong at a place, besides the Error
  const lang::TypeSource* types = nullptr;   // may be null: then only the script's own structs are known
  const ArgumentPlaces* places = nullptr;    // may be null: then args, locals and usdt arguments are an Error
  uint32_t possible_cpus = 1;
  uint32_t value_copies = 1;                  // of a PerCpu map's value: one a CPU, or one a thread
  std::optional<PidNamespace> pid_namespace;  // pid and tid as seen there; nothing: the first one
  std::optional<uint32_t> child_pid;          // of -c
  Loops loops = Loops::Walked;
  // Where in a probe's context the lower 16 bytes of each vector register lie, the first one's; nothing: the
  // engine does not show them.
  std::optional<uint32_t> vector_offset;
  // Asked once, by the first stack: how the kernel lays out what the unwinder reads of it. Null, or nothing:
  // stacks are walked by the engine, along frame pointers.
  std::function<std::optional<VmaLayout>()> vma_layout;
  // The code runs inside the process: what program.h names beside the kernel's helpers is there, the kernel
  // is not.
  bool in_process = false;
  // Where set, dw_ustack() works in these processes only, and warns in others: as bpftrace's does.
  std::optional<std::vector<uint32_t>> dwarf_processes;
  uint32_t ring_bytes = 4u << 20;  // a power of two
  bool report_reads = false;       // -k: reads of memory that fail are reported with their place
  int64_t boot_to_tai_ns = 0;      // for nsecs(sw_tai)
  // Asked only by scripts that need them; where one is missing, or knows nothing, such a script is an Error.
  std::function<std::optional<TaskLayout>()> task_layout;
  std::function<std::optional<uint64_t>(const std::string&)> kernel_address;
  std::function<Result<uint64_t>(const std::string&)> cgroup_id;
};

// One attach point of the script: which code runs there, with which cookie. The cookie is the index into
// Plan::probes.
struct CodeUse {
  uint32_t probe = 0;         // index into TypedProgram::probes
  uint32_t attach_point = 0;  // of that probe
  uint32_t code = 0;          // index into Program::codes
  uint64_t cookie = 0;
  // Of a usdt probe whose sites need different code: that of each site, in their order. Else empty.
  std::vector<uint32_t> site_codes = {};
};

// The numbers of the formats and values that one probe's code reports: nobody else's has them.
struct ReportNumbers {
  uint32_t first_format = 0, formats = 0;
  uint32_t first_value = 0, values = 0;
};

// To be set after loading, before anything is attached.
struct InitialEntry {
  uint32_t map = 0;
  std::vector<uint8_t> key, value;
};

struct Compiled {
  Program program;
  event::Plan plan;
  std::vector<CodeUse> uses;  // in the order of the script
  std::vector<InitialEntry> initial_entries;
  // An Array of one u64: when the session began, in nanoseconds of CLOCK_BOOTTIME (`elapsed` counts from it).
  std::optional<uint32_t> start_time_map;
  // To be filled as unwind_maps.h says; rows and rules are made as large as needed by setting max_entries
  // before the program is loaded. Nothing: no stack is unwound by tables.
  std::optional<UnwindMaps> unwind;
  bool uses_dw_ustack = false;
  std::vector<ReportNumbers> end_reports;  // of the end probes
};

Result<Compiled> generate(const lang::TypedProgram& program, const Inputs& inputs);

}  // namespace uscope::codegen
