#include "lang/c_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "lang/c_headers.h"
#include "lang/c_parser.h"
#include "lang/functions.h"
#include "lang/parser.h"
#include "lang/walk.h"

namespace uscope::lang {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  size_t end = 0;
  while (end < text.size() && is_word(text[end])) ++end;
  std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// "<a.h>" -> "a.h"
std::string name_inside(std::string_view spelled) {
  size_t end = spelled.find_last_of(">\"");
  if (spelled.size() <= 2 || end == std::string_view::npos || end <= 1) return {};
  return std::string(spelled.substr(1, end - 1));
}

}  // namespace

CTypes CTypes::read(const Program& script, SourceSet& sources, const TypeSource& program,
                    const Outside& outside, Diagnostics& diagnostics) {
  CTypes out;
  CPreprocessor preprocessor(outside.find_header);
  define_usual_macros(preprocessor);
  if (outside.knows_kernel_types) preprocessor.define("BPFTRACE_HAVE_BTF", "");
  auto include = [&](const std::string& name) {
    auto header = outside.find_header && !name.empty() ? outside.find_header(name, "") : std::nullopt;
    if (header) read_header(*header, preprocessor, out, sources, program);  // else check_headers says so
  };
  for (const std::string& name : outside.included) include(name);
  std::set<std::string> own;  // that the script defines itself
  for (const CDefinition& definition : script.c_definitions) {
    std::string_view text = definition.text;
    if (!text.starts_with('#')) {
      if (preprocessor.is_active()) out.define(definition, preprocessor, sources, program, diagnostics);
      continue;
    }
    text.remove_prefix(1);
    std::string_view rest = text, directive = take_word(rest);
    bool is_active = preprocessor.is_active();
    if (directive == "include") {
      if (!is_active) continue;
      out.includes_.push_back({std::string(trimmed(rest)), definition.span});
      include(name_inside(trimmed(rest)));
    } else if (directive == "pragma") {
      if (is_active) out.pragma(rest);
    } else {
      if (is_active && directive == "define") own.emplace(take_word(rest));
      std::string wrong = preprocessor.take_line(text);
      if (!wrong.empty()) diagnostics.error(definition.span, std::move(wrong));
    }
  }
  if (preprocessor.is_inside_condition())
    diagnostics.error(script.c_definitions.back().span, "#if without #endif");
  out.keep_defines(preprocessor, own);
  return out;
}

void CTypes::define(const CDefinition& definition, CPreprocessor& preprocessor, SourceSet& sources,
                    const TypeSource& program, Diagnostics& diagnostics) {
  auto expanded = preprocessor.expanded(definition.text);
  if (preprocessor.is_exhausted()) {
    diagnostics.error(definition.span, "the macros of C definitions expand to too much");
  } else if (!expanded) {
    CParser(*this, sources.at(definition.span.source), definition.span, program, diagnostics).run();
  } else {
    // What is wrong is said of the definition as it is written.
    uint32_t number = sources.add("definition", std::move(*expanded));
    Span whole{0, static_cast<uint32_t>(sources.at(number).text().size()), number};
    Diagnostics wrong;
    CParser(*this, sources.at(number), whole, program, wrong).run();
    for (const Diagnostic& each : wrong.all()) diagnostics.error(definition.span, each.message);
  }
}

void CTypes::keep_defines(const CPreprocessor& preprocessor, const std::set<std::string>& own) {
  for (const auto& [name, macro] : preprocessor.macros()) {
    // Names of our own are not taken away by a header.
    if (macro.has_parameters || macro.body.empty() || (find_function(name) && !own.contains(name))) continue;
    std::string text;
    for (const auto& token : macro.body) text += (token.is_apart && !text.empty() ? " " : "") + token.text;
    defines_.emplace(name, std::move(text));
  }
}

