#include "lang/words.h"

#include <algorithm>
#include <array>

namespace uscope::lang {
namespace {

constexpr std::array<std::string_view, 36> kTypes = {
    "struct",   "union",    "enum",     "void",   "bool",    "int8",      "int16",    "int32",     "int64",
    "uint8",    "uint16",   "uint32",   "uint64", "string",  "buffer",    "inet",     "char",      "short",
    "int",      "long",     "float",    "double", "int8_t",  "int16_t",   "int32_t",  "int64_t",   "uint8_t",
    "uint16_t", "uint32_t", "uint64_t", "size_t", "ssize_t", "uintptr_t", "intptr_t", "timestamp", "usym_t"};

constexpr std::array<std::string_view, 30> kValues = {
    "pid",    "tid",     "comm",    "pcomm",  "ppid",    "uid",    "gid",   "username",
    "nsecs",  "elapsed", "cpu",     "ncpus",  "rand",    "func",   "probe", "probetype",
    "ctx",    "args",    "locals",  "retval", "ustack",  "kstack", "cpid",  "usermode",
    "cgroup", "goid",    "curtask", "numaid", "jiffies", "took"};

}  // namespace

bool is_type_word(std::string_view word) { return std::ranges::find(kTypes, word) != kTypes.end(); }

bool is_value_word(std::string_view word) {
  if (word.size() > 3 && word.starts_with("arg")) {
    return std::ranges::all_of(word.substr(3), [](char c) { return c >= '0' && c <= '9'; });
  }
  return std::ranges::find(kValues, word) != kValues.end();
}

}  // namespace uscope::lang
