// A small program to probe: the test compiles it, tells it over a pipe what to call, and waits until it has.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/kernel/kernel_engine.h"

namespace uscope::engine::kernel {

constexpr size_t kManyFunctions = 3000;

// Why the kernel's uprobes cannot be tested here; empty if they can.
std::string why_no_uprobes();
// Mounts tracefs where it is not yet; false if that is impossible.
bool have_tracefs();

// The program's file, compiled once for the test run, and where its functions are in it.
class TargetFile {
 public:
  TargetFile();
  ~TargetFile();
  const std::string& path() const { return path_; }
  FileOffset offset_of(const std::string& symbol) const;

 private:
  std::string folder_, path_;
  std::string elf_;
};
const TargetFile& target_file();

class Target {
 public:
  Target();
  Target(const Target&) = delete;
  ~Target();
  pid_t pid() const { return pid_; }
  // 'w': work(i, 7) for i = 0…9. 't': two threads with 5 calls each. 'm': each of the many functions once.
  // 's': the USDT probe. Returns the number that the program answers with ('s': its semaphore).
  long tell(char command);
  // The bytes of the program's text at a symbol, as they are in memory now.
  std::string text_at(const std::string& symbol, size_t size) const;

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

Attachment user_probe(const std::string& symbol, uint32_t code = 0);
// The number in the first 8 bytes of each CPU's value of entry 0, summed.
uint64_t sum_at(Engine& engine, uint32_t map, uint32_t index = 0, size_t offset = 0);

#define SKIP_WITHOUT_UPROBES() \
  if (std::string why = why_no_uprobes(); !why.empty()) GTEST_SKIP() << why

}  // namespace uscope::engine::kernel
