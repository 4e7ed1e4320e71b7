// Reading and writing many small places in a process's code at once: neighbours go in one read and one write,
// as every system call costs more than a page of bytes. The process must be stopped.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/inproc/target/patch.h"
#include "engine/inproc/target/stored_text.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

class TextWriter {
 public:
  TextWriter(pid_t pid, process::RemoteMemory& memory) : memory_(memory), stored_(pid) {}

  // Shows what is at each of the patches, which are sorted by address; empty where nothing is readable.
  void read(std::span<const Patch> patches, const std::function<void(size_t index, Bytes now)>& visit);
  // Writes `bytes_of(index)` at each patch's address; empty: left alone. Returns the patches that could not
  // be written.
  std::vector<size_t> write(std::span<const Patch> patches,
                            const std::function<Bytes(size_t index)>& bytes_of);

 private:
  bool write_one(const Patch& patch, Bytes bytes);
  // False: nothing was written, or not all.
  bool write_together(std::span<const Patch> patches, const std::vector<Bytes>& all);

  process::RemoteMemory& memory_;
  StoredText stored_;
  std::vector<uint8_t> buffer_, stored_bytes_;
};

}  // namespace uscope::engine::inproc
