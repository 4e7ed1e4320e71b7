// What a program is made of: what kind of executable, by which compiler, with which debug info and libraries.
// For a file, the libraries that its loader would take; for a process, what it has really mapped, dlopen'ed
// libraries and .NET assemblies too. Plain data for the command to print. Reads only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "session/target.h"

namespace uscope::session {

struct ImageFacts {
  std::string path;
  std::string type;  // "PIE executable", "shared library"
  bool is_dynamic = false;
  bool is_stripped = false;
  std::vector<std::string> languages;
  std::vector<std::string> compilers;  // as .comment and Go's build info name them
  std::vector<std::string> producers;  // as the debug info names them, with options; the first few
  std::string go_module;               // "example.com/server v1.2.3"
  std::string build_id;                // hexadecimal
  std::string debug_info;
  std::string interpreter;
  std::string soname;
};

struct LibraryFacts {
  std::string name;       // as it is asked for; empty for what nobody asked for by name
  std::string path;       // empty: not found
  std::string real_path;  // symbolic links followed, if that is another one
  std::string found_by;
  std::vector<std::string> needed_by;
  std::string hint;  // not found: what is known
  // A process's only.
  std::optional<ProcessAddr> address;
  bool is_opened_later = false;  // dlopen'ed or preloaded: no library that is loaded asks for it
  bool is_deleted = false;
  bool is_replaced = false;  // another file has its name now
  // A .NET assembly: "ReadyToRun" or "IL only"; empty for an ELF file.
  std::string managed;
};

struct LibsAnswer {
  std::optional<pid_t> pid;
  ImageFacts program;
  std::vector<LibraryFacts> libraries;
  std::vector<std::string> problems;
};

Result<LibsAnswer> explore_libs(const Target& target);

// The facts of one ELF file; `root` is where its file system is.
Result<ImageFacts> image_facts(const std::string& path, const std::string& shown, const std::string& root);

// What a process has mapped; the executable itself is not among them.
Result<std::vector<LibraryFacts>> mapped_libraries(pid_t pid);

}  // namespace uscope::session
