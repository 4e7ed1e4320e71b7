// Regular expressions, streams, futures and ranges: the deep templates of the standard library.
#include <algorithm>
#include <chrono>
#include <future>
#include <iomanip>
#include <iostream>
#include <locale>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace unit0000 {

struct Token {
  std::string text;
  size_t line;
  std::optional<double> value;
};

template <typename T>
class Parser {
 public:
  explicit Parser(const std::string& pattern) : pattern_(pattern) {}
  std::vector<Token> parse(const std::string& text, T scale) const {
    std::vector<Token> tokens;
    for (std::sregex_iterator it(text.begin(), text.end(), pattern_), end; it != end; ++it) {
      tokens.push_back({it->str(), (size_t)it->position(), (double)scale});
    }
    std::ranges::sort(tokens, {}, &Token::text);
    return tokens;
  }

 private:
  std::regex pattern_;
  std::map<std::string, std::vector<T>> cache_;
};

}  // namespace unit0000

extern "C" __attribute__((noinline)) int work_unit0000(int count, const char* name, double price) {
  unit0000::Parser<int> ints("[0-9]+");
  unit0000::Parser<double> reals("[0-9.]+");
  unit0000::Parser<unsigned char> bytes("x[0-9a-f]");
  std::ostringstream out;
  out << std::setw(count) << name << price;
  auto tokens = ints.parse(out.str(), count);
  auto more = reals.parse(out.str(), price);
  auto last = std::async(std::launch::deferred, [&] { return bytes.parse(name, (unsigned char)count).size(); });
  return (int)(tokens.size() + more.size() + last.get());
}
