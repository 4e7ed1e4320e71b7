#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lang/config.h"
#include "lang/format.h"
#include "lang/promote.h"
#include "lang/resolver.h"

namespace uscope::lang {
namespace {

// The word messages use for a type's kind: "int", "string", "struct".
std::string kind_word(const Type& type) {
  switch (type.kind()) {
    case TypeKind::kInt:
      return "int";
    case TypeKind::kString:
      return "string";
    case TypeKind::kPointer:
      return "pointer";
    case TypeKind::kArray:
      return "array";
    case TypeKind::kTuple:
      return "tuple";
    case TypeKind::kRecord:
      return "record";
    case TypeKind::kStruct:
      return "struct";
    default:
      return type.spell();
  }
}

bool is_text(const Type& type) {
  return type.is(TypeKind::kString) || type.is_integer() || type.is(TypeKind::kPointer) ||
         type.is(TypeKind::kArray) || type.is(TypeKind::kBuffer) || type.is(TypeKind::kStruct);
}

constexpr std::array<std::string_view, 34> kRegisters = {
    "ax",  "bx",  "cx",  "dx",  "si",  "di",    "bp",  "sp",  "ip",  "r8",      "r9",  "r10",
    "r11", "r12", "r13", "r14", "r15", "flags", "rax", "rbx", "rcx", "rdx",     "rsi", "rdi",
    "rbp", "rsp", "rip", "cs",  "ss",  "ds",    "es",  "fs",  "gs",  "orig_rax"};

bool is_address(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos &&
         (std::ranges::count(text, '.') == 3 || text.find(':') != std::string_view::npos);
}

}  // namespace

bool Resolver::check_arguments(const Expr& expr, const FunctionSpec& spec, Call& node) {
  std::string problem = arity_problem(spec, node.arguments.size());
  if (!problem.empty()) {
    error(expr.span, problem);
    return false;
  }
  bool fine = true;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    Expr& argument = *node.arguments[i];
    const Type& type = argument.type;
    ArgumentSort sort = spec.sort(i);
    std::string wanted;
    bool number = type.is_integer() || type.is(TypeKind::kBool) || type.casts_to_integer() ||
                  type.is(TypeKind::kPointer) || type.is(TypeKind::kFloat);
    if (sort == ArgumentSort::kMap) {
      const auto* map = argument.as<MapAccess>();
      if (map && !map->key) continue;
      error(argument.span, fmt::format("{}() expects a map argument", spec.name));
      fine = false;
      continue;
    }
    if (sort == ArgumentSort::kVariable && !argument.as<Variable>()) {
      error(argument.span, fmt::format("{}() expects a variable to store into", spec.name));
      fine = false;
      continue;
    }
    if (sort == ArgumentSort::kTextLiteral && !argument.as<StringLiteral>() && type.known()) {
      wanted = "expects a string literal";
    } else if (sort == ArgumentSort::kIntLiteral && !argument.as<IntLiteral>() && type.known()) {
      wanted = "expects an int literal";
    } else if (sort == ArgumentSort::kInt && type.known() && !number) {
      wanted = "only supports int arguments";
    } else if (sort == ArgumentSort::kText && type.known() && !is_text(type)) {
      wanted = "expects a string or a pointer argument";
    }
    if (wanted.empty()) continue;
    error(expr.span, fmt::format("{}() {} ({} provided)", spec.name, wanted, kind_word(type)));
    fine = false;
  }
  return fine;
}

void Resolver::check_format(const Expr& expr, const Call& node) {
  const auto* text = node.arguments[0]->as<StringLiteral>();
  if (text == nullptr) return;
  auto pieces = parse_format(text->value);
  size_t expected = conversions(pieces), given = node.arguments.size() - 1;
  if (given != expected) {
    error(expr.span, fmt::format("{} arguments for format string ({} supplied, {} expected)",
                                 given < expected ? "not enough" : "too many", given, expected));
    return;
  }
  size_t at = 1;
  for (const FormatPiece& piece : pieces) {
    if (piece.conversion.empty()) continue;
    const Type& type = node.arguments[at++]->type;
    if (!accepts(piece, type)) {
      error(expr.span,
            fmt::format("unsupported format specifier for type '{}': {}", type.spell(), piece.conversion));
    }
  }
}

