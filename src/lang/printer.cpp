#include "lang/printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/print_expression.h"

namespace uscope::lang {
namespace {

// Text that grows line by line, with the comments that belong between.
class Printer {
 public:
  Printer(const Program* program, const SourceSet* sources, PrintOptions options)
      : program_(program),
        sources_(sources),
        options_(options),
        expressions_(
            [this](const Block& block, size_t indent, std::string& out) { this->block(block, indent, out); },
            [this](const Block& block) { return has_comment_before(block.span.end); }) {}

  std::string run();
  std::string expression(const Expr& expr) { return expressions_.print(expr, 0); }

 private:
  void block(const Block& block, size_t indent, std::string& out);
  void statement(const Stmt& stmt, size_t indent, std::string& out);
  void value(const Expr& expr, size_t indent, std::string& out);

  void item(const Config& config);
  void item(const TopImport& import);
  void item(const MapDeclaration& map);
  void item(const Macro& macro);
  void item(const Function& function);
  void item(const Probe& probe);

  // Comments and blank lines. `line_` is the last source line that was printed.
  uint32_t line_of(uint32_t offset) const;
  bool has_comment_before(uint32_t offset) const;
  void gap(uint32_t offset, std::string& out);
  void comments_before(uint32_t offset, size_t indent, std::string& out, bool at_start);
  void trailing_comments(uint32_t end, uint32_t before, std::string& out);
  void start_of(Span span, size_t indent, std::string& out, bool at_start);
  // `before`: where what follows starts.
  void end_of(Span span, std::string& out, uint32_t before = UINT32_MAX);

