// Test code as bytes, written as hex text: code("55 48 89 e5 c3"); spaces are free.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "x86/flow.h"

namespace uscope::x86::testing {

inline std::vector<uint8_t> code(std::string_view hex) {
  std::vector<uint8_t> bytes;
  int high = -1;
  for (char c : hex) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) continue;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(uint8_t(high * 16 + digit));
      high = -1;
    }
  }
  return bytes;
}

inline constexpr uint64_t base = 0x1000;

// A function of one part at 0x1000. The bytes must outlive it.
inline FunctionCode function(const std::vector<uint8_t>& bytes) {
  FunctionCode f;
  f.parts.push_back({base, bytes});
  return f;
}

}  // namespace uscope::x86::testing
