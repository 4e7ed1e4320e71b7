// Reading the traced program's memory: fields, elements, arguments. A read that fails gives zeroes.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"
#include "lang/functions.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

const lang::TypeField* CodeGenerator::find_field(const Type& object, const std::string& name,
                                                 lang::TypeField& found) {
  const Type& type = object.is(TypeKind::kPointer) ? object.pointee() : object;
  if (!type.is(TypeKind::kStruct)) return nullptr;
  auto layout = find_struct(type, unit_.typed, unit_.inputs.types);
  const lang::TypeField* field = layout ? layout->find(name) : nullptr;
  if (!field) return nullptr;
  found = *field;
  return &found;
}

CodeGenerator::Located CodeGenerator::locate_field(const Expr& expr, const lang::Field& node) {
  const Expr& object = *node.object;
  if (const auto* builtin = object.as<lang::Builtin>())
    if (builtin->name == "args" || builtin->name == "locals")
      return locate_argument(expr, node, builtin->name == "locals");
  if (object.type.is(TypeKind::kRecord)) {
    auto offsets = field_offsets(object.type);
    Place place = place_of(object);
    for (size_t i = 0; i < offsets.size(); i++)
      if (object.type.fields()[i].name == node.name) return ours(place, offsets[i]);
    unsupported(expr.span, "this field");
    return {};
  }
  lang::TypeField found;
  if (!find_field(object.type, node.name, found)) {
    unsupported(expr.span, fmt::format("field {} of {}", node.name, object.type.spell()));
    return {};
  }
  if (object.type.is(TypeKind::kPointer)) {
    scalar(object);
    return outside(object.type.address_space() == lang::AddressSpace::kKernel, found.offset);
  }
  Located located = locate(object);
  located.offset += found.offset;
  located.is_copied = !located.is_outside;
  return located;
}

CodeGenerator::Located CodeGenerator::locate_index(const Expr& expr, const lang::Index& node) {
  const Type& object = node.object->type;
  const auto* literal = node.index->as<lang::IntLiteral>();
  if (object.is(TypeKind::kTuple)) {
    auto offsets = field_offsets(object);
    uint64_t index = literal ? literal->value : 0;
    return ours(place_of(*node.object), index < offsets.size() ? offsets[index] : 0);
  }
  bool is_pointer = object.is(TypeKind::kPointer), is_text = object.is(TypeKind::kString);
  const Type& element = object.element();
  uint64_t size = is_text ? 1 : std::max<uint64_t>(user_size(element), 1);
  if (object.is(TypeKind::kArray) && object.count() > 0) size = object.size() / object.count();
  if (size == 0 || size > INT32_MAX) unsupported(expr.span, "elements of this size");
  bool is_kernel = is_pointer && object.address_space() == lang::AddressSpace::kKernel;
  if (is_pointer && literal && int64_t(literal->value) == int32_t(literal->value)) {
    scalar(*node.object);
    return outside(is_kernel, literal->value * size);
  }
  Located located;
  if (is_pointer) {
    scalar(*node.object);
    located = outside(is_kernel, 0);
  } else {
    located = locate(*node.object);
  }
  uint64_t count = object.count();
  if (is_text) count = located.is_copied ? user_size(object) : size_of(object);
  if (literal) {
    if (!located.is_outside && literal->value >= count) unsupported(expr.span, "an index past the end");
    located.offset += literal->value * size;
    located.is_copied = !located.is_outside;
    return located;
  }
  if (located.is_outside) {
    user_address(located);
    Place base = keep(R0);
    scalar(*node.index);
    asm_.alu(Alu::Mul, R0, int32_t(size));
    load_slot(R1, base);
    asm_.alu(Alu::Add, R0, R1);
    return outside(located.is_kernel, 0);
  }
  // Past the end, the address is 0: reading there fails, and gives 0.
  auto end = int32_t(std::min<uint64_t>(count, INT32_MAX / size));
  Label inside = asm_.label(), known = asm_.label();
  scalar(*node.index);
  asm_.jump_if(Cond::Lt, R0, end, inside);
  asm_.mov(R0, 0);
  asm_.jump(known);
  asm_.bind(inside);
  asm_.alu(Alu::Mul, R0, int32_t(size));
  address(R1, located.place.at(located.offset));
  asm_.alu(Alu::Add, R1, R0);
  asm_.mov(R0, R1);
  asm_.bind(known);
  return outside(true, 0);
}

