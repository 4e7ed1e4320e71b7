#include "session/perf_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/glob.h"
#include "image/demangle.h"
#include "probe/perf_point.h"
#include "probe/resolve.h"
#include "session/perf_image.h"
#include "symbols/function_code.h"
#include "symbols/lookup.h"
#include "x86/boundaries.h"

namespace uscope::session {
namespace {

using image::dwarf::LineRow;
using image::dwarf::Variable;
using probe::Site;
using symbols::FunctionSymbol;

// perf's filters: `a*`, `!b`, joined by & and |.
bool filter_matches(std::string_view filter, const std::vector<std::string>& spellings) {
  auto either = filter.find('|');
  if (either != std::string_view::npos)
    return filter_matches(filter.substr(0, either), spellings) ||
           filter_matches(filter.substr(either + 1), spellings);
  auto both = filter.find('&');
  if (both != std::string_view::npos)
    return filter_matches(filter.substr(0, both), spellings) &&
           filter_matches(filter.substr(both + 1), spellings);
  while (filter.starts_with(' ')) filter.remove_prefix(1);
  while (filter.ends_with(' ')) filter.remove_suffix(1);
  if (filter.starts_with('!')) return !filter_matches(filter.substr(1), spellings);
  return std::any_of(spellings.begin(), spellings.end(), [filter](const std::string& name) {
    return name == filter || glob_match(filter, name);
  });
}

std::string site_label(const Site& site, bool with_parameters) {
  const std::string& name = with_parameters ? site.signature : site.function;
  return fmt::format("{}+{}", name.empty() ? "0x0" : name, site.address - site.function_entry);
}

// [8-11,20-59]: the parts of the function, from its entry, where the variable has a place.
std::string ranges_of(const PerfImage& image, const FunctionSymbol& function, const Variable& wanted) {
  auto code = symbols::function_code(image.symbols, function);
  if (!code) return "";
  x86::Flow flow = x86::analyze(*code);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const x86::Instruction& instruction : flow.instructions()) {
    auto variables = image.symbols.debug_info().variables_at(ImageAddr{instruction.address});
    bool there = std::any_of(variables.begin(), variables.end(), [&](const Variable& variable) {
      return variable.name == wanted.name && variable.declared.line == wanted.declared.line &&
             variable.location.is_available();
    });
    if (!there) continue;
    uint64_t offset = instruction.address - function.address.value;
    if (!ranges.empty() && ranges.back().second == offset)
      ranges.back().second += instruction.length;
    else
      ranges.emplace_back(offset, offset + instruction.length);
  }
  std::string text;
  for (auto [begin, end] : ranges) text += fmt::format("{}{}-{}", text.empty() ? "" : ",", begin, end);
  return text;
}

// The lines with text, numbers where there is code.
std::string numbered(const std::vector<std::string>& source, uint32_t first, uint32_t last, uint32_t base,
                     const std::set<uint32_t>& with_code) {
  std::string text;
  for (uint32_t line = first; line <= last && line <= source.size(); ++line) {
    if (with_code.contains(line))
      text += fmt::format("{:>7}  {}\n", line - base, source[line - 1]);
    else
      text += fmt::format("         {}\n", source[line - 1]);
  }
  return text;
}

std::string join_lines(const std::set<uint32_t>& lines, uint32_t base) {
  std::string text;
  for (uint32_t line : lines) text += (text.empty() ? "" : " ") + std::to_string(line - base);
  return text;
}

std::set<uint32_t> lines_with_code(const std::vector<LineRow>& rows, const std::string& file) {
  std::set<uint32_t> lines;
  for (const LineRow& row : rows)
    if (row.is_statement && row.source.file == file && row.source.line != 0) lines.insert(row.source.line);
  return lines;
}

Result<PerfProbeAnswer> show_source(const PerfProbeRequest& request, const std::string& label,
                                    const std::string& file, uint32_t first, uint32_t last, uint32_t base,
                                    const std::set<uint32_t>& with_code) {
  PerfProbeAnswer answer;
  answer.text = label + "\n";
  auto source = probe::read_source(file, request.source_directory);
  if (source) {
    answer.text += numbered(*source, first, last, base, with_code);
    return answer;
  }
  std::set<uint32_t> inside;
  for (uint32_t line : with_code)
    if (first <= line && line <= last) inside.insert(line);
  answer.text += "lines with code: " + join_lines(inside, base) + "\n";
  answer.notes.push_back(source.error().message());
  return answer;
}

Result<PerfProbeAnswer> lines_of_function(const PerfProbeRequest& request, const PerfImage& image,
                                          const FunctionSymbol& symbol, const probe::LineSpan& span) {
  const auto& info = image.symbols.debug_info();
  auto function = info.function_at(symbol.address);
  std::string name = symbols::bare_name(symbol.name);
  if (!function || function->declared.line == 0)
    return fail(
        Error("nothing is known of the lines of " + name + (info.is_empty() ? ": " + info.why_empty() : ""))
            .with_hint("compile with -g, or install the debug package"));
  std::vector<LineRow> rows;
  for (const auto& range : function->ranges) {
    auto part = info.lines_between(range.begin, range.end);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  const std::string& file = function->declared.file;
  auto with_code = lines_with_code(rows, file);
  uint32_t base = function->declared.line;
  uint32_t first = base + span.first;
  uint32_t end = with_code.empty() ? base : std::max(base, *with_code.rbegin());
  uint32_t last = span.last ? base + *span.last : span.has_lines ? first : end;
  return show_source(request, fmt::format("<{}@{}:{}>", name, file, span.first), file, first, last, base,
                     with_code);
}

Result<PerfProbeAnswer> lines_of_source(const PerfProbeRequest& request, const PerfImage& image,
                                        const probe::LineSpan& span) {
  auto rows = image.symbols.debug_info().lines_of_file(span.place);
  std::string file = rows.front().source.file;
  auto with_code = lines_with_code(rows, file);
  uint32_t first = std::max<uint32_t>(1, span.first);
  uint32_t last = span.last ? *span.last : span.has_lines ? first + 20 : UINT32_MAX - 1;
  auto answer = show_source(request, fmt::format("<{}:{}>", file, first), file, first, last, 0, with_code);
  std::set<std::string> files;
  for (const LineRow& row : rows) files.insert(row.source.file);
  if (answer && files.size() > 1)
    answer->notes.push_back(fmt::format("{} source files end in `{}`; this is {}: write more of the path",
                                        files.size(), span.place, file));
  return answer;
}

}  // namespace

Result<PerfImage> open_perf_image(const PerfProbeRequest& request) {
  if (request.file.empty())
    return fail(Error("which program?").with_hint("name it with -x FILE, for example -x /usr/sbin/nginx"));
  TRY(auto files, probe::find_image_files(request.file, request.pid));
  if (files.empty()) return fail("no file matches " + request.file);
  if (files.size() > 1)
    return fail("`" + request.file + "` means several files: " + files[0].shown + ", " + files[1].shown +
                "…");
  TRY(auto image, symbols::ImageSymbols::open(files[0].opened, files[0].root));
  return PerfImage{files[0], std::move(image)};
}

Result<PerfProbeAnswer> probe_functions(const PerfProbeRequest& request, const std::string& filter) {
  TRY(PerfImage image, open_perf_image(request));
  struct Named {
    std::string shown, full;
    ImageAddr address;
  };
  std::vector<Named> names;
  std::map<std::string, size_t> uses;
  for (const FunctionSymbol& function : image.symbols.functions()) {
    std::string raw(function.name);
    std::string full = request.demangle ? symbols::display_name(raw) : raw;
    std::string bare = request.demangle ? image::strip_parameters(full) : raw;
    if (!filter.empty() && !filter_matches(filter, {raw, full, bare})) continue;
    if (!names.empty() && names.back().address == function.address && names.back().full == full) continue;
    ++uses[bare];
    names.push_back({bare, full, function.address});
  }
  // Overloads are told apart by their parameters; perf shows them as one name, twice.
  for (Named& name : names)
    if (uses[name.shown] > 1) name.shown = name.full;
  std::sort(names.begin(), names.end(), [](const Named& a, const Named& b) { return a.shown < b.shown; });
  PerfProbeAnswer answer;
  std::string_view last;
  for (const Named& name : names) {
    if (name.shown == last) continue;
    answer.text += name.shown + "\n";
    last = name.shown;
  }
  if (names.empty()) {
    auto lookup = symbols::find_functions(image.symbols, filter.empty() ? "*" : filter);
    return fail(symbols::explain_missing(image.symbols, filter.empty() ? "*" : filter, lookup));
  }
  answer.notes = image.symbols.problems();
  return answer;
}

Result<PerfProbeAnswer> probe_variables(const PerfProbeRequest& request, const std::string& text) {
  TRY(PerfImage image, open_perf_image(request));
  TRY(probe::PerfPoint point, probe::parse_perf_point(text));
  TRY(std::vector<Site> sites, probe::resolve_point(image.symbols, point, probe::Ambiguity::TakeAll));
  const auto& info = image.symbols.debug_info();
  if (info.is_empty())
    return fail(Error("no variables are known in " + image.file.shown + ": " + info.why_empty())
                    .with_hint("compile with -g, or install the debug package"));
  PerfProbeAnswer answer;
  for (const Site& site : sites) {
    std::string title = sites.size() > 1 && site.address == site.function_entry ? site.signature : text;
    answer.text += "Available variables at " + title + "\n\t@<" + site_label(site, sites.size() > 1) + ">\n";
    const FunctionSymbol* symbol = image.symbols.function_at(site.address);
    std::vector<std::string> lines;
    std::vector<Variable> variables = probe::variables_at(image.symbols, site, request.externs);
    std::erase_if(variables, [](const Variable& variable) { return variable.is_result; });
    for (const Variable& variable : variables) {
      if (!variable.location.is_available() && !request.range) continue;
      std::string line =
          symbols::spell_declaration(variable.type, variable.name, image.types(), symbols::TypeStyle::Perf);
      if (request.range && symbol != nullptr) {
        std::string ranges = ranges_of(image, *symbol, variable);
        line = (variable.location.is_available() ? "[VAL]\t" : "[INV]\t") + line;
        if (!ranges.empty()) line += "\t@<" + site.function + "+[" + ranges + "]>";
      }
      lines.push_back("\t\t" + line + "\n");
    }
    std::sort(lines.begin(), lines.end());
    if (lines.empty()) lines.push_back("\t\t(No matched variables)\n");
    for (const std::string& line : lines) answer.text += line;
  }
  answer.notes = info.problems();
  return answer;
}

Result<PerfProbeAnswer> probe_lines(const PerfProbeRequest& request, const std::string& text) {
  TRY(PerfImage image, open_perf_image(request));
  TRY(probe::LineSpan span, probe::parse_line_span(text));
  symbols::Lookup lookup = symbols::find_functions(image.symbols, span.place);
  if (lookup.found.empty()) {
    if (!image.symbols.debug_info().lines_of_file(span.place).empty())
      return lines_of_source(request, image, span);
    return fail(symbols::explain_missing(image.symbols, span.place, lookup));
  }
  std::vector<const FunctionSymbol*> functions;
  for (const FunctionSymbol* function : lookup.found) {
    bool known = std::any_of(functions.begin(), functions.end(),
                             [&](auto* other) { return other->address == function->address; });
    if (!known) functions.push_back(function);
  }
  if (functions.size() > 1 && !has_glob(span.place))
    return fail(symbols::explain_ambiguous(image.symbols, span.place, lookup));
  PerfProbeAnswer answer;
  for (const FunctionSymbol* function : functions) {
    TRY(PerfProbeAnswer part, lines_of_function(request, image, *function, span));
    answer.text += (answer.text.empty() ? "" : "\n") + part.text;
    answer.notes.insert(answer.notes.end(), part.notes.begin(), part.notes.end());
  }
  return answer;
}

}  // namespace uscope::session