Type Resolver::aggregate(const Expr& expr, Call& node) {
  if (!mapped_calls_.contains(&expr)) {
    error(expr.span, fmt::format("{}() must be assigned directly to a map", node.name));
  }
  auto literal = [&](size_t i) { return node.arguments[i]->as<IntLiteral>(); };
  auto number = [&](size_t i) { return static_cast<int64_t>(literal(i)->value); };
  bool is_signed = node.arguments.empty() || node.arguments[0]->type.is_signed();
  if (node.name == "count") return Type::opaque(TypeKind::kCount, 8, true);
  if (node.name == "sum") return Type::opaque(TypeKind::kSum, 8, is_signed);
  if (node.name == "avg") return Type::opaque(TypeKind::kAvg, 8, is_signed);
  if (node.name == "min") return Type::opaque(TypeKind::kMin, 8, is_signed);
  if (node.name == "max") return Type::opaque(TypeKind::kMax, 8, is_signed);
  if (node.name == "stats") return Type::opaque(TypeKind::kStats, 8, is_signed);
  if (node.name == "hist") {
    if (node.arguments.size() > 1 && literal(1) && literal(1)->value > 5) {
      error(expr.span, fmt::format("hist: bits {} must be 0..5", literal(1)->value));
    }
    return Type::opaque(TypeKind::kHist);
  }
  if (node.name == "lhist") {
    if (literal(1) && literal(2) && literal(3)) {
      int64_t low = number(1), high = number(2), step = number(3);
      if (step <= 0) {
        error(expr.span, fmt::format("lhist() step must be >= 1 ({} provided)", step));
      } else if (low >= high) {
        error(expr.span,
              fmt::format("lhist() min must be less than max (provided min {} and max {})", low, high));
      } else if ((static_cast<uint64_t>(high) - static_cast<uint64_t>(low)) / static_cast<uint64_t>(step) >
                 1000) {
        uint64_t buckets =
            (static_cast<uint64_t>(high) - static_cast<uint64_t>(low)) / static_cast<uint64_t>(step);
        error(expr.span, fmt::format("lhist() too many buckets, must be <= 1000 (would need {})", buckets));
      } else if (step > high - low) {
        error(expr.span,
              fmt::format("lhist() step is too large for the given range (provided step {} for range {})",
                          step, high - low));
      }
    }
    return Type::opaque(TypeKind::kLhist);
  }
  warn_unstable("tseries", program_.settings.unstable_tseries, expr.span);
  if (literal(2) && (literal(2)->negative || literal(2)->value == 0 || literal(2)->value > 1000000)) {
    error(expr.span,
          fmt::format("tseries() num_intervals must be between 1 and 1000000 ({} provided)", number(2)));
  }
  if (literal(1) && (literal(1)->negative || literal(1)->value == 0)) {
    error(expr.span, fmt::format("tseries() interval_ns must be >= 1 ({} provided)", number(1)));
  }
  if (node.arguments.size() > 3) {
    const auto* agg = node.arguments[3]->as<StringLiteral>();
    bool known =
        agg && (agg->value == "avg" || agg->value == "max" || agg->value == "min" || agg->value == "sum");
    if (agg && !known) {
      error(expr.span,
            fmt::format("tseries() expects one of the following aggregation functions: avg, max, min, sum "
                        "(\"{}\" provided)",
                        agg->value));
    }
  }
  return Type::opaque(TypeKind::kTseries, 8, is_signed);
}