CodeGenerator::Located CodeGenerator::locate_argument(const Expr& expr, const lang::Field& node,
                                                      bool is_local) {
  const ArgumentPlaces* places = unit_.inputs.places;
  if (!places) {
    unsupported(expr.span, (is_local ? "locals." : "args.") + node.name + " at this probe");
    return {};
  }
  if (site_.attach->kind == lang::ProbeKind::kUsdt && !is_local) {
    argument_number(expr, node.name, lang::argument_number(node.name));
    return ours(keep(R0));
  }
  depends_on_place_ = true;
  auto place =
      is_local ? places->local(*site_.attach, node.name) : places->argument(*site_.attach, node.name);
  if (!place) {
    unit_.problem(expr.span, place.error().message());
    return {};
  }
  if (place->start == ArgumentPlace::Start::Context) return locate_in_context(expr, *place);
  return locate_place(expr, *place, expr.type);
}

CodeGenerator::Located CodeGenerator::locate_in_context(const Expr& expr, const ArgumentPlace& place) {
  constexpr uint32_t kMostBytes = 512;  // copied one load at a time
  auto offset = int32_t(place.constant);
  if (place.is_offset) {
    // Its low half says where in the record, its high half how long.
    asm_.load(Width::B4, R0, kContext, offset);
    asm_.alu(Alu::And, R0, 0xffff);
    asm_.alu(Alu::Add, R0, kContext);
    return ours(keep(R0));
  }
  if (place.size > kMostBytes) {
    unsupported(expr.span, "a field of this size");
    return {};
  }
  uint32_t step = 8;  // the kernel wants loads of the context aligned
  while (uint32_t(offset) % step != 0 || place.size % step != 0) step /= 2;
  Place copy = frame_.allocate(place.size);
  for (uint32_t done = 0; done < place.size; done += step) {
    asm_.load(width_of(step), R0, kContext, offset + int32_t(done));
    asm_.store(width_of(step), copy.base, copy.offset + int32_t(done), R0);
  }
  return copied(copy);
}

// All of them, as a record.
void CodeGenerator::store_arguments(const Expr& expr, bool is_local, const Type& want, Place to) {
  if (has_padding(want)) clear(to, size_of(want));
  auto offsets = field_offsets(want);
  for (size_t i = 0; i < offsets.size() && i < expr.type.fields().size(); i++) {
    Temporaries temporaries(frame_);
    Expr part;
    part.span = expr.span;
    part.type = expr.type.fields()[i].type;
    lang::Field field{nullptr, expr.type.fields()[i].name, expr.span};
    Located located = locate_argument(part, field, is_local);
    store_located(located, part.type, to.at(offsets[i]), want.fields()[i].type);
  }
}

// What lies in several places -> ours.
void CodeGenerator::store_parts(const std::vector<ArgumentPlace::Part>& parts, Place to, uint64_t size) {
  clear(to, size);
  uint64_t offset = 0;
  for (const ArgumentPlace::Part& part : parts) {
    uint64_t bytes = std::min<uint64_t>(part.size, size - offset);
    if (bytes == 0) break;
    place_value(part.place);
    if (part.place.is_address)
      read_user(to.at(offset), bytes);
    else
      copy(to.at(offset), keep(R0), std::min<uint64_t>(bytes, 8));
    offset += bytes;
  }
}

// The number that the place computes -> R0.
void CodeGenerator::place_value(const ArgumentPlace& place) {
  if (place.start == ArgumentPlace::Start::Constant)
    asm_.mov(R0, place.constant);
  else
    asm_.load(Width::B8, R0, kContext, int32_t(place.register_offset));
  for (const PlaceStep& step : place.steps) {
    if (step.kind == PlaceStep::Kind::Add) {
      asm_.mov(R1, step.amount);
      asm_.alu(Alu::Add, R0, R1);
      continue;
    }
    if (step.kind == PlaceStep::Kind::AddRegister) {
      asm_.load(Width::B8, R1, kContext, int32_t(step.register_offset));
      asm_.alu(Alu::Mul, R1, int32_t(step.amount));
      asm_.alu(Alu::Add, R0, R1);
      continue;
    }
    if (step.kind == PlaceStep::Kind::ShiftRight) {
      asm_.alu(Alu::Rsh, R0, int32_t(step.amount));
      continue;
    }
    uint32_t size = step.size == 1 || step.size == 2 || step.size == 4 ? step.size : 8;
    read_user(Frame::kBrief, size);
    asm_.load(width_of(size), R0, Frame::kBrief.base, Frame::kBrief.offset);
  }
}

void CodeGenerator::read_user(Place to, uint64_t size) {
  asm_.mov(R3, R0);
  address(R1, to);
  asm_.mov(R2, int64_t(size));
  // Only at a program's own probes a number that a script takes for an address is surely the program's.
  asm_.call(site_.kind == CodeKind::UserProbe ? BPF_FUNC_probe_read_user : BPF_FUNC_probe_read);
  report_failed_read("probe_read_user");
}

