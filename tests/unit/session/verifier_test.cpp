// What the compiler accepts, the kernel loads: random scripts, compiled and given to the verifier. More of
// them with USCOPE_SCRIPTS=N, others with USCOPE_SEED=N.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "codegen/generate.h"
#include "engine/kernel/kernel_engine.h"
#include "lang/compile.h"
#include "unit/session/random_script.h"

namespace uscope::session {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Tally {
  size_t loaded = 0, refused = 0;
  std::map<std::string, size_t> not_compiled;
};

void try_script(const std::string& text, uint64_t seed, codegen::Loops loops, Tally& tally) {
  lang::SourceSet sources;
  lang::Diagnostics diagnostics;
  sources.add("script", text);
  static const lang::NoTypes no_types;
  auto typed = lang::compile(sources, 0, {}, no_types, diagnostics);
  if (!typed) {
    std::string why = diagnostics.render(sources);
    ++tally.not_compiled[why.substr(why.find("ERROR: ") == std::string::npos ? 0 : why.find("ERROR: "), 60)];
    return;
  }
  codegen::Inputs inputs;
  inputs.sources = &sources;
  inputs.types = &no_types;
  inputs.loops = loops;
  inputs.possible_cpus = uint32_t(::sysconf(_SC_NPROCESSORS_CONF));
  auto compiled = codegen::generate(*typed, inputs);
  if (!compiled) {
    ++tally.not_compiled[compiled.error().message().substr(0, 60)];
    return;
  }
  engine::kernel::KernelEngine engine;
  auto loaded = engine.load(compiled->program);
  ++(loaded ? tally.loaded : tally.refused);
  if (!loaded) ADD_FAILURE() << "seed " << seed << "\n" << text << "\n" << loaded.error().message();
}

void try_scripts(codegen::Loops loops) {
  if (::geteuid() != 0) GTEST_SKIP() << "loading programs needs root";
  uint64_t first = from_environment("USCOPE_SEED", 1), count = from_environment("USCOPE_SCRIPTS", 100);
  Tally tally;
  for (uint64_t seed = first; seed < first + count && tally.refused < 20; ++seed)
    try_script(RandomScript(seed).text(), seed, loops, tally);
  std::printf("%zu loaded, %zu refused by the verifier\n", tally.loaded, tally.refused);
  for (const auto& [why, times] : tally.not_compiled)
    std::printf("  %zu not compiled: %s\n", times, why.c_str());
  // A generator of nonsense would show nothing.
  EXPECT_GT(tally.loaded, count / 2);
}

// Every branch that the verifier cannot decide waits to be walked, and no more than 8192 may wait.
std::string branching_loops(int branches, int depth, int loops) {
  std::string body;
  for (int i = 0; i < branches; ++i) {
    std::string number = std::to_string(i);
    body += "if (rand > " + number + ") { $n += " + number + "; } ";
  }
  std::string text;
  for (int one = 0; one < loops; ++one) {
    for (int level = 0; level < depth; ++level) text += "while (rand > " + std::to_string(level) + ") { ";
    text += body + std::string(size_t(depth), '}') + " ";
  }
  return "BEGIN { $n = (uint64)0; " + text + " @ = $n; }";
}

TEST(Verifier, TakesLoopsOfManyBranches) {
  if (::geteuid() != 0) GTEST_SKIP() << "loading programs needs root";
  for (codegen::Loops loops : {codegen::Loops::Walked, codegen::Loops::MayGoto}) {
    Tally tally;
    for (int branches : {1, 10, 50, 200, 700})
      for (int depth : {1, 2, 3})
        for (int count : {1, 3}) {
          SCOPED_TRACE(testing::Message() << branches << " branches, depth " << depth << ", loops " << count);
          try_script(branching_loops(branches, depth, count), 0, loops, tally);
        }
    for (const auto& [why, times] : tally.not_compiled)
      std::printf("  %zu not compiled: %s\n", times, why.c_str());
    EXPECT_GT(tally.loaded, 20u);
  }
}

TEST(Verifier, TakesWhatTheCompilerAccepts) { try_scripts(codegen::Loops::MayGoto); }
TEST(Verifier, TakesLoopsThatItWalksItself) { try_scripts(codegen::Loops::Walked); }

}  // namespace
}  // namespace uscope::session
