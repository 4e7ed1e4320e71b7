#include "image/usdt/operand.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace uscope::image {
namespace {

// <sys/sdt.h> stops at 12; others may not, but a thousand arguments are no probe.
constexpr size_t most_arguments = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_symbol_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '$';
}

struct Legacy {
  std::string_view qword, dword, word, byte;
};
// In DWARF's order.
constexpr std::array<Legacy, 8> legacy_registers = {{{"rax", "eax", "ax", "al"},
                                                     {"rdx", "edx", "dx", "dl"},
                                                     {"rcx", "ecx", "cx", "cl"},
                                                     {"rbx", "ebx", "bx", "bl"},
                                                     {"rsi", "esi", "si", "sil"},
                                                     {"rdi", "edi", "di", "dil"},
                                                     {"rbp", "ebp", "bp", "bpl"},
                                                     {"rsp", "esp", "sp", "spl"}}};

std::optional<unsigned> small_number(std::string_view text) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `name` comes without its %.
std::optional<UsdtRegister> parse_register(std::string_view name) {
  for (uint8_t i = 0; i < legacy_registers.size(); ++i) {
    const Legacy& names = legacy_registers[i];
    if (name == names.qword) return UsdtRegister{i, 8};
    if (name == names.dword) return UsdtRegister{i, 4};
    if (name == names.word) return UsdtRegister{i, 2};
    if (name == names.byte) return UsdtRegister{i, 1};
    if (i < 4 && name.size() == 2 && name[0] == names.byte[0] && name[1] == 'h')
      return UsdtRegister{i, 1, true};
  }
  if (name == "rip") return UsdtRegister{16, 8};
  if (name.starts_with("xmm")) {
    auto number = small_number(name.substr(3));
    return number && *number < 16 ? std::optional(UsdtRegister{uint8_t(17 + *number), 16}) : std::nullopt;
  }
  if (!name.starts_with('r')) return std::nullopt;
  uint8_t size = 8;
  if (name.ends_with('d')) size = 4;
  if (name.ends_with('w')) size = 2;
  if (name.ends_with('b')) size = 1;
  auto number = small_number(name.substr(1, name.size() - 1 - (size == 8 ? 0 : 1)));
  return number && *number >= 8 && *number < 16 ? std::optional(UsdtRegister{uint8_t(*number), size})
                                                : std::nullopt;
}

// A cursor over one operand. Every take_* either consumes what it names or leaves the text alone.
class OperandParser {
 public:
  explicit OperandParser(std::string_view text) : rest_(text) {}