// pack(), pack(4), pack(push), pack(push, 4), pack(pop). Of others that change layouts it is only known that
// they do.
void CTypes::pragma(std::string_view text) {
  std::string_view what = take_word(text);
  if (what == "ms_struct" || what == "scalar_storage_order" || what == "options") pack_.is_known = false;
  if (what != "pack") return;
  std::vector<std::string_view> words;
  text = trimmed(text);
  bool is_closed = text.starts_with('(') && text.find(')') != std::string_view::npos;
  if (is_closed) text = text.substr(1, text.find(')') - 1);
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    words.push_back(word);
    text = trimmed(text);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  bool pushes = !words.empty() && words[0] == "push", pops = !words.empty() && words[0] == "pop";
  if (pushes) packs_.push_back(pack_);
  if (pops && !packs_.empty()) {
    pack_ = packs_.back();
    packs_.pop_back();
  }
  if (pushes || pops) words.erase(words.begin());
  if (!pushes && !pops) pack_ = Pack();
  if (words.empty()) pack_.is_known &= is_closed && trimmed(text).empty();
  if (words.empty()) return;
  constexpr std::array<std::string_view, 5> kSizes = {"1", "2", "4", "8", "16"};
  auto size = std::ranges::find(kSizes, words[0]);
  pack_.most = uint64_t{1} << (size - kSizes.begin());
  pack_.is_known = is_closed && !pops && words.size() == 1 && size != kSizes.end();
}

void CTypes::note_unread(const Source& source, Span definition, const std::string& why) {
  std::string_view text = source.text().substr(definition.begin, definition.end - definition.begin);
  std::string last, tagged;
  for (size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      ++at;
      continue;
    }
    size_t begin = at;
    while (at < text.size() && is_word(text[at])) ++at;
    std::string word(text.substr(begin, at - begin));
    bool is_tag = last == "struct" || last == "union" || last == "enum";
    if (is_tag && tagged.empty()) tagged = last + " " + word;
    last = std::move(word);
  }
  for (const std::string& name : {tagged, last})
    if (!name.empty() && unread_.size() < 10000)
      unread_.try_emplace(name, source.name() + " defines it, but: " + why);
}

std::string CTypes::why_unread(std::string_view name) const {
  auto found = unread_.find(name);
  return found == unread_.end() ? "" : found->second;
}

const StructLayout* CTypes::find_struct(std::string_view name) const {
  if (auto found = structs_.find(name); found != structs_.end()) return &found->second;
  auto alias = types_.find(name);
  if (alias == types_.end() || !alias->second.is(TypeKind::kStruct) || alias->second.name() == name)
    return nullptr;
  auto found = structs_.find(alias->second.name());
  return found == structs_.end() ? nullptr : &found->second;
}

std::optional<Type> CTypes::find_type(std::string_view name) const {
  auto found = types_.find(name);
  if (found == types_.end()) return std::nullopt;
  // A typedef may come before the struct it names is defined.
  const Type& type = found->second;
  if (type.is(TypeKind::kStruct) && type.size() == 0)
    if (auto defined = structs_.find(type.name()); defined != structs_.end())
      return Type::structure(type.name(), defined->second.size);
  return type;
}

std::optional<Constant> CTypes::find_constant(std::string_view name) const {
  auto found = constants_.find(name);
  if (found == constants_.end()) return std::nullopt;
  return found->second;
}

const std::vector<Enumerator>* CTypes::enumerators(std::string_view enum_name) const {
  auto found = enums_.find(enum_name);
  return found == enums_.end() ? nullptr : &found->second;
}

namespace {

// How tightly what a name stands for holds together, beside the operators' own numbers.
constexpr int kLoosest = -1, kUnary = 50, kTightest = 100;

int binding(const Expr& expr) {
  if (const auto* node = expr.as<Binary>()) return precedence(node->op);
  if (expr.as<Ternary>()) return kLoosest;
  return expr.as<Unary>() || expr.as<Cast>() ? kUnary : kTightest;
}

bool is_in_parentheses(std::string_view text) {
  int open = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    open += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (open == 0) return at > 0 && at + 1 == text.size();
  }
  return false;
}

class DefineExpander {
 public:
  DefineExpander(const CTypes& types, SourceSet& sources, Diagnostics& diagnostics)
      : types_(types), sources_(sources), diagnostics_(diagnostics) {}

  void visit(Expr& expr) {
    check_operands(expr);
    const auto* bare = expr.as<Identifier>();
    if (bare == nullptr) return;
    std::string name = bare->name;
    ExprPtr value = value_of(name, expr.span);
    if (!value) return;
    int binds = parsed_.at(name).binds;
    if (binds < kTightest && !stands_alone(expr.span)) loose_[&expr] = {binds, name};
    Span span = expr.span;
    expr.node = std::move(value->node);
    expr.span = span;
  }

