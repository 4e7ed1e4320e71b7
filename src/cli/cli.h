// The command line: argv -> a request to session. One file a command; this one picks the command.
#pragma once

namespace uscope::cli {

// Runs uscope as a shell would; returns the exit code. Writes to standard output and standard error.
int main(int argc, char** argv);

}  // namespace uscope::cli
