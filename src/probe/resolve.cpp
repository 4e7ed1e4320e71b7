#include "probe/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/fd.h"
#include "base/glob.h"
#include "image/usdt/notes.h"
#include "symbols/function_code.h"
#include "symbols/lookup.h"
#include "x86/boundaries.h"

namespace uscope::probe {
namespace {

using image::dwarf::LineRow;
using symbols::FunctionSymbol;
using symbols::ImageSymbols;

class Resolver {
 public:
  explicit Resolver(const ImageSymbols& image) : image_(image) {}

  Result<Site> site_at(ImageAddr address) const {
    auto offset = image_.file_offset(address);
    if (!offset) return fail(fmt::format("the address 0x{:x} is not in {}", address.value, image_.path()));
    TRY_STATUS(check_instruction_start(image_, address));
    Site site;
    site.address = address;
    site.offset = *offset;
    site.function_entry = address;
    if (const FunctionSymbol* function = image_.function_at(address)) name(site, *function);
    return site;
  }

  Result<Site> entry_site(const FunctionSymbol& function) const {
    TRY(Site site, site_at(function.address));
    name(site, function);
    return site;
  }

  void name(Site& site, const FunctionSymbol& function) const {
    site.signature = symbols::display_name(function.name);
    site.function = symbols::bare_name(function.name);
    site.function_entry = function.address;
  }

  // Lines `wanted` of the rows: for each function that holds some, its first instruction of that line.
  Result<std::vector<Site>> sites_of_line(const std::vector<LineRow>& rows, uint32_t wanted,
                                          const std::string& place) const {
    std::map<ImageAddr, const LineRow*> first_by_function;
    uint32_t next = 0;
    for (const LineRow& row : rows) {
      if (!row.is_statement) continue;
      if (row.source.line > wanted && (next == 0 || row.source.line < next)) next = row.source.line;
      if (row.source.line != wanted) continue;
      const FunctionSymbol* function = image_.function_at(row.address);
      ImageAddr key = function != nullptr ? function->address : row.address;
      auto [at, is_new] = first_by_function.try_emplace(key, &row);
      if (!is_new && row.address < at->second->address) at->second = &row;
    }
    if (first_by_function.empty())
      return fail(Error(fmt::format("line {} of {} has no code", wanted, place))
                      .with_hint(next != 0 ? fmt::format("the next line that has is {}", next)
                                           : "uscope probe -L shows the lines that have"));
    std::vector<Site> sites;
    for (auto& [function, row] : first_by_function) {
      TRY(Site site, site_at(row->address));
      site.line = row->source;
      sites.push_back(std::move(site));
    }
    return sites;
  }

  std::vector<LineRow> rows_of_function(const FunctionSymbol& function) const {
    const auto& info = image_.debug_info();
    std::vector<LineRow> rows;
    auto known = info.function_at(function.address);
    if (known) {
      for (const auto& range : known->ranges) {
        auto part = info.lines_between(range.begin, range.end);
        rows.insert(rows.end(), part.begin(), part.end());
      }
    } else {
      rows = info.lines_between(function.address, function.address + function.size);
    }
    return rows;
  }

  // Line numbers behind a function count from the line it is declared at.
  Result<std::vector<Site>> function_line(const FunctionSymbol& function, uint32_t line) const {
    auto known = image_.debug_info().function_at(function.address);
    if (!known || known->declared.line == 0) return fail(no_lines(symbols::display_name(function.name)));
    auto rows = rows_of_function(function);
    std::erase_if(rows, [&](const LineRow& row) { return row.source.file != known->declared.file; });
    return sites_of_line(rows, known->declared.line + line, known->declared.file);
  }

  Result<std::vector<Site>> source_line(const std::string& file, uint32_t line) const {
    const auto& info = image_.debug_info();
    if (info.is_empty()) return fail(no_lines(file));
    auto rows = info.lines_of_file(file);
    if (rows.empty())
      return fail(Error("no source file `" + file + "` in " + image_.path())
                      .with_hint("uscope probe -F lists its functions"));
    return sites_of_line(rows, line, file);
  }

