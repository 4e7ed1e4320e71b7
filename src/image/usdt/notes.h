// USDT probes: what an image's .note.stapsdt says. Found through section headers, PT_NOTE, or, in an image
// that lost its section headers, by looking for the notes behind the loaded part of the file. Addresses are
// corrected for prelinking by .stapsdt.base. Views are into the ElfFile.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "image/usdt/operand.h"

namespace uscope::image {

class ElfFile;

struct UsdtSite {
  ImageAddr address;
  std::optional<FileOffset> offset;  // nothing: the note lies, no code is there
  // Counts the tracers that want the probe; the program skips it while it is 0. Nothing: the probe is always
  // on.
  std::optional<ImageAddr> semaphore;
  std::optional<FileOffset> semaphore_offset;
  std::vector<UsdtArgument> arguments;
  std::string_view argument_text;
};

struct UsdtProbe {
  std::string_view provider, name;
  std::vector<UsdtSite>
      sites;  // by address; where the compiler inlined or copied the probe there are several
};

// By provider, then name.
std::vector<UsdtProbe> read_usdt_probes(const ElfFile& file);
std::vector<UsdtProbe> read_usdt_probes(ElfFile&&) = delete;  // the names would outlive the bytes they are in

}  // namespace uscope::image
