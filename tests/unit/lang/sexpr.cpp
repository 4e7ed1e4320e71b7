#include "sexpr.h"

#include <fmt/format.h>

#include "lang/printer.h"

namespace uscope::lang {
namespace {

std::string optional(const ExprPtr& expr) { return expr ? sexpr(*expr) : "-"; }

std::string list(const std::vector<ExprPtr>& all) {
  std::string out;
  for (const ExprPtr& one : all) out += " " + sexpr(*one);
  return out;
}

std::string spec(const TypeSpec& type) {
  std::string out = type.of ? "typeof:" + sexpr(*type.of) : type.name;
  out.append(type.pointers, '*');
  for (uint64_t dimension : type.dimensions) out += fmt::format("[{}]", dimension);
  return out;
}

std::string typed(const std::optional<TypeSpec>& type, const ExprPtr& operand) {
  return type ? "<" + spec(*type) + ">" : optional(operand);
}

struct ExprText {
  std::string operator()(const IntLiteral& n) {
    return n.negative ? fmt::to_string(static_cast<int64_t>(n.value)) : fmt::to_string(n.value);
  }
  std::string operator()(const FloatLiteral& n) { return fmt::format("{}f", n.value); }
  std::string operator()(const StringLiteral& n) { return quote(n.value); }
  std::string operator()(const BoolLiteral& n) { return n.value ? "true" : "false"; }
  std::string operator()(const Identifier& n) { return n.name; }
  std::string operator()(const Builtin& n) { return "%" + n.name; }
  std::string operator()(const Positional& n) { return fmt::format("${}", n.number); }
  std::string operator()(const PositionalCount&) { return "$#"; }
  std::string operator()(const Variable& n) { return n.name; }
  std::string operator()(const MapAccess& n) {
    return n.key ? fmt::format("(at {} {})", n.name, sexpr(*n.key)) : n.name;
  }
  std::string operator()(const Unary& n) { return fmt::format("({} {})", spell(n.op), sexpr(*n.operand)); }
  std::string operator()(const Increment& n) {
    return fmt::format("({}{}{} {})", n.prefix ? "" : "_", n.down ? "--" : "++", n.prefix ? "_" : "",
                       sexpr(*n.target));
  }
  std::string operator()(const Binary& n) {
    return fmt::format("({} {} {})", spell(n.op), sexpr(*n.left), sexpr(*n.right));
  }
  std::string operator()(const Ternary& n) {
    return fmt::format("(? {} {} {})", sexpr(*n.condition), optional(n.then), sexpr(*n.otherwise));
  }
  std::string operator()(const Cast& n) {
    return fmt::format("(cast {} {})", spec(n.type), sexpr(*n.operand));
  }
  std::string operator()(const Field& n) { return fmt::format("(. {} {})", sexpr(*n.object), n.name); }
  std::string operator()(const TupleIndex& n) { return fmt::format("(.# {} {})", sexpr(*n.object), n.index); }
  std::string operator()(const Index& n) {
    return fmt::format("([] {} {})", sexpr(*n.object), sexpr(*n.index));
  }
  std::string operator()(const Call& n) { return fmt::format("(call {}{})", n.name, list(n.arguments)); }
  std::string operator()(const SizeOf& n) { return fmt::format("(sizeof {})", typed(n.type, n.operand)); }
  std::string operator()(const OffsetOf& n) {
    return fmt::format("(offsetof {} {})", typed(n.type, n.operand), fmt::join(n.path, "."));
  }
  std::string operator()(const TypeInfo& n) {
    return fmt::format("({} {})", n.only_type ? "typeof" : "typeinfo", typed(n.type, n.operand));
  }
  std::string operator()(const Comptime& n) { return fmt::format("(comptime {})", sexpr(*n.operand)); }
  std::string operator()(const Tuple& n) { return fmt::format("(tuple{})", list(n.elements)); }
  std::string operator()(const Record& n) {
    std::string out = "(record";
    for (const RecordField& field : n.fields) out += fmt::format(" {}={}", field.name, sexpr(*field.value));
    return out + ")";
  }
  std::string operator()(const BlockExpr& n) { return sexpr(n.block); }
  std::string operator()(const If& n) {
    return fmt::format("(if {} {} {})", sexpr(*n.condition), sexpr(n.then), optional(n.otherwise));
  }
};

std::string assign_op(const std::optional<BinaryOp>& op) { return op ? std::string(spell(*op)) + "=" : "="; }

struct StmtText {
  std::string operator()(const ExprStmt& n) { return sexpr(*n.expression); }
  std::string operator()(const Discard& n) { return fmt::format("(discard {})", sexpr(*n.expression)); }
  std::string operator()(const AssignVariable& n) {
    return fmt::format("({} {} {})", assign_op(n.op), n.name, sexpr(*n.value));
  }
  std::string operator()(const AssignMap& n) {
    return fmt::format("({} {} {})", assign_op(n.op), sexpr(*n.target), sexpr(*n.value));
  }
  std::string operator()(const Declare& n) {
    return fmt::format("(let {} {} {})", n.name, n.type ? spec(*n.type) : "-", optional(n.value));
  }
  std::string operator()(const While& n) {
    return fmt::format("(while {} {})", sexpr(*n.condition), sexpr(n.body));
  }
  std::string operator()(const Unroll& n) {
    return fmt::format("(unroll {} {})", sexpr(*n.count), sexpr(n.body));
  }
  std::string operator()(const For& n) {
    if (n.map) return fmt::format("(for {} {} {})", n.variable, sexpr(*n.map), sexpr(n.body));
    return fmt::format("(for {} {}..{} {})", n.variable, sexpr(*n.begin), sexpr(*n.end), sexpr(n.body));
  }
  std::string operator()(const Jump& n) {
    const char* word = n.kind == JumpKind::kBreak      ? "break"
                       : n.kind == JumpKind::kContinue ? "continue"
                                                       : "return";
    return fmt::format("({} {})", word, optional(n.value));
  }
  std::string operator()(const Import& n) { return fmt::format("(import {})", quote(n.path)); }
};

struct ItemText {
  std::string operator()(const Config& n) {
    std::string out = "(config";
    for (const ConfigSetting& setting : n.settings) {
      out += fmt::format(" {}={}:{}", setting.name, static_cast<int>(setting.value.kind), setting.value.text);
    }
    return out + ")";
  }
  std::string operator()(const TopImport& n) { return fmt::format("(import {})", quote(n.path)); }
  std::string operator()(const MapDeclaration& n) {
    return fmt::format("(map {} {} {})", n.name, n.kind, n.max_entries);
  }
  std::string operator()(const Macro& n) {
    std::string out = "(macro " + n.name;
    for (const MacroParameter& parameter : n.parameters) out += " " + parameter.name;
    return out + " " + sexpr(n.body) + ")";
  }
  std::string operator()(const Function& n) {
    std::string out = "(fn " + n.name;
    for (const Parameter& parameter : n.parameters) out += " " + parameter.name + ":" + spec(parameter.type);
    return out + " " + spec(n.result) + " " + sexpr(n.body) + ")";
  }
  std::string operator()(const Probe& n) {
    std::string out = "(probe";
    for (const AttachPoint& point : n.attach_points) out += " " + point.text;
    if (n.predicate) out += " /" + sexpr(*n.predicate) + "/";
    return out + " " + sexpr(n.body) + ")";
  }
};

}  // namespace

std::string sexpr(const Expr& expr) { return std::visit(ExprText{}, expr.node); }
std::string sexpr(const Stmt& stmt) { return std::visit(StmtText{}, stmt.node); }

std::string sexpr(const Block& block) {
  std::string out = "{";
  for (const Stmt& stmt : block.statements) out += sexpr(stmt) + ";";
  if (block.value) out += sexpr(*block.value);
  return out + "}";
}

std::string sexpr(const Program& program) {
  std::string out = program.shebang;
  for (const CDefinition& definition : program.c_definitions) out += "(c " + definition.text + ")";
  for (const Item& item : program.items) out += std::visit(ItemText{}, item);
  return out;
}

}  // namespace uscope::lang
