#include "lang/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace uscope::lang {
namespace {

constexpr uint32_t kMany = FunctionSpec::kMany;

constexpr FunctionSpec plain(std::string_view name, uint32_t least, uint32_t most, std::string_view sorts) {
  return FunctionSpec{.name = name, .least = least, .most = most, .sorts = sorts};
}
constexpr FunctionSpec aggregate(std::string_view name, uint32_t least, uint32_t most,
                                 std::string_view sorts) {
  return FunctionSpec{.name = name, .least = least, .most = most, .sorts = sorts, .aggregate = true};
}
constexpr FunctionSpec formats(std::string_view name, bool unsafe = false) {
  return FunctionSpec{
      .name = name, .least = 1, .most = kMany, .sorts = "Ta", .unsafe = unsafe, .formats = true};
}
constexpr FunctionSpec value(std::string_view name, uint32_t most = 0, std::string_view sorts = "") {
  return FunctionSpec{.name = name, .least = 0, .most = most, .sorts = sorts, .value = true};
}

constexpr std::array kFunctions = {
    // Output.
    formats("printf"),
    formats("errorf"),
    formats("warnf"),
    formats("debugf"),
    formats("cat"),
    formats("system", true),
    formats("fail"),
    plain("print", 1, 3, "ai"),
    plain("time", 0, 1, "T"),
    plain("strftime", 2, 2, "Ti"),
    plain("join", 1, 2, "aT"),
    // Maps.
    plain("clear", 1, 1, "m"),
    plain("zero", 1, 1, "m"),
    plain("delete", 1, 2, "aa"),
    plain("has_key", 2, 2, "ma"),
    plain("find", 3, 3, "mav"),
    plain("len", 1, 1, "a"),
    aggregate("count", 0, 0, ""),
    aggregate("sum", 1, 1, "i"),
    aggregate("avg", 1, 1, "i"),
    aggregate("min", 1, 1, "i"),
    aggregate("max", 1, 1, "i"),
    aggregate("stats", 1, 1, "i"),
    aggregate("hist", 1, 2, "iI"),
    aggregate("lhist", 4, 4, "iIII"),
    aggregate("tseries", 3, 4, "iIIT"),
    // Strings and memory.
    plain("str", 1, 2, "ti"),
    plain("buf", 1, 2, "ai"),
    plain("strlen", 1, 1, "t"),
    plain("strcap", 1, 1, "t"),
    plain("strncmp", 3, 3, "ttI"),
    plain("strcontains", 2, 2, "tt"),
    plain("strstr", 2, 2, "tt"),
    plain("str_concat", 2, 2, "tt"),
    plain("memcmp", 3, 3, "aai"),
    plain("globmatch", 2, 2, "tT"),
    plain("strerror", 1, 1, "i"),
    plain("signal_name", 1, 1, "i"),
    plain("syscall_name", 1, 1, "i"),
    plain("usym", 1, 1, "i"),
    plain("ksym", 1, 1, "i"),
    plain("uaddr", 1, 1, "T"),
    plain("kaddr", 1, 1, "T"),
    plain("uptr", 1, 1, "a"),
    plain("kptr", 1, 1, "a"),
    plain("ntop", 1, 2, "aa"),
    plain("pton", 1, 1, "T"),
    plain("macaddr", 1, 1, "a"),
    plain("bswap", 1, 1, "i"),
    plain("reg", 1, 1, "T"),
    plain("cgroup_path", 1, 2, "iT"),
    plain("cgroupid", 1, 1, "T"),
    // Control.
    plain("exit", 0, 1, "i"),
    plain("signal", 1, 1, "a"),  // unsafe, with a message of its own
    plain("signal_thread", 1, 1, "a"),
    plain("assert", 2, 2, "aT"),
    plain("static_assert", 2, 2, "aT"),
    // Questions about types, answered while compiling.
    plain("is_ptr", 1, 1, "a"),
    plain("is_str", 1, 1, "a"),
    plain("is_integer", 1, 1, "a"),
    plain("is_unsigned_integer", 1, 1, "a"),
    plain("is_array", 1, 1, "a"),
    plain("is_literal", 1, 1, "a"),
    plain("is_scalar", 1, 1, "m"),
    // Values.
    value("pid", 1, "w"),
    value("tid", 1, "w"),
    value("comm", 1, "i"),
    value("pcomm", 1, "a"),
    value("ppid", 1, "a"),
    value("uid"),
    value("gid"),
    value("username"),
    value("nsecs", 1, "w"),
    value("elapsed"),
    value("cpu"),
    value("ncpus"),
    value("rand"),
    value("func"),
    value("probe"),
    value("probetype"),
    value("ctx"),
    value("args"),
    value("locals"),
    value("retval"),
    value("took"),
    value("ustack", 2, "wI"),
    value("kstack", 2, "wI"),
    value("dw_ustack", 2, "wI"),
    value("cpid"),
    value("has_cpid"),
    value("usermode"),
    value("cgroup"),
    value("goid"),
    value("numaid"),
    value("jiffies"),
    value("curtask"),
};

}  // namespace

ArgumentSort FunctionSpec::sort(size_t argument) const {
  if (sorts.empty()) return ArgumentSort::kAny;
  switch (sorts[std::min(argument, sorts.size() - 1)]) {
    case 'i':
      return ArgumentSort::kInt;
    case 't':
      return ArgumentSort::kText;
    case 'I':
      return ArgumentSort::kIntLiteral;
    case 'T':
      return ArgumentSort::kTextLiteral;
    case 'm':
      return ArgumentSort::kMap;
    case 'v':
      return ArgumentSort::kVariable;
    case 'w':
      return ArgumentSort::kMode;
    default:
      return ArgumentSort::kAny;
  }
}

const FunctionSpec* find_function(std::string_view name) {
  auto found = std::ranges::find(kFunctions, name, &FunctionSpec::name);
  return found == kFunctions.end() ? nullptr : &*found;
}

int argument_number(std::string_view name) {
  if (name.size() < 4 || name.size() > 6 || !name.starts_with("arg")) return -1;
  int number = 0;
  for (char c : name.substr(3)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

std::string arity_problem(const FunctionSpec& spec, size_t given) {
  auto count = [](uint32_t n) {
    return n == 1 ? std::string("one argument") : fmt::format("{} arguments", n);
  };
  if (given >= spec.least && given <= spec.most) return "";
  if (spec.most == 0) return fmt::format("{}() requires no arguments ({} provided)", spec.name, given);
  if (spec.least == spec.most) {
    return fmt::format("{}() requires {} ({} provided)", spec.name, count(spec.least), given);
  }
  if (given < spec.least) {
    return fmt::format("{}() requires at least {} ({} provided)", spec.name, count(spec.least), given);
  }
  return fmt::format("{}() takes up to {} ({} provided)", spec.name, count(spec.most), given);
}

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> out;
  for (const FunctionSpec& spec : kFunctions) out.push_back(spec.name);
  return out;
}

}  // namespace uscope::lang
