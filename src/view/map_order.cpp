#include "view/map_order.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <numeric>

namespace uscope::view {
namespace {

using event::Integer;
using event::Value;
using Order = std::strong_ordering;

Order compare(const Value& a, const Value& b);

// Numbers of both signs in one order.
Order compare(const Integer& a, const Integer& b) {
  if (a.is_negative() != b.is_negative()) return a.is_negative() ? Order::less : Order::greater;
  return a.bits <=> b.bits;
}

Order compare(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end(),
                                                [](const Value& x, const Value& y) { return compare(x, y); });
}

// Two of a kind.
struct SameKind {
  const Value& other;

  template <typename T>
  const T& right() const {
    return *other.get_if<T>();
  }

  Order operator()(bool a) const { return a <=> right<bool>(); }
  Order operator()(const Integer& a) const { return compare(a, right<Integer>()); }
  Order operator()(const event::Float& a) const {
    return std::strong_order(a.number, right<event::Float>().number);
  }
  Order operator()(const event::EnumValue& a) const {
    return compare(a.number, right<event::EnumValue>().number);
  }
  Order operator()(const event::Pointer& a) const { return a.address <=> right<event::Pointer>().address; }
  Order operator()(const std::string& a) const { return a.compare(right<std::string>()) <=> 0; }
  Order operator()(const event::Buffer& a) const {
    return a.bytes.compare(right<event::Buffer>().bytes) <=> 0;
  }
  Order operator()(const event::Tuple& a) const {
    return compare(a.elements, right<event::Tuple>().elements);
  }
  Order operator()(const event::Array& a) const {
    return compare(a.elements, right<event::Array>().elements);
  }
  Order operator()(const event::Record& a) const {
    const auto& b = right<event::Record>();
    return std::lexicographical_compare_three_way(
        a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end(),
        [](const auto& x, const auto& y) { return compare(x.second, y.second); });
  }
  Order operator()(const event::Stack& a) const { return a.addresses <=> right<event::Stack>().addresses; }
  Order operator()(const event::Symbol& a) const { return a.address <=> right<event::Symbol>().address; }
  Order operator()(const event::Inet& a) const { return a.address <=> right<event::Inet>().address; }
  Order operator()(const event::MacAddress& a) const {
    return a.address <=> right<event::MacAddress>().address;
  }
  Order operator()(const event::Timestamp& a) const {
    return a.nanoseconds <=> right<event::Timestamp>().nanoseconds;
  }
  Order operator()(const event::Username& a) const { return a.uid <=> right<event::Username>().uid; }
  Order operator()(const event::CgroupPath& a) const { return a.id <=> right<event::CgroupPath>().id; }
  Order operator()(const event::Strerror& a) const { return a.number <=> right<event::Strerror>().number; }
  // No keys of a map.
  template <typename T>
  Order operator()(const T&) const {
    return Order::equal;
  }
};

Order compare(const Value& a, const Value& b) {
  if (a.data.index() != b.data.index()) return a.data.index() <=> b.data.index();
  return std::visit(SameKind{b}, a.data);
}

// Numbers in the order of the floats: a negative one's bits count the other way.
Integer weight_of(double number) {
  auto bits = std::bit_cast<uint64_t>(number);
  if (bits >> 63 != 0) bits ^= uint64_t(INT64_MAX);
  return Integer{bits, true, 8};
}

// What an entry weighs; all the same for values that have no size, which are then ordered by key.
Integer weight_of(const Value& value) {
  if (auto* number = value.get_if<Integer>()) return *number;
  if (auto* pointer = value.get_if<event::Pointer>()) return Integer{pointer->address, false, 8};
  if (auto* constant = value.get_if<event::EnumValue>()) return constant->number;
  if (auto* real = value.get_if<event::Float>()) return weight_of(real->number);
  if (auto* average = value.get_if<event::Average>()) return average->value;
  if (auto* stats = value.get_if<event::Stats>()) return stats->average;
  if (auto* histogram = value.get_if<event::Histogram>()) {
    return Integer{std::accumulate(histogram->counts.begin(), histogram->counts.end(), uint64_t{0}), false,
                   8};
  }
  return Integer{};
}

Integer divided_integer(const Integer& number, uint64_t divisor) {
  Integer out = number;
  if (number.is_negative()) {
    out.bits = uint64_t{0} - (uint64_t{0} - number.bits) / divisor;
  } else {
    out.bits = number.bits / divisor;
  }
  return out;
}

}  // namespace

std::vector<const event::MapEntry*> ordered_entries(const event::MapContents& map, uint64_t top) {
  struct Weighed {
    Integer weight;
    const event::MapEntry* entry;
  };
  std::vector<Weighed> weighed;
  weighed.reserve(map.entries.size());
  for (const auto& entry : map.entries) weighed.push_back({weight_of(entry.value), &entry});
  std::ranges::sort(weighed, [](const Weighed& a, const Weighed& b) {
    if (Order order = compare(a.weight, b.weight); order != 0) return order < 0;
    if (!a.entry->key || !b.entry->key) return false;
    return compare(*a.entry->key, *b.entry->key) < 0;
  });
  bool is_series = !map.entries.empty() && map.entries.front().value.is<event::TimeSeries>();
  size_t skip = top != 0 && top < weighed.size() && !is_series ? weighed.size() - top : 0;
  std::vector<const event::MapEntry*> out;
  out.reserve(weighed.size() - skip);
  for (size_t i = skip; i < weighed.size(); ++i) out.push_back(weighed[i].entry);
  return out;
}

event::Value divided(const event::Value& value, uint64_t divisor) {
  event::Value out = value;
  if (divisor <= 1) return out;
  if (auto* number = std::get_if<Integer>(&out.data)) {
    *number = divided_integer(*number, divisor);
  } else if (auto* average = std::get_if<event::Average>(&out.data)) {
    average->value = divided_integer(average->value, divisor);
  } else if (auto* stats = std::get_if<event::Stats>(&out.data)) {
    // bpftrace leaves the count and the total.
    stats->average = divided_integer(stats->average, divisor);
  } else if (auto* histogram = std::get_if<event::Histogram>(&out.data)) {
    for (uint64_t& count : histogram->counts) count /= divisor;
  }
  return out;
}

}  // namespace uscope::view