  const Program* program_;
  const SourceSet* sources_;
  PrintOptions options_;
  ExpressionPrinter expressions_;
  std::string out_;
  size_t next_comment_ = 0;
  uint32_t line_ = 0;
};

uint32_t Printer::line_of(uint32_t offset) const {
  return sources_ ? sources_->at(program_->source).locate(offset).line : 0;
}

bool Printer::has_comment_before(uint32_t offset) const {
  return program_ && options_.comments && next_comment_ < program_->comments.size() &&
         program_->comments[next_comment_].span.begin < offset;
}

// Blank lines as the script had them, two at most.
void Printer::gap(uint32_t offset, std::string& out) {
  uint32_t line = line_of(offset);
  if (line_ == 0 || line <= line_ + 1) return;
  out.append(std::min(line - line_ - 1, 2u), '\n');
}

// Each on a line of its own.
void Printer::comments_before(uint32_t offset, size_t indent, std::string& out, bool at_start) {
  while (has_comment_before(offset)) {
    const Comment& comment = program_->comments[next_comment_++];
    if (!at_start) gap(comment.span.begin, out);
    at_start = false;
    out.append(indent, ' ');
    out += comment.text;
    out += '\n';
    line_ = line_of(comment.span.end);
  }
}

// Comments inside what was just printed or on its last line: behind it, as far as a line comment lets them.
void Printer::trailing_comments(uint32_t end, uint32_t before, std::string& out) {
  line_ = std::max(line_, line_of(end));
  while (has_comment_before(before)) {
    const Comment& comment = program_->comments[next_comment_];
    if (comment.span.begin >= end && line_of(comment.span.begin) > line_of(end)) return;
    // One that spans lines, or that code follows on its line, stands before that code instead.
    if (comment.block && line_of(comment.span.end) > line_of(comment.span.begin)) return;
    out += ' ';
    out += comment.text;
    ++next_comment_;
    line_ = std::max(line_, line_of(comment.span.end));
    if (!comment.block) return;
  }
}

void Printer::start_of(Span span, size_t indent, std::string& out, bool at_start) {
  if (!program_) {
    out.append(indent, ' ');
    return;
  }
  bool commented = has_comment_before(span.begin);
  comments_before(span.begin, indent, out, at_start);
  if (!at_start || commented) gap(span.begin, out);
  line_ = line_of(span.begin);
  out.append(indent, ' ');
}

void Printer::end_of(Span span, std::string& out, uint32_t before) {
  if (program_) trailing_comments(span.end, before, out);
  out += '\n';
}

void Printer::block(const Block& block, size_t indent, std::string& out) {
  bool comments = has_comment_before(block.span.end);
  if (block.statements.empty() && !block.value && !comments) {
    out += "{}";
    if (program_) line_ = std::max(line_, line_of(block.span.end));
    return;
  }
  out += "{\n";
  bool at_start = true;
  for (size_t i = 0; i < block.statements.size(); ++i) {
    const Stmt& stmt = block.statements[i];
    uint32_t next = block.value ? block.value->span.begin : block.span.end;
    if (i + 1 < block.statements.size()) next = block.statements[i + 1].span.begin;
    start_of(stmt.span, indent + 2, out, at_start);
    at_start = false;
    std::string text;
    statement(stmt, indent + 2, text);
    out += text;
    const auto* expr = stmt.as<ExprStmt>();
    bool ends_itself = stmt.as<While>() || stmt.as<For>() || stmt.as<Unroll>() ||
                       (expr && (expr->expression->as<If>() || expr->expression->as<BlockExpr>()));
    if (!ends_itself) out += ';';
    end_of(stmt.span, out, next);
  }
  if (block.value) {
    start_of(block.value->span, indent + 2, out, at_start);
    at_start = false;
    // A bare if stands on one line only as the value of a block.
    std::string line;
    if (block.value->as<If>() && block.value->as<If>()->otherwise &&
        expressions_.one_line(*block.value, indent + 2, line)) {
      out += line;
    } else {
      value(*block.value, indent + 2, out);
    }
    end_of(block.value->span, out, block.span.end);
  }
  if (program_) comments_before(block.span.end, indent + 2, out, at_start);
  out.append(indent, ' ');
  out += '}';
  if (program_) line_ = std::max(line_, line_of(block.span.end));
}

// As a statement or the value of a block: if and bare blocks go over lines.
void Printer::value(const Expr& expr, size_t indent, std::string& out) {
  if (const auto* branch = expr.as<If>()) {
    const If* at = branch;
    while (true) {
      std::string line = "if ";
      line += expressions_.condition(*at->condition, indent + line.size());
      out += line + " ";
      block(at->then, indent, out);
      if (!at->otherwise) return;
      out += " else ";
      const auto* next = at->otherwise->as<If>();
      if (next == nullptr) break;
      at = next;
    }
    if (const auto* last = at->otherwise->as<BlockExpr>()) block(last->block, indent, out);
    return;
  }
  if (const auto* inner = expr.as<BlockExpr>()) {
    std::string line;
    if (expressions_.flat_block(inner->block, line,
                                ExpressionPrinter::kWidth - std::min<size_t>(indent, 40))) {
      out += line;
    } else {
      block(inner->block, indent, out);
    }
    return;
  }
  out += expressions_.print(expr, indent, 1);
}

void Printer::statement(const Stmt& stmt, size_t indent, std::string& out) {
  auto column = [&] {
    size_t newline = out.rfind('\n');
    return newline == std::string::npos ? indent + out.size() : out.size() - newline - 1;
  };
  auto assign = [&](const std::optional<BinaryOp>& op, const Expr& value) {
    out += fmt::format(" {}= ", op ? spell(*op) : "");
    std::string line;
    if ((value.as<BlockExpr>() || value.as<If>()) && !expressions_.one_line(value, column(), line)) {
      this->value(value, indent, out);
    } else {
      out += expressions_.print(value, column(), 1);
    }
  };
  struct Visitor {
    Printer& self;
    size_t indent;
    std::string& out;
    decltype(column)& at;
    decltype(assign)& assigned;

    void operator()(const ExprStmt& n) { self.value(*n.expression, indent, out); }
    void operator()(const Discard& n) {
      out += "_ = " + self.expressions_.print(*n.expression, indent + 4, 1);
    }
    void operator()(const AssignVariable& n) {
      out += n.name;
      assigned(n.op, *n.value);
    }
    void operator()(const AssignMap& n) {
      out += self.expressions_.print(*n.target, indent, 4);
      assigned(n.op, *n.value);
    }
    void operator()(const Declare& n) {
      out += "let " + n.name;
      if (n.type) out += " : " + lang::print(*n.type);
      if (n.value) assigned(std::nullopt, *n.value);
    }
    void operator()(const While& n) {
      out += "while ";
      out += self.expressions_.condition(*n.condition, at());
      out += ' ';
      self.block(n.body, indent, out);
    }
    void operator()(const Unroll& n) {
      out += "unroll (";
      out += self.expressions_.print(*n.count, at(), 3);
      out += ") ";
      self.block(n.body, indent, out);
    }
    void operator()(const For& n) {
      out += "for " + n.variable + " : ";
      if (n.map) {
        out += self.expressions_.print(*n.map, at(), 2);
      } else {
        out += self.expressions_.range_end(*n.begin, at());
        out += "..";
        out += self.expressions_.range_end(*n.end, at());
      }
      out += ' ';
      self.block(n.body, indent, out);
    }
    void operator()(const Jump& n) {
      out += n.kind == JumpKind::kBreak ? "break" : n.kind == JumpKind::kContinue ? "continue" : "return";
      if (n.value) out += " " + self.expressions_.print(*n.value, indent + 7, 1);
    }
    void operator()(const Import& n) { out += "import " + quote(n.path); }
  };
  std::visit(Visitor{*this, indent, out, column, assign}, stmt.node);
}

void Printer::item(const Config& config) {
  if (config.settings.empty()) {
    out_ += "config = {}";
    return;
  }
  out_ += "config = {\n";
  bool at_start = true;
  for (size_t i = 0; i < config.settings.size(); ++i) {
    const ConfigSetting& setting = config.settings[i];
    uint32_t next = i + 1 < config.settings.size() ? config.settings[i + 1].span.begin : config.span.end;
    start_of(setting.span, 2, out_, at_start);
    at_start = false;
    bool text = setting.value.kind == ConfigValue::Kind::kString;
    out_ += fmt::format("{} = {};", setting.name, text ? quote(setting.value.text) : setting.value.text);
    end_of(setting.span, out_, next);
  }
  comments_before(config.span.end, 2, out_, false);
  out_ += '}';
}

void Printer::item(const TopImport& import) { out_ += "import " + quote(import.path) + ";"; }

void Printer::item(const MapDeclaration& map) {
  out_ += fmt::format("let {} = {}({});", map.name, map.kind, map.max_entries);
}

void Printer::item(const Macro& macro) {
  out_ += "macro " + macro.name + "(";
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    if (i > 0) out_ += ", ";
    out_ += macro.parameters[i].name;
  }
  out_ += ")\n";
  block(macro.body, 0, out_);
}

void Printer::item(const Function& function) {
  out_ += "fn " + function.name + "(";
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    if (i > 0) out_ += ", ";
    out_ += function.parameters[i].name + " : " + lang::print(function.parameters[i].type);
  }
  out_ += ") : " + lang::print(function.result) + "\n";
  block(function.body, 0, out_);
}

