// From a program's variable to the kernel's fetch argument: `r.Question[0].Name` ->
// `+0(+0(+40(%bx))):string`. Pure: works on the debug info's places and types, touches no file. Where the
// kernel's syntax cannot say it (a double in a vector register, a computed value, a whole struct) the answer
// is the reason, never an approximation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "image/dwarf/debug_info.h"
#include "image/types.h"
#include "probe/perf_point.h"

namespace uscope::probe {

using image::TypeLookup;

// What fetching needs to know of the place where the probe sits.
struct FetchSite {
  ImageAddr address;
  FileOffset offset;
  TypeLookup type;
};

struct FetchArgument {
  std::string name;
  std::string fetch;  // +0(%si)
  std::string type;   // s32, string, b3@5/32
  std::string text() const { return name + "=" + fetch + (type.empty() ? "" : ":" + type); }
};

struct FetchResult {
  std::vector<FetchArgument>
      arguments;  // more than one where a value has parts: a Go string's bytes and its length
  std::vector<std::string> notes;  // what the reader of the events should know
};

// `wanted_type` is what the user wrote behind the colon, or empty for the variable's own type.
Result<FetchResult> fetch_variable(const FetchSite& site, const image::dwarf::Variable& variable,
                                   const VariablePath& path, const std::string& name,
                                   const std::string& wanted_type);

// The kernel's name of a register by its DWARF number: %di; empty for those it does not know (xmm0).
std::string kernel_register(uint32_t dwarf_number);
// The kernel's type for a scalar: s32, u8, x64; empty if it is none.
std::string kernel_type(const image::Type& type, const TypeLookup& lookup);

}  // namespace uscope::probe
