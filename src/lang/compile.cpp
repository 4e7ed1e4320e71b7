#include "lang/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lang/fold.h"
#include "lang/macros.h"
#include "lang/parser.h"
#include "lang/resolver.h"
#include "lang/split_probes.h"

namespace uscope::lang {
namespace {

constexpr size_t kMaxImports = 100;

// Macros, functions, maps and probes of imported scripts come before the script's own.
bool import_scripts(Program& program, SourceSet& sources, const ScriptLoader& loader,
                    std::set<std::string>& seen, Diagnostics& diagnostics) {
  std::vector<Item> out;
  for (Item& item : program.items) {
    const auto* import = std::get_if<TopImport>(&item);
    if (import == nullptr) {
      out.push_back(std::move(item));
      continue;
    }
    if (!seen.insert(import->path).second) continue;
    auto text = loader && seen.size() <= kMaxImports ? loader(import->path) : std::nullopt;
    if (!text) {
      diagnostics.error(import->span, fmt::format("Cannot import '{}'", import->path));
      return false;
    }
    auto imported = parse(sources, sources.add(import->path, std::move(*text)), diagnostics);
    if (!imported || !import_scripts(*imported, sources, loader, seen, diagnostics)) return false;
    for (CDefinition& definition : imported->c_definitions)
      program.c_definitions.push_back(std::move(definition));
    for (Item& inner : imported->items) out.push_back(std::move(inner));
  }
  program.items = std::move(out);
  return true;
}

void declare_map(TypedProgram& out, const MapDeclaration& declaration, Diagnostics& diagnostics) {
  static constexpr std::array<std::string_view, 4> kKinds = {"percpulruhash", "percpuhash", "lruhash",
                                                             "hash"};
  if (std::ranges::find(kKinds, declaration.kind) == kKinds.end()) {
    diagnostics.error(declaration.span, fmt::format("Invalid bpf map type: {}", declaration.kind)).hint =
        "Valid map types: percpulruhash, percpuhash, lruhash, hash";
  }
  auto [at, added] = out.maps.try_emplace(declaration.name);
  if (!added) {
    diagnostics.error(declaration.span, fmt::format("Redeclaration of existing map: {}", declaration.name));
    return;
  }
  MapInfo& info = at->second;
  info.name = declaration.name;
  info.span = declaration.span;
  info.kind = declaration.kind;
  info.max_entries = declaration.max_entries;
  info.declared = true;
  if (declaration.max_entries == 0 || declaration.max_entries > UINT32_MAX) {
    diagnostics.error(declaration.span, "Max entries must be between 1 and 4294967295");
  }
}

// An attach point that is not there: the script's setting says how bad that is.
void say_missing(const ProbeMatches& matches, Span span, MissingProbes how, Diagnostics& diagnostics) {
  if (matches.missing.empty() || how == MissingProbes::kIgnore) return;
  if (!matches.unattached.empty()) {
    constexpr Span kNowhere{0, 0, UINT32_MAX};
    bool is_error = how == MissingProbes::kError;
    auto say = [&](std::string text) {
      is_error ? diagnostics.error(kNowhere, std::move(text))
               : diagnostics.warning(kNowhere, std::move(text));
    };
    say(matches.missing);
    say(fmt::format("Unable to attach probe: {}.{}", matches.unattached,
                    is_error ? " If this is expected, set the 'missing_probes' config variable to 'warn'."
                             : " Skipping."));
    return;
  }
  Diagnostic& said = how == MissingProbes::kError ? diagnostics.error(span, matches.missing)
                                                  : diagnostics.warning(span, matches.missing + " Skipping.");
  said.hint = matches.hint;
}

void say_empty(Span span, const std::string& hint, MissingProbes how, Diagnostics& diagnostics) {
  if (how == MissingProbes::kError) {
    diagnostics
        .error(span,
               "Probe has no valid attach points. If this is expected, set the 'missing_probes' config "
               "variable to 'warn'.")
        .hint = hint;
  } else if (how == MissingProbes::kWarn) {
    diagnostics.warning(span,
                        "Probe has no valid attach points. It is being removed which may cause issues with "
                        "program behavior.");
  }
}

void add_probe(TypedProgram& out, Probe& probe, const CompileInputs& inputs, Diagnostics& diagnostics) {
  TypedProbe typed;
  typed.span = probe.head;
  size_t errors = diagnostics.error_count();
  std::string hint;
  for (const AttachPoint& point : probe.attach_points) {
    auto spec = parse_attach_point(point.text, point.span, inputs.command_line.positional, diagnostics);
    if (!spec) continue;
    if (!inputs.matcher) {
      typed.attach_points.push_back(std::move(*spec));
      continue;
    }
    ProbeMatches matches = inputs.matcher(*spec, diagnostics);
    if (matches.found.empty()) {
      say_missing(matches, point.span, out.settings.missing_probes, diagnostics);
      hint = matches.hint;
    }
    for (AttachSpec& match : matches.found) typed.attach_points.push_back(std::move(match));
  }
  typed.predicate = std::move(probe.predicate);
  typed.body = std::move(probe.body);
  if (!typed.attach_points.empty())
    out.probes.push_back(std::move(typed));
  else if (diagnostics.error_count() == errors)
    say_empty(probe.head, hint, out.settings.missing_probes, diagnostics);
}

// In the words that bpftrace's C compiler has for it: its script of definitions begins on line 2.
void check_headers(const CTypes& c_types, const CompileInputs& inputs, Diagnostics& diagnostics) {
  size_t line = 1;
  for (const CTypes::Include& include : c_types.includes()) {
    ++line;
    if (include.spelled.size() < 2) continue;
    std::string name = include.spelled.substr(1, include.spelled.find_last_of(">\"") - 1);
    if (inputs.find_header && !inputs.find_header(name, ""))
      diagnostics.error(include.span,
                        fmt::format("definitions.h:{}:10: fatal error: '{}' file not found", line, name));
  }
}

// The type of a parameter or result, of the plain kinds that functions take.
Type signature_type(const TypeSpec& spec, const CTypes& c_types, const TypeSource& types,
                    Diagnostics& diagnostics) {
  std::optional<Type> type;
  if (spec.name == "void") type = Type::void_type();
  if (spec.name == "bool") type = Type::boolean();
  if (spec.name == "string") type = Type::string(spec.dimensions.size() == 1 ? spec.dimensions[0] : 0);
  if (!type) type = find_c_base_type(spec.name);
  if (!type) type = c_types.find_type(spec.name);
  if (auto known = type ? std::nullopt : types.find_written(spec.name, nullptr)) {
    type = known->type;
    if (!known->doubt.empty()) diagnostics.warning(spec.span, known->doubt);
  }
  if (!type) {
    diagnostics.error(spec.span, fmt::format("Cannot resolve unknown type \"{}\"", spec.name));
    return Type();
  }
  for (uint32_t i = 0; i < spec.pointers; ++i) type = Type::pointer(*type, AddressSpace::kUser);
  return *type;
}

void add_function(TypedProgram& out, Function& function, const TypeSource& types, Diagnostics& diagnostics) {
  TypedFunction typed;
  typed.span = function.span;
  typed.name = function.name;
  for (const TypedFunction& other : out.functions) {
    if (other.name == function.name) {
      diagnostics.error(function.name_span, fmt::format("Redefinition of function: {}", function.name));
    }
  }
  for (Parameter& parameter : function.parameters) {
    typed.parameters.push_back(static_cast<uint32_t>(typed.variables.size()));
    typed.variables.push_back(VariableInfo{
        parameter.name, signature_type(parameter.type, out.c_types, types, diagnostics), parameter.span});
  }
  typed.result = signature_type(function.result, out.c_types, types, diagnostics);
  typed.body = std::move(function.body);
  out.functions.push_back(std::move(typed));
}

}  // namespace

std::optional<TypedProgram> compile(SourceSet& sources, uint32_t source, const CompileInputs& inputs,
                                    const TypeSource& types, Diagnostics& diagnostics) {
  auto program = parse(sources, source, diagnostics);
  if (!program) return std::nullopt;
  TypedProgram out;
  std::set<std::string> seen;
  out.settings = read_settings(*program, inputs.environment, diagnostics);
  out.settings.as_bpftrace = inputs.as_bpftrace;
  if (!import_scripts(*program, sources, inputs.loader, seen, diagnostics)) return std::nullopt;
  out.options = apply_parameters(*program, inputs.command_line, diagnostics);
  CTypes::Outside outside{inputs.find_header, inputs.included_headers, inputs.knows_kernel_types};
  out.c_types = CTypes::read(*program, sources, types, outside, diagnostics);
  check_headers(out.c_types, inputs, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  expand_macros(*program, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  expand_defines(*program, out.c_types, sources, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  fold_constants(*program, diagnostics);
  for (Item& item : program->items) {
    if (auto* map = std::get_if<MapDeclaration>(&item)) declare_map(out, *map, diagnostics);
    if (auto* function = std::get_if<Function>(&item)) add_function(out, *function, types, diagnostics);
    if (auto* probe = std::get_if<Probe>(&item)) add_probe(out, *probe, inputs, diagnostics);
  }
  if (diagnostics.has_errors()) return std::nullopt;
  split_probes(out, types, diagnostics);
  Resolver(out, types, ResolverOptions{inputs.allow_unsafe}, diagnostics).run();
  if (diagnostics.has_errors()) return std::nullopt;
  return out;
}

}  // namespace uscope::lang
