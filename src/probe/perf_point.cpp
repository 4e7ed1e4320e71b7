#include "probe/perf_point.h"

#include <cctype>
#include <charconv>

namespace uscope::probe {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  T value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Words separated by blanks that stand outside quotes, parentheses and angle brackets.
std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  int depth = 0;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    bool end = i == text.size();
    char c = end ? ' ' : text[i];
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '(' || c == '<' || c == '[')) ++depth;
    if (!quoted && depth > 0 && (c == ')' || c == ']' || (c == '>' && i > 0 && text[i - 1] != '-'))) --depth;
    if (end || (is_space(c) && !quoted && depth == 0)) {
      if (i > start) words.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return words;
}

// The last occurrence of a character outside quotes and parentheses, from the end of the text.
size_t rfind_outside(std::string_view text, char wanted) {
  bool quoted = false;
  int depth = 0;
  for (size_t i = text.size(); i-- > 0;) {
    char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ')') ++depth;
    if (c == '(' && depth > 0) --depth;
    if (depth == 0 && c == wanted) return i;
  }
  return std::string_view::npos;
}

// Position of the single colon that sets off a line number: not one of `::`.
size_t find_line_colon(std::string_view text) {
  size_t colon = rfind_outside(text, ':');
  if (colon == std::string_view::npos || (colon > 0 && text[colon - 1] == ':')) return std::string_view::npos;
  return colon;
}

std::string unquote(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return std::string(text);
}

bool is_event_name(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (unsigned char c : text)
    if (!std::isalnum(c) && c != '_') return false;
  return true;
}

// Takes `[GROUP:]EVENT=` off the front. The `=` of operator== and the like follows no plain event name.
std::string_view take_event(std::string_view word, PerfPoint& point) {
  size_t equals = word.find('=');
  if (equals == std::string_view::npos) return word;
  std::string_view head = word.substr(0, equals), group;
  if (size_t colon = head.find(':'); colon != std::string_view::npos) {
    group = head.substr(0, colon);
    head = head.substr(colon + 1);
  }
  if (!is_event_name(head) || (!group.empty() && !is_event_name(group)) || head == "operator") return word;
  point.group = group;
  point.event = head;
  return word.substr(equals + 1);
}

// Takes the suffixes (%return, ;PATTERN, :LINE, +OFFS, @SRC) off the end, in whatever order perf allows them.
Status take_suffixes(std::string_view& word, PerfPoint& point) {
  if (word.ends_with("%return")) {
    point.is_return = true;
    word.remove_suffix(7);
  }
  if (size_t semicolon = rfind_outside(word, ';'); semicolon != std::string_view::npos) {
    point.pattern = word.substr(semicolon + 1);
    word = word.substr(0, semicolon);
  }
  if (size_t colon = find_line_colon(word); colon != std::string_view::npos) {
    auto line = parse_number<uint32_t>(word.substr(colon + 1));
    if (!line)
      return fail(Error("`" + std::string(word.substr(colon + 1)) + "` in `" + std::string(word) +
                        "` is not a line number")
                      .with_hint("write FUNC:LINE, counted from the function's first line, or SOURCE:LINE"));
    point.line = *line;
    word = word.substr(0, colon);
  }
  if (size_t plus = rfind_outside(word, '+'); plus != std::string_view::npos && plus > 0) {
    if (auto offset = parse_number<uint64_t>(word.substr(plus + 1))) {
      point.offset = *offset;
      word = word.substr(0, plus);
    }
  }
  if (size_t at = rfind_outside(word, '@'); at != std::string_view::npos && at > 0) {
    point.source_file = word.substr(at + 1);
    word = word.substr(0, at);
  }
  if (point.offset != 0 && point.line)
    return fail("`" + std::string(word) + "` has both a line and an offset; give one of them");
  if (word.ends_with("%return")) {
    point.is_return = true;
    word.remove_suffix(7);
  }
  if (point.is_return && (point.offset != 0 || point.line || !point.pattern.empty()))
    return fail("%return goes with a function alone: a return has no offset, line or pattern");
  return {};
}

}  // namespace

