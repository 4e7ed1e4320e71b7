// The ring buffer's reading side: takes records out of the threads' chunks, in the order of their times over
// all threads, and gives emptied chunks back. A record is handed over once no thread can still come with an
// earlier one. A target may write anything into the shared memory; a chunk that makes no sense is skipped and
// counted. Used from one thread; never waits.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "engine/inproc/runtime/shared_plan.h"

namespace uscope::engine::inproc {

class RingReader {
 public:
  // `ring`: the number of the program's ring buffer map.
  RingReader(const SharedPlan& plan, uint32_t ring, std::span<uint8_t> shared);

  // Records that can be handed over now. With `all`, those too that a stopped or dead thread might come
  // before: when no thread is in a probe any more.
  size_t read(const std::function<void(Bytes)>& on_record, bool all = false);
  uint64_t spoiled_chunks() const { return spoiled_; }

 private:
  struct Cursor {
    uint32_t chunk = 0;
    uint32_t at = 0, end = 0;
    uint64_t time = 0;
  };
  struct Seen {
    uint32_t consumed = 0;
    uint32_t committed = 0;      // when a record was first seen pending
    uint64_t pending_since = 0;  // no pending record of this chunk is from before; 0: none was pending
  };

  uint64_t collect(uint64_t now);  // -> up to which time all records are there
  bool settle(Cursor& cursor);     // reads the record's head at the cursor
  void hand_over(Cursor& cursor, const std::function<void(Bytes)>& on_record);
  void finish(const Cursor& cursor);
  void give_back(uint32_t chunk);

  const MapInfo& info_;
  std::span<uint8_t> shared_;
  MapLive* live_;
  ChunkHeader* headers_;
  std::vector<Seen> seen_;
  std::vector<Cursor> cursors_;
  std::vector<uint8_t> record_;
  uint64_t last_pass_ = 0;
  uint64_t spoiled_ = 0;
};

}  // namespace uscope::engine::inproc
