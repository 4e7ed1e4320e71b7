// Containers of containers: many types, many small functions.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace unit0000 {

struct Order {
  int id;
  std::string item;
  double price;
  std::vector<std::string> tags;
};

template <int N>
struct Store {
  std::map<std::string, std::vector<Order>> by_name;
  std::unordered_map<int, std::shared_ptr<Order>> by_id;
  std::set<std::tuple<int, double, std::string>> sorted;
  std::deque<std::variant<int, double, std::string, Order>> log;
  std::array<int, N> counts{};

  void add(const Order& order) {
    by_name[order.item].push_back(order);
    by_id[order.id] = std::make_shared<Order>(order);
    sorted.emplace(order.id, order.price, order.item);
    log.emplace_back(order);
    counts[order.id % N]++;
  }
  double total(const std::function<bool(const Order&)>& wanted) const {
    double sum = 0;
    for (const auto& [name, orders] : by_name) {
      sum += std::count_if(orders.begin(), orders.end(), wanted);
    }
    return sum;
  }
};

template <int... N>
double all(const Order& order, std::integer_sequence<int, N...>) {
  double sum = 0;
  ((
       [&] {
         static Store<N + 1> store;
         store.add(order);
         sum += store.total([&](const Order& o) { return o.id != order.id + N; });
       }()),
   ...);
  return sum;
}

}  // namespace unit0000

extern "C" __attribute__((noinline)) int work_unit0000(int count, const char* name, double price) {
  unit0000::Order order{count, name, price, {"a", name}};
  return (int)unit0000::all(order, std::make_integer_sequence<int, 24>());
}
