// What a running script reports -> what its user reads: records from the engine are decoded by the plan and
// handed to the output; maps are read from the engine when they are to be shown. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "event/direct_format.h"
#include "event/format.h"
#include "event/plan.h"
#include "event/symbol_names.h"
#include "view/output.h"

namespace uscope::session {

class Reporter {
 public:
  // Without warnings, the script's own warnf() is silent, too.
  Reporter(const event::Plan& plan, engine::Engine& engine, event::SymbolNames& names, view::Output& output,
           bool with_warnings = true);

  // One record of the ring buffer. What cannot be decoded is said, once for each kind.
  void take(Bytes record);
  // Asked before each command of system(), and while one runs: whether uscope is to end. Then they are left
  // out, and counted.
  void set_wants_end(std::function<bool()> wants_end) { wants_end_ = std::move(wants_end); }
  uint64_t commands_left_out() const { return commands_left_out_; }
  // Every map that has entries, as at a script's end.
  void print_maps();

  // Set once the script has called exit().
  const std::optional<int>& exit_code() const { return exit_code_; }
  // The same, and forgets it: tests exit one after the other.
  std::optional<int> take_exit_code() { return std::exchange(exit_code_, std::nullopt); }

 private:
  void take_format(uint32_t id, Bytes payload);
  void take_helper_error(uint32_t id, Bytes payload);
  void print_map(uint32_t map, uint64_t top, uint64_t divisor, bool is_asked_for);
  void print_file(const std::string& path);
  void run_command(const std::string& command);
  void print_entry(uint32_t map, Bytes key);
  void zero_map(uint32_t map);
  void complain(const std::string& what);
  std::string now_as(const std::string& format) const;

  const event::Plan& plan_;
  engine::Engine& engine_;
  event::SymbolNames& names_;
  view::Output& output_;
  std::vector<event::FormatString> formats_;
  std::vector<std::optional<event::DirectFormat>> direct_formats_;  // beside formats_
  std::string text_;                                                // of the event at hand
  bool with_warnings_;
  std::optional<int> exit_code_;
  std::function<bool()> wants_end_ = [] { return false; };
  uint64_t commands_left_out_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace uscope::session