  UsdtOperand parse() {
    UsdtOperand operand;
    bool understood = take('$') ? parse_constant(operand) : parse_place(operand);
    if (!understood || !rest_.empty()) return {};
    return operand;
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool parse_constant(UsdtOperand& operand) {
    operand.kind = UsdtOperand::Kind::Constant;
    return parse_sum(operand);
  }

  bool parse_place(UsdtOperand& operand) {
    if (rest_.starts_with("%fs:") || rest_.starts_with("%gs:")) {
      operand.segment = rest_[1];
      rest_.remove_prefix(4);
    } else if (rest_.starts_with('%')) {
      operand.kind = UsdtOperand::Kind::Register;
      operand.base = take_register();
      return operand.base.has_value() && operand.base->number != 16;
    }
    operand.kind = UsdtOperand::Kind::Memory;
    bool has_sum = !rest_.empty() && rest_[0] != '(';
    if (has_sum && !parse_sum(operand)) return false;
    bool has_registers = take('(');
    if (has_registers && !parse_registers(operand)) return false;
    if (!operand.base || operand.base->number != 16) return has_sum || has_registers;
    // foo(%rip) is the place of foo; a bare number would count from an instruction that does not exist.
    operand.base.reset();
    return !operand.symbol.empty() && !operand.index;
  }

  // base, index and scale, after the opening bracket.
  bool parse_registers(UsdtOperand& operand) {
    if (!rest_.starts_with(',')) {
      operand.base = take_register();
      if (!operand.base) return false;
    }
    if (take(',')) {
      operand.index = take_register();
      if (!operand.index) return false;
      if (take(',')) {
        auto scale = take_number();
        if (!scale || (*scale != 1 && *scale != 2 && *scale != 4 && *scale != 8)) return false;
        operand.scale = uint8_t(*scale);
      }
    }
    auto is_address = [](const std::optional<UsdtRegister>& r) { return !r || r->size == 8 || r->size == 4; };
    return is_address(operand.base) && is_address(operand.index) && take(')');
  }

  // Numbers and at most one symbol, added and subtracted: -8, foo+16, 8+foo.
  bool parse_sum(UsdtOperand& operand) {
    bool first = true;
    while (first || rest_.starts_with('+') || rest_.starts_with('-')) {
      bool negative = take('-');
      if (!negative) take('+');
      first = false;
      if (auto number = take_number()) {
        uint64_t magnitude = *number;
        operand.displacement =
            int64_t(uint64_t(operand.displacement) + (negative ? 0 - magnitude : magnitude));
        continue;
      }
      auto end = std::ranges::find_if_not(rest_, is_symbol_char);
      std::string_view symbol(rest_.begin(), end);
      if (symbol.empty() || is_digit(symbol[0]) || negative || !operand.symbol.empty()) return false;
      operand.symbol = symbol;
      rest_.remove_prefix(symbol.size());
    }
    return true;
  }

  std::optional<UsdtRegister> take_register() {
    if (!take('%')) return std::nullopt;
    auto end = std::ranges::find_if_not(rest_, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); });
    std::string_view name(rest_.begin(), end);
    rest_.remove_prefix(name.size());
    return parse_register(name);
  }

  std::optional<uint64_t> take_number() {
    if (rest_.empty() || !is_digit(rest_[0])) return std::nullopt;
    bool hex = rest_.starts_with("0x") || rest_.starts_with("0X");
    std::string_view digits = hex ? rest_.substr(2) : rest_;
    uint64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (error != std::errc()) return std::nullopt;
    rest_ = digits.substr(size_t(end - digits.data()));
    return value;
  }

  std::string_view rest_;
};

// The length of a size prefix ("-4@", "8f@") at the start of the text, or 0.
size_t prefix_length(std::string_view text) {
  size_t i = text.starts_with('-') ? 1 : 0, digits = i;
  while (i < text.size() && is_digit(text[i])) ++i;
  if (i == digits || i - digits > 2) return 0;
  if (i < text.size() && text[i] == 'f') ++i;
  return i < text.size() && text[i] == '@' ? i + 1 : 0;
}

UsdtArgument parse_argument(std::string_view text) {
  UsdtArgument argument;
  argument.text = text;
  size_t prefix = prefix_length(text);
  if (prefix != 0) {
    argument.is_signed = text[0] == '-';
    argument.is_float = text[prefix - 2] == 'f';
    std::string_view digits =
        text.substr(argument.is_signed, prefix - 1 - argument.is_signed - argument.is_float);
    unsigned size = small_number(digits).value_or(0);
    argument.size = uint8_t(size);
    if (size != 1 && size != 2 && size != 4 && size != 8) return argument;
  }
  argument.operand = OperandParser(text.substr(prefix)).parse();
  // Notes of old compilers have no size: a register says how wide it is.
  if (prefix == 0 && argument.operand.kind == UsdtOperand::Kind::Register) {
    argument.size = std::min<uint8_t>(argument.operand.base->size, 8);
  }
  return argument;
}

}  // namespace

std::vector<UsdtArgument> parse_usdt_arguments(std::string_view text) {
  // Arguments are set apart by spaces, but Intel syntax has spaces inside: an argument ends where a space is
  // followed by the next size prefix. Without any prefixes every space separates.
  bool has_prefixes = prefix_length(text.substr(std::min(text.find_first_not_of(' '), text.size()))) != 0;
  std::vector<UsdtArgument> arguments;
  while (arguments.size() < most_arguments) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) break;
    size_t end = text.find(' ');
    while (has_prefixes && end != std::string_view::npos && prefix_length(text.substr(end + 1)) == 0 &&
           text.find_first_not_of(' ', end) != std::string_view::npos) {
      end = text.find(' ', end + 1);
    }
    arguments.push_back(parse_argument(text.substr(0, end)));
    text.remove_prefix(std::min(end, text.size()));
  }
  return arguments;
}

}  // namespace uscope::image
