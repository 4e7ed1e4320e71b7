#include "symbols/short_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace uscope::symbols {
namespace {

constexpr size_t longest_name = size_t(64) << 10;
constexpr int deepest_template = 64;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == ':')) {
      at += from.size() - to.size();
      continue;
    }
    text.replace(at, from.size(), to);
  }
}

// The qualified name that ends the text: `const std::vector` -> `std::vector`.
std::string_view last_path(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == ':')) --begin;
  return text.substr(begin);
}

// What the library's declaration gives argument `index` of std::NAME when the user writes nothing; empty: no
// default.
std::string default_argument(std::string_view name, size_t index, const std::vector<std::string>& args) {
  using Names = std::initializer_list<std::string_view>;
  const auto one_of = [&](Names names) { return std::ranges::find(names, name) != names.end(); };
  const std::string& first = args[0];
  const std::string allocator = "std::allocator<" + first + ">";
  if (one_of({"vector", "list", "deque", "forward_list"})) return index == 1 ? allocator : "";
  if (one_of({"set", "multiset"}))
    return index == 1 ? "std::less<" + first + ">" : index == 2 ? allocator : "";
  if (one_of({"unordered_set", "unordered_multiset"})) {
    return index == 1   ? "std::hash<" + first + ">"
           : index == 2 ? "std::equal_to<" + first + ">"
           : index == 3 ? allocator
                        : "";
  }
  if (name == "unique_ptr") return index == 1 ? "std::default_delete<" + first + ">" : "";
  if (one_of({"queue", "stack"})) return index == 1 ? "std::deque<" + first + ">" : "";
  if (name == "priority_queue") {
    return index == 1 ? "std::vector<" + first + ">" : index == 2 ? "std::less<" + first + ">" : "";
  }
  if (one_of({"basic_string", "basic_stringstream", "basic_istringstream", "basic_ostringstream",
              "basic_stringbuf"})) {
    return index == 1 ? "std::char_traits<" + first + ">" : index == 2 ? allocator : "";
  }
  if (one_of({"basic_string_view", "basic_ios", "basic_istream", "basic_ostream", "basic_iostream",
              "basic_fstream", "basic_ifstream", "basic_ofstream", "basic_streambuf", "basic_filebuf"})) {
    return index == 1 ? "std::char_traits<" + first + ">" : "";
  }
  const bool hashed = one_of({"unordered_map", "unordered_multimap"});
  if ((hashed || one_of({"map", "multimap"})) && args.size() > 1) {
    if (index == 2) return (hashed ? "std::hash<" : "std::less<") + first + ">";
    if (hashed && index == 3) return "std::equal_to<" + first + ">";
    // Demanglers and compilers differ in where they put the pair's const.
    if (index == (hashed ? 4u : 3u)) {
      std::string east = "std::allocator<std::pair<" + first + " const, " + args[1] + ">>";
      return args[index] == east ? east : "std::allocator<std::pair<const " + first + ", " + args[1] + ">>";
    }
  }
  return "";
}

// `basic_string` of `char` -> `string`; nothing if the library names no such alias.
std::optional<std::string> character_alias(std::string_view name, std::string_view character) {
  constexpr std::string_view prefix = "basic_";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (character == "char") return std::string(name);
  if (character == "wchar_t") return "w" + std::string(name);
  if (name != "string" && name != "string_view") return std::nullopt;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> unicode = {
      {{"char8_t", "u8"}, {"char16_t", "u16"}, {"char32_t", "u32"}}};
  for (auto [type, letter] : unicode) {
    if (character == type) return std::string(letter) + std::string(name);
  }
  return std::nullopt;
}

class CppShortener {
 public:
  explicit CppShortener(std::string_view text) : text_(text) {}