// What the map has to know to be made and printed; every use must agree.
void Resolver::aggregate_parameters(const Expr& value, MapInfo& info) {
  const auto& node = *value.as<Call>();
  auto number = [&](size_t i) -> uint64_t {
    const auto* literal = i < node.arguments.size() ? node.arguments[i]->as<IntLiteral>() : nullptr;
    return literal ? literal->value : 0;
  };
  auto differs = [&](const char* what) {
    error(value.span, fmt::format("Different {} bounds in a single map unsupported", what));
  };
  if (node.name == "hist") {
    if (!info.aggregate_set) info.hist_bits = number(1);
    if (info.hist_bits != number(1)) error(value.span, "Different bits in a single hist unsupported");
  } else if (node.name == "lhist") {
    auto low = static_cast<int64_t>(number(1)), high = static_cast<int64_t>(number(2)),
         step = static_cast<int64_t>(number(3));
    if (!info.aggregate_set) {
      info.lhist_min = low;
      info.lhist_max = high;
      info.lhist_step = step;
    }
    if (info.lhist_min != low || info.lhist_max != high || info.lhist_step != step) differs("lhist");
  } else if (node.name == "tseries") {
    const auto* agg = node.arguments.size() > 3 ? node.arguments[3]->as<StringLiteral>() : nullptr;
    if (!info.aggregate_set) {
      info.tseries_interval_ns = number(1);
      info.tseries_intervals = number(2);
      info.tseries_aggregation = agg ? agg->value : "";
    }
    bool same = info.tseries_interval_ns == number(1) && info.tseries_intervals == number(2) &&
                info.tseries_aggregation == (agg ? agg->value : "");
    if (!same) differs("tseries");
  }
  info.aggregate_set = true;
}

Type Resolver::stack(Expr& expr, Call& node) {
  bool user = node.name == "ustack" || node.name == "dw_ustack";
  StackMode mode = program_.settings.stack_mode;
  uint64_t depth = kDefaultStackDepth;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    Expr& argument = *node.arguments[i];
    if (const auto* word = argument.as<Identifier>()) {
      if (i > 0) error(expr.span, fmt::format("{}: the mode comes first", node.name));
      auto asked = find_stack_mode(word->name);
      mode = asked.value_or(mode);
      if (!asked) {
        error(argument.span,
              fmt::format("Error parsing stack mode: {}: Invalid value for stack_mode: valid values are "
                          "bpftrace, raw, perf, and build_id.",
                          node.name));
      }
      argument.type = Type::opaque(TypeKind::kMode);
      continue;
    }
    const auto* limit = argument.as<IntLiteral>();
    if (limit == nullptr) {
      error(expr.span, fmt::format("{}: invalid limit value", node.name));
    } else if (limit->value > 1024) {
      error(expr.span,
            fmt::format("{}([int limit]): limit shouldn't exceed 1024, {} given", node.name, limit->value));
    }
    if (limit) argument.type = literal_type(*limit);
    if (limit && !limit->negative) depth = std::clamp<uint64_t>(limit->value, 1, 1024);
  }
  return Type::stack(user ? TypeKind::kUserStack : TypeKind::kKernelStack, depth, mode);
}

Type Resolver::print(const Expr& expr, Call& node) {
  const Expr& what = *node.arguments[0];
  const auto* map = what.as<MapAccess>();
  if (map && !map->key) return Type::void_type();
  if (node.arguments.size() > 1) {
    error(expr.span, fmt::format("Non-map print() only takes 1 argument, {} found", node.arguments.size()));
  }
  if (what.type.is(TypeKind::kVoid) || what.type.is(TypeKind::kMode)) {
    error(expr.span, "none type passed to print() is not printable");
  }
  return Type::void_type();
}

Type Resolver::map_function(Expr& expr, Call& node) {
  const auto* access = node.arguments[0]->as<MapAccess>();
  if (access == nullptr) {
    if (node.name == "len" && node.arguments[0]->type.is_stack()) return Type::int64();
    error(node.arguments[0]->span, node.name == "len"
                                       ? "call to len() expects a map, ustack, or kstack"
                                       : fmt::format("{}() expects a map argument", node.name));
    return Type();
  }
  auto found = program_.maps.find(access->name);
  if (found == program_.maps.end() || !found->second.value.known()) {
    error(node.arguments[0]->span, fmt::format("Undefined map: {}", access->name));
    return node.name == "len" ? Type::int64() : Type::boolean();
  }
  MapInfo& info = found->second;
  node.arguments[0]->type = info.value;
  if (node.name == "len") {
    if (!info.key) error(expr.span, "call to len() expects a map with explicit keys (non-scalar map)");
    return Type::int64();
  }
  if (node.name == "clear" || node.name == "zero") return Type::void_type();
  bool with_key = node.arguments.size() > 1;
  if (with_key && !info.key) {
    error(expr.span, fmt::format("call to {}() {}expects a map with explicit keys (non-scalar map)",
                                 node.name, node.name == "delete" ? "with two arguments " : ""));
    return Type::boolean();
  }
  if (with_key) map_key(info, node.arguments[1].get(), node.arguments[1]->span);
  if (node.name == "delete" && !with_key && !access->key && info.key) {
    error(expr.span,
          "call to delete() with a single argument expects a map without explicit keys (scalar map)");
  }
  if (node.name == "find" && node.arguments.size() == 3) {
    if (auto* variable = node.arguments[2]->as<Variable>()) {
      const uint32_t* slot = find_variable(variable->name);
      if (slot) {
        Expr value;
        value.type = info.value.casts_to_integer() ? integer_of(info.value) : info.value;
        store(*slot, value, expr.span);
        scope_->assigned.insert(*slot);
      }
    }
  }
  return Type::boolean();
}

