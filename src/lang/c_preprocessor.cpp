#include "lang/c_preprocessor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "lang/c_condition.h"

namespace uscope::lang {
namespace {

using Token = CPreprocessor::Token;
using Tokens = std::vector<Token>;
using Kind = Token::Kind;

constexpr size_t kMostNested = 100;
constexpr size_t kMostWork = 2'000'000;  // tokens looked at, in all
constexpr size_t kMostText = 32u << 20;
constexpr size_t kMostProblems = 20;
constexpr size_t kMostExpansions = 200;  // inside each other
constexpr size_t kMostCalls = 100;       // as arguments of each other

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_word_part(char c) { return is_word_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Lines that end in a backslash go on; a comment is a blank.
std::string joined_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
    } else if (text[i] == '"' || text[i] == '\'') {
      char quote = text[i];
      do {
        out += text[i];
        if (text[i] == '\\' && i + 1 < text.size()) out += text[++i];
        ++i;
      } while (i < text.size() && text[i] != quote && text[i] != '\n');
      if (i < text.size()) out += text[i];
    } else if (text.substr(i, 2) == "//") {
      while (i < text.size() && text[i] != '\n') ++i;
      out += '\n';
    } else if (text.substr(i, 2) == "/*") {
      size_t end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 1;
      out += ' ';
    } else if (text[i] != '\r') {
      out += text[i];
    }
  }
  return out;
}

Token next_token(std::string_view text, size_t& at) {
  size_t begin = at;
  char c = text[at];
  Kind kind = Kind::Other;
  if (is_word_start(c)) {
    kind = Kind::Word;
    while (at < text.size() && is_word_part(text[at])) ++at;
  } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
    kind = Kind::Number;
    while (at < text.size() && (is_word_part(text[at]) || text[at] == '.')) ++at;
  } else if (c == '"' || c == '\'') {
    kind = Kind::Text;
    for (++at; at < text.size() && text[at] != c; ++at)
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
    at = std::min(at + 1, text.size());
  } else {
    std::string_view two = text.substr(at, 2);
    bool is_pair = two == "##" || two == "&&" || two == "||" || two == "==" || two == "!=" || two == "<=" ||
                   two == ">=" || two == "<<" || two == ">>" || two == "->";
    at += text.substr(at, 3) == "..." ? 3 : is_pair ? 2 : 1;
  }
  return {std::string(text.substr(begin, at - begin)), kind};
}

Tokens tokens_of(std::string_view line) {
  Tokens out;
  for (size_t at = 0; at < line.size();) {
    if (std::isspace(static_cast<unsigned char>(line[at])) != 0) {
      ++at;
      continue;
    }
    bool is_apart = at > 0 && std::isspace(static_cast<unsigned char>(line[at - 1])) != 0;
    out.push_back(next_token(line, at));
    out.back().is_apart = is_apart;
  }
  return out;
}

bool is(const Tokens& tokens, size_t at, std::string_view text) {
  return at < tokens.size() && tokens[at].text == text;
}

// `define F(a) …` has one, `define F (a) …` has not: the blank decides.
bool has_parameter_list(std::string_view directive) {
  size_t at = directive.find_first_not_of(" \t");
  if (at == std::string_view::npos || !directive.substr(at).starts_with("define")) return false;
  at = directive.find_first_not_of(" \t", at + 6);
  if (at == std::string_view::npos) return false;
  while (at < directive.size() && is_word_part(directive[at])) ++at;
  return at < directive.size() && directive[at] == '(';
}

std::string spelled(const Tokens& tokens) {
  std::string out;
  for (const Token& token : tokens) out += (out.empty() ? "" : " ") + token.text;
  return out;
}

}  // namespace

CPreprocessor::CPreprocessor(HeaderFinder finder) : finder_(std::move(finder)) {}

void CPreprocessor::define(const std::string& name, std::string_view text) {
  Macro macro;
  macro.body = tokens_of(text);
  macros_[name] = std::move(macro);
}

bool CPreprocessor::is_active() const { return std::ranges::all_of(conditions_, &Condition::is_on); }

void CPreprocessor::problem(std::string text) {
  if (problems_.size() < kMostProblems && std::ranges::find(problems_, text) == problems_.end())
    problems_.push_back(std::move(text));
}

void CPreprocessor::read(const HeaderFile& header) {
  if (std::ranges::find(once_, header.path) != once_.end()) return;
  if (depth_ >= kMostNested) return problem(header.path + ": headers are nested too deeply");
  ++depth_;
  size_t outer_conditions = conditions_.size();
  std::string text = joined_lines(header.text);
  for (size_t at = 0; at < text.size() && work_ < kMostWork;) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    size_t first = line.find_first_not_of(" \t\f\v");
    if (first == std::string_view::npos) continue;
    if (line[first] == '#') {
      flush();
      line.remove_prefix(first + 1);
      directive(tokens_of(line), header.path, has_parameter_list(line));
    } else if (is_active()) {
      for (Token& token : tokens_of(line)) waiting_.push_back(std::move(token));
    }
  }
  flush();
  conditions_.resize(std::min(conditions_.size(), outer_conditions));
  if (work_ >= kMostWork) problem(header.path + ": the headers are too large to be read whole");
  --depth_;
}

