// A command started for a script (-c), held before its first instruction until the probes are in place. Ended
// by the destructor if it is still running, and with uscope itself while it is held. Runs in our terminal
// with our standard streams.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "session/leash.h"

namespace uscope::session {

class Child {
 public:
  // Split at blanks (outside quotes, where these have a meaning), looked up in PATH. Started, but not yet
  // running.
  static Result<Child> start(const std::string& command, bool has_quotes = true);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }
  // The program's file.
  const std::string& file() const { return file_; }
  // Readable once it has ended. Not open on kernels that have none.
  const Fd& end() const { return end_; }
  // Executes the command and holds it again at the program's own first instruction, when its libraries are
  // loaded: where an engine that works inside the process begins. An Error says why it could not be executed.
  Status hold_at_entry();
  // The same, for a program that the command itself executes: `thread` of it is about to, once `let_go` was
  // called. False: it did not, within a fraction of a second.
  Result<bool> hold_at_next_entry(pid_t thread, const std::function<void()>& let_go);
  // Lets it run. An Error says why it could not be executed.
  Status release();
  // Asks it to end. False: after some seconds it has not; from then on it is left alone.
  bool stop();
  // Its exit status once it has ended; nothing while it runs.
  std::optional<int> ended();

 private:
  Child() = default;
  Status execute();
  Status run_to_entry();
  enum class Waited { Nothing, Executed, Ended };
  Waited wait_for_exec(pid_t& thread);
  pid_t pid_ = -1;
  Fd go_;                       // one byte lets it run
  Fd failed_;                   // errno of a failed exec
  Fd end_;                      // a pidfd
  std::optional<Leash> leash_;  // while it is held
  bool is_at_entry_ = false;
  bool is_left_ = false;
  std::string name_, file_;
  std::optional<int> status_;
};

// The words of a command line; quotes group, backslashes escape, unless these have no meaning.
std::vector<std::string> split_command(const std::string& command, bool has_quotes = true);

}  // namespace uscope::session