Type Resolver::text_function(Expr& expr, Call& node) {
  uint64_t most = program_.settings.max_strlen;
  const auto* length = node.arguments.size() > 1 ? node.arguments[1]->as<IntLiteral>() : nullptr;
  if (node.name == "str") {
    if (length && length->negative) error(expr.span, "str cannot use negative length");
    if (length && !length->negative && length->value > most) {
      warn(expr.span, fmt::format("length param ({}) is too long and will be shortened to {} bytes (see "
                                  "BPFTRACE_MAX_STRLEN)",
                                  length->value, most));
    }
    if (const auto* number = node.arguments[0]->as<IntLiteral>();
        number && node.arguments.size() == 1 && !number->negative) {
      // The text of a number: what str($1) stands for where the parameter is one.
      std::string text = std::to_string(number->value);
      expr.node = StringLiteral{text};
      return Type::string(text.size() + 1);
    }
    const Type& source = node.arguments[0]->type;
    if (source.is(TypeKind::kString) && source.size() > 0 && !length) {
      return Type::string(std::min(source.size(), most + 1));
    }
    // The length counts the NUL; a text of the full length is one character longer and shown as cut.
    return Type::string(length && !length->negative ? std::min(length->value, most) + 1 : most + 1);
  }
  const Type& data = node.arguments[0]->type;
  bool is_literal = node.arguments[0]->as<StringLiteral>() != nullptr;
  if (node.arguments.size() == 1 && data.known() && !data.is(TypeKind::kArray) &&
      (!data.is(TypeKind::kString) || is_literal)) {
    error(expr.span, fmt::format("buf() expects a length argument for non-array type {}", kind_word(data)));
  }
  if (length && length->negative) error(expr.span, "buf() expects a length that is not negative");
  uint64_t size = length ? length->value : node.arguments.size() == 1 ? data.size() : most;
  if (length && size > most) {
    warn(expr.span,
         fmt::format("buf() length is too long and will be shortened to {} bytes (see BPFTRACE_MAX_STRLEN)",
                     most));
  }
  return Type::buffer(std::min(size, most));
}

Type Resolver::user_function(Expr& expr, Call& node, const TypedFunction& function) {
  if (node.arguments.size() != function.parameters.size()) {
    error(expr.span, fmt::format("Function `{}` requires {} arguments, got only {}", function.name,
                                 function.parameters.size(), node.arguments.size()));
    return function.result;
  }
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const Type& wanted = function.variables[function.parameters[i]].type;
    const Expr& given = *node.arguments[i];
    if (given.type.known() && wanted.known() && !fits(wanted, given.type, &given)) {
      error(given.span, fmt::format("Expected {} for argument `{}` got {}", wanted.spell(),
                                    function.variables[function.parameters[i]].name, given.type.spell()));
    }
  }
  return function.result;
}

