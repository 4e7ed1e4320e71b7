// What the target's threads tell uscope through the shared memory while they wait for an answer: see
// in_target/notice.cpp. A thread of its own sleeps on the shared word and makes source() readable; everything
// else is for one thread. A target may write anything there: it can wake uscope, no more.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <thread>

#include "base/fd.h"
#include "engine/inproc/runtime/layout.h"

namespace uscope::engine::inproc {

class NoticeBoard {
 public:
  // `shared` must stay mapped, though other memory may be mapped there in its place.
  explicit NoticeBoard(std::span<uint8_t> shared);
  NoticeBoard(const NoticeBoard&) = delete;
  ~NoticeBoard();

  // Readable when there may be a notice.
  const Fd& source() const { return source_; }

  struct Notice {
    uint32_t number = 0;
    bool of_libraries = false;  // a library was loaded or unloaded, or is about to be
    bool of_exec = false;       // a thread is about to execute another program
    pid_t thread = 0;           // that one, as the target sees it
    // A process that is about to go under seccomp, as it sees itself, and the thread that waits in it, by its
    // thread pointer; 0: none is.
    pid_t sandboxed = 0;
    bool of_all_threads = false;
    uint64_t thread_pointer = 0;
  };
  std::optional<Notice> take();
  // Lets the threads go on that had said so by then.
  void answer(const Notice& notice);
  void answer_all();

 private:
  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(shared_.data()); }
  void answer_up_to(uint32_t number);
  void wait_for_notices();

  std::span<uint8_t> shared_;
  Fd source_;
  std::atomic<bool> is_ending_ = false;
  std::thread waiter_;
};

}  // namespace uscope::engine::inproc
