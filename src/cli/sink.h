// Where the text of a running script goes: standard output, a file or standard error. One thread. Waits for
// whoever reads it, but not with the probes in place once a signal asks for the end: from then on what is not
// read stays in memory until finish(). Does not own the descriptor.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "cli/script_options.h"

namespace uscope::cli {

class Sink {
 public:
  Sink(int fd, Buffering buffering);
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Each event is one write, unless all is to be written in large pieces.
  void write(std::string_view text);
  // What came at once is written at once: a system call for every event would cost more than the event.
  void end_batch();
  void flush();
  void stop_waiting() { waits_ = false; }
  // Writes all that is left; a signal that comes while nobody reads ends the wait.
  void finish();

  // Nothing can be written any longer.
  bool is_over() const { return is_over_; }
  // Why; nothing where the reader has gone, who has seen enough.
  const std::optional<Error>& trouble() const { return trouble_; }

 private:
  void push(bool is_last);
  bool has_room(bool is_last);

  int fd_;
  Buffering buffering_;
  bool is_file_;  // which never keeps us waiting
  Fd signals_;    // readable while one of those waits that end a script; it is not taken here
  bool waits_ = true, is_over_ = false;
  std::optional<Error> trouble_;
  std::string kept_;
};

}  // namespace uscope::cli