// Types one argument. Maps given as a whole, words and variables to be set are not read.
void Resolver::argument(const FunctionSpec* spec, const Call& node, size_t position) {
  Expr& given = *node.arguments[position];
  ArgumentSort sort = spec ? spec->sort(position) : ArgumentSort::kAny;
  if (spec && spec->sort(0) == ArgumentSort::kMode && given.as<Identifier>()) return;
  const auto* map = position == 0 ? given.as<MapAccess>() : nullptr;
  bool whole = map && !map->key && (node.name == "print" || node.name == "len" || sort == ArgumentSort::kMap);
  if (whole || (map && node.name == "delete")) {
    if (map->key) expression(*map->key);
    auto found = program_.maps.find(map->name);
    if (found != program_.maps.end()) given.type = found->second.value;
    if (node.name == "print" && !given.type.known())
      error(given.span, fmt::format("Undefined map: {}", map->name));
    return;
  }
  // Formats and names stay in uscope: they may be as long as they like.
  const auto* text = sort == ArgumentSort::kTextLiteral || (spec && spec->formats && position == 0)
                         ? given.as<StringLiteral>()
                         : nullptr;
  if (text) {
    given.type = Type::string(text->value.size() + 1);
    return;
  }
  auto* variable = sort == ArgumentSort::kVariable ? given.as<Variable>() : nullptr;
  if (variable == nullptr) {
    expression(given);
  } else if (const uint32_t* slot = find_variable(variable->name)) {
    variable->slot = *slot;
    given.type = (*scope_->variables)[*slot].type;
  } else {
    error(given.span, fmt::format("Undefined or undeclared variable: {}", variable->name));
  }
}

// nsecs(monotonic), pid(init).
Type Resolver::with_mode(const Call& node) {
  Expr& given = *node.arguments[0];
  const auto* word = given.as<Identifier>();
  std::string_view mode = word ? std::string_view(word->name) : "";
  given.type = Type::opaque(TypeKind::kMode);
  if (node.name == "nsecs") {
    bool clock = mode == "monotonic" || mode == "boot" || mode == "tai" || mode == "sw_tai";
    if (!clock) error(given.span, fmt::format("Invalid timestamp mode: {}", mode));
    return Type::uint64();
  }
  if (mode != "curr_ns" && mode != "init") {
    error(given.span, fmt::format("Invalid PID namespace mode: {} (expects: curr_ns or init)", mode));
  }
  return Type::uint32();
}

Type Resolver::register_value(const Expr& expr, const Call& node) {
  auto has_registers = [](ProbeKind kind) {
    return kind == ProbeKind::kUprobe || kind == ProbeKind::kUretprobe || kind == ProbeKind::kUsdt ||
           kind == ProbeKind::kKprobe || kind == ProbeKind::kKretprobe || kind == ProbeKind::kProfile ||
           kind == ProbeKind::kSoftware || kind == ProbeKind::kHardware;
  };
  if (!all_probes(has_registers)) {
    error(expr.span,
          fmt::format("reg can not be used with \"{}\" probes", spell(scope_->attach_points->front().kind)));
  }
  const std::string& name = node.arguments[0]->as<StringLiteral>()->value;
  if (std::ranges::find(kRegisters, name) == kRegisters.end()) {
    error(expr.span, fmt::format("'{}' is not a valid register on this architecture (x86_64)", name));
  }
  return Type::uint64();
}

// Functions whose argument is the text of a name or an address.
Type Resolver::named_address(const Expr& expr, const Call& node) {
  const std::string& text = node.arguments[0]->as<StringLiteral>()->value;
  if (node.name == "pton") {
    if (!is_address(text)) {
      error(expr.span,
            fmt::format("pton() expects an string argument of an IPv4/IPv6 address, got {}", text));
    }
    return Type::array(Type::uint8(), text.find(':') != std::string::npos ? 16 : 4, 1);
  }
  if (scope_->attach_points && !scope_->attach_points->empty()) {
    if (auto known = types_.global(scope_->attach_points->front(), text)) {
      return Type::pointer(*known, AddressSpace::kUser);
    }
  }
  return Type::pointer(Type::uint64(), AddressSpace::kUser);
}