std::string CPreprocessor::take_line(std::string_view line) {
  std::string joined = joined_lines(line);
  Tokens tokens = tokens_of(joined);
  if (tokens.empty()) return {};
  const std::string& what = tokens[0].text;
  bool goes_on = what == "elif" || what == "else" || what == "endif";
  if (goes_on && conditions_.empty()) return fmt::format("#{} without #if", what);
  if (is_active() && what == "error") return spelled(tokens);
  static constexpr std::array<std::string_view, 10> kKnown = {"if",    "ifdef",  "ifndef", "elif",    "else",
                                                              "endif", "define", "undef",  "warning", "line"};
  if (is_active() && std::ranges::find(kKnown, what) == kKnown.end())
    return fmt::format("#{} is not known", what);
  is_unclear_ = false;
  directive(tokens, "", has_parameter_list(joined));
  return is_unclear_ ? "this is no condition" : "";
}

std::optional<std::string> CPreprocessor::expanded(std::string_view text) {
  Tokens tokens = tokens_of(joined_lines(text)), out;
  expand(tokens, {}, out);
  if (spelled(out) == spelled(tokens)) return std::nullopt;
  return spelled(out);
}

bool CPreprocessor::is_exhausted() const { return work_ >= kMostWork; }

// Macro calls may go over several lines of text, but not over a directive.
void CPreprocessor::flush() {
  if (waiting_.empty()) return;
  Tokens expanded;
  expand(waiting_, {}, expanded);
  waiting_.clear();
  if (out_.size() > kMostText) return problem("the headers are too large to be read whole");
  for (const Token& token : expanded) {
    out_ += token.text;
    out_ += ' ';
  }
  out_ += '\n';
}

void CPreprocessor::directive(Tokens line, const std::string& from, bool has_parameters) {
  work_ += line.size();
  if (line.empty()) return;
  std::string what = line[0].text;
  if (what == "ifdef" || what == "ifndef") {
    bool is_on = line.size() > 1 && macros_.contains(line[1].text) == (what == "ifdef");
    conditions_.push_back({is_on, is_on});
  } else if (what == "if") {
    bool is_on = is_active() && holds({line.begin() + 1, line.end()});
    conditions_.push_back({is_on, is_on});
  } else if ((what == "elif" || what == "else") && !conditions_.empty()) {
    Condition current = conditions_.back();
    conditions_.pop_back();
    current.is_on =
        !current.was_on && (what == "else" || (is_active() && holds({line.begin() + 1, line.end()})));
    current.was_on |= current.is_on;
    conditions_.push_back(current);
  } else if (what == "endif" && !conditions_.empty()) {
    conditions_.pop_back();
  } else if (!is_active()) {
    return;
  } else if (what == "include" || what == "include_next") {
    include(line, from);
  } else if (what == "define") {
    define_macro(line, has_parameters);
  } else if (what == "undef" && line.size() > 1) {
    macros_.erase(line[1].text);
  } else if (what == "pragma" && is(line, 1, "once")) {
    once_.push_back(from);
  } else if (what == "pragma" && (is(line, 1, "pack") || is(line, 1, "ms_struct") ||
                                  is(line, 1, "scalar_storage_order") || is(line, 1, "options"))) {
    out_ += fmt::format("{} {} ;\n", kPragma, spelled({line.begin() + 1, line.end()}));
  }
}

void CPreprocessor::include(const Tokens& line, const std::string& from) {
  Tokens named(line.begin() + 1, line.end());
  if (!is(named, 0, "<") && (named.empty() || named[0].kind != Kind::Text)) {
    Tokens expanded;
    expand(named, {}, expanded);
    named = std::move(expanded);
  }
  std::string name;
  for (const Token& token : named) name += token.text;
  size_t end = name.find_last_of(">\"");
  if (name.size() < 3 || end == std::string::npos || end < 2) return;
  name = name.substr(1, end - 1);
  auto header = finder_(name, line[0].text == "include_next" ? "" : from);
  // A header that leads to itself by include_next is the compiler's, which adds nothing here.
  if (!header) return problem(name + ", which " + from + " includes, is not there");
  if (header->path == from) return;
  read(*header);
}

