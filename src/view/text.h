// Output as people read it: bpftrace's text.
#pragma once

#include "view/output.h"

namespace uscope::view {

class TextOutput final : public Output {
 public:
  // `names` must outlive this.
  TextOutput(Writer out, Writer diagnostics, event::SymbolNames& names)
      : out_(std::move(out)), diagnostics_(std::move(diagnostics)), names_(names) {}

  void attached_probes(uint64_t count) override;
  void printf(std::string_view text) override { out_(text); }
  void time(std::string_view text) override { out_(text); }
  void cat(std::string_view text) override { out_(text); }
  void join(std::string_view text) override;
  void system(std::string_view text) override;
  void value(const event::Value& value) override;
  using Output::map;
  void map(const event::MapContents& map, uint64_t top, uint64_t divisor) override;
  using Output::script_message;
  void script_message(Severity severity, std::string_view place, std::string_view text,
                      std::string_view context) override;
  void helper_error(const HelperFailure& failure) override;
  void lost_events(uint64_t count) override;
  void benchmark_results(const std::vector<Benchmark>& results) override;
  void end() override { out_("\n\n"); }

 private:
  void append_value(std::string& text, const event::Value& value, uint64_t last_epoch);

  Writer out_;
  Writer diagnostics_;
  event::SymbolNames& names_;
};

}  // namespace uscope::view
