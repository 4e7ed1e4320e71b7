// Brings a piece of code into the kernel: map indexes become map fds, the verifier has its say. Stateless;
// the program lives as long as its fd or a link to it.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "codegen/program.h"
#include "engine/kernel/map.h"

namespace uscope::engine::kernel {

// How a program will be attached; the kernel wants to know at load.
enum class Shape { UprobeMulti, PerfUprobe, PerfEvent, Tracepoint, TestRun };

// `prefix` runs first and must fall through with r1 as it found it. The Error of a refused program is what
// the verifier said last, and at which instruction of `code`.
Result<Fd> load_code(const codegen::Code& code, const std::vector<Map>& maps, Shape shape,
                     const std::vector<bpf_insn>& prefix = {});

// Ends the program unless the current process is `pid`, as uscope sees it. For the events that the kernel
// cannot confine to a process with all its threads. A target in a pid namespace below uscope's is matched
// only when uscope is in the machine's first one.
Result<std::vector<bpf_insn>> only_process(pid_t pid);

// The last words in a verifier's log, without its statistics; public for its test.
struct VerifierWords {
  std::string reason;                   // "R1 invalid mem access 'scalar'"
  std::optional<uint32_t> instruction;  // where it stood
  std::string tail;                     // the last lines, for those who read bytecode
};
VerifierWords last_words(std::string_view log);

}  // namespace uscope::engine::kernel
