#include "session/patch_coverage.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "engine/inproc/target/plan.h"
#include "session/entry_address.h"
#include "session/patch_facts.h"
#include "session/refusal_reasons.h"
#include "symbols/function_code.h"
#include "symbols/image_symbols.h"

namespace uscope::session {
namespace {

using engine::inproc::ImagePlan;
using engine::inproc::SiteRequest;
using engine::inproc::Tactic;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;

constexpr double kShareOfFlows = 0.5;

std::string_view words_for(Tactic tactic) {
  switch (tactic) {
    case Tactic::in_place:
      return "a jump in place";
    case Tactic::into_padding:
      return "a jump that reaches into the padding behind";
    case Tactic::absorbing:
      return "a jump a little before, what it covers moved along";
    case Tactic::short_jump_to_padding:
      return "a 2-byte jump to padding nearby";
    case Tactic::short_jump_to_room:
      return "a 2-byte jump to a place nearby that was made free";
    case Tactic::on_the_ways:
      return "jumps on all ways to it";
  }
  return "";
}

class Survey {
 public:
  Survey(const ImageSymbols& image, PatchCoverage& coverage) : image_(image), coverage_(coverage) {}

  void gather(const std::function<void(double)>& progress);
  void plan();

 private:
  struct Function {
    const FunctionSymbol* symbol;
    std::string entry_refusal, exit_refusal;
  };
  struct Origin {
    size_t function;
    bool is_exit;
  };

  void add_functions(std::span<const FunctionSymbol> symbols);
  void add_exits(size_t function);
  void add_site(uint64_t address, size_t function, bool is_exit);
  void count(const ImagePlan& plan);
  void sum_up(PatchCoverage::Part& part, std::string Function::*refusal) const;
  size_t count_beside(PatchFacts& facts) const;

  const ImageSymbols& image_;
  PatchCoverage& coverage_;
  std::vector<Function> functions_;
  std::vector<SiteRequest> sites_;
  std::vector<Origin> origins_;  // beside sites_
};

void Survey::add_functions(std::span<const FunctionSymbol> symbols) {
  for (const FunctionSymbol& symbol : symbols) {
    const bool is_alias = !functions_.empty() && functions_.back().symbol->address == symbol.address;
    if (!is_alias && symbol.size != 0) functions_.push_back({&symbol, {}, {}});
  }
}

void Survey::add_site(uint64_t address, size_t function, bool is_exit) {
  sites_.push_back({ImageAddr{address}, 0, 0});
  origins_.push_back({function, is_exit});
}

void Survey::add_exits(size_t function) {
  auto code = symbols::whole_function_code(image_, *functions_[function].symbol);
  if (!code) {
    functions_[function].exit_refusal = "its code is not in the file";
    return;
  }
  const x86::Flow flow = x86::analyze(*code);
  functions_[function].exit_refusal = flow.gap_text();
  if (!flow.complete()) return;
  for (const x86::Exit& exit : flow.exits())
    if (exit.kind != x86::ExitKind::no_return) add_site(exit.address, function, true);
}

void Survey::gather(const std::function<void(double)>& progress) {
  add_functions(image_.functions());
  const size_t named = functions_.size();
  add_functions(image_.unnamed_functions());
  coverage_.functions = functions_.size();
  coverage_.unnamed = functions_.size() - named;
  for (size_t i = 0; i < functions_.size(); ++i) {
    if (i % 1024 == 0) progress(kShareOfFlows * double(i) / double(functions_.size()));
    add_site(functions_[i].symbol->address.value, i, false);
    add_exits(i);
  }
}

void Survey::count(const ImagePlan& plan) {
  for (const auto& refusal : plan.refused) {
    const Origin& origin = origins_[refusal.site];
    Function& function = functions_[origin.function];
    std::string& why = origin.is_exit ? function.exit_refusal : function.entry_refusal;
    if (why.empty()) why = refusal.reason;
  }
  std::vector<bool> is_counted(sites_.size());
  for (const auto& patch : plan.patches)
    for (const auto& probe : patch.probes) {
      if (is_counted[probe.site]) continue;
      is_counted[probe.site] = true;
      auto& part = origins_[probe.site].is_exit ? coverage_.exits : coverage_.entries;
      ++part.sites;
      ++part.tactics[std::string(words_for(tactic_of(patch, probe)))];
    }
}

void Survey::sum_up(PatchCoverage::Part& part, std::string Function::*refusal) const {
  for (const Function& function : functions_) {
    const std::string& why = function.*refusal;
    if (why.empty()) {
      ++part.covered;
      continue;
    }
    ++part.refused[general_reason(why)];
    part.cases.push_back(std::string(function.symbol->name) + ": " + why);
  }
}

// Of entries alone, as most scripts have them: exits of a small function may take in all of it.
size_t Survey::count_beside(PatchFacts& facts) const {
  const bool is_go = image_.language() == image::Language::Go;
  std::vector<SiteRequest> entries;
  for (const Function& function : functions_) {
    SiteRequest& entry =
        entries.emplace_back(SiteRequest{entry_address(image_, function.symbol->address, true)});
    entry.read =
        is_go ? x86::go_argument_registers : x86::system_v_argument_registers & ~bit(x86::Register::rax);
  }
  size_t beside = 0;
  for (const auto& patch : engine::inproc::plan_image(facts, entries).patches)
    for (const auto& probe : patch.probes)
      beside += patch.window.start > functions_[probe.site].symbol->address.value;
  return beside;
}

void Survey::plan() {
  PatchFacts facts(image_);
  coverage_.beside = count_beside(facts);
  count(engine::inproc::plan_image(facts, sites_));
  sum_up(coverage_.entries, &Function::entry_refusal);
  sum_up(coverage_.exits, &Function::exit_refusal);
}

}  // namespace

Result<PatchCoverage> patch_coverage(const std::string& file, const std::function<void(double)>& progress) {
  TRY(ImageSymbols image, ImageSymbols::open(file));
  PatchCoverage coverage;
  coverage.file = file;
  Survey survey(image, coverage);
  survey.gather(progress);
  progress(kShareOfFlows);
  survey.plan();
  return coverage;
}

}  // namespace uscope::session
