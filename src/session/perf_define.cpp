// probe -D: definitions that the kernel's uprobe_events takes.
#include <fmt/format.h>
#include <limits.h>
#include <stdlib.h>

#include <set>

#include "probe/fetch.h"
#include "probe/perf_point.h"
#include "probe/resolve.h"
#include "session/function_result.h"
#include "session/perf_image.h"
#include "session/perf_probe.h"
#include "symbols/function_code.h"
#include "x86/flow.h"

namespace uscope::session {
namespace {

using image::dwarf::Variable;
using probe::FetchArgument;
using probe::PerfArgument;
using probe::PerfPoint;
using probe::Site;

constexpr size_t longest_event_name = 63;  // the kernel's MAX_EVENT_NAME_LEN, less the end mark

// Letters, digits and single underscores, as event and argument names must be.
std::string identifier(std::string_view text) {
  std::string name;
  for (unsigned char c : text) {
    if (std::isalnum(c) || c == '_')
      name += char(c);
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "_");
  return name.substr(0, longest_event_name);
}

// perf's group: the file's name up to the first of - . _
std::string default_group(const std::string& path) {
  std::string base = path.substr(path.rfind('/') + 1);
  return "probe_" + identifier(base.substr(0, base.find_first_of("-._")));
}

std::string default_event(const PerfPoint& point, const Site& site) {
  if (point.is_sdt) return identifier(point.event);
  std::string base =
      site.function.empty() ? fmt::format("abs_{:x}", site.address.value) : identifier(site.function);
  if (point.line || !point.pattern.empty()) base += fmt::format("_L{}", point.line.value_or(site.line.line));
  return base.substr(0, longest_event_name - 10);
}

std::string absolute_path(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

class Definer {
 public:
  Definer(const PerfProbeRequest& request, const PerfImage& image, const PerfPoint& point)
      : request_(request), image_(image), point_(point) {}

  Result<PerfProbeAnswer> define(const std::vector<Site>& sites) {
    std::string group = point_.group.empty() ? default_group(image_.file.shown) : point_.group;
    for (const Site& site : sites) {
      std::string event =
          unique(point_.event.empty() || point_.is_sdt ? default_event(point_, site) : point_.event);
      if (point_.is_return) {
        TRY_STATUS(define_return(site, group, event + (point_.event.empty() ? "__return" : "")));
        continue;
      }
      TRY(std::string arguments, arguments_at(site));
      line('p', group, event, site.offset, arguments);
    }
    return std::move(answer_);
  }

 private:
  bool is_go() const { return image_.symbols.language() == image::Language::Go; }

  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !events_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

  void line(char kind, const std::string& group, const std::string& event, FileOffset offset,
            const std::string& arguments) {
    answer_.text += fmt::format("{}:{}/{} {}:0x{:x}{}\n", kind, group, event,
                                absolute_path(image_.file.opened), offset.value, arguments);
  }

  void note(const std::string& text) {
    if (notes_.insert(text).second) answer_.notes.push_back(text);
  }

  // What is fetched at a site, with a leading blank each.
  Result<std::string> arguments_at(const Site& site) {
    std::string text;
    for (const PerfArgument& argument : point_.arguments) {
      if (argument.expression == "$vars" || argument.expression == "$params") {
        text += all_variables(site, argument.expression == "$params");
        continue;
      }
      if (argument.is_raw()) {
        if (argument.expression == "$retval") return fail("$retval goes with FUNC%return only");
        text += raw(argument);
        continue;
      }
      TRY(probe::FetchResult fetched, fetch(site, argument));
      text += fetched_text(fetched);
    }
    return text;
  }

  static std::string raw(const PerfArgument& argument) {
    return " " + (argument.name.empty() ? "" : argument.name + "=") + argument.expression +
           (argument.type.empty() ? "" : ":" + argument.type);
  }

  std::string fetched_text(const probe::FetchResult& fetched) {
    std::string text;
    for (const FetchArgument& argument : fetched.arguments) text += " " + argument.text();
    for (const std::string& remark : fetched.notes) note(remark);
    return text;
  }

  Result<probe::FetchResult> fetch(const Site& site, const PerfArgument& argument) {
    TRY(probe::VariablePath path, probe::parse_variable_path(argument.expression));
    if (image_.symbols.debug_info().is_empty())
      return fail(
          Error("`" + path.variable + "` is not known: " + image_.symbols.debug_info().why_empty())
              .with_hint("compile with -g, install the debug package, or name registers (%di) yourself"));
    std::string names;
    for (const Variable& variable : probe::variables_at(image_.symbols, site, true)) {
      if (variable.name == path.variable)
        return fetch_variable(fetch_site(site), variable, path, argument_name(argument, path), argument.type);
      if (!variable.is_global && variable.location.is_available())
        names += (names.empty() ? "" : ", ") + variable.name;
    }
    return fail(Error("no variable `" + path.variable + "` at " + site.function)
                    .with_hint(names.empty() ? "none is known there" : "there are " + names));
  }

  probe::FetchSite fetch_site(const Site& site) const { return {site.address, site.offset, image_.types()}; }

  // perf's names: the last field's, and _string where text was asked for.
  static std::string argument_name(const PerfArgument& argument, const probe::VariablePath& path) {
    if (!argument.name.empty()) return argument.name;
    std::string name = path.variable;
    for (const probe::Accessor& accessor : path.accessors)
      name = accessor.index ? name + "_" + std::to_string(*accessor.index) : accessor.field;
    name = identifier(name);
    return argument.type == "string" || argument.type == "ustring" ? name + "_string" : name;
  }

  // Those that the kernel cannot fetch are left out with a word; perf would refuse them all.
  std::string all_variables(const Site& site, bool parameters_only) {
    std::string text;
    for (const Variable& variable : probe::variables_at(image_.symbols, site, true)) {
      if (variable.is_global || variable.is_result) continue;
      if (parameters_only && (!variable.is_parameter || variable.in_inlined)) continue;
      if (!variable.location.is_available()) continue;
      PerfArgument argument{"", variable.name, ""};
      probe::VariablePath path{variable.name, {}, 0};
      auto fetched = fetch_variable(fetch_site(site), variable, path, argument_name(argument, path), "");
      if (fetched)
        text += fetched_text(*fetched);
      else
        note("left out: " + fetched.error().message());
    }
    return text;
  }

  Status define_return(const Site& site, const std::string& group, const std::string& event) {
    if (is_go() && !request_.force) return define_exits(site, group, event);
    line('r', group, event, site.offset, return_arguments(site));
    if (image_.symbols.language() == image::Language::Cpp)
      note("the kernel catches returns by changing the return address: a C++ exception that passes through " +
           site.function + " would terminate the program");
    return {};
  }

  // A probe on each exit of the function: Go checks its return addresses and would die of the kernel's trick.
  Status define_exits(const Site& site, const std::string& group, const std::string& event) {
    const auto* symbol = image_.symbols.function_at(site.address);
    auto code = symbol != nullptr ? symbols::function_code(image_.symbols, *symbol) : std::nullopt;
    if (!code) return fail("the code of " + site.function + " is not in " + image_.file.shown);
    x86::Flow flow = x86::analyze(*code);
    if (!flow.complete()) return fail("not every exit of " + site.function + " is known: " + flow.gap_text());
    for (const x86::Exit& exit : flow.exits()) {
      if (exit.kind != x86::ExitKind::ret) continue;
      auto offset = image_.symbols.file_offset(ImageAddr{exit.address});
      if (!offset) continue;
      Site at = site;
      at.address = ImageAddr{exit.address};
      at.offset = *offset;
      TRY(std::string arguments, go_results(at, site));
      line('p', group, event, *offset, arguments);
    }
    note(
        "a return probe of the kernel kills Go programs (unexpected return pc): these probes sit on the "
        "exits of " +
        site.function + " instead");
    return {};
  }

  // Go's results at a RET, where its calling convention puts them: $retval is all of them, as ret or ret0,
  // ret1, …
  Result<std::string> go_results(const Site& exit, const Site& entry) {
    auto function = image_.symbols.debug_info().function_at(entry.address);
    auto results = result_types(image_.symbols, entry.address);
    std::vector<std::string> names;
    for (const Variable& variable : function ? function->parameters : std::vector<Variable>())
      if (variable.is_result) names.push_back(variable.name);
    std::string text;
    for (const PerfArgument& argument : point_.arguments) {
      if (argument.expression != "$retval") {
        if (!argument.is_raw())
          return fail("`" + argument.expression +
                      "` is a variable of the entry; on return only $retval is certain");
        text += raw(argument);
        continue;
      }
      auto places = result_places(image_.symbols, entry.address, ResultUse(image_.symbols));
      if (!places) return fail("$retval " + places.error().message());
      if (!results || results->empty())
        return fail("the results of " + entry.function +
                    " are not known: " + (results ? "it has none" : image_.symbols.debug_info().why_empty()));
      for (size_t i = 0; i < results->size(); ++i) {
        Variable result;
        result.name = results->size() == 1 ? "ret" : "ret" + std::to_string(i);
        if (!names[i].starts_with('~')) result.name = identifier(names[i]);
        result.type = (*results)[i];
        result.location = (*places)[i];
        TRY(auto fetched,
            fetch_variable(fetch_site(exit), result, {result.name, {}, 0}, result.name, argument.type));
        text += fetched_text(fetched);
      }
    }
    return text;
  }

  std::string return_arguments(const Site& site) {
    std::string text;
    auto function = image_.symbols.debug_info().function_at(site.address);
    for (const PerfArgument& argument : point_.arguments) {
      if (argument.expression != "$retval") {
        if (argument.is_raw())
          text += raw(argument);
        else
          note("left out: `" + argument.expression +
               "` is a variable of the entry; on return only $retval is certain");
        continue;
      }
      std::string type = argument.type;
      image::TypeId returned = function ? function->return_type : image::TypeId{};
      if (type.empty() && returned) {
        auto lookup = image_.types();
        type = probe::kernel_type(image_.symbols.debug_info().type(returned), lookup);
        if (type.empty())
          note("the return value of " + site.function +
               " is not a plain number: what is shown is the register ax");
      }
      text += " " + (argument.name.empty() ? std::string("ret") : argument.name) + "=$retval" +
              (type.empty() ? "" : ":" + type);
    }
    return text;
  }

  const PerfProbeRequest& request_;
  const PerfImage& image_;
  const PerfPoint& point_;
  PerfProbeAnswer answer_;
  std::set<std::string> events_, notes_;
};

}  // namespace

Result<PerfProbeAnswer> probe_definition(const PerfProbeRequest& request, const std::string& text) {
  TRY(PerfImage image, open_perf_image(request));
  TRY(PerfPoint point, probe::parse_perf_point(text));
  TRY(std::vector<Site> sites, probe::resolve_point(image.symbols, point));
  return Definer(request, image, point).define(sites);
}

}  // namespace uscope::session
