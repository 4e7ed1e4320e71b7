// `uscope -l`: what can be probed. Joins probe's spellings, the symbol layer and the debug info, and writes
// the lines that bpftrace -l writes. Large lists are built in one buffer and handed over whole.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace uscope::session {

struct ListRequest {
  std::string pattern;  // uprobe:FILE:GLOB, usdt:FILE:*, …; empty with a pid: everything in it
  std::optional<pid_t> pid;
  std::vector<std::string> debug_folders;
  bool verbose = false;      // with arguments and their types
  bool is_bpftrace = false;  // nothing found is an empty list, not an Error that explains
};

struct ListResult {
  std::string text;                   // the lines
  std::vector<std::string> warnings;  // for standard error: files that could not be read, partial answers
};

Result<ListResult> list_probes(const ListRequest& request);

}  // namespace uscope::session
