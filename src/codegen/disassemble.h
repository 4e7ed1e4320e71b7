// eBPF code as text, one instruction a line, for -d and for tests. Knows names of helpers and, given the
// program, of maps.
#pragma once

#include <string>

#include "codegen/program.h"

namespace uscope::codegen {

// "0: r6 = r1", "3: r1 = map events", "5: call map_lookup_elem", "6: if r0 == 0 goto 9".
std::string disassemble(const Code& code, const Program& program);
// Maps, then each code.
std::string disassemble(const Program& program);

}  // namespace uscope::codegen
