#include "lang/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lang/int_literal.h"
#include "lang/walk.h"

namespace uscope::lang {
namespace {

// What is wrong with the command line has no place in the script.
constexpr Span kNowhere{0, 0, UINT32_MAX};

// "-5" too; nothing when the text is no number.
std::optional<IntLiteral> number(std::string_view text) {
  bool negative = text.starts_with('-');
  auto value = parse_int_literal(text.substr(negative ? 1 : 0));
  if (!value || (negative && *value > uint64_t{1} << 63)) return std::nullopt;
  if (!negative) return IntLiteral{*value, false, ""};
  return IntLiteral{0 - *value, *value != 0, ""};
}

class Parameters {
 public:
  Parameters(const CommandLine& command_line, Diagnostics& diagnostics)
      : command_line_(command_line), diagnostics_(diagnostics) {}

  void visit(ExprPtr& expr);
  void finish();
  std::vector<NamedOption> options;

 private:
  bool text_of_str(Expr& argument);
  std::string text_of(const Positional& positional, Span span);
  void positional(Expr& expr, const Positional& positional);
  void getopt(Expr& expr);

  const CommandLine& command_line_;
  Diagnostics& diagnostics_;
  std::set<uint64_t> warned_;
  std::set<std::string> asked_;
};

std::string Parameters::text_of(const Positional& positional, Span span) {
  if (positional.number <= command_line_.positional.size())
    return command_line_.positional[positional.number - 1];
  if (warned_.insert(positional.number).second) {
    diagnostics_.warning(
        span, fmt::format("Positional parameter ${} is empty or not provided. ", positional.number));
  }
  return "";
}

// $1 or $1 + n as the argument of str().
bool Parameters::text_of_str(Expr& argument) {
  if (const auto* parameter = argument.as<Positional>()) {
    argument.node = StringLiteral{text_of(*parameter, argument.span)};
    return true;
  }
  const auto* sum = argument.as<Binary>();
  if (sum == nullptr || sum->op != BinaryOp::kAdd) return false;
  const auto* parameter = sum->left->as<Positional>();
  const auto* skip = sum->right->as<IntLiteral>();
  Span span = sum->left->span;
  if (parameter == nullptr) {
    parameter = sum->right->as<Positional>();
    skip = sum->left->as<IntLiteral>();
    span = sum->right->span;
  }
  if (parameter == nullptr || skip == nullptr) return false;
  std::string text = text_of(*parameter, span);
  if (skip->value > text.size()) {
    diagnostics_.warning(argument.span, "literal string will always be empty");
    text.clear();
  } else {
    text.erase(0, skip->value);
  }
  argument.node = StringLiteral{text};
  return true;
}

void Parameters::positional(Expr& expr, const Positional& positional) {
  std::string text = text_of(positional, expr.span);
  if (positional.number > command_line_.positional.size()) {
    expr.node = IntLiteral{};
  } else if (auto value = number(text)) {
    expr.node = *value;
  } else {
    expr.node = StringLiteral{text};
  }
}

void Parameters::getopt(Expr& expr) {
  auto& call = *expr.as<Call>();
  if (call.arguments.empty() || call.arguments.size() > 3) {
    diagnostics_.error(expr.span, "getopt() takes a name, a default value and a description");
    return;
  }
  const auto* name = call.arguments[0]->as<StringLiteral>();
  if (name == nullptr) {
    diagnostics_.error(call.arguments[0]->span, "First argument to 'getopt' must be a string literal.");
    return;
  }
  NamedOption option{name->value, "", ""};
  if (call.arguments.size() == 3) {
    const auto* help = call.arguments[2]->as<StringLiteral>();
    if (help == nullptr) {
      diagnostics_.error(call.arguments[2]->span,
                         "Function 'getopt' requires the third parameter to be a string literal.");
      return;
    }
    option.help = help->value;
  }
  ExprNode fallback = BoolLiteral{false};
  if (call.arguments.size() > 1) {
    Expr& given = *call.arguments[1];
    if (!given.as<StringLiteral>() && !given.as<IntLiteral>() && !given.as<BoolLiteral>()) {
      diagnostics_.error(
          given.span,
          "Second argument to 'getopt' must be a string literal, integer literal, or a boolean "
          "literal.");
      return;
    }
    fallback = std::move(given.node);
  }
  asked_.insert(option.name);
  if (const auto* text = std::get_if<StringLiteral>(&fallback)) option.fallback = text->value;
  if (const auto* value = std::get_if<IntLiteral>(&fallback)) option.fallback = fmt::to_string(value->value);
  if (const auto* value = std::get_if<BoolLiteral>(&fallback))
    option.fallback = value->value ? "true" : "false";
  auto found = command_line_.named.find(option.name);
  if (found != command_line_.named.end()) {
    std::string text = found->second.value_or("");
    if (std::holds_alternative<BoolLiteral>(fallback)) {
      bool yes = !found->second || text == "true" || text == "1";
      if (!yes && text != "false" && text != "0") {
        diagnostics_.error(
            kNowhere,
            fmt::format("program command line option --{} expects a boolean (e.g. 'true') (value: {})",
                        option.name, text));
      }
      fallback = BoolLiteral{yes};
    } else if (std::holds_alternative<IntLiteral>(fallback)) {
      auto value = number(text);
      if (!value) {
        diagnostics_.error(
            kNowhere,
            fmt::format("program command line option --{} invalid integer (value: {})", option.name, text));
      } else {
        fallback = *value;
      }
    } else {
      fallback = StringLiteral{text};
    }
  }
  if (std::ranges::find(options, option.name, &NamedOption::name) == options.end()) options.push_back(option);
  expr.node = std::move(fallback);
}

void Parameters::visit(ExprPtr& expr) {
  if (auto* call = expr->as<Call>(); call && call->name == "str" && !call->arguments.empty()) {
    if (text_of_str(*call->arguments[0]) && call->arguments.size() == 1) {
      ExprNode text = std::move(call->arguments[0]->node);
      expr->node = std::move(text);
      return;
    }
  }
  for_each_child(*expr, [this](ExprPtr& child) { visit(child); });
  if (expr->as<PositionalCount>()) expr->node = IntLiteral{command_line_.positional.size(), false, ""};
  if (const auto* parameter = expr->as<Positional>()) positional(*expr, Positional{parameter->number});
  if (const auto* call = expr->as<Call>(); call && call->name == "getopt") getopt(*expr);
}

void Parameters::finish() {
  for (const auto& [name, value] : command_line_.named) {
    if (name != "help" && !asked_.contains(name)) {
      diagnostics_.error(kNowhere, fmt::format("unexpected program command line options: --{}", name)).hint =
          options.empty() ? "no custom program options defined." : "";
    }
  }
}

}  // namespace

std::vector<NamedOption> apply_parameters(Program& program, const CommandLine& command_line,
                                          Diagnostics& diagnostics) {
  Parameters parameters(command_line, diagnostics);
  auto visit = [&](ExprPtr& expr) { parameters.visit(expr); };
  for (Item& item : program.items) {
    if (auto* probe = std::get_if<Probe>(&item)) {
      if (probe->predicate) visit(probe->predicate);
      for_each_child(probe->body, visit);
    } else if (auto* function = std::get_if<Function>(&item)) {
      for_each_child(function->body, visit);
    } else if (auto* macro = std::get_if<Macro>(&item)) {
      for_each_child(macro->body, visit);
    }
  }
  parameters.finish();
  return std::move(parameters.options);
}

}  // namespace uscope::lang
