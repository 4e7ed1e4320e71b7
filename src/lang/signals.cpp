#include "lang/signals.h"

#include <algorithm>
#include <array>

namespace uscope::lang {
namespace {

constexpr std::array<std::string_view, 32> kSignals = {
    "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
    "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
    "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS"};

}  // namespace

std::optional<int> find_signal(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  auto found = std::ranges::find(kSignals, name);
  if (name.empty() || found == kSignals.end()) return std::nullopt;
  return int(found - kSignals.begin());
}

}  // namespace uscope::lang
