#include "cli/list.h"

#include <unistd.h>

#include <cstdio>

#include "cli/output.h"
#include "cli/patchable.h"
#include "cli/run.h"
#include "process/info.h"
#include "session/list.h"
#include "session/list_script.h"

namespace uscope::cli {
namespace {

// A pattern holds a colon or a glob; a name that ends in .bt is a script's.
bool is_script_file(const ScriptOptions& options) {
  if (options.file.empty()) return false;
  return options.file.find_first_of(":*?[") == std::string::npos &&
         (options.file == "-" || ::access(options.file.c_str(), R_OK) == 0);
}

int list_script(const ScriptOptions& options) {
  auto request = run_request(options);
  if (!request) return report(request.error());
  std::string messages;
  auto text = session::list_script(*request, options.verbose, messages);
  std::fputs(messages.c_str(), stderr);
  return text ? write_output(*text) : 1;
}

}  // namespace

int list_command(const ScriptOptions& options) {
  if (options.patchable) return patchable_command(options);
  if (options.program || is_script_file(options)) return list_script(options);
  session::ListRequest request;
  request.pattern = options.file;
  request.verbose = options.verbose;
  request.debug_folders = options.debug_folders;
  request.is_bpftrace = options.persona == Persona::Bpftrace;
  if (options.file.ends_with(".bt"))
    std::fprintf(stderr,
                 "WARNING: It appears that '%s' is a filename but the file does not exist. Treating '%s' as "
                 "a search pattern.\n",
                 options.file.c_str(), options.file.c_str());
  if (options.pid) {
    auto info = process::read_process(*options.pid);
    if (!info) return report(info.error());
    request.pid = info->pid;
  }
  auto result = session::list_probes(request);
  if (!result) return report(result.error());
  for (const std::string& warning : result->warnings) warn(warning);
  return write_output(result->text);
}

}  // namespace uscope::cli
