#include "lang/resolver.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/promote.h"

namespace uscope::lang {

Resolver::Resolver(TypedProgram& program, const TypeSource& types, ResolverOptions options,
                   Diagnostics& diagnostics)
    : program_(program), types_(types), options_(options), diagnostics_(diagnostics) {}

Diagnostic* Resolver::error(Span span, std::string message) {
  if (!last_round_) return &(silent_ = Diagnostic{});
  return &diagnostics_.error(span, std::move(message));
}

void Resolver::warn(Span span, std::string message, std::string hint) {
  if (last_round_) diagnostics_.warning(span, std::move(message)).hint = std::move(hint);
}

void Resolver::run() {
  probe_scopes_.resize(program_.probes.size());
  function_scopes_.resize(program_.functions.size());
  for (int i = 0; i < kMaxRounds; ++i) {
    changed_ = false;
    round();
    if (!changed_) break;
  }
  last_round_ = true;
  if (changed_)
    error({},
          "The types of this script do not settle: a variable or map would need a larger one with each use.");
  round();
  for (const auto& [place, doubt] : doubts_) warn(doubt.first, doubt.second);
  check_maps();
}

void Resolver::round() {
  for (size_t i = 0; i < program_.functions.size(); ++i)
    run_function(program_.functions[i], function_scopes_[i]);
  for (size_t i = 0; i < program_.probes.size(); ++i) run_probe(program_.probes[i], probe_scopes_[i]);
}

void Resolver::run_probe(TypedProbe& probe, Scope& scope) {
  scope.attach_points = &probe.attach_points;
  if (probe.result) scope.retval = &*probe.result;
  scope.variables = &probe.variables;
  scope.blocks.assign(1, {});
  scope.assigned.clear();
  scope_ = &scope;
  if (probe.predicate) {
    Type type = expression(*probe.predicate);
    bool fine = !type.known() || type.is_scalar() || type.casts_to_integer() || type.is(TypeKind::kString);
    if (!fine) error(probe.predicate->span, fmt::format("Invalid type for predicate: {}", type.spell()));
  }
  block(probe.body);
}

void Resolver::run_function(TypedFunction& function, Scope& scope) {
  scope.variables = &function.variables;
  scope.blocks.assign(1, {});
  scope.assigned.clear();
  scope.in_function = true;
  scope.result = function.result;
  scope.name = function.name;
  for (uint32_t slot : function.parameters) {
    scope.blocks.back()[function.variables[slot].name] = slot;
    scope.declared.insert(slot);
    scope.assigned.insert(slot);
  }
  scope_ = &scope;
  block(function.body);
}

void Resolver::block(Block& block) {
  scope_->blocks.emplace_back();
  for (Stmt& stmt : block.statements) statement(stmt);
  if (block.value) expression(*block.value);
  scope_->blocks.pop_back();
}

void Resolver::statement(Stmt& stmt) {
  if (auto* node = stmt.as<ExprStmt>()) return expression_statement(stmt, *node);
  if (auto* node = stmt.as<AssignVariable>()) return assign_variable(stmt, *node);
  if (auto* node = stmt.as<AssignMap>()) return assign_map(stmt, *node);
  if (auto* node = stmt.as<Declare>()) return declare(stmt, *node);
  if (auto* node = stmt.as<For>()) return for_loop(stmt, *node);
  if (auto* node = stmt.as<Unroll>()) return unroll(stmt, *node);
  if (auto* node = stmt.as<Jump>()) return jump(stmt, *node);
  if (auto* node = stmt.as<Discard>()) {
    expression(*node->expression);
  } else if (auto* loop = stmt.as<While>()) {
    warn(stmt.span, "While loops are deprecated and may be removed in the future.",
         "For loops support ranges (e.g. `for ($x : $start..$end) { ... }`), and can be used in place of "
         "while. "
         "These are more easily proven to be bounded by the verifier.");
    expression(*loop->condition);
    ++scope_->loops;
    block(loop->body);
    --scope_->loops;
  }
}

void Resolver::expression_statement(Stmt& stmt, ExprStmt& node) {
  Type type = expression(*node.expression);
  const Expr& expr = *node.expression;
  bool meant = expr.as<Increment>() || expr.as<If>() || expr.as<BlockExpr>() || expr.as<Ternary>();
  if (const auto* call = expr.as<Call>()) meant = call->name == "delete" || call->name == "find";
  if (!meant && type.known() && !type.is(TypeKind::kVoid)) warn(stmt.span, "Return value discarded.");
}

const uint32_t* Resolver::find_variable(const std::string& name) const {
  for (auto names = scope_->blocks.rbegin(); names != scope_->blocks.rend(); ++names) {
    auto found = names->find(name);
    if (found != names->end()) return &found->second;
  }
  return nullptr;
}

uint32_t Resolver::define(const std::string& name, Span span) {
  auto [at, added] =
      scope_->slots.try_emplace({name, span.begin}, static_cast<uint32_t>(scope_->variables->size()));
  if (added) {
    scope_->variables->push_back(VariableInfo{name, Type(), span});
    changed_ = true;
  }
  scope_->blocks.back()[name] = at->second;
  return at->second;
}

void Resolver::store(uint32_t slot, const Expr& value, Span span) {
  VariableInfo& variable = (*scope_->variables)[slot];
  Type type = value.type;
  if (!type.known()) return;
  if (type.is(TypeKind::kVoid)) {
    error(span, "Invalid expression for assignment");
    return;
  }
  if (type.casts_to_integer()) type = integer_of(type);
  if (type.is_aggregate()) {
    error(span, fmt::format("Value '{}' cannot be assigned to a scratch variable.", type.spell()));
    return;
  }
  if (scope_->declared.contains(slot) && variable.type.is(TypeKind::kString) && variable.type.size() == 0 &&
      type.is(TypeKind::kString)) {
    variable.type = type;  // `string` without a size takes the size of what it gets
    changed_ = true;
    return;
  }
  bool declared = scope_->declared.contains(slot);
  auto both = merge(variable.type, type, &value);
  bool is_cast = declared && variable.type.is_integer() && type.is_integer() && !value.as<IntLiteral>();
  if (!both || (declared && variable.type.known() && !is_cast && !fits(variable.type, type, &value))) {
    error(span,
          fmt::format("Type mismatch for {}: trying to assign value of type '{}' when variable already has a "
                      "type '{}'",
                      variable.name, type.spell(), variable.type.spell()));
    return;
  }
  warn_of_cast(value, type, variable.type);
  if (declared && variable.type.known()) return;
  if (!(*both == variable.type)) {
    variable.type = *both;
    changed_ = true;
  }
}

// An integer that changes its value when it is stored as `into` may.
void Resolver::warn_of_cast(const Expr& value, const Type& type, const Type& into) {
  if (!type.is_integer() || !into.is_integer() || value.as<IntLiteral>()) return;
  bool fits_in = into.size() > type.size()
                     ? !type.is_signed() || into.is_signed()
                     : into.size() == type.size() && into.is_signed() == type.is_signed();
  if (fits_in) return;
  warn(head_of(value), fmt::format("Expression of type: {} being cast to type: {}. This may cause unexpected "
                                   "results. Use an explicit cast to suppress this warning.",
                                   type.spell(), into.spell()));
}

Span Resolver::head_of(const Expr& expr) {
  const auto* cast = expr.as<Cast>();
  return cast ? Span{expr.span.begin, cast->type.span.end + 1, expr.span.source} : expr.span;
}

void Resolver::assign_variable(Stmt& stmt, AssignVariable& node) {
  Type type = expression(*node.value);
  const uint32_t* found = find_variable(node.name);
  if (node.op) {
    if (found == nullptr) {
      error(node.name_span, fmt::format("Undefined or undeclared variable: {}", node.name));
      return;
    }
    node.slot = *found;
    Expr left;
    left.span = node.name_span;
    left.node = Variable{node.name, *found};
    left.type = (*scope_->variables)[*found].type;
    if (!left.type.known() || !type.known()) return;
    if (left.type.is(TypeKind::kPointer)) check_step(left.type, stmt.span);
    if (left.type.is(TypeKind::kPointer) && type.is_integer()) return;
    if (!left.type.is_integer() && !left.type.is(TypeKind::kBool)) {
      error(stmt.span,
            fmt::format("Type mismatch for {}: trying to assign value of type '{}' when variable already "
                        "has a type '{}'",
                        node.name, type.is_integer() ? "int64" : type.spell(), left.type.spell()));
      return;
    }
    Expr result;
    result.span =
        join(Span{node.name_span.end + 1, node.name_span.end + 1, stmt.span.source}, node.value->span);
    result.type = scope_->declared.contains(*found) ? left.type : common_integer(left, *node.value, *node.op);
    auto both = merge(left.type, result.type);
    if (both && !(*both == left.type)) {
      (*scope_->variables)[*found].type = *both;
      changed_ = true;
    }
    return;
  }
  if (node.value->as<Call>() && type.is_aggregate()) return;  // reported where the call was typed
  node.slot = found ? *found : define(node.name, node.name_span);
  store(node.slot, *node.value, stmt.span);
  scope_->assigned.insert(node.slot);
}

void Resolver::declare(Stmt& stmt, Declare& node) {
  if (node.value) expression(*node.value);
  if (const uint32_t* found = find_variable(node.name)) {
    const VariableInfo& earlier = (*scope_->variables)[*found];
    if (earlier.span.begin != node.name_span.begin || earlier.span.source != node.name_span.source) {
      Span head = join(stmt.span, node.name_span);
      error(head,
            fmt::format("Variable {} was already declared. Variable shadowing is not allowed.", node.name))
          ->notes.push_back({earlier.span, "This is the initial declaration."});
      return;
    }
  }
  node.slot = define(node.name, node.name_span);
  VariableInfo& variable = (*scope_->variables)[node.slot];
  if (node.type) {
    Type type = resolve(*node.type);
    scope_->declared.insert(node.slot);
    if (!variable.type.known() && type.known()) {
      variable.type = type;
      changed_ = true;
    }
  }
  if (!node.value) return;
  store(node.slot, *node.value, stmt.span);
  scope_->assigned.insert(node.slot);
}

MapInfo& Resolver::map(const std::string& name, Span span) {
  auto [at, added] = program_.maps.try_emplace(name);
  if (added) {
    at->second.name = name;
    at->second.span = span;
    changed_ = true;
  }
  return at->second;
}

void Resolver::merge_map_value(MapInfo& map, const Type& type, const Expr* value, Span span) {
  if (!type.known()) return;
  auto both = merge(map.value, type, value);
  if (!both) {
    error(span,
          fmt::format("Type mismatch for {}: trying to assign value of type '{}' when map already has a type "
                      "'{}'",
                      map.name, type.spell(), map.value.spell()));
    return;
  }
  if (value) warn_of_cast(*value, type, map.value);
  if (!(*both == map.value)) {
    map.value = *both;
    changed_ = true;
  }
}

void Resolver::map_key(MapInfo& map, Expr* key, Span span) {
  if (key == nullptr) {
    if (map.key) {
      error(span,
            fmt::format("{} used as a map without an explicit key (scalar map), previously used with an "
                        "explicit key (non-scalar map)",
                        map.name));
    }
    return;
  }
  Type type = key->type.casts_to_integer() ? integer_of(key->type) : key->type;
  if (!type.known()) return;
  if (type.is_aggregate() || type.is(TypeKind::kVoid)) {
    error(key->span, fmt::format("{} cannot be used as a map key", type.spell()));
    return;
  }
  auto both = map.key ? merge(*map.key, type, key) : std::optional(type);
  if (!both) {
    error(span,
          fmt::format("Argument mismatch for {}: trying to access with arguments: '{}' when map expects "
                      "arguments: '{}'",
                      map.name, type.spell(), map.key->spell()));
    return;
  }
  if (map.key) warn_of_cast(*key, type, *map.key);
  if (!map.key || !(*both == *map.key)) {
    map.key = *both;
    changed_ = true;
  }
}

void Resolver::assign_map(Stmt& stmt, AssignMap& node) {
  auto& target = *node.target->as<MapAccess>();
  // An aggregation may stand at the end of a block: { let $x = …; avg($x) }.
  const Expr* made = node.value.get();
  while (const auto* inner = made->as<BlockExpr>()) {
    if (!inner->block.value) break;
    made = inner->block.value.get();
  }
  if (const auto* call = made->as<Call>()) {
    const FunctionSpec* spec = find_function(call->name);
    if (spec && spec->aggregate && !node.op) mapped_calls_.insert(made);
  }
  if (target.key) expression(*target.key);
  Type type = expression(*node.value);
  MapInfo& info = map(target.name, node.target->span);
  map_key(info, target.key.get(), node.target->span);
  if (node.op) {
    if (info.value.is(TypeKind::kPointer)) check_step(info.value, stmt.span);
    if (type.known() && type.is_integer()) {
      Expr left;
      left.type = info.value.known() ? info.value : Type::int64();
      type = common_integer(left, *node.value, *node.op);
      if (info.value.known() && !merge(info.value, type)) type = info.value;
    }
    merge_map_value(info, type, nullptr, stmt.span);
  } else {
    if (type.is(TypeKind::kVoid)) error(stmt.span, "Invalid expression for assignment");
    // What an aggregate holds reads as an integer elsewhere; assigned from another map it is one.
    bool whole = mapped_calls_.contains(made);
    if (type.casts_to_integer() && !whole) type = integer_of(type);
    if (!type.is(TypeKind::kVoid)) {
      merge_map_value(info, type, node.value.get(), whole ? node.value->span : stmt.span);
    }
    if (whole) aggregate_parameters(*made, info);
  }
  node.target->type = info.value;
}

void Resolver::for_loop(Stmt& stmt, For& node) {
  Type element;
  if (node.map) {
    const auto& access = *node.map->as<MapAccess>();
    auto found = program_.maps.find(access.name);
    if (found == program_.maps.end() || !found->second.value.known()) {
      error(node.map->span, fmt::format("Undefined map: {}", access.name));
    } else if (!found->second.key) {
      error(
          node.map->span,
          fmt::format("{} has no explicit keys (scalar map), and cannot be used for iteration", access.name));
    } else {
      Type value =
          found->second.value.casts_to_integer() ? integer_of(found->second.value) : found->second.value;
      element = Type::tuple({*found->second.key, value});
      node.map->type = element;
    }
  } else {
    Type begin = expression(*node.begin), end = expression(*node.end);
    for (Expr* side : {node.begin.get(), node.end.get()}) {
      if (side->type.known() && !side->type.is_integer()) {
        Span head = join(stmt.span, node.end->span);
        error(head, fmt::format("Loop range requires an integer for the {} value",
                                side == node.begin.get() ? "start" : "end"));
      }
    }
    if (begin.is_integer() && end.is_integer()) element = merge(begin, end).value_or(Type::int64());
  }
  if (find_variable(node.variable) != nullptr) {
    error(node.variable_span, fmt::format("Loop declaration shadows existing variable: {}", node.variable));
  }
  scope_->blocks.emplace_back();
  node.slot = define(node.variable, node.variable_span);
  scope_->assigned.insert(node.slot);
  VariableInfo& variable = (*scope_->variables)[node.slot];
  variable.is_entry = node.map != nullptr;
  if (element.known() && !(variable.type == element)) {
    variable.type = element;
    changed_ = true;
  }
  ++scope_->loops;
  block(node.body);
  --scope_->loops;
  scope_->blocks.pop_back();
}

void Resolver::unroll(Stmt& stmt, Unroll& node) {
  expression(*node.count);
  const auto* count = node.count->as<IntLiteral>();
  if (count == nullptr) {
    error(stmt.span, "invalid unroll value");
  } else if (count->negative || count->value < 1) {
    error(stmt.span, "unroll minimum value is 1");
  } else if (count->value > 100) {
    error(stmt.span, "unroll maximum value is 100");
  }
  ++scope_->loops;
  block(node.body);
  --scope_->loops;
}

void Resolver::jump(Stmt& stmt, Jump& node) {
  if (node.value) expression(*node.value);
  if (node.kind != JumpKind::kReturn) {
    if (scope_->loops == 0) {
      error(stmt.span, fmt::format("'{}' statement is not allowed in a {}",
                                   node.kind == JumpKind::kBreak ? "break" : "continue",
                                   scope_->in_function ? "function" : "probe"));
    }
    return;
  }
  if (!scope_->in_function) return;
  Type given = node.value ? node.value->type : Type::void_type();
  if (given.known() && !fits(scope_->result, given, node.value.get())) {
    error(stmt.span, fmt::format("Function {} is of type {}, cannot return {}", scope_->name,
                                 scope_->result.spell(), given.spell()));
  }
}

void Resolver::check_maps() {
  for (auto& [name, info] : program_.maps) {
    if (info.value.known()) continue;
    if (info.declared) {
      diagnostics_.warning(info.span, fmt::format("Unused map: {}", name));
    } else if (!diagnostics_.has_errors()) {
      diagnostics_.error(info.span, fmt::format("Undefined map: {}", name));
    }
  }
}

}  // namespace uscope::lang
