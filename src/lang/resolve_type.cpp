#include <fmt/format.h>

#include <algorithm>

#include "lang/resolver.h"

namespace uscope::lang {
namespace {

std::optional<Type> language_type(std::string_view name) {
  if (name == "void") return Type::void_type();
  if (name == "bool") return Type::boolean();
  if (name == "string") return Type::string(0);
  if (name == "buffer") return Type::buffer(0);
  if (name == "inet") return Type::opaque(TypeKind::kInet, 20);
  if (name == "timestamp") return Type::opaque(TypeKind::kTimestamp, 16);
  if (name == "usym_t") return Type::opaque(TypeKind::kUserSymbol, 16);
  if (name == "ksym_t") return Type::opaque(TypeKind::kKernelSymbol, 8);
  if (name == "count_t") return Type::opaque(TypeKind::kCount);
  if (name == "sum_t") return Type::opaque(TypeKind::kSum);
  if (name == "avg_t") return Type::opaque(TypeKind::kAvg);
  if (name == "min_t") return Type::opaque(TypeKind::kMin);
  if (name == "max_t") return Type::opaque(TypeKind::kMax);
  if (name == "stats_t") return Type::opaque(TypeKind::kStats);
  return find_c_base_type(name);
}

}  // namespace

std::optional<Type> Resolver::find_named(const std::string& name, Span span) {
  if (auto type = language_type(name)) return type;
  if (auto type = program_.c_types.find_type(name)) return complete(*type, span);
  if (const StructLayout* own = program_.c_types.find_struct(name))
    return Type::structure(own->name, own->size);
  if (scope_->attach_points == nullptr || scope_->attach_points->empty())
    return find_written(name, nullptr, span);
  std::optional<Type> found;
  const AttachSpec& first = scope_->attach_points->front();
  for (const AttachSpec& probe : *scope_->attach_points) {
    auto type = find_written(name, &probe, span);
    if (&probe != &first && type != found) {
      error(span, fmt::format("\"{}\" is not the same at {} and {}", name, first.text, probe.text));
      return Type();
    }
    found = type;
  }
  return found;
}

std::optional<Type> Resolver::find_written(const std::string& name, const AttachSpec* probe, Span span) {
  auto known = types_.find_written(name, probe);
  if (!known) return std::nullopt;
  if (!known->doubt.empty()) doubts_.try_emplace(span.begin, span, known->doubt);
  return known->type;
}

void Resolver::note_doubt(const Type& pointee, Span span) {
  if (!pointee.is(TypeKind::kStruct) || program_.c_types.find_struct(pointee.name())) return;
  std::string doubt = types_.doubt_of(pointee.name());
  auto is_said = [&](const auto& each) { return each.second.second == doubt; };
  if (!doubt.empty() && !std::ranges::any_of(doubts_, is_said)) doubts_.try_emplace(span.begin, span, doubt);
}

Type Resolver::complete(const Type& type, Span span) {
  if (type.is(TypeKind::kPointer)) return Type::pointer(complete(type.pointee(), span), type.address_space());
  if (type.is(TypeKind::kArray)) {
    const Type& element = type.element();
    bool may_lead_on = element.is(TypeKind::kPointer) || element.is(TypeKind::kArray);
    return may_lead_on ? Type::array(complete(element, span), type.count(), element.size()) : type;
  }
  if (!type.is(TypeKind::kStruct)) return type;
  if (const StructLayout* own = program_.c_types.find_struct(type.name())) {
    check_held(*own, span);
    return Type::structure(own->name, own->size);
  }
  if (type.size() != 0) return type;
  return find_named(type.name(), span).value_or(type);
}

// The definitions are read before the probes are known: by value they can hold the kernel's types only.
void Resolver::check_held(const StructLayout& own, Span span, int depth) {
  if (!last_round_ || depth > 64 || !scope_->attach_points) return;
  for (const TypeField& field : own.fields) {
    Type held = field.type;
    while (held.is(TypeKind::kArray)) held = Type(held.element());
    if (!held.is(TypeKind::kStruct)) continue;
    if (const StructLayout* inner = program_.c_types.find_struct(held.name())) {
      check_held(*inner, span, depth + 1);
      continue;
    }
    for (const AttachSpec& probe : *scope_->attach_points) {
      auto known = types_.find_written(held.name(), &probe);
      if (!known || known->type == held) continue;
      Diagnostic* said = error(span, fmt::format("'{}' holds the kernel's '{}', and {} has another one",
                                                 own.name, held.name(), probe.target));
      if (said) said->hint = "define it in the script, too";
      return;
    }
  }
}

void Resolver::check_step(const Type& pointer, Span span) {
  const Type& to = pointer.pointee();
  if (to.is(TypeKind::kStruct) && to.size() == 0)
    error(span, fmt::format("How large a '{}' is is not known", to.name()));
}

void Resolver::reach_types() {
  constexpr size_t kMost = 200;
  if (!scope_->attach_points || scope_->attach_points->empty()) return;
  const AttachSpec& probe = scope_->attach_points->front();
  if (!reached_.insert(probe.text).second) return;
  std::vector<Type> waiting;
  if (auto arguments = types_.arguments(probe))
    for (NamedValue& each : *arguments) waiting.push_back(each.type);
  if (auto result = types_.return_type(probe)) waiting.push_back(*result);
  std::set<std::string> seen;
  while (!waiting.empty() && seen.size() < kMost) {
    Type type = waiting.back();
    waiting.pop_back();
    while (type.is(TypeKind::kPointer) || type.is(TypeKind::kArray)) type = Type(type.pointee());
    if (!type.is(TypeKind::kStruct) || !seen.insert(type.name()).second) continue;
    const StructLayout* known = layout(type.name());
    if (known == nullptr) continue;
    for (const TypeField& field : known->fields) waiting.push_back(field.type);
  }
}

const StructLayout* Resolver::layout(const std::string& name) {
  if (const StructLayout* own = program_.c_types.find_struct(name)) return own;
  auto known = layouts_.find(name);
  if (known == layouts_.end()) {
    auto found = types_.find_struct(name);
    if (!found) return nullptr;
    known = layouts_.emplace(name, std::move(*found)).first;
  }
  return &known->second;
}

Type Resolver::resolve(const TypeSpec& spec) {
  Type type;
  if (spec.of) {
    type = spec.of->type.known() ? spec.of->type : expression(*spec.of);
  } else if (auto found = find_named(spec.name, spec.span)) {
    type = *found;
  } else if (spec.name.starts_with("struct ") || spec.name.starts_with("union ") || spec.pointers == 0 ||
             !spec.name.empty()) {
    Diagnostic* said = error(spec.span, fmt::format("Cannot resolve unknown type \"{}\"", spec.name));
    if (said) said->hint = program_.c_types.why_unread(spec.name);
    return Type();
  }
  bool sized = (spec.name == "string" || spec.name == "buffer") && spec.pointers == 0;
  if (sized && spec.dimensions.size() == 1) {
    constexpr uint64_t kLargest = 1 << 20;
    if (spec.dimensions[0] > kLargest) {
      error(spec.span, fmt::format("{}[{}] is too large", spec.name, spec.dimensions[0]));
      return Type();
    }
    return type.is(TypeKind::kString) ? Type::string(spec.dimensions[0]) : Type::buffer(spec.dimensions[0]);
  }
  for (uint32_t i = 0; i < spec.pointers; ++i) type = Type::pointer(type, space());
  for (auto dimension = spec.dimensions.rbegin(); dimension != spec.dimensions.rend(); ++dimension) {
    // The program's char arrays lie side by side, without the NUL that our texts have room for.
    bool is_text = type.is(TypeKind::kString) && type.size() > 0;
    uint64_t element = type.size() - (is_text ? 1 : 0), size = 0;
    if (__builtin_mul_overflow(*dimension, element, &size) || size > (1 << 20)) {
      error(spec.span, "array type is too large");
      return Type();
    }
    type = Type::array(type, *dimension, element);
  }
  return type;
}

AddressSpace Resolver::space() const {
  auto user = [](ProbeKind kind) {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kUretprobe || kind == ProbeKind::kUsdt;
  };
  return all_probes(user) ? AddressSpace::kUser : AddressSpace::kNone;
}

AddressSpace Resolver::origin(const Expr& object, const Type& pointer) const {
  if (pointer.address_space() != AddressSpace::kKernel) return space();
  const Expr* at = &object;
  while (!at->type.is(TypeKind::kPointer)) {
    if (const auto* field = at->as<Field>())
      at = field->object.get();
    else if (const auto* element = at->as<Index>())
      at = element->object.get();
    else if (const auto* unary = at->as<Unary>(); unary && unary->op == UnaryOp::kDereference)
      at = unary->operand.get();
    else
      return AddressSpace::kKernel;  // a copy; its type is the kernel's
  }
  return at->type.address_space();
}

bool Resolver::all_probes(bool (*test)(ProbeKind)) const {
  if (scope_->attach_points == nullptr) return true;
  return std::ranges::all_of(*scope_->attach_points, test, &AttachSpec::kind);
}

bool Resolver::any_probe(bool (*test)(ProbeKind)) const {
  return scope_->attach_points != nullptr &&
         std::ranges::any_of(*scope_->attach_points, test, &AttachSpec::kind);
}

std::string_view Resolver::first_probe_type() const {
  if (scope_->attach_points == nullptr || scope_->attach_points->empty()) return "function";
  return probe_type(scope_->attach_points->front().kind);
}

// What `args` or `locals` hold. Several attach points must agree.
std::optional<std::vector<NamedValue>> Resolver::probe_values(bool locals, Span span) {
  std::optional<std::vector<NamedValue>> out;
  if (scope_->attach_points == nullptr) return out;
  for (const AttachSpec& probe : *scope_->attach_points) {
    auto found = locals ? types_.locals(probe) : types_.arguments(probe);
    if (!found) {
      error(span, locals ? fmt::format("No variables are known at {}", probe.text)
                         : fmt::format("Cannot resolve args for {}: no debug info", probe.text));
      return std::nullopt;
    }
    auto same = [](const NamedValue& a, const NamedValue& b) { return a.name == b.name && a.type == b.type; };
    if (out && !std::ranges::equal(*out, *found, same)) {
      error(span, fmt::format("Probe has attach points with mixed arguments: {}", probe.text));
      return out;
    }
    out = std::move(found);
  }
  return out;
}

}  // namespace uscope::lang
