// What a probe reports: records of event/plan.h, made in our memory and handed to the ring buffer whole.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using event::RecordKind;
using lang::TypeKind;

namespace {

constexpr uint64_t kHeader = kRecordHeader;
constexpr uint32_t kMaxJoined = 16;

}  // namespace

// The whole record is defined memory: the kernel before 6.3 wants that.
Place CodeGenerator::begin_record(RecordKind kind, uint32_t id, uint64_t payload) {
  Place record = frame_.allocate(kHeader + payload);
  write_header(record, kind, id);
  return record;
}

void CodeGenerator::write_header(Place record, RecordKind kind, uint32_t id) {
  asm_.store(Width::B4, record.base, record.offset, int32_t(kind));
  asm_.store(Width::B4, record.base, record.offset + 4, int32_t(id));
}

// A map loop's variable as it is, with the room before it; see make_entry().
std::optional<Place> CodeGenerator::entry_with_header(const Expr& value) const {
  const auto* variable = value.as<lang::Variable>();
  const Scope& scope = scopes_.back();
  if (!variable || variable->slot >= scope.slots.size() || !(*scope.variables)[variable->slot].is_entry)
    return std::nullopt;
  Place place = scope.slots[variable->slot];
  return Place{place.base, place.offset - int32_t(kHeader)};
}

void CodeGenerator::send(Place record, uint64_t size) {
  asm_.mov(R3, int64_t(size));
  send_sized(record);
}

void CodeGenerator::send_sized(Place record) {
  address(R2, record);
  asm_.load_map(R1, unit_.events_map());
  asm_.mov(R4, 0);
  asm_.call(BPF_FUNC_ringbuf_output);
  Label sent = asm_.label();
  asm_.jump_if(Cond::Eq, R0, 0, sent);
  asm_.store(Width::B4, R10, Frame::kBrief.offset, 0);
  address(R2, Frame::kBrief);
  asm_.load_map(R1, unit_.lost_map());
  asm_.call(BPF_FUNC_map_lookup_elem);
  asm_.jump_if(Cond::Eq, R0, 0, sent);
  asm_.mov(R1, 1);
  asm_.atomic(BPF_ADD, Width::B8, R0, 0, R1);
  asm_.bind(sent);
}

// A text of the program that ends the record need not be sent, nor cleared, behind its NUL. Not on the stack,
// where the verifier wants every byte written that could be sent.
bool CodeGenerator::can_trim(const Expr& last, Place record) const {
  const auto* call = last.as<lang::Call>();
  return call && call->name == "str" && call->arguments.size() == 1 && call->arguments[0]->type.is_scalar() &&
         last.type.is(TypeKind::kString) && size_of(last.type) > 0 && record.base == kScratch;
}

void CodeGenerator::send_trimmed(const Expr& last, Place record, uint64_t offset) {
  const Expr& source = *last.as<lang::Call>()->arguments[0];
  Place text = record.at(offset);
  uint64_t most = size_of(last.type);
  scalar(source);
  reading_ = last.span;
  read_user_text(text, most, source.type.address_space() == lang::AddressSpace::kKernel);
  Label was_read = asm_.label();
  asm_.jump_if(Cond::SGt, R0, 0, was_read);
  asm_.store(Width::B1, text.base, text.offset, 0);
  asm_.mov(R0, 1);
  asm_.bind(was_read);
  clamp(R0, int32_t(most));
  asm_.mov(R3, R0);
  asm_.alu(Alu::Add, R3, int32_t(offset));
  send_sized(record);
}

// printf and its like, time().
void CodeGenerator::print_format(const Expr& expr, const lang::Call& node, event::FormatKind kind) {
  event::Format format;
  format.kind = kind;
  const auto* text = node.arguments.empty() ? nullptr : node.arguments[0]->as<lang::StringLiteral>();
  format.text = text ? text->value : "%H:%M:%S\n";
  format.place = unit_.place(expr.span);
  if (kind == event::FormatKind::Errorf || kind == event::FormatKind::Warnf)
    format.context = expansion_text(kind);
  std::vector<Type> types;
  for (size_t i = 1; i < node.arguments.size(); i++) {
    Type type = plain_type(node.arguments[i]->type);
    if (type.is_aggregate() || size_of(type) == 0)
      return unsupported(node.arguments[i]->span, fmt::format("{}() of {}", node.name, type.spell()));
    types.push_back(std::move(type));
  }
  Type tuple = Type::tuple(types);
  format.arguments = unit_.layout(tuple, expr.span);
  uint64_t size = size_of(tuple);
  Place record = begin_record(RecordKind::Printf, unit_.add_format(std::move(format)), size);
  auto offsets = field_offsets(tuple);
  bool trims = !types.empty() && can_trim(*node.arguments.back(), record);
  if (has_padding(tuple)) clear(record.at(kHeader), trims ? offsets.back() : size);
  for (size_t i = 1; i < node.arguments.size() - (trims ? 1 : 0); i++)
    store(*node.arguments[i], types[i - 1], record.at(kHeader + offsets[i - 1]));
  if (trims) return send_trimmed(*node.arguments.back(), record, kHeader + offsets.back());
  send(record, kHeader + size);
}

