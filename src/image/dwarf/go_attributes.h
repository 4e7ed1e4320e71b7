// What Go's toolchain adds to DWARF: attribute codes, and kinds as its reflect package numbers them.
// Internal to dwarf/.
#pragma once

#include <cstdint>
#include <string_view>

namespace uscope::image::dwarf {

constexpr uint16_t DW_AT_go_kind = 0x2900;
constexpr uint16_t DW_AT_go_key = 0x2901;
constexpr uint16_t DW_AT_go_elem = 0x2902;
constexpr uint16_t DW_AT_go_embedded_field = 0x2903;

constexpr uint64_t go_kind_chan = 18;
constexpr uint64_t go_kind_func = 19;
constexpr uint64_t go_kind_interface = 20;
constexpr uint64_t go_kind_map = 21;
constexpr uint64_t go_kind_slice = 23;
constexpr uint64_t go_kind_string = 24;

// "Msg" of "main.Msg", "Lookup" of "main.(*Server).Lookup", "Pair[int]" of "main.Pair[int]"; what is not a
// plain path ("[]string", "*main.T") is returned as it is.
std::string_view unqualified_go_name(std::string_view name);

// From DW_AT_producer, "Go cmd/compile go1.19.8; regabi": whether arguments go in registers (since 1.17).
bool go_passes_in_registers(std::string_view producer);

}  // namespace uscope::image::dwarf
