#include "lang/c_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

// The lines that start with `#`: conditions decide which definitions count.
class Directives {
 public:
  using OnInclude = std::function<void(const std::string& name, const std::string& spelled)>;
  using OnPragma = std::function<void(std::string_view text)>;
  Directives(std::map<std::string, std::string, std::less<>>& defines, std::vector<CTypes::Include>& includes,
             OnInclude on_include, OnPragma on_pragma)
      : defines_(defines),
        includes_(includes),
        on_include_(std::move(on_include)),
        on_pragma_(std::move(on_pragma)) {}

  bool active() const {
    return std::ranges::all_of(conditions_, [](bool on) { return on; });
  }

  void line(std::string_view text, Span span) {
    text.remove_prefix(1);
    std::string_view directive = take_word(text);
    if (directive == "ifdef" || directive == "ifndef") {
      conditions_.push_back(defines_.contains(take_word(text)) == (directive == "ifdef"));
    } else if (directive == "if") {
      conditions_.push_back(holds(trimmed(text)));
    } else if (directive == "else" && !conditions_.empty()) {
      conditions_.back() = !conditions_.back();
    } else if (directive == "endif" && !conditions_.empty()) {
      conditions_.pop_back();
    } else if (!active()) {
      return;
    } else if (directive == "define") {
      define(text);
    } else if (directive == "undef") {
      auto found = defines_.find(take_word(text));
      if (found != defines_.end()) defines_.erase(found);
    } else if (directive == "pragma") {
      on_pragma_(text);
    } else if (directive == "include") {
      std::string spelled(trimmed(text));
      includes_.push_back({spelled, span});
      size_t end = spelled.find_last_of(">\"");
      if (spelled.size() > 2 && end != std::string::npos && end > 1)
        on_include_(spelled.substr(1, end - 1), spelled);
    }
  }

 private:
  void define(std::string_view text) {
    std::string name(take_word(text));
    if (name.empty() || text.starts_with('(')) return;  // with parameters: not a constant
    std::string value;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
        ++i;
        value += ' ';
      } else {
        value += text[i];
      }
    }
    defines_[name] = trimmed(value);
  }

  // 0, 1, defined(X), !defined(X); anything else counts as true.
  bool holds(std::string_view condition) const {
    if (condition.starts_with('!')) return !holds(trimmed(condition.substr(1)));
    if (condition.starts_with("defined")) {
      condition.remove_prefix(7);
      condition = trimmed(condition);
      if (condition.starts_with('(')) condition.remove_prefix(1);
      return defines_.contains(take_word(condition));
    }
    auto value = defines_.find(condition);
    return (value == defines_.end() ? condition : std::string_view(value->second)) != "0";
  }

  std::map<std::string, std::string, std::less<>>& defines_;
  std::vector<CTypes::Include>& includes_;
  OnInclude on_include_;
  OnPragma on_pragma_;
  std::vector<bool> conditions_;
};

}  // namespace

CTypes CTypes::read(const Program& script, SourceSet& sources, const TypeSource& program,
                    const Outside& outside, Diagnostics& diagnostics) {
  CTypes out;
  if (outside.knows_kernel_types) out.defines_["BPFTRACE_HAVE_BTF"] = "";
  CPreprocessor preprocessor(outside.find_header);
  define_usual_macros(preprocessor);
  auto include = [&](const std::string& name, const std::string&) {
    auto header = outside.find_header ? outside.find_header(name, "") : std::nullopt;
    if (!header) return;  // check_headers says so
    for (const auto& [defined, text] : out.defines_) preprocessor.define(defined, text);
    read_header(*header, preprocessor, out, sources, program);
    for (const auto& [defined, macro] : preprocessor.macros()) {
      // Names of our own are not taken away by a header.
      if (macro.has_parameters || macro.body.empty() || find_function(defined)) continue;
      std::string text;
      for (const auto& token : macro.body) text += token.text + " ";
      text.pop_back();
      out.defines_.try_emplace(defined, std::move(text));
    }
  };
  for (const std::string& name : outside.included) include(name, name);
  Directives directives(out.defines_, out.includes_, include,
                        [&](std::string_view text) { out.pragma(text); });
  for (const CDefinition& definition : script.c_definitions) {
    if (definition.text.starts_with('#')) {
      directives.line(definition.text, definition.span);
    } else if (directives.active()) {
      CParser(out, sources.at(definition.span.source), definition.span, program, diagnostics).run();
    }
  }
  return out;
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

class DefineExpander {
 public:
  DefineExpander(const CTypes& types, SourceSet& sources) : types_(types), sources_(sources) {}

  void visit(Expr& expr) {
    const auto* bare = expr.as<Identifier>();
    if (bare == nullptr) return;
    ExprPtr value = value_of(bare->name);
    if (!value) return;
    Span span = expr.span;
    expr.node = std::move(value->node);
    expr.span = span;
  }

 private:
  // Parsed once a name; a definition that is no expression is left alone, as C leaves it until it is used.
  ExprPtr value_of(const std::string& name) {
    auto known = parsed_.find(name);
    if (known != parsed_.end()) return known->second ? clone(*known->second) : nullptr;
    auto defined = types_.defines().find(name);
    if (defined == types_.defines().end() || defined->second.empty()) return nullptr;
    parsed_[name] = nullptr;  // a name inside its own definition stays
    if (depth_ > 20 || total_ > 100000) return nullptr;
    Diagnostics ignored;
    ExprPtr value = parse_expression(sources_, sources_.add("#define " + name, defined->second), ignored);
    if (!value) return nullptr;
    ++depth_;
    rewrite(value, [this](Expr& inner) {
      ++total_;
      visit(inner);
    });
    --depth_;
    ExprPtr copy = clone(*value);
    parsed_[name] = std::move(value);
    return copy;
  }

  const CTypes& types_;
  SourceSet& sources_;
  std::map<std::string, ExprPtr> parsed_;
  size_t depth_ = 0, total_ = 0;
};

}  // namespace

void expand_defines(Program& program, const CTypes& types, SourceSet& sources) {
  DefineExpander expander(types, sources);
  rewrite(program, [&](Expr& expr) { expander.visit(expr); });
}

}  // namespace uscope::lang
