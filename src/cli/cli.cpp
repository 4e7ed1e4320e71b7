#include "cli/cli.h"

#include <cstdio>
#include <string_view>

#include "version.h"

namespace uscope::cli {

int main(int argc, char** argv) {
  if (argc > 1 && (std::string_view(argv[1]) == "--version" || std::string_view(argv[1]) == "-V")) {
    std::puts("uscope v" USCOPE_VERSION);
    return 0;
  }
  std::fputs("usage: uscope --version\n", stderr);
  return 1;
}

}  // namespace uscope::cli
