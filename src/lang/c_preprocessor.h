// C's preprocessor, as far as headers need it to be read for their definitions: conditions, macros with and
// without parameters, # and ##, nested headers. Yields one text without directives (but see kPragma) in which
// macros are expanded, and the macros themselves. Pure: headers are found by who asks. Bounded in depth, size
// and work, whatever the headers say; no line numbers are kept.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::lang {

struct HeaderFile {
  std::string path, text;
};

// A header by its name, as an #include of the file `from` spells it; nothing if there is none.
using HeaderFinder =
    std::function<std::optional<HeaderFile>(const std::string& name, const std::string& from)>;

class CPreprocessor {
 public:
  struct Token {
    std::string text;
    enum class Kind { Word, Number, Text, Other } kind = Kind::Other;
    bool is_apart = false;  // from what comes before it
  };
  struct Macro {
    bool has_parameters = false, is_variadic = false;
    std::vector<std::string> parameters;
    std::vector<Token> body;
  };
  using Macros = std::map<std::string, Macro, std::less<>>;
  // In text(), what a #pragma that changes layouts is: this, its words, and a semicolon.
  static constexpr std::string_view kPragma = "__pragma_of_layout";

  explicit CPreprocessor(HeaderFinder finder);

  // `text` has no parameters of its own: `#define name text`.
  void define(const std::string& name, std::string_view text);
  // Reads a header, and what it includes, into text().
  void read(const HeaderFile& header);

  // A line of a script: what is behind its `#`, of a directive that neither includes nor is a pragma. Says
  // what is wrong with it; empty: nothing.
  std::string take_line(std::string_view line);
  // Whether the conditions so far let a script's next line count.
  bool is_active() const;
  // There are conditions whose end did not come yet.
  bool is_inside_condition() const { return !conditions_.empty(); }
  // A definition of a script with its macros expanded; nothing where none is in it.
  std::optional<std::string> expanded(std::string_view text);
  // So much was read that the rest was left out.
  bool is_exhausted() const;

  const std::string& text() const { return out_; }
  const Macros& macros() const { return macros_; }
  // What was left out, and why: headers that are not there, limits that were reached.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  using Tokens = std::vector<Token>;
  using Active = std::vector<std::string_view>;

  void directive(Tokens line, const std::string& from, bool has_parameters);
  void include(const Tokens& line, const std::string& from);
  void define_macro(const Tokens& line, bool has_parameters);
  bool holds(Tokens condition);
  void flush();
  void expand(const Tokens& in, const Active& active, Tokens& out);
  bool expand_call(const Tokens& in, size_t& at, const Macro& macro, const std::string& name,
                   const Active& active, Tokens& out);
  Tokens substitute(const Macro& macro, const std::vector<Tokens>& arguments, const Active& active);
  void problem(std::string text);

  struct Condition {
    bool is_on = false, was_on = false;
  };

  HeaderFinder finder_;
  Macros macros_;
  std::vector<Condition> conditions_;
  Tokens waiting_;  // lines of text since the last directive
  std::vector<std::string> once_;
  std::string out_;
  std::vector<std::string> problems_;
  size_t depth_ = 0, calls_ = 0, work_ = 0;
  bool is_unclear_ = false;  // a condition could not be read
};

}  // namespace uscope::lang
