// The text side of demangle.h: finding where a function's own name starts and ends in "int ns::f<int>(int)
// const".
#include <algorithm>
#include <array>
#include <vector>

#include "image/demangle.h"

namespace uscope::image {
namespace {

constexpr size_t none = std::string_view::npos;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool word_at(std::string_view text, size_t at, std::string_view word) {
  if (!text.substr(at).starts_with(word) || (at > 0 && is_word(text[at - 1]))) return false;
  size_t end = at + word.size();
  return end >= text.size() || !is_word(text[end]);
}

// Length of "operator" and the symbol behind it. A conversion ("operator int") and operator new yield the
// bare word, so that what follows is read as a type or word like any other.
size_t operator_length(std::string_view text, size_t at) {
  constexpr size_t word = 8;
  constexpr std::array<std::string_view, 41> symbols = {
      "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "==",   "!=", "&&",
      "||", "++", "--",  "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", "\"\"", "<",  ">",
      "+",  "-",  "*",   "/",   "%",   "^",   "&",  "|",  "~",  "!",  "=",  ",",    "?"};
  std::string_view rest = text.substr(at + word);
  for (std::string_view symbol : symbols) {
    if (rest.starts_with(symbol)) return word + symbol.size();
  }
  return word;
}

// The end of qualifiers behind a parameter list: " const", " volatile", " &&", "[abi:x]".
size_t skip_qualifiers(std::string_view text, size_t at) {
  constexpr std::array<std::string_view, 6> qualifiers = {" const", " volatile", " restrict",
                                                          " &&",    " &",        " noexcept"};
  for (bool found = true; found;) {
    found = false;
    for (std::string_view qualifier : qualifiers) {
      if (!text.substr(at).starts_with(qualifier)) continue;
      at += qualifier.size();
      found = true;
      break;
    }
  }
  return at;
}

// What one pass over the top level of the text finds.
struct Outline {
  size_t name_start = 0;      // behind the return type
  size_t group_start = none;  // the last bracketed list
  size_t group_end = none;    // behind its closing bracket
  size_t before_group =
      none;  // start of the group that ends right where the last one starts: "(*f(int))(char)"
  bool has_operator = false;  // an operator's name at the top level
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Outline scan() {
    for (size_t i = 0; i < text_.size();) i = step(i);
    return outline_;
  }

 private:
  size_t step(size_t i) {
    if (word_at(text_, i, "operator")) {
      outline_.has_operator |= open_.empty();
      return i + operator_length(text_, i);
    }
    char c = text_[i];
    if (text_.substr(i).starts_with("->")) return i + 2;
    if (c == '(' && open_.empty()) start_group(i);
    if (c == '(' || c == '<' || c == '{' || c == '[') {
      open_.push_back(c);
    } else if (c == ')' || c == '}' || c == ']') {
      close(c, i);
    } else if (c == '>') {
      if (!open_.empty() && open_.back() == '<') open_.pop_back();
    } else if (c == ' ' && open_.empty() && !outline_.has_operator) {
      return space(i);
    }
    return i + 1;
  }

  void start_group(size_t i) {
    outline_.before_group = outline_.group_end == i ? outline_.group_start : none;
    outline_.group_start = i;
    outline_.group_end = none;
  }

  // Unmatched angle brackets inside ("a < b" in a template argument) end with what encloses them.
  void close(char c, size_t i) {
    char opening = c == ')' ? '(' : c == '}' ? '{' : '[';
    while (!open_.empty() && open_.back() == '<') open_.pop_back();
    if (!open_.empty() && open_.back() == opening) open_.pop_back();
    if (c == ')' && open_.empty()) outline_.group_end = i + 1;
  }

  // A space parts the return type from the name, unless it belongs to "f() const::local" or to what ends the
  // text.
  size_t space(size_t i) {
    size_t behind = skip_qualifiers(text_, i);
    if (behind != i &&
        (behind >= text_.size() || text_.substr(behind).starts_with("::") || text_[behind] == '['))
      return behind;
    if (!text_.substr(i).starts_with(" [clone ")) outline_.name_start = i + 1;
    return i + 1;
  }

  std::string_view text_;
  std::vector<char> open_;
  Outline outline_;
};

// What precedes the function that a thunk leads to.
size_t function_prefix(std::string_view text) {
  constexpr std::array<std::string_view, 5> prefixes = {
      "non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to ", "transaction clone for ",
      "non-transaction clone for "};
  for (std::string_view prefix : prefixes) {
    if (text.starts_with(prefix)) return prefix.size();
  }
  return 0;
}

// "typeinfo for void (int)", "guard variable for f()::x": names of data, whose lists are not their own.
bool names_data(std::string_view text) {
  constexpr std::array<std::string_view, 14> prefixes = {"vtable for ",
                                                         "VTT for ",
                                                         "construction vtable for ",
                                                         "typeinfo for ",
                                                         "typeinfo name for ",
                                                         "typeinfo fn for ",
                                                         "guard variable for ",
                                                         "TLS init function for ",
                                                         "TLS wrapper function for ",
                                                         "template parameter object for ",
                                                         "initializer for module ",
                                                         "global constructors keyed to ",
                                                         "global destructors keyed to ",
                                                         "reference temporary #"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
}

// In "void (*f<int>(int))(char)" the declarator is inside the group: "f<int>(int)".
std::string_view inside_declarator(std::string_view group) {
  group.remove_prefix(1);
  group.remove_suffix(1);
  size_t star = group.find_first_of("*&");
  if (star == none) return {};
  group.remove_prefix(star);
  group.remove_prefix(std::min(group.find_first_not_of("*& "), group.size()));
  return group;
}

}  // namespace

std::string strip_parameters(std::string_view demangled) {
  // Nested declarators (a function returning a function that returns one …) are peeled one by one.
  std::string_view text = demangled;
  for (int depth = 0; depth < 64; ++depth) {
    if (names_data(text)) return std::string(text);
    size_t prefix = function_prefix(text);
    std::string_view rest = text.substr(prefix);
    Outline outline = Scanner(rest).scan();
    if (outline.group_start == none || outline.group_end == none) return std::string(text);
    size_t behind = skip_qualifiers(rest, outline.group_end);
    bool ends = behind == rest.size() || rest.substr(behind).starts_with(" [clone ");
    // The last list belongs to an enclosing function or namespace: "main()::counter", "(anonymous
    // namespace)::x".
    if (!ends) return std::string(text);
    if (outline.before_group != none && !outline.has_operator) {
      std::string_view group = rest.substr(outline.before_group, outline.group_start - outline.before_group);
      std::string_view inner = inside_declarator(group);
      if (!inner.empty()) {
        text = inner;
        continue;
      }
    }
    size_t start = std::min(outline.name_start, outline.group_start);
    if (start == outline.group_start) return std::string(text);
    std::string name(text.substr(0, prefix));
    name += rest.substr(start, outline.group_start - start);
    name += rest.substr(behind);
    return name;
  }
  return std::string(demangled);
}

}  // namespace uscope::image
