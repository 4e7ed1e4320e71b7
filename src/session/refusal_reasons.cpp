#include "session/refusal_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace uscope::session {
namespace {

constexpr size_t most_named = 3;

}  // namespace

std::string general_reason(const std::string& reason) {
  std::string text;
  for (size_t at = 0; at < reason.size();) {
    if (reason.compare(at, 2, "0x") != 0) {
      text += reason[at++];
      continue;
    }
    at = std::min(reason.find_first_not_of("0123456789abcdef", at + 2), reason.size());
    text += "some address";
  }
  return text;
}

std::string count_reasons(const std::vector<std::string>& reasons) {
  std::map<std::string, size_t> counts;
  for (const std::string& reason : reasons) ++counts[general_reason(reason)];
  std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), [](const auto& pair) { return pair.second; });
  std::string text;
  size_t others = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i >= most_named) {
      others += sorted[i].second;
      continue;
    }
    if (i > 0) text += ", ";
    text += fmt::format("{} ({})", sorted[i].first, sorted[i].second);
  }
  if (others > 0) text += fmt::format(" and {} other reasons ({})", sorted.size() - most_named, others);
  return text;
}

}  // namespace uscope::session
