#include "codegen/layout_of.h"

#include <fmt/format.h>

#include <algorithm>

namespace uscope::codegen {
namespace {

using event::Layout;
using lang::Type;
using lang::TypeKind;

// Structs of structs end; what a hostile or broken type source says may not.
constexpr int kMaxDepth = 16;
// Unions inside each other may have any number of members in little room.
constexpr size_t kMostParts = 100'000;

Layout::Kind kind_of(TypeKind kind) {
  switch (kind) {
    case TypeKind::kBool:
      return Layout::Kind::Bool;
    case TypeKind::kInt:
      return Layout::Kind::Integer;
    case TypeKind::kFloat:
      return Layout::Kind::Float;
    case TypeKind::kEnum:
      return Layout::Kind::Enum;
    case TypeKind::kPointer:
      return Layout::Kind::Pointer;
    case TypeKind::kArray:
      return Layout::Kind::Array;
    case TypeKind::kString:
      return Layout::Kind::String;
    case TypeKind::kBuffer:
      return Layout::Kind::Buffer;
    case TypeKind::kStruct:
      return Layout::Kind::Struct;
    case TypeKind::kTuple:
      return Layout::Kind::Tuple;
    case TypeKind::kRecord:
      return Layout::Kind::Record;
    case TypeKind::kCount:
      return Layout::Kind::Count;
    case TypeKind::kSum:
      return Layout::Kind::Sum;
    case TypeKind::kMin:
      return Layout::Kind::Min;
    case TypeKind::kMax:
      return Layout::Kind::Max;
    case TypeKind::kAvg:
      return Layout::Kind::Avg;
    case TypeKind::kStats:
      return Layout::Kind::Stats;
    case TypeKind::kHist:
      return Layout::Kind::Hist;
    case TypeKind::kLhist:
      return Layout::Kind::Lhist;
    case TypeKind::kTseries:
      return Layout::Kind::Tseries;
    case TypeKind::kUserStack:
      return Layout::Kind::UserStack;
    case TypeKind::kKernelStack:
      return Layout::Kind::KernelStack;
    case TypeKind::kUserSymbol:
      return Layout::Kind::UserSymbol;
    case TypeKind::kKernelSymbol:
      return Layout::Kind::KernelSymbol;
    case TypeKind::kInet:
      return Layout::Kind::Inet;
    case TypeKind::kMacAddress:
      return Layout::Kind::MacAddress;
    case TypeKind::kTimestamp:
      return Layout::Kind::Timestamp;
    case TypeKind::kUsername:
      return Layout::Kind::Username;
    case TypeKind::kCgroupPath:
      return Layout::Kind::CgroupPath;
    case TypeKind::kStrerror:
      return Layout::Kind::Strerror;
    case TypeKind::kSignalName:
      return Layout::Kind::SignalName;
    default:
      return Layout::Kind::None;
  }
}

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

struct Placed {
  std::vector<uint64_t> offsets;
  uint64_t size = 0;
  bool padded = false;
};

Placed place_fields(const Type& type) {
  Placed placed;
  uint64_t most = 1;
  for (const lang::TypeField& field : type.fields()) {
    uint64_t alignment = lang::alignment_of(field.type);
    most = std::max(most, alignment);
    uint64_t at = round_up(placed.size, alignment);
    placed.padded = placed.padded || at != placed.size || has_padding(field.type);
    placed.offsets.push_back(at);
    placed.size = at + size_of(field.type);
  }
  placed.padded = placed.padded || placed.size % most != 0;
  placed.size = round_up(placed.size, most);
  return placed;
}

bool has_fields(const Type& type) { return type.is(TypeKind::kTuple) || type.is(TypeKind::kRecord); }

Layout::StackStyle style_of(lang::StackMode mode) {
  switch (mode) {
    case lang::StackMode::kPerf:
      return Layout::StackStyle::Perf;
    case lang::StackMode::kRaw:
      return Layout::StackStyle::Raw;
    case lang::StackMode::kBuildId:
      return Layout::StackStyle::BuildId;
    default:
      return Layout::StackStyle::Bpftrace;
  }
}

// Makes one layout, with all that is in it.
class LayoutMaker {
 public:
  LayoutMaker(const lang::TypedProgram& program, const lang::TypeSource* types)
      : program_(program), types_(types) {}

  Result<Layout> run(const Type& type) {
    Layout out = layout_at(type, 0);
    if (!problem_.empty()) return fail(problem_);
    return out;
  }

 private:
  Layout layout_at(const Type& type, int depth);
  // A field as it lies in the traced program.
  event::Field struct_field(const lang::TypeField& field, int depth);
  void add_members(const Type& type, int depth, Layout& out);

