#include "lang/print_expression.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/printer.h"

namespace uscope::lang {
namespace {

bool is_comparison(BinaryOp op) { return precedence(op) == 6 || precedence(op) == 7; }

// Not a name, a literal or something that ends in a bracket.
bool is_compound(const Expr& expr) {
  return expr.as<Binary>() || expr.as<Unary>() || expr.as<Cast>() || expr.as<Increment>() ||
         expr.as<Ternary>() || expr.as<BlockExpr>() || expr.as<If>() || expr.as<Comptime>() ||
         (expr.as<IntLiteral>() && expr.as<IntLiteral>()->negative);
}

// bpftrace writes most nested operations with parentheses, but not comparisons, nor chains of the same && or
// ||.
bool operand_parens(const Expr& operand, BinaryOp parent, bool right) {
  if (const auto* inner = operand.as<Binary>()) {
    bool chain = inner->op == parent && (parent == BinaryOp::kAnd || parent == BinaryOp::kOr);
    if (!chain && !is_comparison(inner->op)) return true;
    int below = precedence(inner->op), above = precedence(parent);
    return right ? below <= above : below < above;
  }
  return is_compound(operand);
}

bool ternary_parens(const Expr& part) {
  if (const auto* binary = part.as<Binary>()) return !is_comparison(binary->op);
  return is_compound(part);
}

bool object_parens(const Expr& object) {
  return is_compound(object) || object.as<IntLiteral>() || object.as<FloatLiteral>();
}

size_t column_after(const std::string& out, size_t column) {
  size_t newline = out.rfind('\n');
  return newline == std::string::npos ? column + out.size() : out.size() - newline - 1;
}

void new_line(std::string& out, size_t column) {
  out += '\n';
  out.append(column, ' ');
}

}  // namespace

std::string ExpressionPrinter::print(const Expr& expr, size_t column, size_t after) {
  std::string out;
  broken(expr, column, after, out);
  return out;
}

std::string ExpressionPrinter::condition(const Expr& expr, size_t column) {
  std::string out;
  bool parens = is_compound(expr) && !expr.as<Comptime>();
  broken_operand(expr, parens, column, 2, out);
  return out;
}

std::string ExpressionPrinter::range_end(const Expr& expr, size_t column) {
  std::string out;
  const auto* literal = expr.as<IntLiteral>();
  broken_operand(expr, literal == nullptr || literal->negative, column, 2, out);
  return out;
}

// --- on one line ---

bool ExpressionPrinter::flat(const Expr& expr, std::string& out, size_t limit) {
  return out.size() <= limit && flat_node(expr, out, limit) && out.size() <= limit;
}

bool ExpressionPrinter::flat_operand(const Expr& expr, bool parens, std::string& out, size_t limit) {
  if (parens) out += '(';
  if (!flat(expr, out, limit)) return false;
  if (parens) out += ')';
  return out.size() <= limit;
}

bool ExpressionPrinter::flat_list(const std::vector<ExprPtr>& all, size_t from, std::string& out,
                                  size_t limit) {
  for (size_t i = from; i < all.size(); ++i) {
    if (i > from) out += ", ";
    if (!flat(*all[i], out, limit)) return false;
  }
  return true;
}

bool ExpressionPrinter::flat_block(const Block& block, std::string& out, size_t limit) {
  if (commented_(block) || block.statements.size() + (block.value ? 1 : 0) > 1) return false;
  if (block.statements.empty() && !block.value) {
    out += "{}";
    return true;
  }
  out += "{ ";
  if (block.value) return flat(*block.value, out, limit) && (out += " }").size() <= limit;
  const auto* only = block.statements[0].as<ExprStmt>();
  return only && flat(*only->expression, out, limit) && (out += "; }").size() <= limit;
}

bool ExpressionPrinter::flat_if(const If& node, std::string& out, size_t limit) {
  out += "if ";
  bool parens = is_compound(*node.condition) && !node.condition->as<Comptime>();
  if (!flat_operand(*node.condition, parens, out, limit)) return false;
  out += ' ';
  if (!flat_block(node.then, out, limit)) return false;
  if (!node.otherwise) return true;
  out += " else ";
  return flat(*node.otherwise, out, limit);
}

bool ExpressionPrinter::flat_node(const Expr& expr, std::string& out, size_t limit) {
  auto type_or_operand = [&](const char* word, const std::optional<TypeSpec>& type, const ExprPtr& operand) {
    out += word;
    out += '(';
    if (type) {
      out += lang::print(*type);
    } else if (!flat(*operand, out, limit)) {
      return false;
    }
    return true;
  };
  struct Visitor {
    ExpressionPrinter& self;
    std::string& out;
    size_t limit;
    decltype(type_or_operand)& typed;

    bool operator()(const IntLiteral& n) {
      if (!n.spelling.empty()) {
        out += n.spelling;
      } else if (n.negative) {
        out += fmt::to_string(static_cast<int64_t>(n.value));
      } else {
        out += fmt::to_string(n.value);
      }
      return true;
    }
    bool operator()(const FloatLiteral& n) { return append(n.spelling); }
    bool operator()(const StringLiteral& n) { return append(quote(n.value)); }
    bool operator()(const BoolLiteral& n) { return append(n.value ? "true" : "false"); }
    bool operator()(const Identifier& n) { return append(n.name); }
    bool operator()(const Builtin& n) { return append(n.name); }
    bool operator()(const Positional& n) { return append(fmt::format("${}", n.number)); }
    bool operator()(const PositionalCount&) { return append("$#"); }
    bool operator()(const Variable& n) { return append(n.name); }
    bool operator()(const MapAccess& n) {
      append(n.name);
      if (!n.key) return true;
      append("[");
      const auto* several = n.key->as<Tuple>();
      bool done = several && several->elements.size() > 1 ? self.flat_list(several->elements, 0, out, limit)
                                                          : self.flat(*n.key, out, limit);
      return done && append("]");
    }
    bool operator()(const Unary& n) {
      append(spell(n.op));
      return self.flat_operand(*n.operand, is_compound(*n.operand), out, limit);
    }
    bool operator()(const Increment& n) {
      std::string_view op = n.down ? "--" : "++";
      if (n.prefix) append(op);
      if (!self.flat(*n.target, out, limit)) return false;
      return n.prefix || append(op);
    }
    bool operator()(const Binary& n) {
      if (!self.flat_operand(*n.left, operand_parens(*n.left, n.op, false), out, limit)) return false;
      append(" ");
      append(spell(n.op));
      append(" ");
      return self.flat_operand(*n.right, operand_parens(*n.right, n.op, true), out, limit);
    }
    bool operator()(const Ternary& n) {
      if (!self.flat_operand(*n.condition, ternary_parens(*n.condition), out, limit)) return false;
      append(n.then ? " ? " : " ?: ");
      if (n.then) {
        if (!self.flat_operand(*n.then, ternary_parens(*n.then), out, limit)) return false;
        append(" : ");
      }
      return self.flat_operand(*n.otherwise, ternary_parens(*n.otherwise), out, limit);
    }
    bool operator()(const Cast& n) {
      append("(");
      append(lang::print(n.type));
      append(")");
      return self.flat_operand(*n.operand, is_compound(*n.operand), out, limit);
    }
    bool operator()(const Field& n) {
      return self.flat_operand(*n.object, object_parens(*n.object), out, limit) && append(".") &&
             append(n.name);
    }
    bool operator()(const TupleIndex& n) {
      return self.flat_operand(*n.object, object_parens(*n.object), out, limit) &&
             append(fmt::format(".{}", n.index));
    }
    bool operator()(const Index& n) {
      // A map without a key would take the bracket for its own.
      bool bare_map = n.object->as<MapAccess>() && !n.object->as<MapAccess>()->key;
      return self.flat_operand(*n.object, bare_map || object_parens(*n.object), out, limit) && append("[") &&
             self.flat(*n.index, out, limit) && append("]");
    }
    bool operator()(const Call& n) {
      return append(n.name) && append("(") && self.flat_list(n.arguments, 0, out, limit) && append(")");
    }
    bool operator()(const SizeOf& n) { return typed("sizeof", n.type, n.operand) && append(")"); }
    bool operator()(const OffsetOf& n) {
      if (!typed("offsetof", n.type, n.operand)) return false;
      append(", ");
      for (size_t i = 0; i < n.path.size(); ++i) {
        if (i > 0) append(".");
        append(n.path[i]);
      }
      return append(")");
    }
    bool operator()(const TypeInfo& n) {
      return typed(n.only_type ? "typeof" : "typeinfo", n.type, n.operand) && append(")");
    }
    bool operator()(const Comptime& n) {
      append("comptime ");
      return self.flat_operand(*n.operand, is_compound(*n.operand), out, limit);
    }
    bool operator()(const Tuple& n) {
      append("(");
      if (!self.flat_list(n.elements, 0, out, limit)) return false;
      return append(n.elements.size() == 1 ? ",)" : ")");
    }
    bool operator()(const Record& n) {
      append("(");
      for (size_t i = 0; i < n.fields.size(); ++i) {
        append(fmt::format("{}{}=", i > 0 ? ", " : "", n.fields[i].name));
        if (!self.flat(*n.fields[i].value, out, limit)) return false;
      }
      return append(")");
    }
    bool operator()(const BlockExpr& n) { return self.flat_block(n.block, out, limit); }
    bool operator()(const If& n) { return self.flat_if(n, out, limit); }

    bool append(std::string_view text) {
      out += text;
      return true;
    }
  };
  return std::visit(Visitor{*this, out, limit, type_or_operand}, expr.node);
}

// --- over several lines ---

void ExpressionPrinter::broken(const Expr& expr, size_t column, size_t after, std::string& out) {
  std::string line;
  size_t room = kWidth > column + after ? kWidth - column - after : 0;
  if (flat(expr, line, room)) {
    out += line;
    return;
  }
  // `out` may already hold text before this expression; columns are counted from where it starts.
  std::string text;
  auto here = [&] { return column_after(text, column); };
  if (const auto* call = expr.as<Call>()) {
    text += call->name + "(";
    broken_list(call->arguments, here(), after + 1, text);
    text += ')';
  } else if (const auto* map = expr.as<MapAccess>(); map && map->key) {
    text += map->name + "[";
    const auto* several = map->key->as<Tuple>();
    if (several && several->elements.size() > 1) {
      broken_list(several->elements, here(), after + 1, text);
    } else {
      broken(*map->key, here(), after + 1, text);
    }
    text += ']';
  } else if (const auto* tuple = expr.as<Tuple>(); tuple && !tuple->elements.empty()) {
    text += '(';
    broken_list(tuple->elements, here(), after + 1, text);
    text += tuple->elements.size() == 1 ? ",)" : ")";
  } else if (const auto* record = expr.as<Record>()) {
    text += '(';
    broken_record(*record, here(), after + 1, text);
    text += ')';
  } else if (const auto* binary = expr.as<Binary>()) {
    broken_binary(*binary, column, after, text);
  } else if (const auto* ternary = expr.as<Ternary>()) {
    broken_operand(*ternary->condition, ternary_parens(*ternary->condition), column, 2, text);
    if (ternary->then) {
      new_line(text, column);
      text += "? ";
      broken_operand(*ternary->then, ternary_parens(*ternary->then), here(), 0, text);
    }
    new_line(text, column);
    text += ternary->then ? ": " : "?: ";
    broken_operand(*ternary->otherwise, ternary_parens(*ternary->otherwise), here(), after, text);
  } else if (const auto* unary = expr.as<Unary>()) {
    text += spell(unary->op);
    broken_operand(*unary->operand, is_compound(*unary->operand), here(), after, text);
  } else if (const auto* cast = expr.as<Cast>()) {
    text += "(" + lang::print(cast->type) + ")";
    broken_operand(*cast->operand, is_compound(*cast->operand), here(), after, text);
  } else if (const auto* field = expr.as<Field>()) {
    broken_operand(*field->object, object_parens(*field->object), column, after, text);
    text += "." + field->name;
  } else if (const auto* element = expr.as<TupleIndex>()) {
    broken_operand(*element->object, object_parens(*element->object), column, after, text);
    text += fmt::format(".{}", element->index);
  } else if (const auto* index = expr.as<Index>()) {
    bool bare_map = index->object->as<MapAccess>() && !index->object->as<MapAccess>()->key;
    broken_operand(*index->object, bare_map || object_parens(*index->object), column, after, text);
    text += '[';
    broken(*index->index, here(), after + 1, text);
    text += ']';
  } else if (const auto* comptime = expr.as<Comptime>()) {
    text += "comptime ";
    broken_operand(*comptime->operand, is_compound(*comptime->operand), here(), after, text);
  } else if (const auto* block = expr.as<BlockExpr>()) {
    block_(block->block, column, text);
  } else if (const auto* branch = expr.as<If>()) {
    broken_if(*branch, column, text);
  } else if (!flat(expr, text, std::string::npos / 2)) {
    text += "0";  // not reached: what is left always has a one-line form
  }
  out += text;
}

void ExpressionPrinter::broken_operand(const Expr& expr, bool parens, size_t column, size_t after,
                                       std::string& out) {
  std::string text;
  if (parens) text += '(';
  broken(expr, column + text.size(), after + (parens ? 1 : 0), text);
  if (parens) text += ')';
  out += text;
}

// Lines are filled from the end: the last takes as many elements as fit, then the one before it.
void ExpressionPrinter::broken_list(const std::vector<ExprPtr>& all, size_t column, size_t after,
                                    std::string& out) {
  size_t room = kWidth > column + after ? kWidth - column - after : 0;
  std::vector<size_t> starts;  // of lines, last first
  for (size_t end = all.size(); end > 0;) {
    size_t begin = end - 1, used = 0;
    for (size_t i = end; i-- > 0;) {
      std::string element;
      if (!flat(*all[i], element, room)) break;
      used += element.size() + (i + 1 < end ? 2 : 0);
      if (used > room) break;
      begin = i;
    }
    starts.push_back(begin);
    end = begin;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    bool starts_line = std::ranges::find(starts, i) != starts.end();
    if (i > 0) out += ',';
    if (i > 0 && !starts_line) out += ' ';
    if (i > 0 && starts_line) new_line(out, column);
    std::string element;
    broken(*all[i], starts_line ? column : column_after(out, 0), i + 1 == all.size() ? after : 1, element);
    out += element;
  }
}

void ExpressionPrinter::broken_record(const Record& record, size_t column, size_t after, std::string& out) {
  for (size_t i = 0; i < record.fields.size(); ++i) {
    const RecordField& field = record.fields[i];
    out += field.name + "=";
    std::string value;
    broken(*field.value, column + field.name.size() + 1, i + 1 < record.fields.size() ? 1 : after, value);
    out += value;
    if (i + 1 < record.fields.size()) {
      out += ',';
      new_line(out, column);
    }
  }
}

void ExpressionPrinter::broken_binary(const Binary& node, size_t column, size_t after, std::string& out) {
  size_t operator_size = spell(node.op).size() + 1;
  broken_operand(*node.left, operand_parens(*node.left, node.op, false), column, operator_size, out);
  out += ' ';
  out += spell(node.op);
  std::string right;
  size_t column_now = column_after(out, column) + 1;
  size_t room = kWidth > column_now + after ? kWidth - column_now - after : 0;
  bool parens = operand_parens(*node.right, node.op, true);
  bool same_line = out.find('\n') != std::string::npos && flat_operand(*node.right, parens, right, room);
  if (same_line) {
    out += " " + right;
    return;
  }
  new_line(out, column);
  broken_operand(*node.right, parens, column, after, out);
}

void ExpressionPrinter::broken_if(const If& node, size_t column, std::string& out) {
  const If* branch = &node;
  while (true) {
    out += "if ";
    out += condition(*branch->condition, column_after(out, column));
    out += ' ';
    block_(branch->then, column, out);
    if (!branch->otherwise) return;
    out += " else ";
    if (const auto* next = branch->otherwise->as<If>()) {
      branch = next;
      continue;
    }
    if (const auto* last = branch->otherwise->as<BlockExpr>()) block_(last->block, column, out);
    return;
  }
}

}  // namespace uscope::lang
