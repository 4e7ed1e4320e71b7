// Compiles small programs for the tests of dwarf/, once per process and set of flags, in a folder that goes
// away with the process.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "image/dwarf/debug_info.h"
#include "image/elf/elf_file.h"

namespace uscope::image::dwarf::testing {

// Whether a program can be run at all.
bool have(const std::string& tool);
// The folder of this process's compiled programs.
const std::string& work_folder();
// Writes `source` and runs `command` in the work folder, with {src} and {out} replaced. Returns the path of
// the result; a failing compiler fails the test. The same source and command are compiled once.
std::string compile(const std::string& source, const std::string& extension, const std::string& command);
// Runs a shell command in the work folder; its standard output.
std::string run(const std::string& command);

// An image with its debug info, opened and checked.
struct Opened {
  ElfFile elf;
  DebugInfo info;
};
std::unique_ptr<Opened> open(const std::string& path);

// The function of this (qualified or plain) name; fails the test if there is none.
Function function_named(const DebugInfo& info, const std::string& name);
// The first type of this name.
const Type& type_named(const DebugInfo& info, const std::string& name);
// A type as C would spell it, roughly: for comparing.
std::string spell(const DebugInfo& info, TypeId id);
std::string spell(const Location& location);

}  // namespace uscope::image::dwarf::testing
