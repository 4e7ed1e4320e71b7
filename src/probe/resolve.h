// From a probe's spelling to the instructions it means, in one image. Every site is checked to be the start
// of an instruction: the kernel would take any offset, and a probe inside an instruction kills the target.
#pragma once

#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "probe/perf_point.h"
#include "symbols/image_symbols.h"

namespace uscope::probe {

struct Site {
  ImageAddr address;
  FileOffset offset;
  std::string function;      // the name a user reads, without parameters; empty if no table names it
  std::string signature;     // the same with them: tells overloads apart
  ImageAddr function_entry;  // equals address for a probe on the entry
  bool is_return = false;
  image::dwarf::SourceLine line;  // for a probe on a line
};

enum class Ambiguity { Refuse, TakeAll };

// `FUNC`, `FUNC+OFF`, `FUNC:LINE`, `SRC:LINE`, `FUNC;PATTERN`, `0xADDR`, `sdt_PROV:EVENT`. A name with
// several functions behind it is refused with its candidates, unless it is a glob.
Result<std::vector<Site>> resolve_point(const symbols::ImageSymbols& image, const PerfPoint& point,
                                        Ambiguity ambiguity = Ambiguity::Refuse);

// The variables that hold a value at a site. At a function's entry these are its parameters, where the
// calling convention puts them, and what lives outside the frame: locals have no value yet, whatever slot
// they will have.
std::vector<image::dwarf::Variable> variables_at(const symbols::ImageSymbols& image, const Site& site,
                                                 bool with_globals);

// The source text of a file as the debug info names it, line by line; an Error says where it was looked for.
Result<std::vector<std::string>> read_source(const std::string& file,
                                             const std::string& source_directory = "");

// Is there an instruction at this address of the image? An Error says why not.
Status check_instruction_start(const symbols::ImageSymbols& image, ImageAddr address);

}  // namespace uscope::probe