// The rest: functions whose result depends on nothing but their name and their first argument.
Type Resolver::plain_function(const Expr& expr, const Call& node) {
  const std::string& name = node.name;
  const Type first = node.arguments.empty() ? Type() : node.arguments[0]->type;
  bool pointer = first.is_integer() || first.is(TypeKind::kPointer) || first.is(TypeKind::kArray);
  if (name == "join" && first.known() && !pointer) {
    error(expr.span,
          fmt::format("join() only supports int or pointer arguments ({} provided)", kind_word(first)));
  }
  if (name == "strncmp" && node.arguments[2]->as<IntLiteral>()->negative) {
    error(expr.span, "Builtin strncmp requires a non-negative literal");
  }
  if (name == "signal" || name == "signal_thread") check_signal(expr, node);
  if (name == "ntop" || name == "macaddr") check_network(expr, node);
  if (name == "exit" || name == "time" || name == "join" || name == "signal" || name == "signal_thread") {
    return Type::void_type();
  }
  if (name == "bswap")
    return Type::integer(static_cast<unsigned>(std::max<uint64_t>(first.size(), 1) * 8), false);
  if (name == "uptr") return first.is(TypeKind::kPointer) ? first.in_space(AddressSpace::kUser) : first;
  if (name == "kptr") return first.is(TypeKind::kPointer) ? first.in_space(AddressSpace::kKernel) : first;
  if (name == "usym") return Type::opaque(TypeKind::kUserSymbol, 16);
  if (name == "ksym") return Type::opaque(TypeKind::kKernelSymbol);
  if (name == "ntop") return Type::opaque(TypeKind::kInet, 24);
  if (name == "macaddr") return Type::opaque(TypeKind::kMacAddress, 6);
  if (name == "strftime") return Type::opaque(TypeKind::kTimestamp, 16);
  if (name == "strerror") return Type::opaque(TypeKind::kStrerror);
  if (name == "signal_name") return Type::opaque(TypeKind::kSignalName);
  if (name == "cgroup_path") return Type::opaque(TypeKind::kCgroupPath, 16);
  if (name == "syscall_name") return Type::string(32);
  if (name == "comm" || name == "pcomm") return Type::string(16);
  if (name == "ppid") return Type::uint32();
  if (name == "str_concat") {
    return Type::string(
        std::min(first.size() + node.arguments[1]->type.size(), program_.settings.max_strlen));
  }
  if (name == "strcontains" || name == "globmatch") return Type::boolean();
  if (name == "strncmp" || name == "strstr" || name == "strcap" || name == "memcmp") return Type::int64();
  return Type::uint64();  // strlen, kaddr, cgroupid
}

Type Resolver::call(Expr& expr, Call& node) {
  const FunctionSpec* spec = find_function(node.name);
  for (size_t i = 0; i < node.arguments.size(); ++i) argument(spec, node, i);
  if (spec == nullptr) {
    for (const TypedFunction& function : program_.functions) {
      if (function.name == node.name) return user_function(expr, node, function);
    }
    error(expr.span, fmt::format("Unknown function: '{}'", node.name));
    return Type();
  }
  if (spec->value && node.arguments.empty()) {
    std::string name = node.name;
    expr.node = Builtin{name};
    return builtin(expr, name);
  }
  if (!check_arguments(expr, *spec, node)) return spec->formats ? Type::void_type() : Type();
  if (spec->unsafe && !options_.allow_unsafe) {
    error(expr.span, fmt::format("{}() is an unsafe function being used in safe mode", node.name));
  }
  if (node.name == "fail" || node.name == "assert" || node.name == "static_assert") {
    return assertion(expr, node);
  }
  if (spec->formats) {
    check_format(expr, node);
    return Type::void_type();
  }
  if (spec->aggregate) return aggregate(expr, node);
  const std::string& name = node.name;
  if (name == "print") return print(expr, node);
  if (name == "ustack" || name == "kstack" || name == "dw_ustack") return stack(expr, node);
  if (name == "str" || name == "buf") return text_function(expr, node);
  if (name == "clear" || name == "zero" || name == "delete" || name == "has_key" || name == "find" ||
      name == "len") {
    return map_function(expr, node);
  }
  if (name == "nsecs" || name == "pid" || name == "tid") return with_mode(node);
  if (name == "reg") return register_value(expr, node);
  if (name.starts_with("is_")) return type_question(expr, node);
  if (name == "pton" || name == "uaddr") return named_address(expr, node);
  return plain_function(expr, node);
}

}  // namespace uscope::lang
