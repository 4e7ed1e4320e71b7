#include <fmt/format.h>

#include <algorithm>

#include "lang/promote.h"
#include "lang/resolver.h"

namespace uscope::lang {
namespace {

bool is_comparison(BinaryOp op) { return precedence(op) == 6 || precedence(op) == 7; }
bool is_logical(BinaryOp op) { return op == BinaryOp::kAnd || op == BinaryOp::kOr; }

bool can_be_condition(const Type& type) {
  return !type.known() || type.is_scalar() || type.casts_to_integer() || type.is(TypeKind::kFloat);
}

}  // namespace

Type Resolver::expression(Expr& expr) {
  Type type = compute(expr);
  expr.type = type;
  return type;
}

Type Resolver::integer_of(const Type& type) const {
  bool is_signed = type.is_signed() && !type.is(TypeKind::kCount);
  return Type::integer(64, is_signed);
}

Type Resolver::compute(Expr& expr) {
  if (auto* node = expr.as<IntLiteral>()) {
    // Later probes may have led to another enum that has the name.
    if (last_round_ && expr.type.is(TypeKind::kEnum) && !node->spelling.empty() && expr.type != wanted_enum_)
      find_constant(node->spelling, expr.span);
    return expr.type.is(TypeKind::kEnum) ? expr.type : literal_type(*node);
  }
  if (expr.as<FloatLiteral>()) return Type::floating(64);
  if (auto* node = expr.as<StringLiteral>()) {
    uint64_t most = program_.settings.max_strlen;
    if (node->value.size() >= most)
      error(expr.span, fmt::format("String is too long (over {} bytes): {}", most, node->value));
    return Type::string(node->value.size() + 1);
  }
  if (expr.as<BoolLiteral>()) return Type::boolean();
  if (expr.as<Identifier>()) return identifier(expr);
  if (auto* node = expr.as<Builtin>()) return builtin(expr, std::string(node->name));
  if (auto* node = expr.as<Variable>()) return variable(expr, *node);
  if (auto* node = expr.as<MapAccess>()) return map_access(expr, *node);
  if (auto* node = expr.as<Unary>()) return unary(expr, *node);
  if (auto* node = expr.as<Increment>()) return increment(expr, *node);
  if (auto* node = expr.as<Binary>()) return binary(expr, *node);
  if (auto* node = expr.as<Ternary>()) return ternary(expr, *node);
  if (auto* node = expr.as<Cast>()) return cast(expr, *node);
  if (auto* node = expr.as<Field>()) return field(expr, *node);
  if (auto* node = expr.as<TupleIndex>()) return tuple_index(expr, *node);
  if (auto* node = expr.as<Index>()) return index(expr, *node);
  if (auto* node = expr.as<Call>()) return call(expr, *node);
  if (auto* node = expr.as<SizeOf>()) return size_of(expr, *node);
  if (auto* node = expr.as<OffsetOf>()) return offset_of(expr, *node);
  if (auto* node = expr.as<TypeInfo>()) return type_info(expr, *node);
  if (auto* node = expr.as<If>()) return if_expression(expr, *node);
  if (auto* node = expr.as<Comptime>()) return expression(*node->operand);
  if (auto* node = expr.as<Tuple>()) {
    std::vector<Type> types;
    for (ExprPtr& element : node->elements) {
      Type type = expression(*element);
      types.push_back(type.casts_to_integer() ? integer_of(type) : type);
    }
    bool known = std::ranges::all_of(types, [](const Type& type) { return type.known(); });
    return known ? Type::tuple(types) : Type();
  }
  if (auto* node = expr.as<Record>()) {
    std::vector<std::pair<std::string, Type>> types;
    bool known = true;
    for (RecordField& one : node->fields) {
      types.emplace_back(one.name, expression(*one.value));
      known = known && types.back().second.known();
    }
    return known ? Type::record(std::move(types)) : Type();
  }
  if (auto* node = expr.as<BlockExpr>()) {
    block(node->block);
    return node->block.value ? node->block.value->type : Type::void_type();
  }
  return Type();
}

Type Resolver::identifier(Expr& expr) {
  std::string name = expr.as<Identifier>()->name;
  // The names that bpftrace's standard library wraps.
  constexpr std::string_view kBuiltin = "__builtin_";
  if (name.starts_with(kBuiltin) && find_function(name.substr(kBuiltin.size())))
    name = name.substr(kBuiltin.size());
  auto as_literal = [&](const Constant& constant) {
    if (!constant.type.known()) return Type();
    expr.node = IntLiteral{static_cast<uint64_t>(constant.value), constant.value < 0, name};
    expr.type = constant.type;
    return constant.type;
  };
  if (auto constant = find_constant(name, expr.span)) return as_literal(*constant);
  const FunctionSpec* spec = find_function(name);
  if ((spec && spec->value) || argument_number(name) >= 0) {
    expr.node = Builtin{name};
    return builtin(expr, name);
  }
  if (spec) {
    // A function without required arguments may be called without parentheses.
    if (spec->least == 0) {
      expr.node = Call{name, expr.span, {}};
      return call(expr, *expr.as<Call>());
    }
    error(expr.span, arity_problem(*spec, 0));
    return Type();
  }
  if (scope_->attach_points && !scope_->attach_points->empty()) {
    if (auto global = types_.global(scope_->attach_points->front(), name)) return read(expr, *global);
  }
  // The program's come before the kernel's, also where nothing of the script has led to their enum yet.
  reach_types();
  if (auto constant = find_constant(name, expr.span)) return as_literal(*constant);
  if (auto of_kernel = types_.find_kernel_constant(name)) {
    bool has_probes = scope_->attach_points && !scope_->attach_points->empty();
    if (has_probes && space() == AddressSpace::kUser)
      doubts_.try_emplace(
          expr.span.begin, expr.span,
          fmt::format("'{}' is the kernel's: {} in '{}'", name, of_kernel->value, of_kernel->type.spell()));
    return as_literal(*of_kernel);
  }
  error(expr.span, fmt::format("Unknown identifier: '{}'", name));
  return Type();
}

// Of an enumerator that several enums have, the one of the enum that the other side is of.
std::optional<Constant> Resolver::find_constant(const std::string& name, Span span) {
  if (auto own = program_.c_types.find_constant(name)) return own;
  std::vector<Constant> found = types_.find_constants(name);
  if (found.empty()) return std::nullopt;
  for (const Constant& each : found)
    if (wanted_enum_.known() && each.type == wanted_enum_) return each;
  for (const Constant& each : found) {
    if (each.value == found.front().value) continue;
    Diagnostic* said = error(span, fmt::format("'{}' is {} in '{}' and {} in '{}'", name, found.front().value,
                                               found.front().type.spell(), each.value, each.type.spell()));
    if (said) said->hint = "compare with a value of the enum that is meant, or write the number";
    // Another round may know what it is compared with; until then it stays a name.
    return Constant{Type(), 0};
  }
  return found.front();
}

// An enumerator takes its meaning from the other side, which therefore comes first.
void Resolver::both_sides(Binary& node) {
  auto is_word = [](const Expr& of) { return of.as<Identifier>() || of.as<IntLiteral>(); };
  auto side = [&](Expr& of, const Expr& other) {
    if (is_word(of) && other.type.is(TypeKind::kEnum)) wanted_enum_ = other.type;
    expression(of);
    wanted_enum_ = Type();
  };
  bool right_first = is_word(*node.left);
  if (right_first) expression(*node.right);
  side(*node.left, *node.right);
  if (!right_first) side(*node.right, *node.left);
}

Type Resolver::builtin(Expr& expr, const std::string& name) {
  auto is_user_or_kernel_function = [](ProbeKind kind) {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kKprobe || kind == ProbeKind::kUsdt ||
           kind == ProbeKind::kRawTracepoint || kind == ProbeKind::kFentry;
  };
  auto is_return = [](ProbeKind kind) {
    return kind == ProbeKind::kUretprobe || kind == ProbeKind::kKretprobe || kind == ProbeKind::kFexit;
  };
  auto has_function = [](ProbeKind kind) {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kUretprobe || kind == ProbeKind::kKprobe ||
           kind == ProbeKind::kKretprobe || kind == ProbeKind::kFentry || kind == ProbeKind::kFexit ||
           kind == ProbeKind::kUsdt || kind == ProbeKind::kProfile || kind == ProbeKind::kSoftware ||
           kind == ProbeKind::kHardware;
  };
  auto has_args = [](ProbeKind kind) {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kUsdt || kind == ProbeKind::kTracepoint ||
           kind == ProbeKind::kRawTracepoint || kind == ProbeKind::kFentry || kind == ProbeKind::kFexit;
  };
  if (int number = argument_number(name); number >= 0) {
    if (!all_probes(is_user_or_kernel_function)) {
      error(expr.span,
            fmt::format("The {} builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes", name));
    } else if (number >= (all_probes([](ProbeKind kind) { return kind == ProbeKind::kUsdt; }) ? 12 : 10)) {
      error(expr.span, fmt::format("{} doesn't support {}", "x86_64", name));
    }
    return numbered_type(size_t(number));
  }
  if (name == "pid" || name == "tid" || name == "ppid" || name == "cpid") return Type::uint32();
  if (name == "comm" || name == "pcomm") return Type::string(16);
  if (name == "username") return Type::opaque(TypeKind::kUsername);
  if (name == "usermode") return Type::uint8();
  if (name == "has_cpid") return Type::boolean();
  if (name == "probe") {
    uint64_t longest = 0;
    if (scope_->attach_points) {
      for (const AttachSpec& point : *scope_->attach_points)
        longest = std::max<uint64_t>(longest, point.text.size());
    }
    return Type::string(longest + 1);
  }
  if (name == "probetype") return Type::string(first_probe_type().size() + 1);
  if (name == "ctx") return Type::pointer(Type::structure("struct pt_regs", 168), AddressSpace::kKernel);
  if (name == "ustack" || name == "dw_ustack")
    return Type::stack(TypeKind::kUserStack, kDefaultStackDepth, program_.settings.stack_mode);
  if (name == "kstack")
    return Type::stack(TypeKind::kKernelStack, kDefaultStackDepth, program_.settings.stack_mode);
  if (name == "func") {
    if (!all_probes(has_function)) {
      error(expr.span,
            fmt::format("The func builtin can not be used with '{}' probes",
                        scope_->attach_points->empty() ? "" : spell(scope_->attach_points->front().kind)));
    }
    return Type::opaque(TypeKind::kUserSymbol, 16);
  }
  if (name == "retval") {
    if (!all_probes(is_return)) {
      error(expr.span,
            "The retval builtin can only be used with 'kretprobe' and 'uretprobe' and 'fentry' probes");
      return Type::uint64();
    }
    return result_type(expr);
  }
  if (name == "took") {
    auto is_user_return = [](ProbeKind kind) { return kind == ProbeKind::kUretprobe; };
    if (!all_probes(is_user_return))
      error(expr.span, "The took builtin can only be used with 'uretprobe' probes");
    return Type::uint64();
  }
  if (name == "args" || name == "locals") {
    bool at_return = !all_probes([](ProbeKind kind) { return kind != ProbeKind::kUretprobe; });
    if (at_return || (name == "args" && !all_probes(has_args))) {
      Diagnostic* said = error(
          expr.span,
          name == "locals"
              ? "The locals builtin can not be used with 'uretprobe' probes"
              : fmt::format("The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, "
                            "and uprobe probes ({} used here)",
                            first_probe_type()));
      if (said && at_return)
        said->hint =
            "at its return a function's arguments are gone; keep what the entry has: uprobe:… { @[tid] = "
            "args.… }";
      return Type();
    }
    auto values = probe_values(name == "locals", expr.span);
    if (!values) return Type();
    std::vector<std::pair<std::string, Type>> fields;
    for (NamedValue& value : *values) fields.emplace_back(value.name, value.type);
    return Type::record(std::move(fields));
  }
  if (name == "curtask") {
    if (const StructLayout* task = layout("struct task_struct"))
      return Type::pointer(Type::structure(task->name, task->size), AddressSpace::kKernel);
  }
  return Type::uint64();  // uid gid nsecs elapsed cpu ncpus rand cgroup goid numaid jiffies
}

// A static probe says what is a floating-point number; everything else is as wide as a register.
Type Resolver::numbered_type(size_t number) {
  bool is_static = all_probes([](ProbeKind kind) { return kind == ProbeKind::kUsdt; });
  if (!is_static || !scope_->attach_points || scope_->attach_points->empty()) return Type::uint64();
  auto known = types_.arguments(scope_->attach_points->front());
  bool is_float = known && number < known->size() && (*known)[number].type.is(TypeKind::kFloat);
  return is_float ? (*known)[number].type : Type::uint64();
}

// What the functions of the probe return: of one type, as split_probes.h makes them.
Type Resolver::result_type(const Expr& expr) {
  if (!scope_->attach_points || scope_->attach_points->empty()) return Type::uint64();
  if (scope_->retval) return *scope_->retval;
  const AttachSpec& first = scope_->attach_points->front();
  auto known = types_.return_type(first);
  if (!known) return Type::uint64();
  bool is_plain = known->is_scalar() || known->is(TypeKind::kFloat);
  if (program_.settings.as_bpftrace && !is_plain) return Type::uint64();
  switch (known->kind()) {
    case TypeKind::kFloat:
    case TypeKind::kStruct:
    case TypeKind::kArray:
    case TypeKind::kTuple:
      return *known;
    case TypeKind::kVoid:
      warn(expr.span,
           fmt::format("{}{} returns nothing: `retval` is what the register for results happens to hold",
                       first.function,
                       scope_->attach_points->size() == 1
                           ? ""
                           : fmt::format(" (as {} more)", scope_->attach_points->size() - 1)));
      return Type::uint64();
    default:
      break;
  }
  if (!known->is_scalar()) return Type::uint64();
  return known->is_reference() ? Type::pointer(known->pointee(), known->address_space()) : read(expr, *known);
}

Type Resolver::variable(Expr& expr, Variable& node) {
  const uint32_t* found = find_variable(node.name);
  if (found == nullptr) {
    error(expr.span, fmt::format("Undefined or undeclared variable: {}", node.name));
    return Type();
  }
  node.slot = *found;
  const VariableInfo& info = (*scope_->variables)[*found];
  if (!info.type.known()) error(expr.span, "Could not resolve the type of this variable");
  if (!scope_->assigned.contains(*found)) {
    warn(expr.span, fmt::format("Variable used before it was assigned: {}", node.name));
  }
  return info.type;
}

Type Resolver::map_access(Expr& expr, MapAccess& node) {
  if (node.key) expression(*node.key);
  auto found = program_.maps.find(node.name);
  if (found == program_.maps.end() || !found->second.value.known()) {
    error(expr.span, fmt::format("Undefined map: {}", node.name));
    if (found == program_.maps.end() || !node.key) return Type();
    map_key(found->second, node.key.get(), expr.span);
    return Type();
  }
  MapInfo& info = found->second;
  if (node.key && !info.key && info.value.known()) {
    error(expr.span,
          fmt::format("{} used as a map with an explicit key (non-scalar map), previously used without an "
                      "explicit key (scalar map)",
                      node.name));
    return info.value;
  }
  map_key(info, node.key.get(), expr.span);
  return info.value;
}

Type Resolver::unary(Expr& expr, Unary& node) {
  Type type = expression(*node.operand);
  if (!type.known()) return Type();
  if (type.casts_to_integer()) type = integer_of(type);
  auto wrong = [&] {
    error(expr.span, fmt::format("The {} operator can not be used on expressions of type '{}'",
                                 spell(node.op), type.spell()));
    return Type();
  };
  switch (node.op) {
    case UnaryOp::kNot:
      return can_be_condition(type) ? Type::boolean() : wrong();
    case UnaryOp::kNegate:
    case UnaryOp::kBitNot:
      if (type.is(TypeKind::kFloat) && node.op == UnaryOp::kNegate) return Type::floating(64);
      if (!type.is_integer()) return wrong();
      // As in bpftrace: an unsigned number keeps its width, and the bits of a narrow one are taken as
      // unsigned.
      if (!type.is_signed()) return Type::integer(static_cast<unsigned>(type.size() * 8), false);
      if (node.op == UnaryOp::kNegate) return Type::int64();
      if (node.operand->as<IntLiteral>()) return Type::uint64();
      return Type::integer(static_cast<unsigned>(type.size() * 8), type.size() == 8);
    case UnaryOp::kDereference:
      if (type.is(TypeKind::kPointer)) {
        const Type& to = type.pointee();
        if (to.is(TypeKind::kVoid)) {
          error(expr.span, "Can not dereference a void pointer, cast it first");
          return Type();
        }
        note_doubt(to, expr.span);
        if (to.is(TypeKind::kStruct) && layout(to.name()) == nullptr) {
          error(expr.span, fmt::format("Unknown struct/union: '{}'", to.name()));
          return Type();
        }
        return to.is(TypeKind::kPointer) ? to.in_space(type.address_space()) : read(expr, to);
      }
      return type.is_integer() ? Type::uint64() : wrong();
    case UnaryOp::kAddressOf:
      if (!node.operand->as<Variable>() && !node.operand->as<MapAccess>()) return wrong();
      return Type::pointer(type, AddressSpace::kKernel);
  }
  return Type();
}

Type Resolver::increment(Expr& expr, Increment& node) {
  if (auto* access = node.target->as<MapAccess>()) {
    if (access->key) expression(*access->key);
    MapInfo& info = map(access->name, node.target->span);
    map_key(info, access->key.get(), node.target->span);
    if (!info.value.known()) merge_map_value(info, Type::int64(), nullptr, expr.span);
    Type type = info.value;
    if (type.is_integer() && type.size() < 8)
      merge_map_value(info, Type::integer(64, type.is_signed()), nullptr, expr.span);
    node.target->type = info.value;
    if (info.value.is(TypeKind::kPointer)) check_step(info.value, expr.span);
    if (!info.value.is_integer() && !info.value.is(TypeKind::kPointer)) {
      error(expr.span,
            fmt::format("Type mismatch for {}: trying to assign value of type 'uint64' when map already has "
                        "a type '{}'",
                        access->name, info.value.spell()));
    }
    return info.value;
  }
  Type type = expression(*node.target);
  if (!type.known()) return Type();
  if (type.is(TypeKind::kPointer)) check_step(type, expr.span);
  if (!type.is_integer() && !type.is(TypeKind::kPointer)) {
    error(expr.span,
          fmt::format("Type mismatch for {}: trying to assign value of type 'uint64' when variable already "
                      "has a type '{}'",
                      node.target->as<Variable>()->name, type.spell()));
    return Type();
  }
  const auto& target = *node.target->as<Variable>();
  bool grows = type.is_integer() && type.size() < 8 && !scope_->declared.contains(target.slot);
  if (grows) {
    type = Type::integer(64, type.is_signed());
    (*scope_->variables)[target.slot].type = type;
    node.target->type = type;
    changed_ = true;
  }
  return type;
}

void Resolver::mismatch(const Expr& expr, const Binary& node, const Type& left_type, const Type& right_type) {
  bool number = left_type.is_integer() || right_type.is_integer();
  bool pointer = left_type.is(TypeKind::kPointer) || right_type.is(TypeKind::kPointer);
  if (left_type.kind() == right_type.kind() || (number && pointer)) {
    error(expr.span, fmt::format("The {} operator can not be used on expressions of types {}, {}",
                                 spell(node.op), left_type.spell(), right_type.spell()));
    return;
  }
  // Operands of arithmetic are 64 bits wide by the time they meet.
  auto widened = [&](const Type& type) {
    return is_comparison(node.op) || !type.is_integer() ? type : Type::integer(64, type.is_signed());
  };
  Type left = widened(left_type), right = widened(right_type);
  Diagnostic* made = error(expr.span, fmt::format("Type mismatch for '{}': comparing {} with {}",
                                                  spell(node.op), left.spell(), right.spell()));
  made->notes.push_back({node.left->span, fmt::format("left ({})", left.spell())});
  made->notes.push_back({node.right->span, fmt::format("right ({})", right.spell())});
}

Type Resolver::binary(Expr& expr, Binary& node) {
  both_sides(node);
  Type left = node.left->type, right = node.right->type;
  if (!left.known() || !right.known())
    return is_comparison(node.op) || is_logical(node.op) ? Type::boolean() : Type();
  if (left.casts_to_integer()) left = integer_of(left);
  if (right.casts_to_integer()) right = integer_of(right);
  auto number = [](const Type& type) { return type.is_integer() || type.is(TypeKind::kBool); };
  if (is_logical(node.op)) {
    for (const auto& [side, operand] :
         {std::pair(&left, node.left.get()), std::pair(&right, node.right.get())}) {
      if (!can_be_condition(*side)) {
        error(operand->span, fmt::format("The {} operator can not be used on expressions of type '{}'",
                                         spell(node.op), side->spell()));
      }
    }
    return Type::boolean();
  }
  if (is_comparison(node.op)) {
    bool equality = node.op == BinaryOp::kEqual || node.op == BinaryOp::kNotEqual;
    bool scalars =
        (number(left) || left.is(TypeKind::kPointer)) && (number(right) || right.is(TypeKind::kPointer));
    bool same = left.kind() == right.kind() && (equality || left.is(TypeKind::kString));
    bool floats =
        (left.is(TypeKind::kFloat) || number(left)) && (right.is(TypeKind::kFloat) || number(right));
    if (!scalars && !same && !floats) mismatch(expr, node, left, right);
    bool mixed = left.is_integer() && right.is_integer() && left.is_signed() != right.is_signed();
    if (mixed && common_integer(*node.left, *node.right, node.op).is_signed()) {
      const Expr& plain = left.is_signed() ? *node.right : *node.left;
      const Expr& with_sign = left.is_signed() ? *node.left : *node.right;
      if (plain.type.size() == 8 && !with_sign.as<IntLiteral>())
        warn_of_cast(plain, Type::uint64(), Type::int64());
    }
    return Type::boolean();
  }
  if (number(left) && number(right)) {
    Type common = common_integer(*node.left, *node.right, node.op);
    bool mixed = left.is_signed() != right.is_signed() && common.is_signed();
    const Type& plain = left.is_signed() ? right : left;
    const Expr& with_sign = left.is_signed() ? *node.left : *node.right;
    if (mixed && plain.size() == 8 && !with_sign.as<IntLiteral>() && !left.is(TypeKind::kBool) &&
        !right.is(TypeKind::kBool)) {
      warn_of_cast(left.is_signed() ? *node.right : *node.left, Type::uint64(), Type::int64());
    }
    return common;
  }
  bool sum = node.op == BinaryOp::kAdd || node.op == BinaryOp::kSubtract;
  if (sum && left.is(TypeKind::kPointer)) check_step(left, expr.span);
  if (sum && right.is(TypeKind::kPointer)) check_step(right, expr.span);
  if (sum && left.is(TypeKind::kPointer) && number(right)) return left;
  if (node.op == BinaryOp::kAdd && number(left) && right.is(TypeKind::kPointer)) return right;
  if (node.op == BinaryOp::kSubtract && left.is(TypeKind::kPointer) && right.is(TypeKind::kPointer))
    return Type::int64();
  bool left_float = left.is(TypeKind::kFloat), right_float = right.is(TypeKind::kFloat);
  if ((left_float || right_float) && (left_float || number(left)) && (right_float || number(right))) {
    return Type::floating(64);
  }
  mismatch(expr, node, left, right);
  return Type();
}

Type Resolver::ternary(Expr& expr, Ternary& node) {
  Type condition = expression(*node.condition);
  if (!can_be_condition(condition)) {
    error(node.condition->span, fmt::format("Invalid condition in ternary: {}", condition.spell()));
  }
  Type then = node.then ? expression(*node.then) : condition;
  Type otherwise = expression(*node.otherwise);
  if (!then.known() || !otherwise.known()) return then.known() ? then : otherwise;
  if (then.is(TypeKind::kVoid) && otherwise.is(TypeKind::kVoid)) return then;
  auto both = merge(then, otherwise, node.otherwise.get());
  if (!both && node.then) both = merge(otherwise, then, node.then.get());
  if (!both) {
    error(expr.span, fmt::format("Branches must return the same type or compatible types: have '{}' and '{}'",
                                 then.spell(), otherwise.spell()));
    return Type();
  }
  return *both;
}

Type Resolver::if_expression(Expr& expr, If& node) {
  Type condition = expression(*node.condition);
  bool fine = can_be_condition(condition) || condition.is(TypeKind::kString);
  if (!fine) error(node.condition->span, fmt::format("Invalid condition in if(): {}", condition.spell()));
  block(node.then);
  if (node.otherwise) expression(*node.otherwise);
  (void)expr;
  if (!node.then.value || !node.otherwise) return Type::void_type();
  auto both = merge(node.then.value->type, node.otherwise->type);
  return both.value_or(Type::void_type());
}

Type Resolver::cast(Expr& expr, Cast& node) {
  Type to = resolve(node.type);
  if (to.is(TypeKind::kInt)) narrowed_ = node.operand.get();
  Type from = expression(*node.operand);
  if (!to.known() || !from.known()) return to;
  if (from.casts_to_integer()) from = integer_of(from);
  if (to.is(TypeKind::kArray) && to.count() == 0) {
    uint64_t element = std::max<uint64_t>(to.element().size(), 1);
    to = Type::array(to.element(), from.size() / element, element);
  }
  bool scalar = from.is_scalar() || from.is(TypeKind::kFloat);
  bool fine = false;
  switch (to.kind()) {
    case TypeKind::kInt:
    case TypeKind::kEnum:
      fine = scalar || (from.is(TypeKind::kArray) && from.size() == to.size());
      break;
    case TypeKind::kBool:
      fine = scalar || from.is(TypeKind::kString);
      break;
    case TypeKind::kFloat:
      fine = scalar;
      break;
    case TypeKind::kPointer:
      fine = from.is_integer() || from.is(TypeKind::kPointer) || from.is(TypeKind::kArray);
      break;
    case TypeKind::kArray:
      fine = from == to ||
             (from.is_integer() && (to.element().is_integer() || to.element().is(TypeKind::kBool)) &&
              to.size() <= 8) ||
             (from.is(TypeKind::kArray) && from.size() == to.size());
      break;
    case TypeKind::kString:
      fine = (from.is(TypeKind::kString) && (to.size() == 0 || from.size() <= to.size())) ||
             (from.is(TypeKind::kArray) && from.element().size() == 1);
      if (to.size() == 0) to = Type::string(from.size());
      break;
    default:
      fine = from == to;
      break;
  }
  Span head{expr.span.begin, node.type.span.end + 1, expr.span.source};
  if (!fine) error(head, fmt::format("Cannot cast from \"{}\" to \"{}\"", from.spell(), to.spell()));
  if (to.is(TypeKind::kPointer) && from.is(TypeKind::kPointer)) return to.in_space(from.address_space());
  return to;
}

// Of a wider number a half would be shown for the whole, if it is not asked for by a cast.
Type Resolver::read(const Expr& expr, const Type& type) {
  if (!type.is(TypeKind::kInt) || type.size() <= 8) return type;
  if (&expr == narrowed_) return Type::integer(64, type.is_signed());
  if (Diagnostic* said =
          error(expr.span, fmt::format("A number of {} bytes: a script's have 8", type.size())))
    said->hint = "Print the struct or array that holds it, or cast it: (uint64) is its lower half.";
  return Type();
}

// A C++ reference stands for what it refers to, as it does in the program.
Type Resolver::field(Expr& expr, Field& node) {
  Type type = field_itself(expr, node);
  if (!type.is_reference()) return read(expr, type);
  if (node.is_reference || type.pointee().size() == 0)
    return Type::pointer(type.pointee(), type.address_space());
  auto holder = std::make_unique<Expr>();
  holder->span = expr.span;
  holder->type = type;
  node.is_reference = true;
  holder->node = std::move(expr.node);
  expr.node = Unary{UnaryOp::kDereference, std::move(holder)};
  return unary(expr, *expr.as<Unary>());
}

Type Resolver::field_itself(Expr& expr, Field& node) {
  if (const auto* call = node.object->as<Call>(); call && call->name == "config" && call->arguments.empty())
    return setting_value(expr, std::string(node.name));
  Type object = expression(*node.object);
  if (!object.known()) return Type();
  AddressSpace from = object.address_space();
  bool pointer = object.is(TypeKind::kPointer);
  if (pointer) object = object.pointee();
  if (pointer) note_doubt(object, expr.span);
  if (object.is(TypeKind::kRecord)) {
    auto found = std::ranges::find(object.fields(), node.name, &TypeField::name);
    if (found != object.fields().end()) return found->type;
    const auto* values = node.object->as<Builtin>();
    if (values && values->name == "args") {
      error(expr.span, fmt::format("Can't find function parameter {}", node.name));
    } else if (values && values->name == "locals") {
      error(expr.span, fmt::format("Can't find a variable '{}' here", node.name));
    } else {
      error(expr.span, fmt::format("Record does not contain a field named '{}'", node.name));
    }
    return Type();
  }
  if (!object.is(TypeKind::kStruct)) {
    error(expr.span, fmt::format("Can not access field '{}' on expression of type '{}'", node.name,
                                 pointer ? node.object->type.spell() : object.spell()));
    return Type();
  }
  const StructLayout* known = layout(object.name());
  if (known == nullptr) {
    error(expr.span, fmt::format("Unknown struct/union: '{}'", object.name()));
    return Type();
  }
  const TypeField* found = known->find(node.name);
  if (found == nullptr) {
    no_field(expr.span, *known, node.name);
    return Type();
  }
  bool is_own = known == program_.c_types.find_struct(object.name());
  Type type = is_own ? complete(found->type, expr.span) : found->type;
  if (type.is(TypeKind::kPointer)) return type.in_space(pointer ? from : origin(*node.object, type));
  return type;
}

void Resolver::no_field(Span span, const StructLayout& layout, const std::string& name) {
  auto unclear = layout.unclear.find(name);
  if (unclear == layout.unclear.end()) {
    error(span,
          fmt::format("Struct/union of type '{}' does not contain a field named '{}'", layout.name, name));
    return;
  }
  Diagnostic* said =
      error(span, fmt::format("'{}' has several fields named '{}': {}", layout.name, name, unclear->second));
  if (said) said->hint = "name the part of it, too: .PART." + name;
}

Type Resolver::tuple_index(Expr& expr, TupleIndex& node) {
  Type object = expression(*node.object);
  if (!object.known()) return Type();
  if (!object.is(TypeKind::kTuple)) {
    error(expr.span,
          fmt::format("Can not access index '{}' on expression of type '{}'", node.index, object.spell()));
    return Type();
  }
  if (node.index >= object.fields().size()) {
    error(expr.span, fmt::format("Invalid tuple index: {}. Found {} elements in tuple.", node.index,
                                 object.fields().size()));
    return Type();
  }
  return object.fields()[node.index].type;
}

Type Resolver::index(Expr& expr, Index& node) {
  Type object = expression(*node.object), by = expression(*node.index);
  if (!object.known() || !by.known()) return Type();
  if (object.is(TypeKind::kTuple)) {
    const auto* literal = node.index->as<IntLiteral>();
    if (literal == nullptr || literal->value >= object.fields().size()) {
      error(expr.span,
            fmt::format("Invalid tuple index{}. Found {} elements in tuple.",
                        literal ? fmt::format(": {}", literal->value) : "", object.fields().size()));
      return Type();
    }
    return object.fields()[literal->value].type;
  }
  if (!by.is_integer()) {
    error(expr.span,
          fmt::format("The array index operator [] only accepts positive (unsigned) integer indices. Got "
                      "{}.",
                      by.spell()));
    return Type();
  }
  if (object.is(TypeKind::kArray)) {
    const auto* literal = node.index->as<IntLiteral>();
    if (literal && (literal->negative || (object.count() > 0 && literal->value >= object.count()))) {
      error(expr.span, fmt::format("the index {} is out of bounds for array of size {}",
                                   literal->negative ? fmt::to_string(static_cast<int64_t>(literal->value))
                                                     : fmt::to_string(literal->value),
                                   object.count()));
    }
    const Type& element = object.element();
    bool is_of_kernel = element.is(TypeKind::kPointer) && element.address_space() == AddressSpace::kKernel;
    return is_of_kernel ? element.in_space(origin(*node.object, element)) : read(expr, element);
  }
  if (object.is(TypeKind::kPointer)) {
    note_doubt(object.pointee(), expr.span);
    check_step(object, expr.span);
    return read(expr, object.pointee());
  }
  if (object.is(TypeKind::kString)) return Type::int8();
  error(expr.span,
        fmt::format("The array index operator [] can only be used on arrays, pointers, and tuples, found "
                    "{}.",
                    object.spell()));
  return Type();
}

namespace {

// Of texts: one that lies in the program as its type says, or is a copy of such. The script's own are others.
bool is_char_array(const Expr& text) {
  if (text.as<Identifier>()) return true;
  if (const auto* index = text.as<Index>()) return !index->object->type.is(TypeKind::kTuple);
  if (const auto* unary = text.as<Unary>()) return unary->op == UnaryOp::kDereference;
  const auto* field = text.as<Field>();
  return field && (!field->object->type.is(TypeKind::kRecord) || field->object->as<Builtin>());
}

}  // namespace

Type Resolver::size_of(Expr& expr, SizeOf& node) {
  Type type;
  if (node.type) {
    type = resolve(*node.type);
  } else if (const auto* bare = node.operand->as<Identifier>(); bare && find_named(bare->name, expr.span)) {
    type = *find_named(bare->name, expr.span);
  } else {
    type = expression(*node.operand);
  }
  if (!type.known()) return Type::uint64();
  if (last_round_ || node.type) {
    uint64_t size = type.size();
    // A char array of the program: our text has room for a NUL behind it.
    bool is_array = node.type ? node.type->name != "string" && !node.type->of : is_char_array(*node.operand);
    bool is_str = size == program_.settings.max_strlen + 1;
    if (type.is(TypeKind::kString) && size > 0 && (is_array || is_str)) --size;
    expr.node = IntLiteral{size, false, ""};
    return literal_type(*expr.as<IntLiteral>());
  }
  return Type::uint64();
}

Type Resolver::offset_of(Expr& expr, OffsetOf& node) {
  Type type;
  if (node.type) {
    type = resolve(*node.type);
  } else if (const auto* bare = node.operand->as<Identifier>(); bare && find_named(bare->name, expr.span)) {
    type = *find_named(bare->name, expr.span);
  } else {
    type = expression(*node.operand);
  }
  if (type.is(TypeKind::kPointer)) type = type.pointee();
  uint64_t offset = 0;
  for (const std::string& name : node.path) {
    const StructLayout* known = type.is(TypeKind::kStruct) ? layout(type.name()) : nullptr;
    const TypeField* found = known ? known->find(name) : nullptr;
    if (found == nullptr) {
      if (known && known->unclear.contains(name)) {
        no_field(expr.span, *known, name);
      } else if (type.known()) {
        error(expr.span, fmt::format("'{}' has no field named '{}'", type.spell(), name));
      }
      return Type::uint64();
    }
    offset += found->offset;
    type = found->type;
  }
  if (last_round_ || node.type) {
    expr.node = IntLiteral{offset, false, ""};
    return literal_type(*expr.as<IntLiteral>());
  }
  return Type::uint64();
}

Type Resolver::type_info(Expr& expr, TypeInfo& node) {
  Type type = node.type ? resolve(*node.type) : expression(*node.operand);
  if (node.only_type) {
    error(expr.span, "typeof() can only be used as a type");
    return Type();
  }
  if (!type.known()) return Type();
  std::string spelled = type.spell();
  return Type::record({{"base_ty", Type::string(16)}, {"full_ty", Type::string(spelled.size() + 1)}});
}

}  // namespace uscope::lang
