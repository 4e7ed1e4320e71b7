#include "cli/cli.h"

int main(int argc, char** argv) { return uscope::cli::main(argc, argv); }