Result<PerfArgument> parse_perf_argument(std::string_view text) {
  PerfArgument argument;
  std::string_view rest = text;
  if (size_t equals = rest.find('=');
      equals != std::string_view::npos && is_event_name(rest.substr(0, equals))) {
    argument.name = rest.substr(0, equals);
    rest = rest.substr(equals + 1);
  }
  if (size_t colon = find_line_colon(rest); colon != std::string_view::npos) {
    argument.type = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (argument.type.empty())
      return fail("`" + std::string(text) + "` ends in a colon with no type behind it");
  }
  argument.expression = rest;
  if (rest.empty()) return fail("`" + std::string(text) + "` names no variable");
  return argument;
}

Result<PerfPoint> parse_perf_point(std::string_view text) {
  auto words = split_words(text);
  if (words.empty()) return fail(Error("an empty probe definition").with_hint("write FUNCTION [ARGUMENT…]"));
  PerfPoint point;
  std::string_view word = words[0];
  std::string_view sdt = word.starts_with('%') ? word.substr(1) : word;
  if (sdt.starts_with("sdt_") && sdt.find(':') != std::string_view::npos) {
    point.is_sdt = true;
    point.place = sdt.substr(4, sdt.find(':') - 4);
    point.event = sdt.substr(sdt.find(':') + 1);
  } else {
    word = take_event(word, point);
    if (auto address = parse_number<uint64_t>(word); address && word.starts_with("0x")) {
      point.address = *address;
    } else {
      TRY_STATUS(take_suffixes(word, point));
      point.place = unquote(word);
      if (point.place.empty()) return fail("`" + std::string(words[0]) + "` names no function");
    }
  }
  for (size_t i = 1; i < words.size(); ++i) {
    TRY(auto argument, parse_perf_argument(words[i]));
    point.arguments.push_back(std::move(argument));
  }
  return point;
}

Result<LineSpan> parse_line_span(std::string_view text) {
  LineSpan span;
  std::string_view place = text;
  if (size_t colon = find_line_colon(text); colon != std::string_view::npos) {
    std::string_view lines = text.substr(colon + 1);
    place = text.substr(0, colon);
    size_t separator = lines.find_first_of("-+");
    auto first = parse_number<uint32_t>(lines.substr(0, separator));
    if (!first)
      return fail("`" + std::string(lines) + "` is not a line, nor a range FIRST-LAST or FIRST+COUNT");
    span.first = *first;
    span.has_lines = true;
    if (separator != std::string_view::npos) {
      auto number = parse_number<uint32_t>(lines.substr(separator + 1));
      if (!number) return fail("`" + std::string(lines) + "` does not end in a line number");
      uint64_t last =
          lines[separator] == '-' ? uint64_t(*number) : uint64_t(*first) + *number - (*number > 0 ? 1 : 0);
      if (last < *first || last > UINT32_MAX)
        return fail("the line range `" + std::string(lines) + "` ends before it begins");
      span.last = uint32_t(last);
    }
  }
  if (size_t at = rfind_outside(place, '@'); at != std::string_view::npos && at > 0) {
    span.source_file = place.substr(at + 1);
    place = place.substr(0, at);
  }
  span.place = unquote(place);
  if (span.place.empty()) return fail("`" + std::string(text) + "` names no function or source file");
  return span;
}

Result<VariablePath> parse_variable_path(std::string_view text) {
  VariablePath path;
  std::string_view rest = text;
  while (rest.starts_with('*')) {
    ++path.dereferences;
    rest.remove_prefix(1);
  }
  auto take_name = [&rest]() {
    size_t end = rest.find_first_of(".[-");
    std::string name(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
    return name;
  };
  auto malformed = [&](std::string_view why) {
    return fail("`" + std::string(text) + "` is not a variable with fields: " + std::string(why));
  };
  path.variable = take_name();
  if (path.variable.empty()) return malformed("it does not begin with a name");
  while (!rest.empty()) {
    if (rest.starts_with('[')) {
      size_t close = rest.find(']');
      if (close == std::string_view::npos) return malformed("a [ has no ]");
      auto index = parse_number<int64_t>(rest.substr(1, close - 1));
      if (!index) return malformed("an index must be a number");
      path.accessors.push_back({"", *index});
      rest.remove_prefix(close + 1);
      continue;
    }
    size_t skip = rest.starts_with("->") ? 2 : rest.starts_with('.') ? 1 : 0;
    if (skip == 0) return malformed("expected `.`, `->` or `[`");
    rest.remove_prefix(skip);
    std::string field = take_name();
    if (field.empty()) return malformed("a field's name is missing");
    path.accessors.push_back({std::move(field), std::nullopt});
  }
  return path;
}

}  // namespace uscope::probe
