#include "lang/macros.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/parser.h"
#include "lang/walk.h"

namespace uscope::lang {
namespace {

// What all expansions together may add: arguments that are used twice double with each macro around them.
constexpr size_t kMaxNodes = 500'000;

Span head_of(const Macro& macro) { return join(macro.span, macro.name_span); }

std::string_view what_is(const Expr& expr) {
  if (expr.as<Variable>()) return "a variable";
  const auto* map = expr.as<MapAccess>();
  return map && !map->key ? "a map" : "an expression";
}

class Expander {
 public:
  Expander(const std::map<std::string, const Macro*>& macros, Diagnostics& diagnostics)
      : macros_(macros), diagnostics_(diagnostics) {}

  void visit(ExprPtr& expr);

 private:
  const Macro* called(const Expr& expr) const;
  bool arguments_match(const Macro& macro, const Expr& call, const std::vector<ExprPtr>& arguments);
  void expand(ExprPtr& call, const Macro& macro);
  void substitute(Block& body, const Macro& macro, std::vector<ExprPtr>& arguments);
  void name_of(std::string& name, Span span, const std::map<std::string, const Expr*>& bound,
               const std::string& prefix);
  void add_chain(Diagnostic& diagnostic);

  const std::map<std::string, const Macro*>& macros_;
  Diagnostics& diagnostics_;
  struct Frame {
    const Macro* macro;
    Span call;
  };
  std::vector<Frame> frames_;
  size_t expansions_ = 0, nodes_ = 0;
  // Trees stand in trees now; later passes recurse over the result.
  static constexpr size_t kMaxDepth = 3 * kMaxHeight;
  size_t depth_ = 0;
};

const Macro* Expander::called(const Expr& expr) const {
  const std::string* name = nullptr;
  if (const auto* call = expr.as<Call>()) name = &call->name;
  if (const auto* bare = expr.as<Identifier>()) name = &bare->name;
  auto found = name ? macros_.find(*name) : macros_.end();
  return found == macros_.end() ? nullptr : found->second;
}

void Expander::add_chain(Diagnostic& diagnostic) {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    diagnostic.notes.push_back({frame->call, "expanded from"});
  }
}

bool Expander::arguments_match(const Macro& macro, const Expr& call, const std::vector<ExprPtr>& arguments) {
  auto complain = [&]() -> Diagnostic& {
    return diagnostics_.error(
        call.span, fmt::format("Call to {}() has arguments that do not match any definition.", macro.name));
  };
  if (arguments.size() != macro.parameters.size()) {
    complain().notes.push_back(
        {head_of(macro), fmt::format("The closest definition of {}() has a different number of arguments. "
                                     "Expected: {} but got {}",
                                     macro.name, macro.parameters.size(), arguments.size())});
    return false;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const MacroParameter& parameter = macro.parameters[i];
    bool variable = parameter.name[0] == '$', map = parameter.name[0] == '@';
    std::string_view got = what_is(*arguments[i]);
    if ((variable && got != "a variable") || (map && got != "a map")) {
      Diagnostic& error = complain();
      error.notes.push_back(
          {arguments[i]->span, fmt::format("Mismatched arg. {}() expects a {} for arg {} but got {}.",
                                           macro.name, variable ? "variable" : "map", parameter.name, got)});
      error.notes.push_back({parameter.span, "This is the argument in the closest definition."});
      return false;
    }
  }
  return true;
}

// A variable or map in a macro's body: the caller's, or one of the expansion's own.
void Expander::name_of(std::string& name, Span span, const std::map<std::string, const Expr*>& bound,
                       const std::string& prefix) {
  auto found = bound.find(name);
  if (found != bound.end()) {
    if (const auto* variable = found->second->as<Variable>()) name = variable->name;
    if (const auto* map = found->second->as<MapAccess>()) name = map->name;
    return;
  }
  if (name[0] == '$' && !name.starts_with("$$")) {
    name = fmt::format("$${}_{}", prefix, name);
  } else if (name[0] == '@') {
    add_chain(diagnostics_.error(
        span,
        fmt::format("Unhygienic access to map: {}. Maps must be passed into the macro as arguments.", name)));
  }
}

void Expander::substitute(Block& body, const Macro& macro, std::vector<ExprPtr>& arguments) {
  std::map<std::string, const Expr*> bound;
  for (size_t i = 0; i < arguments.size(); ++i) bound[macro.parameters[i].name] = arguments[i].get();
  std::string prefix = fmt::format("{}_{}", macro.name, expansions_);
  for_each_statement(body, [&](Stmt& stmt) {
    if (auto* assign = stmt.as<AssignVariable>()) name_of(assign->name, assign->name_span, bound, prefix);
    if (auto* declare = stmt.as<Declare>()) name_of(declare->name, declare->name_span, bound, prefix);
    if (auto* loop = stmt.as<For>()) name_of(loop->variable, loop->variable_span, bound, prefix);
    if (const auto* jump = stmt.as<Jump>(); jump && jump->kind == JumpKind::kReturn) {
      diagnostics_.error(stmt.span, "'return' statement is not allowed in a macro");
    }
  });
  // Arguments are inserted last, so that their own names are left alone.
  std::vector<Expr*> to_replace;
  rewrite(body, [&](Expr& expr) {
    if (auto* variable = expr.as<Variable>()) name_of(variable->name, expr.span, bound, prefix);
    if (auto* map = expr.as<MapAccess>()) {
      Span name_span{expr.span.begin, expr.span.begin + static_cast<uint32_t>(map->name.size()),
                     expr.span.source};
      name_of(map->name, name_span, bound, prefix);
    }
    const auto* bare = expr.as<Identifier>();
    if (bare && bound.contains(bare->name)) to_replace.push_back(&expr);
  });
  std::map<const Expr*, size_t> sizes;
  for (ExprPtr& argument : arguments) rewrite(argument, [&](Expr&) { ++sizes[argument.get()]; });
  for (Expr* expr : to_replace) {
    const Expr& value = *bound[expr->as<Identifier>()->name];
    nodes_ += sizes[&value];
    if (nodes_ > kMaxNodes) return;
    ExprPtr copy = clone(value);
    expr->node = std::move(copy->node);
    expr->span = value.span;
  }
}

void Expander::expand(ExprPtr& call, const Macro& macro) {
  auto in_chain = [&](const Frame& frame) { return frame.macro == &macro; };
  if (std::ranges::any_of(frames_, in_chain)) {
    std::string chain;
    for (const Frame& frame : frames_) chain += frame.macro->name + " > ";
    add_chain(diagnostics_.error(
        call->span, fmt::format("Recursive macro call detected. Call chain: {}{}", chain, macro.name)));
    return;
  }
  std::vector<ExprPtr> arguments;
  if (auto* with = call->as<Call>()) {
    for (ExprPtr& argument : with->arguments) visit(argument);
    for (ExprPtr& argument : with->arguments) arguments.push_back(clone(*argument));
  }
  if (!arguments_match(macro, *call, arguments)) return;
  if (++expansions_ > kMaxExpansions) {
    if (expansions_ == kMaxExpansions + 1) diagnostics_.error(call->span, "too many macro expansions");
    return;
  }
  Block body = clone(macro.body);
  bool was_small = nodes_ <= kMaxNodes;
  rewrite(body, [this](Expr&) { ++nodes_; });
  if (nodes_ <= kMaxNodes) substitute(body, macro, arguments);
  if (nodes_ > kMaxNodes) {
    if (was_small) diagnostics_.error(call->span, "the macros expand to too much");
    return;
  }
  frames_.push_back(Frame{&macro, call->span});
  for_each_child(body, [this](ExprPtr& child) { visit(child); });
  frames_.pop_back();
  call->node = BlockExpr{std::move(body), true};
}

void Expander::visit(ExprPtr& expr) {
  if (diagnostics_.error_count() > 50) return;
  if (depth_ > kMaxDepth) {
    diagnostics_.error(expr->span, "expanded macros are nested too deeply");
    return;
  }
  ++depth_;
  if (const Macro* macro = called(*expr)) {
    expand(expr, *macro);
  } else {
    for_each_child(*expr, [this](ExprPtr& child) { visit(child); });
  }
  --depth_;
}

void check_parameters(const Macro& macro, Diagnostics& diagnostics) {
  std::set<std::string> seen;
  for (const MacroParameter& parameter : macro.parameters) {
    if (seen.insert(parameter.name).second) continue;
    const char* what = parameter.name[0] == '$' ? "Variable" : parameter.name[0] == '@' ? "Map" : "Ident";
    diagnostics.error(parameter.span,
                      fmt::format("{} for macro argument has already been used: {}", what, parameter.name));
  }
}

}  // namespace

void expand_macros(Program& program, Diagnostics& diagnostics) {
  std::vector<Macro> owned;
  std::vector<Item> rest;
  for (Item& item : program.items) {
    if (auto* macro = std::get_if<Macro>(&item)) {
      owned.push_back(std::move(*macro));
    } else {
      rest.push_back(std::move(item));
    }
  }
  program.items = std::move(rest);
  std::map<std::string, const Macro*> macros;
  for (const Macro& macro : owned) {
    check_parameters(macro, diagnostics);
    auto [at, added] = macros.emplace(macro.name, &macro);
    if (!added) {
      diagnostics.error(head_of(macro), fmt::format("Redefinition of macro: {}", macro.name))
          .notes.push_back({head_of(*at->second), "This is the original definition."});
    }
  }
  Expander expander(macros, diagnostics);
  auto visit = [&](ExprPtr& expr) { expander.visit(expr); };
  for (Item& item : program.items) {
    if (auto* probe = std::get_if<Probe>(&item)) {
      if (probe->predicate) visit(probe->predicate);
      for_each_child(probe->body, visit);
    } else if (auto* function = std::get_if<Function>(&item)) {
      for_each_child(function->body, visit);
    }
  }
}

}  // namespace uscope::lang
