// Pass: what the command line gave takes the place of $1, $# and getopt(). A parameter that reads as a number
// is one, else it is a string; str($1) always is the text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostics.h"

namespace uscope::lang {

struct CommandLine {
  std::vector<std::string> positional;
  std::map<std::string, std::optional<std::string>> named;  // --name=value; nothing for a bare --name
};

// A named option that the script asks for, for --help.
struct NamedOption {
  std::string name;
  std::string fallback;  // as printed
  std::string help;
};

// Also complains about named options that the script never asks for.
std::vector<NamedOption> apply_parameters(Program& program, const CommandLine& command_line,
                                          Diagnostics& diagnostics);

}  // namespace uscope::lang