  // Lines of the function whose text matches; blanks do not count, as perf has it.
  Result<std::vector<Site>> function_pattern(const FunctionSymbol& function,
                                             const std::string& pattern) const {
    auto known = image_.debug_info().function_at(function.address);
    if (!known || known->declared.line == 0) return fail(no_lines(symbols::display_name(function.name)));
    TRY(auto source, read_source(known->declared.file));
    auto rows = rows_of_function(function);
    std::erase_if(rows, [&](const LineRow& row) {
      return row.source.file != known->declared.file || !row.is_statement;
    });
    std::map<uint32_t, ImageAddr> first;
    for (const LineRow& row : rows) {
      auto [at, is_new] = first.try_emplace(row.source.line, row.address);
      if (row.address < at->second) at->second = row.address;
    }
    std::vector<Site> sites;
    for (auto& [line, address] : first) {
      if (line == 0 || line > source.size() ||
          !glob_match(without_blanks("*" + pattern + "*"), without_blanks(source[line - 1])))
        continue;
      TRY(Site site, site_at(address));
      site.line = {known->declared.file, line, 0};
      sites.push_back(std::move(site));
    }
    if (sites.empty())
      return fail("no line of " + symbols::display_name(function.name) + " matches `" + pattern + "`");
    return sites;
  }

  Result<std::vector<Site>> usdt(const PerfPoint& point) const {
    std::vector<Site> sites;
    if (image_.is_elf()) {
      for (const auto& probe : image::read_usdt_probes(image_.elf())) {
        if (probe.provider != point.place || probe.name != point.event) continue;
        for (const auto& at : probe.sites) {
          TRY(Site site, site_at(at.address));
          sites.push_back(std::move(site));
        }
      }
    }
    if (sites.empty())
      return fail(Error("no USDT probe " + point.place + ":" + point.event + " in " + image_.path())
                      .with_hint("uscope -l 'usdt:" + image_.path() + ":*' lists them"));
    return sites;
  }

 private:
  Error no_lines(const std::string& what) const {
    return Error("nothing is known of the lines of " + what + ": " +
                 (image_.debug_info().is_empty() ? image_.debug_info().why_empty()
                                                 : "the debug info does not cover it"))
        .with_hint("compile with -g, or install the debug package");
  }

  static std::string without_blanks(std::string text) {
    std::erase_if(text, [](char c) { return c == ' ' || c == '\t'; });
    return text;
  }