void CodeGenerator::report_failed_read(const std::string& helper) {
  if (!unit_.inputs.report_reads) return;
  // Outside of a program's own probes bpftrace takes the helper for memory of any kind, and names it.
  std::string named = helper;
  if (size_t user = named.find("_user"); user != std::string::npos && site_.kind != CodeKind::UserProbe)
    named.erase(user, 5);
  Label fine = asm_.label();
  asm_.jump_if(Cond::SGe, R0, 0, fine);
  Temporaries temporaries(frame_);
  Place result = keep(R0);
  report_error(named, reading_);
  load_slot(R0, result);
  asm_.bind(fine);
}

void CodeGenerator::read_outside(const Located& from, Place to, uint64_t size) {
  user_address(from);
  if (!from.is_kernel) return read_user(to, size);
  asm_.mov(R3, R0);
  address(R1, to);
  asm_.mov(R2, int64_t(size));
  asm_.call(BPF_FUNC_probe_read_kernel);
  report_failed_read("probe_read_kernel");
}

void CodeGenerator::read_user_text(Place to, uint64_t size, bool is_kernel) {
  asm_.mov(R3, R0);
  address(R1, to);
  asm_.mov(R2, int64_t(size));
  call_text_read(is_kernel);
}

// Outside of a program's own probes a bare number may be an address of the kernel's.
void CodeGenerator::call_text_read(bool is_kernel) {
  if (is_kernel) {
    asm_.call(BPF_FUNC_probe_read_kernel_str);
  } else {
    asm_.call(site_.kind == CodeKind::UserProbe ? BPF_FUNC_probe_read_user_str : BPF_FUNC_probe_read_str);
  }
  report_failed_read(is_kernel ? "probe_read_kernel_str" : "probe_read_user_str");
}

void CodeGenerator::user_address(const Located& located) {
  if (located.offset == 0) return;
  asm_.mov(R1, int64_t(located.offset));
  asm_.alu(Alu::Add, R0, R1);
}

void CodeGenerator::load_located(const Located& located, const Type& type, uint32_t bit_offset,
                                 uint32_t bit_width) {
  if (bit_width != 0) return load_bits(located, type, bit_offset, bit_width);
  uint64_t size = type.size();
  if (size != 1 && size != 2 && size != 4 && size != 8)
    return unit_.problem(site_.probe->span, fmt::format("a number of {} bytes", size));
  Place place = located.place.at(located.offset);
  if (located.is_outside) {
    place = Frame::kBrief;
    read_outside(located, place, size);
  } else if (place.offset % int32_t(size) != 0) {
    Place aligned = frame_.allocate(8);  // fields of a packed struct
    copy(aligned, place, size);
    place = aligned;
  }
  load_scalar(R0, place, type);
}

// Bitfields of a packed struct may begin and end in any byte.
void CodeGenerator::load_bits(const Located& located, const Type& type, uint32_t bit_offset,
                              uint32_t bit_width) {
  uint64_t bytes = (uint64_t(bit_offset) + bit_width + 7) / 8;
  if (bytes > 8) return unit_.problem(site_.probe->span, "a bitfield that no word holds");
  Place word = frame_.allocate(8);
  clear(word, 8);
  if (located.is_outside)
    read_outside(located, word, bytes);
  else
    copy(word, located.place.at(located.offset), bytes);
  load_slot(R0, word);
  asm_.alu(Alu::Lsh, R0, int32_t(64 - bit_offset - bit_width));
  asm_.alu(type.is_signed() ? Alu::Arsh : Alu::Rsh, R0, int32_t(64 - bit_width));
}

void CodeGenerator::store_located(const Located& located, const Type& type, Place to, const Type& want) {
  uint64_t size = size_of(want);
  if (!located.is_outside) {
    Place from = located.place.at(located.offset);
    if (!located.is_copied || !type.is(TypeKind::kString) || !want.is(TypeKind::kString))
      return convert(from, type, to, want);
    // Up to its NUL or its end: what lies behind belongs to the next member.
    clear(to, size);
    address(R0, from);
    return read_user_text(to, std::min(size, size_of(type)), true);
  }
  if (type.is(TypeKind::kString) && want.is(TypeKind::kString)) {
    user_address(located);
    Place kept = keep(R0);
    clear(to, size);
    load_slot(R0, kept);
    return read_user_text(to, std::min(size, size_of(type)), located.is_kernel);
  }
  if (!(type == want)) {
    Place whole = frame_.allocate(size_of(type));
    read_outside(located, whole, size_of(type));
    return convert(whole, type, to, want);
  }
  read_outside(located, to, size);
}

}  // namespace uscope::codegen
