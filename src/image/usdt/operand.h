// The argument descriptions of USDT notes, as assemblers print operands: "-4@%edi 8@-8(%rbp) 4@$5
// 8@foo(%rip)". Text in, structure out; an operand that is not understood keeps its text and says so. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace uscope::image {

struct UsdtRegister {
  uint8_t number =
      0;  // DWARF's numbering: 0 rax, 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp, 7 rsp, 8-15, 17-32 xmm
  uint8_t size = 8;           // bytes
  bool is_high_byte = false;  // ah, bh, ch, dh
  friend bool operator==(const UsdtRegister&, const UsdtRegister&) = default;
};

struct UsdtOperand {
  enum class Kind {
    Unknown,   // see UsdtArgument::text
    Register,  // `base` holds the value
    Constant,  // the value is `displacement`, or the address of `symbol` plus it
    Memory,  // the value lies at [base + index * scale + symbol + displacement], in `segment` if that is not
             // 0
  };
  Kind kind = Kind::Unknown;
  std::optional<UsdtRegister> base, index;
  uint8_t scale = 1;
  int64_t displacement = 0;
  std::string_view symbol;                  // foo(%rip), foo+8(%rip), foo(,%rax,4)
  std::optional<ImageAddr> symbol_address;  // filled in by read_usdt_probes() where the image still names it
  char segment = 0;                         // 'f' or 'g'
};

struct UsdtArgument {
  uint8_t size = 8;  // bytes of the value: 1, 2, 4, 8
  bool is_signed = false;
  bool is_float = false;
  UsdtOperand operand;
  std::string_view text;  // as the note has it
};

std::vector<UsdtArgument> parse_usdt_arguments(std::string_view text);

}  // namespace uscope::image
