#include "lang/split_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lang/functions.h"
#include "lang/walk.h"

namespace uscope::lang {
namespace {

using Arguments = std::optional<std::vector<NamedValue>>;

struct Reads {
  bool arguments = false, numbers = false, result = false;

  bool any() const { return arguments || numbers || result; }
};

Reads reads_of(TypedProbe& probe) {
  Reads reads;
  auto look = [&reads](Expr& expr) {
    const auto* builtin = expr.as<Builtin>();
    const auto* identifier = expr.as<Identifier>();
    std::string_view name = builtin ? builtin->name : identifier ? identifier->name : std::string_view();
    reads.arguments |= name == "args";
    reads.numbers |= argument_number(name) >= 0;
    reads.result |= name == "retval" || name == "__builtin_retval";
  };
  if (probe.predicate) rewrite(probe.predicate, look);
  rewrite(probe.body, look);
  return reads;
}

bool is_same(const Arguments& a, const Arguments& b) {
  if (!a || !b) return !a && !b;
  return std::ranges::equal(
      *a, *b, [](const NamedValue& x, const NamedValue& y) { return x.name == y.name && x.type == y.type; });
}

struct Point {
  AttachSpec spec;
  std::optional<Type> result;  // what its function returns; nothing: not known
};

struct Group {
  Arguments arguments;
  std::optional<Type> result;
  std::vector<AttachSpec> points;
};

bool is_number(const Point& point) { return !point.result || point.result->is_scalar(); }

// Mangled names are long: one or two.
std::string names_of(const std::vector<Point>& points) {
  std::string text = points.front().spec.function;
  if (points.size() == 2) text += " and " + points.back().spec.function;
  if (points.size() > 2) text += fmt::format(" and {} more", points.size() - 1);
  return text;
}

// Takes out the points that `is_kept` does not hold for.
template <typename IsKept>
std::vector<Point> take_out(std::vector<Point>& points, IsKept is_kept) {
  auto others = std::ranges::stable_partition(points, is_kept);
  std::vector<Point> left_out(std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  points.erase(others.begin(), others.end());
  return left_out;
}

// Beside functions whose results are known, those whose are not. Where there are only such, the first is an
// error when its result is read.
void leave_out_unknown(std::vector<Point>& points, Span span, const TypeSource& types,
                       Diagnostics& diagnostics) {
  std::string reason;
  std::vector<Point> left_out = take_out(points, [&](const Point& point) {
    std::string why = types.why_no_result(point.spec);
    if (reason.empty()) reason = why;
    return why.empty();
  });
  if (left_out.empty()) return;
  if (points.empty()) {
    points = std::move(left_out);
    return;
  }
  diagnostics.warning(
      span, fmt::format("`retval`: {} of {} functions are left out: {}; of the first, it {}", left_out.size(),
                        left_out.size() + points.size(), names_of(left_out), reason));
}

// Numbers of different kinds become integers; beside them, what is no number is left out.
void settle_results(std::vector<Point>& points, Span span, Diagnostics& diagnostics) {
  auto is_like_first = [&](const Point& point) { return point.result == points.front().result; };
  if (std::ranges::all_of(points, is_like_first) || std::ranges::none_of(points, is_number)) return;
  size_t all = points.size();
  std::vector<Point> left_out = take_out(points, is_number);
  if (!left_out.empty())
    diagnostics.warning(span, fmt::format("`retval`: {} of {} functions are left out, as what they return is "
                                          "no number: {}; probe them by themselves",
                                          left_out.size(), all, names_of(left_out)));
  if (std::ranges::all_of(points, is_like_first)) return;
  for (Point& point : points)
    point.result = point.result ? Type::integer(unsigned(point.result->size() * 8), point.result->is_signed())
                                : Type::uint64();
}

// arg0 and so on of static probes, which are registers' contents or floating-point numbers.
Arguments numbered(const AttachSpec& point, const TypeSource& types) {
  if (point.kind != ProbeKind::kUsdt) return std::nullopt;
  Arguments arguments = types.arguments(point);
  if (!arguments || std::ranges::none_of(
                        *arguments, [](const NamedValue& value) { return value.type.is(TypeKind::kFloat); }))
    return std::nullopt;
  for (NamedValue& value : *arguments)
    if (!value.type.is(TypeKind::kFloat)) value.type = Type::uint64();
  return arguments;
}

std::vector<Group> group_by_values(std::vector<Point> points, const Reads& reads, const TypeSource& types) {
  std::vector<Group> groups;
  for (Point& point : points) {
    Arguments arguments = reads.arguments ? types.arguments(point.spec)
                          : reads.numbers ? numbered(point.spec, types)
                                          : std::nullopt;
    auto known = std::ranges::find_if(groups, [&](const Group& group) {
      return is_same(group.arguments, arguments) && group.result == point.result;
    });
    if (known == groups.end())
      known = groups.insert(groups.end(), Group{std::move(arguments), std::move(point.result), {}});
    known->points.push_back(std::move(point.spec));
  }
  return groups;
}

}  // namespace

void split_probes(TypedProgram& program, const TypeSource& types, Diagnostics& diagnostics) {
  std::vector<TypedProbe> split;
  for (TypedProbe& probe : program.probes) {
    Reads reads = probe.attach_points.size() < 2 ? Reads() : reads_of(probe);
    if (!reads.any()) {
      split.push_back(std::move(probe));
      continue;
    }
    // bpftrace takes what the register for results holds for a number.
    bool has_types = reads.result && !program.settings.as_bpftrace;
    std::vector<Point> points;
    for (AttachSpec& spec : probe.attach_points) {
      auto result = has_types ? types.return_type(spec) : std::nullopt;
      points.push_back({std::move(spec), std::move(result)});
    }
    if (has_types) {
      settle_results(points, probe.span, diagnostics);
      leave_out_unknown(points, probe.span, types, diagnostics);
    }
    auto groups = group_by_values(std::move(points), reads, types);
    auto result_of = [&](const Group& group) -> std::optional<Type> {
      if (reads.result && program.settings.as_bpftrace) return Type::uint64();
      bool is_integer = group.result && group.result->is(TypeKind::kInt);
      return groups.size() > 1 && is_integer ? group.result : std::nullopt;
    };
    for (size_t i = 0; i + 1 < groups.size(); ++i) {
      TypedProbe part;
      part.span = probe.span;
      part.attach_points = std::move(groups[i].points);
      part.result = result_of(groups[i]);
      if (probe.predicate) part.predicate = clone(*probe.predicate);
      part.body = clone(probe.body);
      split.push_back(std::move(part));
    }
    probe.attach_points = std::move(groups.back().points);
    probe.result = result_of(groups.back());
    split.push_back(std::move(probe));
  }
  program.probes = std::move(split);
}

}  // namespace uscope::lang
