#include "event/render.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iterator>

namespace uscope::event {
namespace {

// As the C library describes a signal, which has no reentrant way to ask for it but this.
std::string signal_text(int number) {
  const char* text = number > 0 && number < NSIG ? sigdescr_np(number) : nullptr;
  return text != nullptr ? text : fmt::format("Unknown signal {}", number);
}

class Renderer {
 public:
  Renderer(std::string& out, SymbolNames& names, Spacing spacing)
      : out_(out), names_(names), compact_(spacing == Spacing::Compact) {}

  void operator()(std::monostate) { out_ += "null"; }
  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(const Integer& number) { append_integer(out_, number); }
  void operator()(const Float& value) {
    if (value.size == 4) {
      fmt::format_to(std::back_inserter(out_), "{}", static_cast<float>(value.number));
    } else {
      fmt::format_to(std::back_inserter(out_), "{}", value.number);
    }
  }
  void operator()(const EnumValue& value) {
    if (value.name.empty()) {
      append_integer(out_, value.number);
    } else {
      out_ += value.name;
    }
  }
  void operator()(const Pointer& pointer) { hex(pointer.address); }
  void operator()(const std::string& text) { out_ += text; }
  void operator()(const Buffer& buffer) { append_bytes(out_, buffer.bytes, BytesStyle::Escaped); }
  void operator()(const Tuple& tuple) {
    out_ += '(';
    list(tuple.elements, comma());
    out_ += ')';
  }
  void operator()(const Array& array) {
    out_ += '[';
    list(array.elements, ",");
    out_ += ']';
  }
  void operator()(const Record& record);
  void operator()(const Stack& stack);
  void operator()(const Symbol& symbol) {
    if (symbol.is_kernel) {
      auto names = names_.kernel_frames(symbol.address);
      if (names.empty()) return hex(symbol.address);
      out_ += names.back().name;
      return;
    }
    // The probe knows its function, whatever has become of the process.
    if (auto function = names_.probe_function(symbol.probe)) {
      out_ += *function;
      return;
    }
    auto frames = names_.user_frames(symbol.pid, symbol.address, false);
    // The function that contains the address, not what was inlined there.
    if (frames.empty()) return hex(symbol.address);
    out_ += frames.back().name;
  }
  void operator()(const Inet& inet);
  void operator()(const MacAddress& mac) {
    const auto& a = mac.address;
    fmt::format_to(std::back_inserter(out_), "{:02X}:{:02X}:{:02X}:{:02X}:{:02X}:{:02X}", a[0], a[1], a[2],
                   a[3], a[4], a[5]);
  }
  void operator()(const Timestamp& time) {
    out_ += time_text(time.format, static_cast<int64_t>(time.nanoseconds) + names_.boot_to_wall_ns());
  }
  void operator()(const Username& user) {
    if (auto name = names_.user_name(user.uid)) {
      out_ += *name;
    } else {
      out_ += std::to_string(user.uid);
    }
  }
  void operator()(const CgroupPath& cgroup) {
    if (auto path = names_.cgroup_path(cgroup.id, cgroup.hierarchies)) {
      out_ += *path;
    } else {
      out_ += std::to_string(cgroup.id);
    }
  }
  void operator()(const Strerror& error);
  void operator()(const SignalName& signal) { out_ += signal_text(static_cast<int>(signal.number)); }
  void operator()(const Average& average) { append_integer(out_, average.value); }
  void operator()(const Stats& stats);
  void operator()(const Histogram& histogram);
  void operator()(const TimeSeries& series) {
    if (series.points.empty()) return (*this)(std::monostate());
    append_integer(out_, series.points.back().value);
  }

  void list(const std::vector<Value>& values, std::string_view separator) {
    bool first = true;
    for (const Value& value : values) {
      if (!first) out_ += separator;
      first = false;
      std::visit(*this, value.data);
    }
  }
  std::string_view comma() const { return compact_ ? "," : ", "; }

