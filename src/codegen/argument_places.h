// Where a probe finds the program's own variables, as code generation needs to know it. Declared here,
// supplied by whoever reads debug info (or usdt notes); tests supply tables.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lang/attach_point.h"

namespace uscope::codegen {

// A computation on one 64-bit number: it starts as a register or a constant; each step changes it.
struct PlaceStep {
  enum class Kind { Add, Load, AddRegister, ShiftRight };
  Kind kind = Kind::Add;
  int64_t amount = 0;            // Add; AddRegister: the register is multiplied by this; ShiftRight: bits
  uint32_t size = 8;             // Load: bytes read at the number as a user address, zero-extended
  uint32_t register_offset = 0;  // AddRegister: byte offset in pt_regs
};

struct ArgumentPlace {
  enum class Start { Register, Constant, Context };
  Start start = Start::Register;
  uint32_t register_offset = 0;  // byte offset in pt_regs
  int64_t constant = 0;  // Context (a tracepoint's record): the offset there of `size` bytes, the value
  std::vector<PlaceStep> steps;
  bool is_address = false;  // the number is where the value lies in user memory; else it is the value
  uint32_t size = 8;        // of a usdt's argument: 1, 2, 4 or 8 bytes count,
  bool is_signed = false;   // and are extended by this
  bool is_float = false;    // of a usdt's argument
  bool is_offset = false;   // Context: the value is the address of what lies at this offset of the record

  // A value in several places: bytes of each, one after the other. Where there are any, nothing above counts.
  struct Part;
  std::vector<Part> parts = {};
};

struct ArgumentPlace::Part {
  ArgumentPlace place;
  uint32_t size = 0;
};

// rax.
inline ArgumentPlace result_register() {
  ArgumentPlace place;
  place.register_offset = 80;
  return place;
}
inline bool is_result_register(const ArgumentPlace& place) {
  return place.start == ArgumentPlace::Start::Register && place.register_offset == 80 &&
         place.steps.empty() && place.parts.empty() && !place.is_address;
}

class ArgumentPlaces {
 public:
  virtual ~ArgumentPlaces() = default;

  // Of a function's argument at this attach point.
  virtual Result<ArgumentPlace> argument(const lang::AttachSpec& probe, std::string_view name) const = 0;
  // Of a variable in scope there.
  virtual Result<ArgumentPlace> local(const lang::AttachSpec& probe, std::string_view name) const = 0;
  // Of what the function returns, at its RET; of several results, in order. None: it returns nothing. Where
  // nothing is known of the function, the register that would hold a number.
  virtual Result<std::vector<ArgumentPlace>> results(const lang::AttachSpec&) const {
    return std::vector<ArgumentPlace>{result_register()};
  }
  // Whether arg0 and so on are where C passes them; else, why not.
  virtual Status numbered_arguments(const lang::AttachSpec&) const { return {}; }
  // A usdt probe may lie at several sites (inlined, copied), each with its arguments elsewhere. 0: not known.
  virtual size_t usdt_sites(const lang::AttachSpec&) const { return 0; }
  virtual Result<ArgumentPlace> usdt_argument(const lang::AttachSpec& probe, size_t, size_t) const {
    return fail("the arguments of " + probe.text + " are not known");
  }
  // The address of a symbol of the program, as a value.
  virtual Result<ArgumentPlace> symbol(const lang::AttachSpec&, std::string_view) const {
    return fail("the program's symbols are not known here");
  }
  // The number of the goroutine that runs there.
  virtual Result<ArgumentPlace> goroutine(const lang::AttachSpec&) const {
    return fail("goid is known in Go programs only");
  }
};

}  // namespace uscope::codegen
