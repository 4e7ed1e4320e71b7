#include "session/tracepoint_arguments.h"

#include <algorithm>

namespace uscope::session {
namespace {

using codegen::ArgumentPlace;
using lang::Type;

bool is_number(uint32_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

// System calls are recorded in words: the kind of word, rather than the record, tells its sign.
bool is_signed_word(const TracepointField& field) {
  if (field.is_signed) return true;
  return field.size == 8 && (field.type == "int" || field.type == "long" || field.type == "long long");
}

// "const struct sockaddr *" -> "struct sockaddr"; empty if it is no struct.
std::string struct_name(std::string_view type) {
  constexpr std::string_view kConst = "const ", kStruct = "struct ";
  if (type.starts_with(kConst)) type.remove_prefix(kConst.size());
  if (!type.starts_with(kStruct)) return "";
  size_t end = type.find_first_of(" *", kStruct.size());
  return std::string(type.substr(0, end));
}

}  // namespace

Type tracepoint_type(const TracepointField& field, bool is_system_call) {
  bool is_text =
      field.type.find("char") != std::string::npos && field.type.find("unsigned") == std::string::npos;
  auto space = is_system_call ? lang::AddressSpace::kUser : lang::AddressSpace::kKernel;
  if (field.is_dynamic) return Type::pointer(Type::integer(8, true), lang::AddressSpace::kKernel);
  auto stars = std::ranges::count(field.type, '*');
  if (stars > 0 && !field.count) {
    Type type = is_text ? Type::integer(8, true) : Type::void_type();
    if (auto name = struct_name(field.type); stars == 1 && !name.empty()) type = Type::structure(name, 0);
    for (; stars > 0; --stars) type = Type::pointer(std::move(type), space);
    return type;
  }
  if (field.count && *field.count > 0) {
    uint32_t element = field.size / *field.count;
    if (is_text && element == 1) return Type::string(field.size);
    if (is_number(element))
      return Type::array(Type::integer(element * 8, field.is_signed), *field.count, element);
  }
  if (is_number(field.size)) return Type::integer(field.size * 8, is_signed_word(field));
  return Type::array(Type::uint8(), field.size, 1);
}

std::optional<std::vector<lang::NamedValue>> tracepoint_arguments(const lang::AttachSpec& probe) {
  std::vector<TracepointField> fields = tracepoint_fields(probe.target, probe.function);
  if (fields.empty()) return std::nullopt;
  std::vector<lang::NamedValue> values;
  for (const TracepointField& field : fields)
    values.push_back({field.name, tracepoint_type(field, probe.target == "syscalls")});
  return values;
}

Result<ArgumentPlace> tracepoint_place(const lang::AttachSpec& probe, std::string_view name) {
  for (const TracepointField& field : tracepoint_fields(probe.target, probe.function)) {
    if (field.name != name) continue;
    ArgumentPlace place;
    place.start = ArgumentPlace::Start::Context;
    place.constant = field.offset;
    place.size = field.size;
    place.is_offset = field.is_dynamic;
    return place;
  }
  return fail(probe.text + " has no field `" + std::string(name) + "`");
}

}  // namespace uscope::session
