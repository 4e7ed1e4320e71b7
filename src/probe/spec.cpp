#include "probe/spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

namespace uscope::probe {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Takes the part up to the next `:` outside quotes off the front of `rest`; quotes are removed.
std::string next_part(std::string_view& rest) {
  std::string part;
  bool quoted = false;
  size_t i = 0;
  for (; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      quoted = !quoted;
    } else if (rest[i] == ':' && !quoted) {
      rest.remove_prefix(i + 1);
      return part;
    } else {
      part += rest[i];
    }
  }
  rest = {};
  return part;
}

std::string unquote(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return std::string(text);
}

std::optional<uint64_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ProbeSpec::Kind> kind_of(const std::string& name) {
  if (name == "uprobe" || name == "u") return ProbeSpec::Kind::Uprobe;
  if (name == "uretprobe" || name == "ur") return ProbeSpec::Kind::Uretprobe;
  if (name == "usdt") return ProbeSpec::Kind::Usdt;
  return std::nullopt;
}

Status parse_source_place(std::string_view place, ProbeSpec& spec) {
  spec.source_file = next_part(place);
  std::string line_text = next_part(place);
  auto line = parse_number(line_text);
  if (spec.source_file.empty() || !line || *line == 0 || *line > UINT32_MAX)
    return fail(
        Error("a source place is written FILE@SOURCE:LINE, not `@" + spec.source_file + ":" + line_text + "`")
            .with_hint("for example uprobe:./app@server.c:120"));
  spec.line = uint32_t(*line);
  if (!place.empty()) {
    auto column = parse_number(place);
    if (!column || *column > UINT32_MAX)
      return fail("the column in `@" + spec.source_file + "` is not a number");
    spec.column = uint32_t(*column);
  }
  return {};
}

Status parse_function(std::string_view target, ProbeSpec& spec) {
  if (target.starts_with("cpp:")) {
    spec.is_cpp = true;
    target.remove_prefix(4);
  }
  bool quoted = target.starts_with('"');
  if (!quoted) {
    if (auto address = parse_number(target); address && target.starts_with("0")) {
      spec.address = *address;
      return {};
    }
  }
  // An offset follows the last `+`: operators (operator+, operator++) may hold the sign too.
  size_t plus = target.rfind('+');
  if (plus != std::string_view::npos && plus > 0 && (!quoted || plus > target.rfind('"'))) {
    if (auto offset = parse_number(target.substr(plus + 1))) {
      spec.offset = *offset;
      target = target.substr(0, plus);
    }
  }
  spec.function = unquote(target);
  return {};
}

}  // namespace

Result<ProbeSpec> parse_spec(std::string_view text) {
  std::string_view rest = text;
  std::string kind_text = next_part(rest);
  // `U` is bpftrace's short name for usdt; `u` is uprobe.
  auto kind = kind_text == "U" ? std::optional(ProbeSpec::Kind::Usdt) : kind_of(lower(kind_text));
  if (!kind)
    return fail(
        Error("`" + kind_text + "` is not a kind of user probe")
            .with_hint("write uprobe:FILE:FUNCTION, uretprobe:FILE:FUNCTION or usdt:FILE:PROVIDER:NAME"));
  ProbeSpec spec;
  spec.kind = *kind;
  // A `@src.c:LINE` belongs to the file part; paths may hold `@` too, so it must be followed by a line
  // number.
  std::string_view before_file = rest;
  spec.file = next_part(rest);
  if (size_t at = spec.file.rfind('@'); at != std::string::npos && spec.kind != ProbeSpec::Kind::Usdt) {
    size_t raw_at = before_file.find('@' + spec.file.substr(at + 1));
    std::string_view place = before_file.substr(raw_at + 1), probe = place;
    next_part(probe);
    if (parse_number(next_part(probe))) {
      spec.file.resize(at);
      TRY_STATUS(parse_source_place(place, spec));
      return spec;
    }
  }
  if (spec.kind == ProbeSpec::Kind::Usdt) {
    std::string first = next_part(rest);
    if (rest.empty()) {
      spec.name = first;
    } else {
      spec.provider = first;
      spec.name = unquote(rest);
    }
    if (spec.name.empty()) spec.name = "*";
    return spec;
  }
  TRY_STATUS(parse_function(rest, spec));
  if (spec.file.empty() || (spec.function.empty() && !spec.address))
    return fail(Error("`" + std::string(text) + "` names no " + (spec.file.empty() ? "file" : "function"))
                    .with_hint("write " + lower(kind_text) + ":FILE:FUNCTION; * stands for any name"));
  return spec;
}

}  // namespace uscope::probe
