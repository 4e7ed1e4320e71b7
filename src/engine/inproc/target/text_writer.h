// Reading and writing many small places in a process's code at once: neighbours go in one read and one write,
// as every system call costs more than a page of bytes. The process must be stopped.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/inproc/target/patch.h"
#include "process/memory.h"

namespace uscope::engine::inproc {

class TextWriter {
 public:
  explicit TextWriter(process::RemoteMemory& memory) : memory_(memory) {}

  // Shows what is at each of the patches, which are sorted by address; empty where nothing is readable.
  void read(std::span<const Patch> patches, const std::function<void(size_t index, Bytes now)>& visit);
  // Writes `bytes_of(index)` at each patch's address; empty: left alone. Returns the patches that could not
  // be written.
  std::vector<size_t> write(std::span<const Patch> patches,
                            const std::function<Bytes(size_t index)>& bytes_of);

 private:
  // The patches from `first` on that one read can show.
  size_t group_end(std::span<const Patch> patches, size_t first) const;

  process::RemoteMemory& memory_;
  std::vector<uint8_t> buffer_;
};

}  // namespace uscope::engine::inproc
