// Functions of the language, each to the part that knows it.
#include <fmt/format.h>

#include <optional>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"
#include "lang/signals.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

std::optional<event::FormatKind> format_kind(std::string_view name) {
  if (name == "printf") return event::FormatKind::Printf;
  if (name == "errorf") return event::FormatKind::Errorf;
  if (name == "warnf") return event::FormatKind::Warnf;
  if (name == "system") return event::FormatKind::System;
  if (name == "cat") return event::FormatKind::Cat;
  return std::nullopt;
}

}  // namespace

// A call whose result is a scalar (-> R0) or nothing.
void CodeGenerator::call(const Expr& expr, const lang::Call& node) {
  Temporaries temporaries(frame_);
  const std::string& name = node.name;
  if (auto kind = format_kind(name)) return print_format(expr, node, *kind);
  if (name == "debugf") return debug_print(expr, node);
  if (name == "print") return print(expr, node);
  if (name == "time") return print_format(expr, node, event::FormatKind::Time);
  if (name == "join") return join(expr, node);
  if (name == "exit") return exit_call(node);
  if (name == "clear") return map_record(node, event::RecordKind::ClearMap);
  if (name == "zero") return map_record(node, event::RecordKind::ZeroMap);
  if (name == "len") return length(expr, node);
  if (name == "delete") return delete_key(expr, node);
  if (name == "has_key" || name == "find") return find_key(expr, node);
  if (name == "signal" || name == "signal_thread") return signal_call(expr, node);
  if (name == "strlen") return text_length(node);
  if (name == "strncmp") return text_compare(node);
  if (name == "strcontains" || name == "strstr") return text_search(expr, node, name == "strstr");
  if (name == "strcap") return asm_.mov(R0, int64_t(size_of(node.arguments[0]->type)));
  if (name == "reg") return register_at(expr, node.arguments[0]->as<lang::StringLiteral>()->value);
  if (name == "kptr" && !kernel_is_there(expr, "what kptr() points to")) return;
  if (name == "uptr" || name == "kptr") return scalar(*node.arguments[0]);
  if (name == "memcmp") return memory_compare(expr, node);
  if (name == "kaddr") return kernel_address(expr, node);
  if (name == "cgroupid") return cgroup_number(expr, node);
  if (name == "uaddr") {
    if (!unit_.inputs.places || site_.kind != CodeKind::UserProbe)
      return unsupported(expr.span, "uaddr() at this probe");
    depends_on_place_ = true;
    const std::string& symbol = node.arguments[0]->as<lang::StringLiteral>()->value;
    return place_number(expr, unit_.inputs.places->symbol(*site_.attach, symbol));
  }
  if (name == "nsecs" || name == "pid" || name == "tid") {
    const auto* word = node.arguments.empty() ? nullptr : node.arguments[0]->as<lang::Identifier>();
    std::string mode = word ? word->name : "";
    return name == "nsecs" ? clock(mode, expr.span) : pid_tid(name == "tid", mode != "init");
  }
  if (name == "bswap") {
    scalar(*node.arguments[0]);
    if (expr.type.size() > 1) asm_.byte_swap(R0, int32_t(expr.type.size() * 8));
    return;
  }
  if (name == "assert") return assert_call(expr, node);
  if (name == "static_assert") return;
  for (const lang::TypedFunction& function : unit_.typed.functions) {
    if (function.name == name) {
      Place result = call_function(expr, node, function);
      if (expr.type.is_scalar()) load_scalar(R0, result, function.result);
      return;
    }
  }
  if (!expr.type.is_scalar() && expr.type.known() && !expr.type.is(TypeKind::kVoid) &&
      !expr.type.is_aggregate()) {
    place_of(expr);  // its value is discarded
    return;
  }
  unsupported(expr.span, name + "()");
}

