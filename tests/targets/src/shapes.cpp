// C++ beyond strings: namespaces, templates, overloads, virtual and multiple inheritance, lambdas, operators.
#include <array>
#include <functional>
#include <string>

#include "driver.h"

namespace geo {

struct Named {
  virtual ~Named() = default;
  std::string name;
};

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
  int id = 0;
};

class Square : public Shape, public Named {
 public:
  explicit Square(double side);
  double area() const override;
  bool operator<(const Square& other) const;

 private:
  double side_;
  char tag_ = 's';  // a hole follows
  long long serial_ = 1;
};

struct Base {
  int base = 1;
  virtual int who() const;
};
struct Left : virtual Base {
  int left = 2;
};
struct Right : virtual Base {
  int right = 3;
};
struct Diamond : Left, Right {
  int who() const override;
};

KEEP Square::Square(double side) : side_(side) { name = "square"; }
KEEP double Square::area() const { return side_ * side_ + (double)serial_ - 1; }
KEEP bool Square::operator<(const Square& other) const { return side_ < other.side_ && tag_ == other.tag_; }
KEEP int Base::who() const { return base; }
KEEP int Diamond::who() const { return base + left + right; }

enum class Unit : unsigned char { Metre, Foot = 10 };

namespace detail {
KEEP double convert(double value, Unit unit) { return unit == Unit::Foot ? value * 3 : value; }
}  // namespace detail

template <typename T, int N>
struct Ring {
  std::array<T, N> items{};
  int at = 0;
  KEEP void push(T item) { items[at++ % N] = item; }
  template <typename U>
  KEEP U sum_as() const {
    U sum{};
    for (const T& item : items) sum += (U)item;
    return sum;
  }
};

template <typename T>
KEEP T biggest(T a, T b) {
  return a < b ? b : a;
}

}  // namespace geo

namespace {
KEEP int secret(int x) { return x ^ 1; }
}  // namespace

KEEP int overloaded(int x) { return x; }
KEEP int overloaded(double x) { return (int)x + 1; }
KEEP int overloaded(const char* text, int n = 2) { return (int)strlen(text) + n; }
KEEP double total_area(const geo::Shape& a, const geo::Shape* b) { return a.area() + b->area(); }
KEEP int call_back(const std::function<int(int)>& f, int x) { return f(x); }

static void round_of_calls(int i) {
  geo::Square a(2), b(i);
  geo::Diamond diamond;
  geo::Ring<int, 4> ring;
  geo::Ring<double, 2> reals;
  int captured = 10;
  auto lambda = [captured](int x) KEEP { return x + captured; };
  ring.push(i);
  reals.push(0.5);
  say("CALL total_area = %g\n", total_area(a, &b));
  say("CALL geo::Diamond::who = %d\n", static_cast<geo::Base&>(diamond).who());
  say("CALL geo::detail::convert = %g\n", geo::detail::convert(1.5, geo::Unit::Foot));
  say("CALL geo::Ring<int, 4>::sum_as<long> = %ld\n", ring.sum_as<long>());
  say("CALL geo::Ring<double, 2>::sum_as<double> = %g\n", reals.sum_as<double>());
  say("CALL geo::biggest<int> = %d\n", geo::biggest(i, 3));
  say("CALL geo::biggest<double> = %g\n", geo::biggest(0.5, 0.25));
  say("CALL secret = %d\n", secret(i));
  say("CALL overloaded = %d %d %d\n", overloaded(i), overloaded(2.5), overloaded("abc"));
  say("CALL less = %d\n", a < b);
  say("CALL call_back = %d lambda = %d\n", call_back(lambda, i), lambda(1));
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