  const lang::TypedProgram& program_;
  const lang::TypeSource* types_;
  size_t parts_ = 0;
  std::string problem_;
};

event::Field LayoutMaker::struct_field(const lang::TypeField& field, int depth) {
  event::Field out{field.name, layout_at(field.type, depth), field.offset, field.bit_offset, field.bit_width};
  out.layout.size = user_size(field.type);
  return out;
}

void LayoutMaker::add_members(const Type& type, int depth, Layout& out) {
  auto known = find_struct(type, program_, types_);
  if (!known) {
    problem_ = fmt::format("{}: what it holds cannot be told", type.spell());
    return;
  }
  parts_ += known->fields.size();
  if (parts_ > kMostParts) problem_ = fmt::format("{} holds more than can be shown", type.spell());
  if (!problem_.empty()) return;
  for (const lang::TypeField& field : known->fields) out.fields.push_back(struct_field(field, depth));
}

Layout LayoutMaker::layout_at(const Type& type, int depth) {
  Layout out;
  out.kind = kind_of(type.kind());
  out.size = size_of(type);
  out.is_signed = type.is_signed();
  if (type.is(TypeKind::kFloat) && program_.settings.as_bpftrace) out.kind = Layout::Kind::None;
  if (depth > kMaxDepth || !problem_.empty()) return out;
  // Only what str() gives without a length is as long as that.
  if (type.is(TypeKind::kString) && type.size() == program_.settings.max_strlen + 1)
    out.trailer = program_.settings.str_trunc_trailer;
  if (type.is_stack()) out.stack_style = style_of(type.stack_mode());
  if (has_fields(type)) {
    auto offsets = field_offsets(type);
    for (size_t i = 0; i < offsets.size(); i++) {
      const lang::TypeField& field = type.fields()[i];
      out.fields.push_back({field.name, layout_at(field.type, depth + 1), offsets[i]});
    }
  } else if (type.is(TypeKind::kArray)) {
    out.count = type.count();
    event::Field element{"", layout_at(type.element(), depth + 1)};
    if (type.count() > 0) element.layout.size = type.size() / type.count();
    out.fields.push_back(std::move(element));
  } else if (type.is(TypeKind::kStruct)) {
    out.name = type.name();
    add_members(type, depth + 1, out);
  } else if (type.is(TypeKind::kEnum)) {
    out.name = type.name();
    const auto* own = program_.c_types.enumerators(type.name());
    for (const auto& each : own      ? *own
                            : types_ ? types_->enumerators(type.name())
                                     : std::vector<lang::Enumerator>())
      out.enumerators.emplace_back(each.value, each.name);
  }
  return out;
}

}  // namespace

uint64_t size_of(const Type& type) {
  if (has_fields(type)) return place_fields(type).size;
  if (type.is(TypeKind::kBuffer)) return 4 + type.size();
  return type.size();
}

std::vector<uint64_t> field_offsets(const Type& type) { return place_fields(type).offsets; }

bool has_padding(const Type& type) { return has_fields(type) && place_fields(type).padded; }

uint64_t user_size(const Type& type) {
  return type.is(TypeKind::kString) ? std::max<uint64_t>(type.size(), 1) - 1 : type.size();
}

Type plain_type(const Type& type) {
  if (!type.casts_to_integer()) return type;
  return Type::integer(64, type.is_signed() && !type.is(TypeKind::kCount));
}

Result<Layout> layout_of(const Type& type, const lang::TypedProgram& program, const lang::TypeSource* types) {
  return LayoutMaker(program, types).run(type);
}

Result<Layout> value_layout(const lang::MapInfo& map, const lang::TypedProgram& program,
                            const lang::TypeSource* types) {
  TRY(Layout out, layout_of(map.value, program, types));
  out.hist_bits = uint32_t(map.hist_bits);
  out.lhist_min = map.lhist_min;
  out.lhist_max = map.lhist_max;
  out.lhist_step = map.lhist_step;
  out.tseries_interval_ns = map.tseries_interval_ns;
  out.tseries_intervals = map.tseries_intervals;
  out.tseries_aggregation = map.tseries_aggregation;
  return out;
}

std::optional<lang::StructLayout> find_struct(const Type& type, const lang::TypedProgram& program,
                                              const lang::TypeSource* types) {
  if (const lang::StructLayout* own = program.c_types.find_struct(type.name())) return *own;
  return types ? types->find_struct(type.name()) : std::nullopt;
}

}  // namespace uscope::codegen