  std::optional<std::string> shorten() {
    std::string out = walk(0, "");
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  // Copies up to one of `stops` outside all brackets, shortening the template names on the way.
  std::string walk(int depth, std::string_view stops) {
    std::string out;
    if (depth > deepest_template) failed_ = true;
    while (!failed_ && at_ < text_.size()) {
      const char c = text_[at_];
      if (stops.find(c) != std::string_view::npos) break;
      if (c == '<' && !out.empty() && is_word(out.back()) && !last_path(out).ends_with("operator")) {
        template_arguments(out, depth);
      } else if (c == '(' || c == '[' || c == '{') {
        bracket(out, c, depth);
      } else if (c == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '>') {
        out += "->";
        at_ += 2;
      } else {
        out += c;
        ++at_;
        drop_abi_namespace(out);
      }
    }
    return out;
  }

  void bracket(std::string& out, char open, int depth) {
    const char close = open == '(' ? ')' : open == '[' ? ']' : '}';
    out += open;
    ++at_;
    out += walk(depth + 1, std::string_view(&close, 1));
    if (at_ >= text_.size()) {
      failed_ = true;
      return;
    }
    out += close;
    ++at_;
  }

  void template_arguments(std::string& out, int depth) {
    std::vector<std::string> args;
    do {
      ++at_;
      while (at_ < text_.size() && text_[at_] == ' ') ++at_;
      std::string argument = walk(depth + 1, ",>");
      while (!argument.empty() && argument.back() == ' ') argument.pop_back();
      args.push_back(std::move(argument));
    } while (!failed_ && at_ < text_.size() && text_[at_] == ',');
    if (failed_ || at_ >= text_.size()) {
      failed_ = true;
      return;
    }
    ++at_;
    close_template(out, std::move(args));
  }

  static void close_template(std::string& out, std::vector<std::string> args) {
    const std::string path(last_path(out));
    if (path.starts_with("std::")) {
      const std::string_view name = std::string_view(path).substr(5);
      while (args.size() > 1 && !args.back().empty() &&
             args.back() == default_argument(name, args.size() - 1, args)) {
        args.pop_back();
      }
      if (args.size() == 1) {
        if (auto alias = character_alias(name, args[0])) {
          out.resize(out.size() - name.size());
          out += *alias;
          return;
        }
      }
    }
    out += '<';
    for (size_t i = 0; i < args.size(); ++i) out += (i ? ", " : "") + args[i];
    out += '>';
  }

  static void drop_abi_namespace(std::string& out) {
    if (out.back() != ':') return;
    for (std::string_view space : {"std::__cxx11::", "std::__1::", "std::__ndk1::"}) {
      if (last_path(out) == space) out.resize(out.size() - space.size() + 5);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
};

// One Go name without its import path's folders: `github.com/miekg/dns/v2.Msg` -> `dns.Msg`.
void append_go_token(std::string& out, std::string_view token) {
  if (const size_t slash = token.rfind('/'); slash != std::string_view::npos) {
    std::string_view last = token.substr(slash + 1);
    const size_t dot = last.find('.');
    const std::string_view version = last.substr(0, dot);
    const bool is_version =
        version.size() > 1 && version[0] == 'v' &&
        std::ranges::all_of(version.substr(1), [](char c) { return c >= '0' && c <= '9'; });
    if (is_version && slash > 0) {
      const std::string_view folders = token.substr(0, slash);
      out += folders.substr(folders.rfind('/') + 1);
      last = last.substr(version.size());
    }
    token = last;
  }
  for (size_t i = 0; i < token.size(); ++i) {
    if (token.substr(i, 3) == "%2e") {
      out += '.';
      i += 2;
    } else {
      out += token[i];
    }
  }
}

}  // namespace

std::string short_cpp_name(std::string_view name) {
  if (name.size() > longest_name || name.find_first_of("<:") == std::string_view::npos)
    return std::string(name);
  return CppShortener(name).shorten().value_or(std::string(name));
}

std::string short_rust_name(std::string_view name) {
  std::string out(name);
  if (out.size() > longest_name) return out;
  for (size_t at; (at = out.find(", alloc::alloc::Global>")) != std::string::npos;) {
    out.erase(at, std::string_view(", alloc::alloc::Global").size());
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> prelude = {
      {{"core::option::Option<", "Option<"},
       {"core::result::Result<", "Result<"},
       {"alloc::boxed::Box<", "Box<"},
       {"alloc::vec::Vec<", "Vec<"},
       {"alloc::string::String", "String"}}};
  for (auto [path, shorter] : prelude) replace_all(out, path, shorter);
  return out;
}

std::string short_go_name(std::string_view name) {
  if (name.size() > longest_name || name.find_first_of("/%") == std::string_view::npos)
    return std::string(name);
  constexpr std::string_view separators = "[]*(){} ,;<";
  std::string out;
  for (size_t i = 0; i < name.size();) {
    const char c = name[i];
    size_t end = i;
    if (c == '"') {  // a struct tag: any text
      for (end = i + 1; end < name.size() && name[end] != '"'; ++end) end += name[end] == '\\';
      end = std::min(end + 1, name.size());
      out += name.substr(i, end - i);
    } else if (separators.find(c) != std::string_view::npos) {
      out += c;
      end = i + 1;
    } else {
      while (end < name.size() && name[end] != '"' && separators.find(name[end]) == std::string_view::npos)
        ++end;
      append_go_token(out, name.substr(i, end - i));
    }
    i = end;
  }
  return out;
}

}  // namespace uscope::symbols