// By which macros a message came to be, innermost first.
std::string CodeGenerator::expansion_text(event::FormatKind kind) const {
  std::string text;
  for (auto call = expansions_.rbegin(); call != expansions_.rend(); ++call)
    text += fmt::format("{}: {}: expanded from\n{}\n", unit_.place(*call),
                        kind == event::FormatKind::Errorf ? "ERROR" : "WARNING", unit_.marked_line(*call));
  return text;
}

void CodeGenerator::print(const Expr& expr, const lang::Call& node) {
  const Expr& value = *node.arguments[0];
  const auto* access = value.as<lang::MapAccess>();
  if (access && !access->key) return print_map(node, *access);
  if (access && value.type.is_aggregate()) {
    const Unit::ScriptMap& map = unit_.script_map(access->name);
    Place record = begin_record(RecordKind::PrintEntry, unit_.add_map_print(map.plan_map), map.key_size);
    store(*access->key, *map.info->key, record.at(kHeader));
    return send(record, kHeader + map.key_size);
  }
  Type type = plain_type(value.type);
  uint64_t size = size_of(type);
  if (type.is_aggregate() || size == 0) return unsupported(expr.span, "print() of " + type.spell());
  uint32_t number = unit_.add_value(unit_.layout(type, expr.span));
  if (auto entry = entry_with_header(value)) {
    write_header(*entry, RecordKind::PrintValue, number);
    return send(*entry, kHeader + size);
  }
  Place record = begin_record(RecordKind::PrintValue, number, size);
  if (has_padding(type)) clear(record.at(kHeader), size);
  store(value, type, record.at(kHeader));
  send(record, kHeader + size);
}

void CodeGenerator::print_map(const lang::Call& node, const lang::MapAccess& access) {
  const Unit::ScriptMap& map = unit_.script_map(access.name);
  Place record = begin_record(RecordKind::PrintMap, unit_.add_map_print(map.plan_map), 16);
  for (size_t i = 1; i <= 2; i++) {
    if (i < node.arguments.size())
      scalar(*node.arguments[i]);
    else
      asm_.mov(R0, i == 1 ? 0 : 1);  // all of them, divided by 1
    store_slot(record.at(8 * i), R0);
  }
  send(record, 24);
}

void CodeGenerator::map_record(const lang::Call& node, RecordKind kind) {
  const auto* access = node.arguments[0]->as<lang::MapAccess>();
  if (!access) return unsupported(node.arguments[0]->span, node.name + "() of this");
  send(begin_record(kind, unit_.script_map(access->name).plan_map, 0), kHeader);
}

// The strings of an argv-like array, up to its null pointer.
void CodeGenerator::join(const Expr& expr, const lang::Call& node) {
  uint64_t each = unit_.typed.settings.max_strlen;
  const auto* separator = node.arguments.size() > 1 ? node.arguments[1]->as<lang::StringLiteral>() : nullptr;
  event::Format format;
  format.text = separator ? separator->value : " ";
  format.arguments.kind = event::Layout::Kind::Tuple;
  format.arguments.size = each;
  format.place = unit_.place(expr.span);
  uint64_t payload = 4 + kMaxJoined * each;
  text_address(*node.arguments[0]);
  reading_ = expr.span;
  Place array = keep(R0);
  Place record = begin_record(RecordKind::Join, unit_.add_format(std::move(format)), payload);
  clear(record.at(kHeader), payload);
  Label done = asm_.label();
  for (uint32_t i = 0; i < kMaxJoined; i++) {
    load_slot(R0, array);
    if (i > 0) asm_.alu(Alu::Add, R0, int32_t(8 * i));
    read_user(Frame::kBrief, 8);
    load_slot(R0, Frame::kBrief);
    asm_.jump_if(Cond::Eq, R0, 0, done);
    read_user_text(record.at(kHeader + 4 + i * each), each);
    asm_.store(Width::B4, record.base, record.offset + int32_t(kHeader), int32_t(i + 1));
  }
  asm_.bind(done);
  send(record, kHeader + payload);
}

}  // namespace uscope::codegen