 private:
  struct Known {
    ExprPtr value;  // null: it is no expression
    int binds = kTightest;
    size_t nodes = 0;
  };
  struct Loose {
    int binds = kTightest;
    std::string name;
  };
  static constexpr size_t kMostNodes = 100'000, kMostNested = 20;

  // Parsed once a name; a definition that is no expression is left alone, as C leaves it until it is used.
  ExprPtr value_of(const std::string& name, Span used) {
    auto known = parsed_.find(name);
    if (known == parsed_.end()) {
      auto defined = types_.defines().find(name);
      if (defined == types_.defines().end() || defined->second.empty()) return nullptr;
      parsed_[name] = Known();  // a name inside its own definition stays
      if (depth_ > kMostNested) return nullptr;
      Known made = parsed(name, defined->second);
      known = parsed_.insert_or_assign(name, std::move(made)).first;
    }
    const Known& found = known->second;
    if (!found.value || total_ > kMostNodes) return nullptr;
    total_ += found.nodes;
    if (total_ <= kMostNodes) return clone(*found.value);
    diagnostics_.error(used, "the #defines expand to too much");
    return nullptr;
  }

  Known parsed(const std::string& name, const std::string& text) {
    Diagnostics ignored;
    Known made;
    made.value = parse_expression(sources_, sources_.add("#define " + name, text), ignored);
    if (!made.value) return made;
    ++depth_;
    rewrite(made.value, [this](Expr& inner) { visit(inner); });
    --depth_;
    rewrite(made.value, [&](Expr&) { ++made.nodes; });
    made.binds = is_in_parentheses(text) ? kTightest : binding(*made.value);
    return made;
  }

  // In parentheses, or an argument: nothing beside it can take it apart.
  bool stands_alone(Span span) const {
    std::string_view text = sources_.at(span.source).text();
    size_t before = text.substr(0, span.begin).find_last_not_of(" \t\n");
    size_t behind = text.find_first_not_of(" \t\n", span.end);
    auto is_one_of = [&](size_t at, std::string_view which) {
      return at != std::string_view::npos && which.find(text[at]) != std::string_view::npos;
    };
    return is_one_of(before, "(,") && is_one_of(behind, "),");
  }

  // C puts the text there, of which an operator beside the name may take a part only.
  void check_operands(const Expr& expr) {
    if (const auto* node = expr.as<Binary>()) {
      check(*node->left, precedence(node->op));
      check(*node->right, precedence(node->op) + 1);
    } else if (const auto* ternary = expr.as<Ternary>()) {
      check(*ternary->condition, kLoosest + 1);
    } else if (const auto* unary = expr.as<Unary>()) {
      check(*unary->operand, kUnary);
    } else if (const auto* cast = expr.as<Cast>()) {
      check(*cast->operand, kUnary);
    } else if (const auto* field = expr.as<Field>()) {
      check(*field->object, kTightest);
    } else if (const auto* element = expr.as<TupleIndex>()) {
      check(*element->object, kTightest);
    } else if (const auto* index = expr.as<Index>()) {
      check(*index->object, kTightest);
    }
  }

  void check(const Expr& operand, int least) {
    auto found = loose_.find(&operand);
    if (found == loose_.end() || found->second.binds >= least) return;
    const std::string& name = found->second.name;
    const std::string& text = types_.defines().find(name)->second;
    diagnostics_
        .error(operand.span, fmt::format("'{}' is `{}`, of which C would take a part only here", name, text))
        .hint = fmt::format("Where the whole is meant: #define {} ({})", name, text);
  }

  const CTypes& types_;
  SourceSet& sources_;
  Diagnostics& diagnostics_;
  std::map<std::string, Known> parsed_;
  std::map<const Expr*, Loose> loose_;
  size_t depth_ = 0, total_ = 0;
};

}  // namespace

void expand_defines(Program& program, const CTypes& types, SourceSet& sources, Diagnostics& diagnostics) {
  DefineExpander expander(types, sources, diagnostics);
  rewrite(program, [&](Expr& expr) { expander.visit(expr); });
}

}  // namespace uscope::lang
