#include "lang/split_probes.h"

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

struct Group {
  Arguments arguments;
  std::optional<Type> result;
  std::vector<AttachSpec> points;
};

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

std::vector<Group> group_by_values(std::vector<AttachSpec> points, const Reads& reads,
                                   const TypeSource& types) {
  std::vector<Group> groups;
  for (AttachSpec& point : points) {
    Arguments arguments = reads.arguments ? types.arguments(point)
                          : reads.numbers ? numbered(point, types)
                                          : std::nullopt;
    std::optional<Type> result = reads.result ? types.return_type(point) : std::nullopt;
    auto known = std::ranges::find_if(groups, [&](const Group& group) {
      return is_same(group.arguments, arguments) && group.result == result;
    });
    if (known == groups.end())
      known = groups.insert(groups.end(), Group{std::move(arguments), std::move(result), {}});
    known->points.push_back(std::move(point));
  }
  return groups;
}

}  // namespace

void split_probes(TypedProgram& program, const TypeSource& types) {
  std::vector<TypedProbe> split;
  for (TypedProbe& probe : program.probes) {
    Reads reads = probe.attach_points.size() < 2 ? Reads() : reads_of(probe);
    if (!reads.any()) {
      split.push_back(std::move(probe));
      continue;
    }
    auto groups = group_by_values(std::move(probe.attach_points), reads, types);
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
