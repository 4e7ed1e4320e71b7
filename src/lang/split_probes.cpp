#include "lang/split_probes.h"

#include <algorithm>
#include <optional>

#include "lang/walk.h"

namespace uscope::lang {
namespace {

using Arguments = std::optional<std::vector<NamedValue>>;

bool is_args(const Expr& expr) {
  if (const auto* builtin = expr.as<Builtin>()) return builtin->name == "args";
  const auto* identifier = expr.as<Identifier>();
  return identifier && identifier->name == "args";
}

bool reads_arguments(TypedProbe& probe) {
  bool found = false;
  auto look = [&found](Expr& expr) { found = found || is_args(expr); };
  if (probe.predicate) rewrite(probe.predicate, look);
  rewrite(probe.body, look);
  return found;
}

bool is_same(const Arguments& a, const Arguments& b) {
  if (!a || !b) return !a && !b;
  return std::ranges::equal(
      *a, *b, [](const NamedValue& x, const NamedValue& y) { return x.name == y.name && x.type == y.type; });
}

struct Group {
  Arguments arguments;
  std::vector<AttachSpec> points;
};

std::vector<Group> group_by_arguments(std::vector<AttachSpec> points, const TypeSource& types) {
  std::vector<Group> groups;
  for (AttachSpec& point : points) {
    Arguments arguments = types.arguments(point);
    auto known =
        std::ranges::find_if(groups, [&](const Group& g) { return is_same(g.arguments, arguments); });
    if (known == groups.end()) known = groups.insert(groups.end(), Group{std::move(arguments), {}});
    known->points.push_back(std::move(point));
  }
  return groups;
}

}  // namespace

void split_probes(TypedProgram& program, const TypeSource& types) {
  std::vector<TypedProbe> split;
  for (TypedProbe& probe : program.probes) {
    if (probe.attach_points.size() < 2 || !reads_arguments(probe)) {
      split.push_back(std::move(probe));
      continue;
    }
    auto groups = group_by_arguments(std::move(probe.attach_points), types);
    for (size_t i = 0; i + 1 < groups.size(); ++i) {
      TypedProbe part;
      part.span = probe.span;
      part.attach_points = std::move(groups[i].points);
      if (probe.predicate) part.predicate = clone(*probe.predicate);
      part.body = clone(probe.body);
      split.push_back(std::move(part));
    }
    probe.attach_points = std::move(groups.back().points);
    split.push_back(std::move(probe));
  }
  program.probes = std::move(split);
}

}  // namespace uscope::lang
