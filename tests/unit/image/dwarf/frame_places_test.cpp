// What the debug-info layer says about parameters at each instruction of a function, against what they really
// are. One may be unavailable, never with a wrong value.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "unit/image/dwarf/compiled.h"
#include "unit/image/dwarf/tracee.h"

namespace uscope::image::dwarf::testing {
namespace {

std::string program(const std::string& name) {
  auto folder = std::filesystem::path(USCOPE_FIXTURES).parent_path() / "unit/image/dwarf/programs";
  std::ifstream in(folder / name);
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<ImageAddr> instructions(const std::string& path, const std::string& function) {
  std::istringstream lines(
      run(fmt::format("objdump -d --no-show-raw-insn --disassemble={} {}", function, path)));
  std::vector<ImageAddr> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(" ") && line.find(":\t") != std::string::npos)
      found.push_back({std::stoull(line, nullptr, 16)});
  }
  return found;
}

struct Outcome {
  int right = 0, missing = 0;
};

Outcome check(const std::string& path, const std::string& name) {
  auto opened = open(path);
  const DebugInfo& info = opened->info;
  Outcome outcome;
  auto places = instructions(path, name);
  EXPECT_GE(places.size(), 3u) << path << " " << name;
  run_traced(opened->elf, {path}, places, [&](ImageAddr address, const Stopped& stopped) {
    for (const Variable& variable : info.variables_at(address)) {
      if (!variable.is_parameter || variable.name.size() != 1) continue;
      auto bytes = stopped.bytes_of(variable.location, info.type(variable.type).size);
      if (!bytes) {
        outcome.missing++;
        continue;
      }
      outcome.right++;
      EXPECT_EQ(stopped.format(info, variable.type, *bytes), std::to_string(101 + variable.name[0] - 'a'))
          << path << ": " << name << "+" << address - places[0] << ", " << variable.name << " at "
          << spell(variable.location);
    }
  });
  return outcome;
}

class SteadyPlaces : public ::testing::TestWithParam<std::string> {};
TEST_P(SteadyPlaces, hold_at_each_instruction) {
  if (!have(GetParam().substr(0, GetParam().find(' ')))) GTEST_SKIP() << GetParam() << ": no such compiler";
  std::string path = compile(program("steady.c"), ".c", GetParam() + " -w {src} -o {out}");
  const bool is_optimized = GetParam().find("-O0") == std::string::npos;
  for (const char* name : {"plain", "on_stack", "pushes", "has_address", "late"}) {
    Outcome outcome = check(path, name);
    EXPECT_TRUE(is_optimized || outcome.right > outcome.missing * 3)
        << name << ": " << outcome.right << " right, " << outcome.missing << " missing";
  }
  // Counted from a stack pointer that moves, or with a long prologue.
  for (const char* name : {"aligned", "aligned_pushes", "varies", "shadowed"}) check(path, name);
}
INSTANTIATE_TEST_SUITE_P(Compilers, SteadyPlaces,
                         ::testing::Values("gcc -O0 -g", "gcc -O0 -g -fstack-protector-all",
                                           "gcc -O0 -g -fomit-frame-pointer", "gcc -O1 -g", "gcc -O2 -g",
                                           "gcc -O2 -g -fno-var-tracking", "gcc -Og -g",
                                           "gcc -O2 -g -fstack-clash-protection", "clang-14 -O0 -g",
                                           "clang-14 -O0 -g -fomit-frame-pointer", "clang-14 -O1 -g",
                                           "clang-14 -O2 -g", "clang-14 -O2 -g -fno-omit-frame-pointer",
                                           "clang-14 -O2 -g -mtune=btver2"));

}  // namespace
}  // namespace uscope::image::dwarf::testing