// A call whose result lies in memory.
void CodeGenerator::store_call(const Expr& expr, const lang::Call& node, const Type& want, Place to) {
  const std::string& name = node.name;
  if (name == "str") return store_str(expr, node, to, size_of(want));
  if (name == "ustack" || name == "dw_ustack") return user_stack(expr, to);
  if (name == "kstack") return kernel_stack(expr, to);
  if (name == "str_concat") return store_concatenation(expr, node, to, size_of(want));
  if (!(expr.type == want) && !(name == "buf" && size_of(want) >= size_of(expr.type))) {
    Place own = frame_.allocate(size_of(expr.type));
    store_call(expr, node, expr.type, own);
    return convert(own, expr.type, to, want);
  }
  if (name == "buf") {
    if (size_of(want) > size_of(expr.type)) clear(to, size_of(want));
    return store_buf(expr, node, to);
  }
  if (name == "usym") {
    scalar(*node.arguments[0]);
    return user_symbol(to, false);
  }
  if (name == "strerror" || name == "signal_name" || name == "ksym") {
    scalar(*node.arguments[0]);
    return store_slot(to, R0);
  }
  if (name == "cgroup_path") {
    event::Format format;
    if (node.arguments.size() > 1) format.text = node.arguments[1]->as<lang::StringLiteral>()->value;
    scalar(*node.arguments[0]);
    store_slot(to, R0);
    return asm_.store(Width::B8, to.base, to.offset + 8, int32_t(unit_.add_format(std::move(format))));
  }
  if (name == "strftime") {
    event::Format format{
        event::FormatKind::Strftime, node.arguments[0]->as<lang::StringLiteral>()->value, {}, ""};
    scalar(*node.arguments[1]);
    asm_.store(Width::B8, to.base, to.offset, R0);
    asm_.store(Width::B8, to.base, to.offset + 8, int32_t(unit_.add_format(std::move(format))));
    return;
  }
  if (name == "ntop") return store_ntop(expr, node, to);
  if (name == "macaddr") return store_macaddr(expr, node, to);
  if (name == "pton") return store_pton(expr, node, to);
  for (const lang::TypedFunction& function : unit_.typed.functions) {
    if (function.name != name) continue;
    Place result = call_function(expr, node, function);
    return copy(to, result, size_of(want));
  }
  unsupported(expr.span, name + "()");
}

void CodeGenerator::exit_call(const lang::Call& node) {
  Place record = begin_record(event::RecordKind::Exit, 0, 0);
  if (!node.arguments.empty()) {
    scalar(*node.arguments[0]);
    asm_.store(Width::B4, record.base, record.offset + 4, R0);
  }
  send(record, 8);
  asm_.jump(end_);
}

// A message of uscope's own about a place in the script.
void CodeGenerator::message(event::FormatKind kind, std::string_view text, lang::Span span) {
  Temporaries temporaries(frame_);
  std::string escaped;
  for (char c : text) escaped.append(c == '%' ? 2 : 1, c);
  event::Format format{kind, std::move(escaped), {}, unit_.place(span), unit_.marked_line(span)};
  send_message(std::move(format));
}

void CodeGenerator::send_message(event::Format format) {
  format.arguments.kind = event::Layout::Kind::Tuple;
  send(begin_record(event::RecordKind::Printf, unit_.add_format(std::move(format)), 0), 8);
}

// bpftrace's assert() is a macro: its message has the macro's place, and the call's below it.
void CodeGenerator::assert_message(const std::string& text, lang::Span span) {
  if (!unit_.typed.settings.as_bpftrace) return message(event::FormatKind::Errorf, text, span);
  Temporaries temporaries(frame_);
  event::Format format{event::FormatKind::Errorf, "", {}, "stdlib/base.bt:6:5-37", ""};
  format.context = fmt::format("{}: ERROR: expanded from\n{}\n", unit_.place(span), unit_.marked_line(span));
  for (char c : text) format.text.append(c == '%' ? 2 : 1, c);
  send_message(std::move(format));
}

void CodeGenerator::assert_call(const Expr& expr, const lang::Call& node) {
  Label failed = asm_.label(), fine = asm_.label();
  condition(*node.arguments[0], failed);
  asm_.jump(fine);
  asm_.bind(failed);
  const std::string& text = node.arguments[1]->as<lang::StringLiteral>()->value;
  assert_message("assert failed: " + text, expr.span);
  send(begin_record(event::RecordKind::Exit, 1, 0), 8);
  asm_.jump(end_);
  asm_.bind(fine);
}

void CodeGenerator::signal_call(const Expr& expr, const lang::Call& node) {
  if (const auto* text = node.arguments[0]->as<lang::StringLiteral>()) {
    auto number = lang::find_signal(text->value);
    if (!number) return unit_.problem(expr.span, "Invalid string for signal: " + text->value);
    asm_.mov(R1, *number);
  } else {
    scalar(*node.arguments[0]);
    asm_.mov(R1, R0);
  }
  asm_.call(node.name == "signal" ? BPF_FUNC_send_signal : BPF_FUNC_send_signal_thread);
}

}  // namespace uscope::codegen
