#include "engine/kernel/cpus.h"

#include <charconv>
#include <string>

#include "base/fd.h"

namespace uscope::engine::kernel {

namespace {

constexpr int kMostCpus = 65536;

bool parse_number(std::string_view text, int& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 && number < kMostCpus;
}

Result<std::vector<int>> read_cpu_list(const std::string& path) {
  TRY(std::string text, read_text_file(path, 1 << 20));
  auto cpus = parse_cpu_list(text);
  if (!cpus) return fail(std::move(cpus).error().while_doing("reading " + path));
  return cpus;
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.remove_suffix(1);
  std::vector<int> cpus;
  while (!text.empty()) {
    std::string_view range = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), range.size() + 1));
    size_t dash = range.find('-');
    int first = 0;
    int last = 0;
    bool is_good = parse_number(range.substr(0, dash), first);
    if (dash == std::string_view::npos) {
      last = first;
    } else {
      is_good = is_good && parse_number(range.substr(dash + 1), last);
    }
    if (!is_good || last < first) return fail("\"" + std::string(range) + "\" is no range of processors");
    for (int cpu = first; cpu <= last; cpu++) cpus.push_back(cpu);
  }
  if (cpus.empty()) return fail("an empty list of processors");
  return cpus;
}

Result<std::vector<int>> possible_cpus() { return read_cpu_list("/sys/devices/system/cpu/possible"); }
Result<std::vector<int>> online_cpus() { return read_cpu_list("/sys/devices/system/cpu/online"); }

}  // namespace uscope::engine::kernel
