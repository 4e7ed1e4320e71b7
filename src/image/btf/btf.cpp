#include "image/btf/btf.h"

#include <fcntl.h>
#include <linux/btf.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace uscope::image {
namespace {

constexpr char kPath[] = "/sys/kernel/btf/vmlinux";
constexpr size_t kLargest = size_t(256) << 20;
// Anonymous members inside anonymous members.
constexpr int kDeepest = 8;
// Looked at for one answer: anonymous members of broken BTF may hold each other.
constexpr uint64_t kMostMembers = 1'000'000;

// What follows a type's three words.
std::optional<uint64_t> extra_size(uint32_t kind, uint32_t count) {
  switch (kind) {
    case BTF_KIND_INT:
    case BTF_KIND_VAR:
    case BTF_KIND_DECL_TAG:
      return 4;
    case BTF_KIND_ARRAY:
      return sizeof(btf_array);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      return uint64_t(count) * sizeof(btf_member);
    case BTF_KIND_ENUM:
      return uint64_t(count) * sizeof(btf_enum);
    case BTF_KIND_ENUM64:
      return uint64_t(count) * sizeof(btf_enum64);
    case BTF_KIND_FUNC_PROTO:
      return uint64_t(count) * sizeof(btf_param);
    case BTF_KIND_DATASEC:
      return uint64_t(count) * sizeof(btf_var_secinfo);
    case BTF_KIND_PTR:
    case BTF_KIND_FWD:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_VOLATILE:
    case BTF_KIND_CONST:
    case BTF_KIND_RESTRICT:
    case BTF_KIND_FUNC:
    case BTF_KIND_FLOAT:
    case BTF_KIND_TYPE_TAG:
      return 0;
    default:
      return std::nullopt;
  }
}

bool has_type_name(uint32_t kind) {
  switch (kind) {
    case BTF_KIND_INT:
    case BTF_KIND_FLOAT:
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
    case BTF_KIND_ENUM:
    case BTF_KIND_ENUM64:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_FWD:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Btf::Record {
  uint32_t name = 0, kind = 0, count = 0;
  uint32_t other = 0;  // a size, or another type's id
  bool flag = false;   // structs: has bitfields; enums: signed; declarations: of a union
  uint64_t extra = 0;  // where the members or the like are
};

Result<Btf> Btf::of_running_kernel() {
  Fd file(::open(kPath, O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return fail(Error::from_errno(std::string("opening ") + kPath, errno));
  std::vector<uint8_t> bytes(size_t(6) << 20);
  size_t size = 0;
  while (size < kLargest) {
    if (size == bytes.size()) bytes.resize(bytes.size() * 2);
    ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Error::from_errno(std::string("reading ") + kPath, errno));
    if (got == 0) break;
    size += size_t(got);
  }
  bytes.resize(size);
  return parse(std::move(bytes));
}

Result<Btf> Btf::parse(std::vector<uint8_t> bytes) {
  Btf out;
  out.bytes_ = std::move(bytes);
  Bytes all(out.bytes_);
  ByteReader reader(all);
  auto header = reader.read<btf_header>();
  if (reader.failed() || header.magic != BTF_MAGIC || header.hdr_len < sizeof header)
    return fail("the kernel's BTF has no header that is known");
  uint64_t first = uint64_t(header.hdr_len) + header.type_off;
  out.strings_ = uint64_t(header.hdr_len) + header.str_off;
  out.strings_size_ = header.str_len;
  if (!slice(all, first, header.type_len) || !slice(all, out.strings_, header.str_len))
    return fail("the kernel's BTF is cut");
  uint64_t end = first + header.type_len;
  out.types_.reserve(header.type_len / 24);
  out.types_.push_back(0);
  for (uint64_t at = first; at + sizeof(btf_type) <= end;) {
    uint32_t info = ByteReader(all, at + 4).u32();
    auto extra = extra_size(BTF_INFO_KIND(info), BTF_INFO_VLEN(info));
    // A newer kernel's kind: what comes behind it cannot be told apart.
    if (!extra || *extra > end - at - sizeof(btf_type)) break;
    out.types_.push_back(uint32_t(at));
    at += sizeof(btf_type) + *extra;
  }
  return out;
}

std::optional<Btf::Record> Btf::record(TypeId id) const {
  if (!id || id.value >= types_.size()) return std::nullopt;
  ByteReader reader(Bytes(bytes_), types_[id.value]);
  Record out;
  out.name = reader.u32();
  uint32_t info = reader.u32();
  out.kind = BTF_INFO_KIND(info);
  out.count = BTF_INFO_VLEN(info);
  out.flag = BTF_INFO_KFLAG(info) != 0;
  out.other = reader.u32();
  out.extra = reader.position();
  if (reader.failed()) return std::nullopt;
  return out;
}

std::string_view Btf::name_at(uint32_t offset) const {
  if (offset >= strings_size_) return {};
  return cstring_at(Bytes(bytes_).subspan(strings_, strings_size_), offset);
}

const Type& Btf::type(TypeId id) const {
  auto known = decoded_.find(id.value);
  if (known != decoded_.end()) return known->second;
  auto one = record(id);
  // Unknown ids share one entry: there may be any number of them.
  if (!one) return decoded_.try_emplace(0).first->second;
  return decoded_.emplace(id.value, decode(*one)).first->second;
}

Type Btf::decode(const Record& record) const {
  using Kind = Type::Kind;
  Type out;
  out.language = Language::C;
  auto refer = [&](Kind kind) {
    out.kind = kind;
    out.target = TypeId{record.other};
  };
  if (has_type_name(record.kind)) out.name = out.qualified = name_at(record.name);
  switch (record.kind) {
    case BTF_KIND_INT:
    case BTF_KIND_FLOAT:
      read_base(record, out);
      break;
    case BTF_KIND_PTR:
      refer(Kind::Pointer);
      out.size = 8;
      break;
    case BTF_KIND_TYPEDEF:
      refer(Kind::Typedef);
      break;
    case BTF_KIND_VOLATILE:
      refer(Kind::Volatile);
      break;
    case BTF_KIND_CONST:
    case BTF_KIND_TYPE_TAG:  // __user, __rcu: a view of its target
      refer(Kind::Const);
      break;
    case BTF_KIND_RESTRICT:
      refer(Kind::Restrict);
      break;
    case BTF_KIND_FUNC_PROTO:
      refer(Kind::Function);
      break;
    case BTF_KIND_ARRAY:
      read_array(record, out);
      break;
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      read_members(record, out);
      break;
    case BTF_KIND_FWD:
      out.kind = record.flag ? Kind::Union : Kind::Struct;
      out.is_declaration = true;
      break;
    case BTF_KIND_ENUM:
    case BTF_KIND_ENUM64:
      read_enumerators(record, out);
      break;
    default:
      break;
  }
  return out;
}

void Btf::read_base(const Record& record, Type& out) const {
  out.size = record.other;
  if (record.kind == BTF_KIND_FLOAT) {
    out.kind = Type::Kind::Float;
    return;
  }
  uint32_t encoding = BTF_INT_ENCODING(ByteReader(Bytes(bytes_), record.extra).u32());
  out.is_signed = (encoding & BTF_INT_SIGNED) != 0;
  out.kind = (encoding & BTF_INT_BOOL) != 0 ? Type::Kind::Bool : Type::Kind::Integer;
  if (out.name == "char") {  // BTF does not say that x86's char has a sign
    out.kind = Type::Kind::Character;
    out.is_signed = true;
  }
}

void Btf::read_members(const Record& record, Type& out) const {
  out.kind = record.kind == BTF_KIND_UNION ? Type::Kind::Union : Type::Kind::Struct;
  out.size = record.other;
  out.members.reserve(record.count);
  ByteReader reader(Bytes(bytes_), record.extra);
  for (uint32_t i = 0; i < record.count; i++) {
    auto one = reader.read<btf_member>();
    if (reader.failed()) return;
    Member member;
    member.name = name_at(one.name_off);
    member.type = TypeId{one.type};
    uint32_t bit = record.flag ? BTF_MEMBER_BIT_OFFSET(one.offset) : one.offset;
    member.offset = bit / 8;
    if (record.flag) member.bit_size = BTF_MEMBER_BITFIELD_SIZE(one.offset);
    if (member.bit_size != 0) member.bit_offset = bit;
    out.members.push_back(std::move(member));
  }
}

void Btf::read_enumerators(const Record& record, Type& out) const {
  out.kind = Type::Kind::Enum;
  out.size = record.other;
  out.is_signed = record.flag;
  ByteReader reader(Bytes(bytes_), record.extra);
  for (uint32_t i = 0; i < record.count; i++) {
    if (record.kind == BTF_KIND_ENUM) {
      auto one = reader.read<btf_enum>();
      int64_t value = out.is_signed ? int64_t(one.val) : int64_t(uint32_t(one.val));
      out.enumerators.push_back({std::string(name_at(one.name_off)), value});
    } else {
      auto one = reader.read<btf_enum64>();
      uint64_t value = uint64_t(one.val_hi32) << 32 | one.val_lo32;
      out.enumerators.push_back({std::string(name_at(one.name_off)), int64_t(value)});
    }
  }
}

void Btf::read_array(const Record& record, Type& out) const {
  auto array = ByteReader(Bytes(bytes_), record.extra).read<btf_array>();
  out.kind = Type::Kind::Array;
  out.target = TypeId{array.type};
  out.dimensions = {array.nelems};
}

std::vector<TypeId> Btf::find_types(std::string_view name, size_t limit) const {
  std::vector<TypeId> found, declarations;
  if (name.empty()) return found;
  for (uint32_t id = 1; id < types_.size() && found.size() < limit; id++) {
    ByteReader reader(Bytes(bytes_), types_[id]);
    uint32_t name_offset = reader.u32(), kind = BTF_INFO_KIND(reader.u32());
    if (!has_type_name(kind) || name_at(name_offset) != name) continue;
    (kind == BTF_KIND_FWD ? declarations : found).push_back(TypeId{id});
  }
  for (TypeId id : declarations)
    if (found.size() < limit) found.push_back(id);
  return found;
}

std::optional<TypeId> Btf::find_enum_with(std::string_view enumerator) const {
  if (enumerator.empty()) return std::nullopt;
  for (uint32_t id = 1; id < types_.size(); id++) {
    auto one = record(TypeId{id});
    if (!one || (one->kind != BTF_KIND_ENUM && one->kind != BTF_KIND_ENUM64)) continue;
    ByteReader reader(Bytes(bytes_), one->extra);
    for (uint32_t i = 0; i < one->count && !reader.failed(); i++) {
      uint32_t name =
          one->kind == BTF_KIND_ENUM ? reader.read<btf_enum>().name_off : reader.read<btf_enum64>().name_off;
      if (name_at(name) == enumerator) return TypeId{id};
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> Btf::find_member(const Type& structure, std::string_view member, int depth,
                                         uint64_t& left) const {
  if (depth > kDeepest) return std::nullopt;
  for (const Member& one : structure.members) {
    if (left == 0) return std::nullopt;
    --left;
    if (!one.name.empty()) {
      if (one.name != member) continue;
      if (one.bit_size != 0) return std::nullopt;
      return uint32_t(one.offset);
    }
    if (auto found = find_member(type(one.type), member, depth + 1, left))
      return uint32_t(one.offset) + *found;
  }
  return std::nullopt;
}

std::optional<uint32_t> Btf::offset_of(std::string_view structure, std::string_view member) const {
  uint64_t left = kMostMembers;
  for (TypeId id : find_types(structure, 50)) {
    const Type& one = type(id);
    if (one.kind != Type::Kind::Struct) continue;
    if (auto found = find_member(one, member, 0, left)) return found;
  }
  return std::nullopt;
}

}  // namespace uscope::image