  const ImageSymbols& image_;
};

// Functions at distinct addresses, in the order found; `@SRC` keeps those declared in that file.
std::vector<const FunctionSymbol*> distinct_functions(const ImageSymbols& image,
                                                      const symbols::Lookup& lookup,
                                                      const std::string& source_file) {
  std::vector<const FunctionSymbol*> functions;
  for (const FunctionSymbol* function : lookup.found) {
    bool known = std::any_of(functions.begin(), functions.end(),
                             [&](auto* other) { return other->address == function->address; });
    if (known) continue;
    if (!source_file.empty()) {
      auto info = image.debug_info().function_at(function->address);
      if (!info || !info->declared.file.ends_with(source_file)) continue;
    }
    functions.push_back(function);
  }
  return functions;
}

Result<std::vector<Site>> resolve_in_function(const Resolver& resolver, const FunctionSymbol& function,
                                              const PerfPoint& point) {
  if (point.line) return resolver.function_line(function, *point.line);
  if (!point.pattern.empty()) return resolver.function_pattern(function, point.pattern);
  if (point.offset != 0) {
    if (function.size != 0 && point.offset >= function.size)
      return fail(fmt::format("+0x{:x} is past the end of {}, which is 0x{:x} bytes long", point.offset,
                              symbols::display_name(function.name), function.size));
    TRY(Site site, resolver.site_at(function.address + point.offset));
    resolver.name(site, function);
    return std::vector{site};
  }
  TRY(Site site, resolver.entry_site(function));
  site.is_return = point.is_return;
  return std::vector{site};
}

}  // namespace

Status check_instruction_start(const ImageSymbols& image, ImageAddr address) {
  const FunctionSymbol* function = image.function_at(address);
  if (function == nullptr) {
    if (!image.is_executable(address))
      return fail(fmt::format("0x{:x} is not in executable code of {}", address.value, image.path()));
    return fail(Error(fmt::format("0x{:x} is in no known function of {}, so uscope cannot tell whether an "
                                  "instruction starts there",
                                  address.value, image.path()))
                    .with_hint("a probe inside an instruction would crash the program"));
  }
  if (address == function->address) return {};
  auto code = symbols::function_code(image, *function);
  if (!code)
    return fail(
        fmt::format("the code of {} is not in {}", symbols::display_name(function->name), image.path()));
  x86::Boundary boundary = x86::Boundaries(*code).at(address.value);
  if (boundary.is_start()) return {};
  return fail(Error(fmt::format("{}+0x{:x}: {}", symbols::display_name(function->name),
                                address - function->address, boundary.text(address.value)))
                  .with_hint("a probe there would crash the program"));
}

std::vector<image::dwarf::Variable> variables_at(const ImageSymbols& image, const Site& site,
                                                 bool with_globals) {
  const auto& info = image.debug_info();
  std::vector<image::dwarf::Variable> variables = info.variables_at(site.address, with_globals);
  if (site.address != site.function_entry) return variables;
  auto function = info.function_at(site.address);
  if (!function) return variables;
  std::erase_if(variables, [](const image::dwarf::Variable& variable) {
    return variable.is_parameter || (!variable.is_global && !variable.location.as_static_address());
  });
  variables.insert(variables.begin(), function->parameters.begin(), function->parameters.end());
  return variables;
}

Result<std::vector<std::string>> read_source(const std::string& file, const std::string& source_directory) {
  std::vector<std::string> tried = {file};
  if (!source_directory.empty()) {
    // The longest tail of the recorded path that exists below the directory.
    tried.clear();
    for (size_t slash = 0; slash != std::string::npos; slash = file.find('/', slash + 1))
      tried.push_back(source_directory + (file[slash] == '/' ? "" : "/") + file.substr(slash));
  }
  for (const std::string& path : tried) {
    auto text = read_text_file(path);
    if (!text) continue;
    std::vector<std::string> lines;
    for (size_t start = 0; start < text->size();) {
      size_t end = std::min(text->find('\n', start), text->size());
      lines.push_back(text->substr(start, end - start));
      start = end + 1;
    }
    return lines;
  }
  return fail(
      Error("the source file " + file + " is not here").with_hint("--source DIR says where the sources are"));
}

Result<std::vector<Site>> resolve_point(const ImageSymbols& image, const PerfPoint& point,
                                        Ambiguity ambiguity) {
  Resolver resolver(image);
  if (point.is_sdt) return resolver.usdt(point);
  if (point.address) {
    TRY(Site site, resolver.site_at(ImageAddr{*point.address}));
    return std::vector{site};
  }
  symbols::Lookup lookup = symbols::find_functions(image, point.place);
  auto functions = distinct_functions(image, lookup, point.source_file);
  if (functions.empty()) {
    // SRC:LINE reads like FUNC:LINE; a place that is no function may be a file.
    if (point.line && point.source_file.empty() && !image.debug_info().lines_of_file(point.place).empty())
      return resolver.source_line(point.place, *point.line);
    if (!lookup.found.empty()) return fail("no `" + point.place + "` is declared in " + point.source_file);
    return fail(symbols::explain_missing(image, point.place, lookup));
  }
  bool one_name_many = functions.size() > 1 && !has_glob(point.place);
  if (one_name_many && ambiguity == Ambiguity::Refuse)
    return fail(symbols::explain_ambiguous(image, point.place, lookup));
  std::vector<Site> sites;
  for (const FunctionSymbol* function : functions) {
    auto part = resolve_in_function(resolver, *function, point);
    if (!part && functions.size() == 1) return fail(std::move(part.error()));
    if (part) sites.insert(sites.end(), part->begin(), part->end());
  }
  return sites;
}

}  // namespace uscope::probe
