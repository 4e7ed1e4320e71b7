// The same for C++: what is passed by reference behind the scenes, hidden and artificial parameters.
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
#define KEEP asm volatile("" ::: "memory")
#define SAY(...) (printf("CALL " __VA_ARGS__), printf("\n"), fflush(stdout))

namespace shop {
struct Point { int x; double y; };
class Item {
 public:
  explicit Item(int n) : n_(n) {}
  Item(const Item& other) : n_(other.n_) {}
  ~Item() { KEEP; }
  NOINLINE int method(int a, const Point& p) const { KEEP; return n_ + a + p.x; }
  NOINLINE static int fixed(int a, double b) { KEEP; return a + int(b); }
  NOINLINE virtual int virt(long a, float b) { KEEP; return n_ + int(a) + int(b); }
  int n_;
};
struct Base { virtual ~Base() = default; int b = 1; };
struct Left : virtual Base { int l = 2; };
struct Right : virtual Base { int r = 3; };
struct Both : Left, Right {
  NOINLINE explicit Both(int n) : o(n) { KEEP; }
  NOINLINE int get(int n) { KEEP; return o + n; }
  int o;
};
struct Derived : Item { Derived() : Item(5) {} NOINLINE int virt(long a, float b) override { KEEP; return int(a + b); } };
struct Empty {};
enum class Color : unsigned char { Red = 1, Blue = 200 };

NOINLINE int by_value(Item item, int n) { KEEP; return item.n_ + n; }
NOINLINE int two_items(int a, Item x, Item y, int b) { KEEP; return a + x.n_ + y.n_ + b; }
NOINLINE int text(const std::string& s, int n) { KEEP; return int(s.size()) + n; }
NOINLINE int text_value(std::string s, int n) { KEEP; return int(s.size()) + n; }
NOINLINE int overload(int a) { KEEP; return a; }
NOINLINE int overload(double a, int b) { KEEP; return int(a) + b; }
NOINLINE int rvalue(Point&& p, int n) { KEEP; return p.x + n; }
NOINLINE int owner(std::unique_ptr<int> p, int n) { KEEP; return *p + n; }
NOINLINE int tag(Empty e, int a, Empty f, int b) { KEEP; return a + b; }
NOINLINE int colors(Color c, bool b, char16_t u, wchar_t w) { KEEP; return int(c) + b + u + w; }
NOINLINE Item returns_item(int a, Point p) { KEEP; return Item(a + p.x); }
NOINLINE std::string returns_text(int a, double b) { KEEP; return std::to_string(a + int(b)); }
NOINLINE int member_pointers(int Item::*field, int (Item::*call)(int, const Point&) const, int n) { KEEP; return field != nullptr && call != nullptr ? n : 0; }
NOINLINE int null(std::nullptr_t p, int n) { KEEP; return n; }
template <typename T, int N> NOINLINE T templ(T a, const T (&list)[N], int n) { KEEP; return a + list[0] + T(n); }
template <typename... T> NOINLINE int pack(int n, T... rest) { KEEP; return n + int((0 + ... + int(rest))); }
static volatile int opaque;  // what all callers pass LLVM takes for a constant
template <class... T> NOINLINE int pack_first(T... t, int n) { KEEP; return n + int(sizeof...(t)); }
namespace { NOINLINE int hidden(int a, Point p, const char* s) { KEEP; return a + p.x + (s != nullptr); } }
}  // namespace shop

int main() {
  using namespace shop;
  volatile int r = 0;
  Item item(7);
  Point point{3, 4.5};
  SAY("shop::Item::method a=1 p={x=3 y=4.5}"); r += item.method(1, point);
  SAY("shop::Item::fixed a=2 b=2.5"); r += Item::fixed(2, 2.5);
  Derived derived;
  Item* virt = &derived;
  SAY("shop::Derived::virt a=3 b=1.5"); r += virt->virt(3, 1.5f);
  SAY("shop::Item::virt a=4 b=2.5"); r += item.Item::virt(4, 2.5f);
  SAY("shop::Both::Both n=9"); Both both(9);
  SAY("shop::Both::get n=10"); r += both.get(10);
  SAY("shop::by_value n=11"); r += by_value(item, 11);
  SAY("shop::two_items a=1 b=2"); r += two_items(1, item, item, 2);
  SAY("shop::text n=12"); r += text("hello", 12);
  SAY("shop::text_value n=13"); r += text_value("hello", 13);
  SAY("shop::overload a=14"); r += overload(14);
  SAY("shop::rvalue p={x=5 y=6.5} n=15"); r += rvalue(Point{5, 6.5}, 15);
  SAY("shop::owner n=16"); r += owner(std::make_unique<int>(1), 16);
  SAY("shop::tag a=17 b=18"); r += tag({}, 17, {}, 18);
  SAY("shop::colors c=200 b=true u=65 w=66"); r += colors(Color::Blue, true, u'A', L'B');
  SAY("shop::returns_item a=19 p={x=3 y=4.5}"); r += returns_item(19, point).n_;
  SAY("shop::returns_text a=20 b=1.5"); r += int(returns_text(20, 1.5).size());
  SAY("shop::member_pointers n=21"); r += member_pointers(&Item::n_, &Item::method, 21);
  SAY("shop::null n=22"); r += null(nullptr, 22);
  double list[2] = {1.5, 2.5};
  SAY("shop::templ<double, 2> a=0.5 list=[1.5 2.5] n=23"); r += int(templ<double, 2>(0.5, list, 23));
  SAY("shop::pack<char, double> n=24"); r += pack<char, double>(24, 'a', 2.5);
  SAY("shop::pack_first<char, double> n=27"); r += pack_first<char, double>('a', 2.5, opaque + 27);
  SAY("shop::(anonymous namespace)::hidden a=25 p={x=3 y=4.5} s=\"str\""); r += hidden(opaque + 25, point, "str");
  int captured = 5;
  auto lambda = [captured](int a, double b) __attribute__((noinline)) { KEEP; return a + int(b) + captured; };
  SAY("operator() a=26 b=7.5"); r += lambda(opaque + 26, opaque + 7.5);
  printf("%d\n", r);
}
