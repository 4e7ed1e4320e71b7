// How every command talks to its user: answers on standard output in one piece, words about trouble on
// standard error, exit codes 0 (done), 1 (failed), 2 (wrong usage).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace CLI {
class App;
}

namespace uscope::cli {

// Says the error ("uscope: …") and yields the exit code 1.
int report(const Error& error);
void warn(std::string_view text);
// Writes all of it; a closed pipe ends quietly. Yields the exit code.
int write_output(std::string_view text);
// Parses the command's arguments; a value is the exit code to leave with (help shown, or wrong usage said).
std::optional<int> parse_arguments(CLI::App& app, std::span<const char* const> args);

}  // namespace uscope::cli
