#include "lang/c_condition.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace uscope::lang {
namespace {

constexpr int kDeepest = 200;

struct Operator {
  std::string_view text;
  int level;
};
constexpr std::array kOperators = {
    Operator{"||", 1}, Operator{"&&", 2}, Operator{"|", 3},  Operator{"^", 4}, Operator{"&", 5},
    Operator{"==", 6}, Operator{"!=", 6}, Operator{"<", 7},  Operator{">", 7}, Operator{"<=", 7},
    Operator{">=", 7}, Operator{"<<", 8}, Operator{">>", 8}, Operator{"+", 9}, Operator{"-", 9},
    Operator{"*", 10}, Operator{"/", 10}, Operator{"%", 10},
};

class Condition {
 public:
  explicit Condition(const std::vector<std::string>& words) : words_(words) {}

  std::optional<bool> holds() {
    int64_t value = ternary();
    if (failed_ || at_ != words_.size()) return std::nullopt;
    return value != 0;
  }

 private:
  std::string_view word() const { return at_ < words_.size() ? std::string_view(words_[at_]) : ""; }
  bool accept(std::string_view text) {
    if (at_ >= words_.size() || words_[at_] != text) return false;
    ++at_;
    return true;
  }

  int64_t ternary() {
    if (++depth_ > kDeepest) failed_ = true;
    int64_t value = failed_ ? 0 : binary(1);
    if (!failed_ && accept("?")) {
      int64_t yes = ternary();
      if (!accept(":")) failed_ = true;
      int64_t no = ternary();
      value = value != 0 ? yes : no;
    }
    --depth_;
    return value;
  }

  int64_t binary(int level) {
    if (level > 10) return unary();
    int64_t left = binary(level + 1);
    for (;;) {
      const Operator* found = nullptr;
      for (const Operator& each : kOperators)
        if (each.level == level && each.text == word()) found = &each;
      if (found == nullptr || failed_) return left;
      ++at_;
      left = apply(found->text, left, binary(level + 1));
    }
  }

  int64_t apply(std::string_view op, int64_t left, int64_t right) {
    auto a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right);
    if (op == "||") return left != 0 || right != 0;
    if (op == "&&") return left != 0 && right != 0;
    if (op == "|") return left | right;
    if (op == "^") return left ^ right;
    if (op == "&") return left & right;
    if (op == "==") return left == right;
    if (op == "!=") return left != right;
    if (op == "<") return left < right;
    if (op == ">") return left > right;
    if (op == "<=") return left <= right;
    if (op == ">=") return left >= right;
    if (op == "<<") return b < 64 ? static_cast<int64_t>(a << b) : 0;
    if (op == ">>") return b < 64 ? left >> b : 0;
    if (op == "+") return static_cast<int64_t>(a + b);
    if (op == "-") return static_cast<int64_t>(a - b);
    if (op == "*") return static_cast<int64_t>(a * b);
    if (right == 0 || right == -1) return op == "/" && right == -1 ? static_cast<int64_t>(0 - a) : 0;
    return op == "/" ? left / right : left % right;
  }

  int64_t unary() {
    if (++depth_ > kDeepest) failed_ = true;
    int64_t value = failed_ ? 0 : operand();
    --depth_;
    return value;
  }

  int64_t operand() {
    if (accept("!")) return unary() == 0;
    if (accept("~")) return ~unary();
    if (accept("-")) return static_cast<int64_t>(0 - static_cast<uint64_t>(unary()));
    if (accept("+")) return unary();
    if (accept("(")) {
      int64_t value = ternary();
      if (!accept(")")) failed_ = true;
      return value;
    }
    std::string_view text = word();
    if (text.empty()) failed_ = true;
    ++at_;
    return number(text);
  }

  static int64_t number(std::string_view text) {
    if (text.size() >= 3 && text.front() == '\'' && text[1] != '\\') return text[1];
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) return 0;  // a name
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X")) {
      base = 16;
      text.remove_prefix(2);
    } else if (text.size() > 1 && text.front() == '0') {
      base = 8;
    }
    uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, base);
    return static_cast<int64_t>(value);
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<bool> c_condition_holds(const std::vector<std::string>& words) {
  return Condition(words).holds();
}

}  // namespace uscope::lang
