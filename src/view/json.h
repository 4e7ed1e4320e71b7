// Output as programs read it: a JSON object a line, with bpftrace's keys. Always valid JSON: bytes that are
// no UTF-8 become U+FFFD, and integers that a double cannot hold become strings, as bpftrace has it. Keys of
// one map that have the same text are shown with what tells them apart.
#pragma once

#include "view/output.h"

namespace uscope::view {

class JsonOutput final : public Output {
 public:
  // `names` must outlive this.
  JsonOutput(Writer out, event::SymbolNames& names) : out_(std::move(out)), names_(names) {}

  void attached_probes(uint64_t count) override;
  void printf(std::string_view text) override { typed_text("printf", text); }
  void time(std::string_view text) override { typed_text("time", text); }
  void cat(std::string_view text) override { typed_text("cat", text); }
  void join(std::string_view text) override { typed_text("join", text); }
  void system(std::string_view text) override { typed_text("syscall", text); }
  void value(const event::Value& value) override;
  using Output::map;
  void map(const event::MapContents& map, uint64_t top, uint64_t divisor) override;
  using Output::script_message;
  void script_message(Severity severity, std::string_view place, std::string_view text,
                      std::string_view context) override;
  void helper_error(const HelperFailure& failure) override;
  void lost_events(uint64_t count) override;
  void benchmark_results(const std::vector<Benchmark>& results) override;
  void end() override {}

 private:
  void typed_text(std::string_view type, std::string_view text);
  void append_value(std::string& line, const event::Value& value);

  Writer out_;
  event::SymbolNames& names_;
};

}  // namespace uscope::view
