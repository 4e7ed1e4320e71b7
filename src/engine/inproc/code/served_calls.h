// Which of the kernel's helpers this engine serves, and by what call of the runtime inside the target.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace uscope::engine::inproc {

// This engine's own, beside the kernel's numbers and codegen's: tells uscope of what R1 says, and waits for
// the answer.
inline constexpr int32_t kNotice = 0x7f001;

struct ServedCall {
  std::string_view symbol;     // in the blob
  uint32_t context_words = 0;  // words of Registers that it reads
  bool needs_site = false;
  bool reads_memory = false;
};

// Nothing: not served.
std::optional<ServedCall> served_call(int32_t helper);

// Where a call is in the blob.
uint32_t blob_offset(std::string_view symbol);

}  // namespace uscope::engine::inproc
