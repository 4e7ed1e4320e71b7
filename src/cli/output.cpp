#include "cli/output.h"

#include <CLI/CLI.hpp>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

namespace uscope::cli {

int report(const Error& error) {
  std::fprintf(stderr, "uscope: %s\n", error.message().c_str());
  return 1;
}

void warn(std::string_view text) { std::fprintf(stderr, "uscope: %.*s\n", int(text.size()), text.data()); }

int write_output(std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd output{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&output, 1, -1);
      continue;
    }
    if (written < 0 && errno == EPIPE) return 0;
    if (written < 0) return report(Error::from_errno("writing the output", errno));
    text.remove_prefix(size_t(written));
  }
  return 0;
}

std::optional<int> parse_arguments(CLI::App& app, std::span<const char* const> args) {
  // CLI11 takes the arguments last first.
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return write_output(app.help());
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "uscope: %s; see %s --help\n", error.what(), app.get_name().c_str());
    return 2;
  }
  return std::nullopt;
}

}  // namespace uscope::cli