void Printer::item(const Probe& probe) {
  for (size_t i = 0; i < probe.attach_points.size(); ++i) {
    if (i > 0) out_ += ",\n";
    out_ += probe.attach_points[i].text;
  }
  out_ += '\n';
  if (probe.predicate) out_ += "/" + expressions_.print(*probe.predicate, 1, 1) + "/\n";
  line_ = line_of(probe.body.span.begin);
  block(probe.body, 0, out_);
}

std::string Printer::run() {
  if (!program_->shebang.empty()) {
    out_ += program_->shebang + "\n";
    line_ = 1;
  }
  auto item_span = [&](size_t i) {
    return std::visit([](const auto& node) { return node.span; }, program_->items[i]);
  };
  uint32_t first_item = program_->items.empty() ? UINT32_MAX : item_span(0).begin;
  const auto& definitions = program_->c_definitions;
  for (size_t i = 0; i < definitions.size(); ++i) {
    const CDefinition& definition = definitions[i];
    start_of(definition.span, 0, out_, line_ == 0);
    out_ += definition.text;
    bool line = definition.text.starts_with('#');
    if (!line) out_ += ';';
    // Comments inside are part of the text.
    while (has_comment_before(definition.span.end)) ++next_comment_;
    line_ = line_of(definition.span.end);
    if (line) {
      out_ += '\n';
    } else {
      end_of(definition.span, out_, i + 1 < definitions.size() ? definitions[i + 1].span.begin : first_item);
    }
  }
  for (size_t i = 0; i < program_->items.size(); ++i) {
    start_of(item_span(i), 0, out_, line_ == 0);
    std::visit([this](const auto& node) { this->item(node); }, program_->items[i]);
    end_of(item_span(i), out_, i + 1 < program_->items.size() ? item_span(i + 1).begin : UINT32_MAX);
  }
  comments_before(UINT32_MAX, 0, out_, line_ == 0);
  return std::move(out_);
}

}  // namespace

std::string print(const Program& program, const SourceSet& sources, PrintOptions options) {
  return Printer(&program, &sources, options).run();
}

std::string print(const Expr& expr) { return Printer(nullptr, nullptr, {}).expression(expr); }

std::string print(const TypeSpec& type) {
  std::string out = type.of ? "typeof(" + print(*type.of) + ")" : type.name;
  out.append(type.pointers, '*');
  for (uint64_t dimension : type.dimensions) out += dimension == 0 ? "[]" : fmt::format("[{}]", dimension);
  return out;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

}  // namespace uscope::lang
