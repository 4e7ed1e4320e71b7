// Functions of the language that only check their arguments and know the type of their result.
#include <fmt/format.h>

#include <algorithm>

#include "lang/config.h"
#include "lang/resolver.h"
#include "lang/signals.h"

namespace uscope::lang {
namespace {

// Whether a value of the type is what the question asks for.
bool answers(std::string_view question, const Expr& value) {
  const Type& type = value.type;
  if (question == "is_ptr") return type.is(TypeKind::kPointer);
  if (question == "is_str") return type.is(TypeKind::kString);
  if (question == "is_integer") return type.is_integer();
  if (question == "is_unsigned_integer") return type.is_integer() && !type.is_signed();
  if (question == "is_array") return type.is(TypeKind::kArray);
  return value.as<IntLiteral>() || value.as<StringLiteral>() || value.as<BoolLiteral>() ||
         value.as<FloatLiteral>();  // is_literal
}

std::optional<bool> known_truth(const Expr& expr) {
  if (const auto* value = expr.as<BoolLiteral>()) return value->value;
  if (const auto* value = expr.as<IntLiteral>()) return value->value != 0;
  return std::nullopt;
}

bool is_address_value(const Type& type) {
  return type.is(TypeKind::kArray) || type.is(TypeKind::kString) || type.is(TypeKind::kBuffer);
}

// The bytes that an address made of the value has; a string's NUL is none of them.
uint64_t address_bytes(const Type& type) {
  return type.is(TypeKind::kString) && type.size() > 0 ? type.size() - 1 : type.size();
}

}  // namespace

void Resolver::check_signal(const Expr& expr, const Call& node) {
  auto interrupts_a_task = [](ProbeKind kind) {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kUretprobe || kind == ProbeKind::kUsdt ||
           kind == ProbeKind::kTracepoint || kind == ProbeKind::kProfile || kind == ProbeKind::kKprobe ||
           kind == ProbeKind::kKretprobe || kind == ProbeKind::kFentry || kind == ProbeKind::kFexit ||
           kind == ProbeKind::kRawTracepoint;
  };
  if (!all_probes(interrupts_a_task)) {
    auto special = [](ProbeKind kind) {
      return kind == ProbeKind::kBegin || kind == ProbeKind::kEnd || kind == ProbeKind::kSelf;
    };
    error(expr.span, fmt::format("{}() can not be used for this probetype {}", node.name,
                                 any_probe(special) ? "special" : first_probe_type()));
  }
  if (!options_.allow_unsafe) {
    error(expr.span, fmt::format("{}() is unsafe. To use you need the --unsafe flag", node.name));
  }
  const Expr& which = *node.arguments[0];
  if (const auto* name = which.as<StringLiteral>()) {
    if (!find_signal(name->value))
      error(expr.span, fmt::format("Invalid string for signal: {}", name->value));
  } else if (const auto* number = which.as<IntLiteral>()) {
    if (number->negative || number->value < 1 || number->value > 64) {
      error(expr.span, fmt::format("{}() accepts a string literal or an integer between 1 and 64 (inclusive)",
                                   node.name));
    }
  } else if (which.type.known() && !which.type.is_integer()) {
    error(expr.span, fmt::format("{}() only accepts string literals or integers", node.name));
  }
}

void Resolver::check_network(const Expr& expr, const Call& node) {
  const Type& data = node.arguments.back()->type;
  if (!data.known()) return;
  if (node.name == "macaddr") {
    if (node.arguments[0]->as<StringLiteral>()) {
      error(expr.span, "macaddr() does not support literal string arguments");
    } else if (!is_address_value(data) && !data.is(TypeKind::kPointer)) {
      error(expr.span,
            fmt::format("macaddr() only supports array or pointer arguments ({} provided)", data.spell()));
    } else if (is_address_value(data) && address_bytes(data) != 6) {
      error(expr.span, "macaddr() argument must be 6 bytes in size");
    }
    return;
  }
  if (data.is_integer() || data.is(TypeKind::kPointer)) return;
  if (!is_address_value(data)) {
    error(expr.span, fmt::format("ntop() expects an integer or array argument, got {}", data.spell()));
  } else if (address_bytes(data) != 4 && address_bytes(data) != 16) {
    error(expr.span, "ntop() argument must be 4 or 16 bytes in size");
  }
  if (node.arguments.size() == 2 && node.arguments[0]->type.known() &&
      !node.arguments[0]->type.is_integer()) {
    error(expr.span, "ntop() expects an integer as its address family");
  }
}

// is_ptr() and its like.
Type Resolver::type_question(Expr& expr, Call& node) {
  if (node.name == "is_scalar") {
    const auto* access = node.arguments[0]->as<MapAccess>();
    auto found = access ? program_.maps.find(access->name) : program_.maps.end();
    if (found == program_.maps.end()) return Type::boolean();
    if (last_round_) expr.node = BoolLiteral{!found->second.key.has_value()};
    return Type::boolean();
  }
  if (last_round_ && node.arguments[0]->type.known()) {
    bool answer = answers(node.name, *node.arguments[0]);
    expr.node = BoolLiteral{answer};
  }
  return Type::boolean();
}

// assert() is for when the script runs, static_assert() and fail() are for now.
Type Resolver::assertion(const Expr& expr, const Call& node) {
  if (node.name == "assert") return Type::void_type();
  if (node.name == "fail") {
    error(expr.span, node.arguments[0]->as<StringLiteral>()->value);
    return Type::void_type();
  }
  auto truth = known_truth(*node.arguments[0]);
  if (!truth) {
    error(expr.span, "static_assert() expects a condition that is known when the script is compiled");
  } else if (!*truth) {
    error(expr.span, node.arguments[1]->as<StringLiteral>()->value);
  }
  return Type::void_type();
}

void Resolver::warn_unstable(const std::string& feature, UnstableFeature wanted, Span span) {
  if (!last_round_ || wanted == UnstableFeature::kEnable || !unstable_.insert(feature).second) return;
  if (wanted == UnstableFeature::kError) {
    error(span, fmt::format("{0} feature is not enabled by default. To enable this unstable feature, set the "
                            "config flag to enable. unstable_{0}=enable",
                            feature));
    return;
  }
  Span nowhere{0, 0, UINT32_MAX};
  warn(nowhere, fmt::format("Script is using an unstable feature: {0}. To prevent this warning you must "
                            "explicitly enable it in the config e.g. unstable_{0}=enable",
                            feature));
}

// config().NAME: what a setting is, as a literal.
Type Resolver::setting_value(Expr& expr, const std::string& name) {
  auto value = setting_text(program_.settings, name);
  if (!value) {
    error(expr.span, fmt::format("{}: not a known configuration option", name));
    return Type();
  }
  if (value->kind == ConfigValue::Kind::kString) {
    expr.node = StringLiteral{value->text};
  } else if (value->kind == ConfigValue::Kind::kBool) {
    expr.node = BoolLiteral{value->integer != 0};
  } else {
    expr.node = IntLiteral{value->integer, false, ""};
  }
  return compute(expr);
}

}  // namespace uscope::lang