void CPreprocessor::define_macro(const Tokens& line, bool has_parameters) {
  if (line.size() < 2 || line[1].kind != Kind::Word) return;
  Macro macro;
  size_t at = 2;
  if (has_parameters) {
    macro.has_parameters = true;
    for (++at; at < line.size() && line[at].text != ")"; ++at) {
      if (line[at].text == "...") macro.is_variadic = true;
      if (line[at].kind == Kind::Word) macro.parameters.push_back(line[at].text);
    }
    if (macro.is_variadic) macro.parameters.emplace_back("__VA_ARGS__");
    ++at;
  }
  macro.body.assign(line.begin() + static_cast<ptrdiff_t>(std::min(at, line.size())), line.end());
  macros_[line[1].text] = std::move(macro);
}

bool CPreprocessor::holds(Tokens condition) {
  Tokens known;
  for (size_t i = 0; i < condition.size(); ++i) {
    const std::string& word = condition[i].text;
    bool is_question = word == "defined" || word.starts_with("__has_");
    if (!is_question) {
      known.push_back(condition[i]);
      continue;
    }
    bool in_parentheses = is(condition, i + 1, "(");
    size_t at = i + (in_parentheses ? 2 : 1);
    bool answer = word == "defined" && at < condition.size() && macros_.contains(condition[at].text);
    known.push_back({answer ? "1" : "0", Kind::Number});
    i = at;
    for (int open = in_parentheses ? 1 : 0; open > 0 && ++i < condition.size();)
      open += condition[i].text == "(" ? 1 : condition[i].text == ")" ? -1 : 0;
  }
  Tokens expanded;
  expand(known, {}, expanded);
  std::vector<std::string> words;
  for (Token& token : expanded) words.push_back(std::move(token.text));
  auto answer = c_condition_holds(words);
  is_unclear_ |= !answer;
  return answer.value_or(false);
}

void CPreprocessor::expand(const Tokens& in, const Active& active, Tokens& out) {
  for (size_t i = 0; i < in.size() && work_ < kMostWork; ++i) {
    ++work_;
    const Token& token = in[i];
    auto found = token.kind == Kind::Word ? macros_.find(token.text) : macros_.end();
    bool is_ours = found != macros_.end() && active.size() < kMostExpansions &&
                   std::ranges::find(active, token.text) == active.end();
    if (!is_ours) {
      out.push_back(token);
      continue;
    }
    const Macro& macro = found->second;
    if (macro.has_parameters) {
      if (!expand_call(in, i, macro, found->first, active, out)) out.push_back(token);
      continue;
    }
    Active inner = active;
    inner.push_back(found->first);
    expand(macro.body, inner, out);
  }
}

// `at` is the macro's name; behind the call then.
bool CPreprocessor::expand_call(const Tokens& in, size_t& at, const Macro& macro, const std::string& name,
                                const Active& active, Tokens& out) {
  if (!is(in, at + 1, "(") || calls_ >= kMostCalls) return false;
  std::vector<Tokens> arguments(1);
  size_t i = at + 2;
  for (int open = 1; i < in.size(); ++i) {
    const std::string& text = in[i].text;
    if (text == "(") ++open;
    if (text == ")" && --open == 0) break;
    bool is_rest = macro.is_variadic && arguments.size() == macro.parameters.size();
    if (text == "," && open == 1 && !is_rest)
      arguments.emplace_back();
    else
      arguments.back().push_back(in[i]);
  }
  if (i >= in.size()) return false;
  at = i;
  arguments.resize(std::max(arguments.size(), macro.parameters.size()));
  ++calls_;
  Tokens body = substitute(macro, arguments, active);
  Active inner = active;
  inner.push_back(name);
  expand(body, inner, out);
  --calls_;
  return true;
}

Tokens CPreprocessor::substitute(const Macro& macro, const std::vector<Tokens>& arguments,
                                 const Active& active) {
  auto parameter = [&](const Token& token) -> const Tokens* {
    auto found = std::ranges::find(macro.parameters, token.text);
    if (token.kind != Kind::Word || found == macro.parameters.end()) return nullptr;
    return &arguments[static_cast<size_t>(found - macro.parameters.begin())];
  };
  Tokens out;
  bool pastes = false;
  for (size_t i = 0; i < macro.body.size() && work_ < kMostWork; ++i) {
    const Token& token = macro.body[i];
    if (token.text == "##") {
      pastes = true;
      continue;
    }
    Tokens piece;
    const Tokens* argument = parameter(token);
    if (token.text == "#" && i + 1 < macro.body.size() && parameter(macro.body[i + 1]) != nullptr) {
      piece.push_back({"\"" + spelled(*parameter(macro.body[++i])) + "\"", Kind::Text});
    } else if (argument != nullptr && !pastes && !is(macro.body, i + 1, "##")) {
      expand(*argument, active, piece);
    } else if (argument != nullptr) {
      piece = *argument;
    } else {
      piece.push_back(token);
    }
    work_ += piece.size();
    if (pastes && !out.empty() && !piece.empty()) {
      out.back().text += piece.front().text;
      piece.erase(piece.begin());
    }
    pastes = false;
    out.insert(out.end(), piece.begin(), piece.end());
  }
  return out;
}

}  // namespace uscope::lang