 private:
  void hex(uint64_t number) { fmt::format_to(std::back_inserter(out_), "0x{:x}", number); }
  // Keys of a JSON object have none between the parts of a line.
  std::string_view space() const { return compact_ ? "" : " "; }
  void indent() {
    if (!compact_) out_ += "        ";
  }
  bool is_no_caller(const Stack& stack, size_t index);
  void frame(const Stack& stack, size_t index);
  void named_frame(const Stack& stack, uint64_t address, const Frame& frame);

  std::string& out_;
  SymbolNames& names_;
  bool compact_;
};

void Renderer::operator()(const Record& record) {
  if (record.fields.empty()) {
    out_ += "{}";
    return;
  }
  out_ += compact_ ? "{" : "{ ";
  bool first = true;
  for (const auto& [name, value] : record.fields) {
    if (!first) out_ += comma();
    first = false;
    out_.append(".").append(name).append(compact_ ? "=" : " = ");
    std::visit(*this, value.data);
  }
  out_ += compact_ ? "}" : " }";
}

void Renderer::named_frame(const Stack& stack, uint64_t address, const Frame& frame) {
  auto to = std::back_inserter(out_);
  if (stack.style == Layout::StackStyle::Perf) {
    if (frame.is_inlined)
      fmt::format_to(to, "\t{:x}{}{}{}(inlined)\n", address, space(), frame.name, space());
    else
      fmt::format_to(to, "\t{:x}{}{}+{}{}({})\n", address, space(), frame.name, frame.offset, space(),
                     frame.module.empty() ? "[unknown]" : frame.module);
    return;
  }
  indent();
  if (frame.is_inlined)
    out_.append("[inlined]").append(space()).append(frame.name);
  else
    fmt::format_to(to, "{}+{}", frame.name, frame.offset);
  if (!frame.file.empty()) fmt::format_to(to, "@{}:{}", frame.file, frame.line);
  out_ += '\n';
}

void Renderer::frame(const Stack& stack, size_t index) {
  uint64_t address = stack.addresses[index];
  bool is_exact = index == 0 || (index < stack.is_exact.size() && stack.is_exact[index]);
  auto to = std::back_inserter(out_);
  if (stack.style == Layout::StackStyle::BuildId)
    if (auto place = names_.image_place(stack.pid, address)) {
      fmt::format_to(to, "{}{}0x{:x}\n", place->build_id, space(), place->offset);
      return;
    }
  if (stack.style == Layout::StackStyle::Raw || stack.style == Layout::StackStyle::BuildId) {
    fmt::format_to(to, "{:x}\n", address);
    return;
  }
  auto frames = stack.is_kernel ? names_.kernel_frames(address)
                                : names_.user_frames(stack.pid, address, /*is_return_address=*/!is_exact);
  for (const Frame& one : frames) named_frame(stack, address, one);
  if (!frames.empty()) return;
  if (stack.style == Layout::StackStyle::Perf) {
    fmt::format_to(to, "\t{:x}{}0x{:x}{}([unknown])\n", address, space(), address, space());
  } else {
    indent();
    fmt::format_to(to, "0x{:x}\n", address);
  }
}

// Whether a walk by frame pointers has led there, through code that keeps none. Our own unwinder has seen
// code at each frame, whatever has become of it since, unless it ended there because it did not know the
// place.
bool Renderer::is_no_caller(const Stack& stack, size_t index) {
  if (index == 0 || stack.is_kernel) return false;
  const bool is_unwound = !stack.is_exact.empty() && stack.is_exact[0];
  const bool is_unknown = stack.end == StackEnd::UnknownImage && index + 1 == stack.addresses.size();
  return (!is_unwound || is_unknown) && !names_.is_user_code(stack.pid, stack.addresses[index]);
}

void Renderer::operator()(const Stack& stack) {
  out_ += '\n';
  StackEnd end = stack.end;
  for (size_t i = 0; i < stack.addresses.size(); ++i) {
    // What lies beyond it is not known either.
    if (is_no_caller(stack, i)) {
      end = StackEnd::NotCode;
      break;
    }
    frame(stack, i);
  }
  bool is_named = stack.style == Layout::StackStyle::Bpftrace || stack.style == Layout::StackStyle::Perf;
  std::string_view why = explain(end);
  if (why.empty() || !is_named || !names_.shows_stack_ends()) return;
  indent();
  out_.append("[unwound no further: ").append(why).append("]\n");
}

void Renderer::operator()(const Inet& inet) {
  char text[INET6_ADDRSTRLEN] = {};
  if ((inet.family == AF_INET || inet.family == AF_INET6) &&
      inet_ntop(static_cast<int>(inet.family), inet.address.data(), text, sizeof text) != nullptr) {
    out_ += text;
    return;
  }
  fmt::format_to(std::back_inserter(out_), "<address of family {}>", inet.family);
}

void Renderer::operator()(const Strerror& error) {
  char text[128] = {};
  // An int: the kernel's results are. GNU's strerror_r may use a text of its own instead.
  out_ += strerror_r(static_cast<int>(error.number), text, sizeof text);
}

void Renderer::operator()(const Stats& stats) {
  (*this)(Record{{{"count", unsigned_value(stats.count)},
                  {"average", Value{stats.average}},
                  {"total", Value{stats.total}}}});
}

// Where a line is all there is room for (a printf's %s, a tuple): how many values there are.
void Renderer::operator()(const Histogram& histogram) {
  uint64_t total = 0;
  for (uint64_t count : histogram.counts) total += count;
  fmt::format_to(std::back_inserter(out_), "<histogram of {}>", total);
}

}  // namespace

void append_integer(std::string& out, const Integer& number) {
  fmt::format_int text = number.is_signed ? fmt::format_int(static_cast<long long>(number.as_signed()))
                                          : fmt::format_int(static_cast<unsigned long long>(number.bits));
  out.append(text.data(), text.size());
}

void append_bytes(std::string& out, std::string_view bytes, BytesStyle style) {
  constexpr char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto byte = static_cast<uint8_t>(bytes[i]);
    if (style == BytesStyle::Escaped && byte >= 0x20 && byte < 0x7f) {
      out += static_cast<char>(byte);
      continue;
    }
    if (style != BytesStyle::Hex) {
      out += "\\x";
    } else if (i != 0) {
      out += ' ';
    }
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
}

void append_text(std::string& out, const Value& value, SymbolNames& names, Spacing spacing) {
  std::visit(Renderer(out, names, spacing), value.data);
}

std::string to_text(const Value& value, SymbolNames& names, Spacing spacing) {
  std::string out;
  append_text(out, value, names, spacing);
  return out;
}

void append_key(std::string& out, const Value& key, SymbolNames& names, Spacing spacing) {
  Renderer renderer(out, names, spacing);
  if (const Tuple* tuple = key.get_if<Tuple>()) {
    renderer.list(tuple->elements, renderer.comma());
  } else {
    std::visit(renderer, key.data);
  }
}

std::string time_text(std::string_view format, int64_t wall_ns) {
  constexpr int64_t kSecond = 1000000000;
  int64_t seconds = wall_ns / kSecond;
  int64_t rest = wall_ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  std::string pattern;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      pattern += format[i];
    } else if (format[++i] == 'f') {
      fmt::format_to(std::back_inserter(pattern), "{:06}", rest / 1000);
    } else {
      pattern.append("%").append(1, format[i]);
    }
  }
  std::time_t when = seconds;
  std::tm parts{};
  if (localtime_r(&when, &parts) == nullptr || pattern.empty()) return "";
  // strftime yields 0 both for "no room" and for an empty result: a space in front tells them apart.
  pattern.insert(pattern.begin(), ' ');
  for (size_t size = pattern.size() + 128; size < (1u << 20); size *= 2) {
    std::string out(size, '\0');
    if (size_t length = std::strftime(out.data(), size, pattern.c_str(), &parts))
      return out.substr(1, length - 1);
  }
  return "";
}

}  // namespace uscope::event
