// A probe as a user spells it, taken apart: what bpftrace writes as `uprobe:FILE:FUNC+OFF`. Plain data and
// its parser; no file is opened here. Finding the sites that a spec means is probe/resolve.h's job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace uscope::probe {

struct ProbeSpec {
  enum class Kind { Uprobe, Uretprobe, Usdt };

  Kind kind = Kind::Uprobe;
  std::string file;  // as typed: a path, a bare name (libc, bash), a glob; empty: every image of the process
  // Exactly one of these says where in the file, for uprobe and uretprobe:
  std::string function;             // a name or a glob
  bool is_cpp = false;              // written cpp:"…": matches demangled names only
  std::optional<uint64_t> address;  // FILE:0xADDR, an address as the image's tables spell it
  std::string source_file;          // FILE@src.c:LINE[:COL]
  uint32_t line = 0;
  uint32_t column = 0;

  uint64_t offset = 0;   // FUNC+OFF
  std::string provider;  // usdt; empty or a glob: any
  std::string name;      // usdt
};

// `text` is one attach point, e.g. `u:libc:malloc`, `usdt:./app:prov:ev*`. Quoted parts may hold any
// character.
Result<ProbeSpec> parse_spec(std::string_view text);

}  // namespace uscope::probe
