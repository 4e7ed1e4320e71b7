#include "engine/kernel/kernel_types.h"

#include <fcntl.h>
#include <linux/btf.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace uscope::engine::kernel {
namespace {

constexpr char kPath[] = "/sys/kernel/btf/vmlinux";
constexpr size_t kLargest = size_t(256) << 20;
// Anonymous members inside anonymous members.
constexpr int kDeepest = 8;

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

}  // namespace

struct KernelTypes::Type {
  uint32_t name = 0, kind = 0, count = 0, other = 0;
  bool has_bitfields = false;
  uint64_t members = 0;  // where they are
};

Result<KernelTypes> KernelTypes::of_running_kernel() {
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

Result<KernelTypes> KernelTypes::parse(std::vector<uint8_t> bytes) {
  KernelTypes out;
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
  for (uint64_t at = first; at + 12 <= end;) {
    out.types_.push_back(uint32_t(at));
    uint32_t info = ByteReader(all, at + 4).u32();
    auto extra = extra_size(BTF_INFO_KIND(info), BTF_INFO_VLEN(info));
    // A newer kernel's kind: what comes behind it cannot be told apart.
    if (!extra) break;
    at += 12 + *extra;
  }
  return out;
}

std::optional<KernelTypes::Type> KernelTypes::type(uint32_t id) const {
  if (id == 0 || id >= types_.size()) return std::nullopt;
  ByteReader reader(Bytes(bytes_), types_[id]);
  Type out;
  out.name = reader.u32();
  uint32_t info = reader.u32();
  out.kind = BTF_INFO_KIND(info);
  out.count = BTF_INFO_VLEN(info);
  out.has_bitfields = BTF_INFO_KFLAG(info) != 0;
  out.other = reader.u32();
  out.members = reader.position();
  if (reader.failed()) return std::nullopt;
  return out;
}

std::string_view KernelTypes::name_at(uint32_t offset) const {
  if (offset >= strings_size_) return {};
  return cstring_at(Bytes(bytes_).subspan(strings_, strings_size_), offset);
}

std::optional<uint32_t> KernelTypes::find_member(const Type& structure, std::string_view member,
                                                 int depth) const {
  if (depth > kDeepest) return std::nullopt;
  ByteReader reader(Bytes(bytes_), structure.members);
  for (uint32_t i = 0; i < structure.count; i++) {
    auto one = reader.read<btf_member>();
    if (reader.failed()) return std::nullopt;
    uint32_t bit = structure.has_bitfields ? BTF_MEMBER_BIT_OFFSET(one.offset) : one.offset;
    bool is_bitfield = structure.has_bitfields && BTF_MEMBER_BITFIELD_SIZE(one.offset) != 0;
    if (one.name_off != 0) {
      if (name_at(one.name_off) != member) continue;
      if (is_bitfield || bit % 8 != 0) return std::nullopt;
      return bit / 8;
    }
    auto inside = type(one.type);
    if (!inside || (inside->kind != BTF_KIND_STRUCT && inside->kind != BTF_KIND_UNION)) continue;
    if (auto found = find_member(*inside, member, depth + 1)) return bit / 8 + *found;
  }
  return std::nullopt;
}

std::optional<uint32_t> KernelTypes::offset_of(std::string_view structure, std::string_view member) const {
  for (uint32_t id = 1; id < types_.size(); id++) {
    uint32_t info = ByteReader(Bytes(bytes_), types_[id] + 4).u32();
    if (BTF_INFO_KIND(info) != BTF_KIND_STRUCT) continue;
    auto one = type(id);
    if (!one || name_at(one->name) != structure) continue;
    if (auto found = find_member(*one, member, 0)) return found;
  }
  return std::nullopt;
}

std::optional<codegen::VmaLayout> vma_layout(const KernelTypes& types) {
  codegen::VmaLayout layout;
  struct Wanted {
    std::string_view structure, member;
    uint32_t codegen::VmaLayout::*where;
  };
  using L = codegen::VmaLayout;
  const Wanted wanted[] = {
      {"vm_area_struct", "vm_start", &L::vm_start},
      {"vm_area_struct", "vm_end", &L::vm_end},
      {"vm_area_struct", "vm_pgoff", &L::vm_pgoff},
      {"vm_area_struct", "vm_flags", &L::vm_flags},
      {"vm_area_struct", "vm_file", &L::vm_file},
      {"file", "f_inode", &L::f_inode},
      {"inode", "i_ino", &L::i_ino},
      {"inode", "i_sb", &L::i_sb},
      {"super_block", "s_dev", &L::s_dev},
  };
  for (const Wanted& one : wanted) {
    auto offset = types.offset_of(one.structure, one.member);
    if (!offset) return std::nullopt;
    layout.*one.where = *offset;
  }
  return layout;
}

}  // namespace uscope::engine::kernel
