#include "image/pe/method_names.h"

#include <fmt/format.h>

#include <utility>

#include "image/pe/ready_to_run.h"
#include "image/pe/signature.h"

namespace uscope::image {
namespace {

// The flags in front of a method signature in an instance entry.
enum MethodFlags : uint32_t {
  kUnboxingStub = 0x01,
  kMethodInstantiation = 0x04,
  kSlotInsteadOfToken = 0x08,
  kMemberRefToken = 0x10,
  kConstrained = 0x20,
  kOwnerType = 0x40,
  kUpdateContext = 0x80,
  kAsyncVariant = 0x100,
};

constexpr uint8_t kModuleOverride = 0x3f;
constexpr uint32_t kMaxTypeArguments = 256;

// The assembly that a reference to a type points to, without following forwarders: "?" when it does not say.
std::string_view assembly_of(const Metadata& metadata, MetadataToken type) {
  for (unsigned step = 0; step < Metadata::kMaxNesting; ++step) {
    switch (type.table) {
      case MetadataTable::kTypeDef:
        return metadata.assembly_name();
      case MetadataTable::kAssemblyRef:
        return metadata.assembly_ref_name(type.row);
      case MetadataTable::kTypeRef:
        type = metadata.type_ref(type.row).scope;
        break;
      case MetadataTable::kTypeSpec: {
        // An instance of a generic type: 0x15, class or value type, the type itself.
        ByteReader reader(metadata.type_spec(type.row));
        if (reader.u8() != 0x15) return "?";
        reader.skip(1);
        type = decode_type_token(read_compressed(reader));
        if (reader.failed()) return "?";
        break;
      }
      default:
        return "?";
    }
  }
  return "?";
}

}  // namespace

struct MethodNames::Context {
  uint32_t flags = 0;
  const Metadata* types = nullptr;    // whose tokens the type signatures hold
  const Metadata* methods = nullptr;  // whose token the method is
  std::string owner;
};

void MethodNames::name(NativeMethod& method, const Metadata& metadata, std::string_view assembly,
                       std::string_view owner, std::string_view name, Bytes signature) {
  std::string qualified = fmt::format("[{}] {}::{}", assembly, owner, name);
  size_t bracket = assembly.size() + 3;
  if (auto text = spell_method(metadata, signature, qualified)) {
    method.name = std::move(*text);
  } else {
    ++problems_.unreadable_signatures;
    method.name = qualified + "(?)";
  }
  size_t begin = method.name.find(qualified);
  method.qualified_begin = uint32_t(begin + bracket);
  method.qualified_end = uint32_t(begin + qualified.size());
}

void MethodNames::name_by_token(NativeMethod& method, std::string_view assembly, std::string_view owner) {
  ++problems_.unknown_modules;
  method.name = fmt::format("[{}] {}{}{:#010x}", assembly.empty() ? "?" : assembly, owner,
                            owner.empty() ? "" : "::", method.token);
  method.qualified_begin = uint32_t(method.name.find(' ') + 1);
  method.qualified_end = uint32_t(method.name.size());
}

NativeMethod MethodNames::of_definition(const Metadata* metadata, std::string_view assembly, uint32_t row) {
  NativeMethod method;
  method.token = MetadataToken{MetadataTable::kMethodDef, row}.value();
  if (metadata == nullptr || !metadata->contains({MetadataTable::kMethodDef, row})) {
    name_by_token(method, assembly, "");
    return method;
  }
  MethodDefRow definition = metadata->method_def(row);
  std::string owner = spell_type_def(*metadata, metadata->owner_of_method(row));
  name(method, *metadata, metadata->assembly_name(), owner, definition.name, definition.signature);
  return method;
}

std::optional<MethodNames::Instance> MethodNames::of_instance(Bytes table, uint64_t offset) {
  ByteReader reader(table, offset);
  Context context{read_compressed(reader), modules_.own(), modules_.own(), {}};
  if ((context.flags & kUpdateContext) != 0) {
    context.types = context.methods = modules_.module(read_compressed(reader));
  }
  bool readable = (context.flags & kSlotInsteadOfToken) == 0 && read_owner(reader, context);
  uint32_t row = read_compressed(reader);
  Instance instance;
  if (readable && (context.flags & kMethodInstantiation) != 0) {
    readable = read_arguments(reader, context.types, instance.method.type_arguments);
  }
  if (readable && (context.flags & kConstrained) != 0) {
    readable = spell_ready_to_run_type(reader, context.types, modules_).has_value();
  }
  instance.function = read_entry_point(reader);
  if (!readable || reader.failed()) {
    ++problems_.skipped_instances;
    return std::nullopt;
  }
  instance.method.unboxing_stub = (context.flags & kUnboxingStub) != 0;
  instance.method.async_variant = (context.flags & kAsyncVariant) != 0;
  name_instance(instance.method, context, row);
  return instance;
}

bool MethodNames::read_owner(ByteReader& reader, Context& context) {
  if ((context.flags & kOwnerType) == 0) return true;
  if ((context.flags & kUpdateContext) == 0) {
    // The method belongs to its owner's module, which the owner's signature says first if it is another one.
    ByteReader ahead = reader;
    if (ahead.u8() == kModuleOverride) {
      context.methods = modules_.module(read_compressed(ahead));
    } else if (context.methods == nullptr) {
      // Composite images leave the module out for the primitive types of the system module only.
      context.methods = modules_.by_name("System.Private.CoreLib");
    }
  }
  auto owner = spell_ready_to_run_type(reader, context.types, modules_);
  if (!owner) return false;
  if (owner->unresolved) ++problems_.unknown_modules;
  context.owner = std::move(owner->text);
  return true;
}

bool MethodNames::read_arguments(ByteReader& reader, const Metadata* metadata, std::string& out) {
  uint32_t count = read_compressed(reader);
  if (count > kMaxTypeArguments) return false;
  out.assign(1, '[');
  for (uint32_t i = 0; i < count; ++i) {
    auto type = spell_ready_to_run_type(reader, metadata, modules_);
    if (!type) return false;
    if (type->unresolved) ++problems_.unknown_modules;
    if (i != 0) out += ',';
    out += type->text;
  }
  out += "]";
  return true;
}

void MethodNames::name_instance(NativeMethod& method, const Context& context, uint32_t row) {
  bool by_reference = (context.flags & kMemberRefToken) != 0;
  MetadataToken token{by_reference ? MetadataTable::kMemberRef : MetadataTable::kMethodDef, row};
  method.token = token.value();
  if (context.methods == nullptr || !context.methods->contains(token)) {
    return name_by_token(method, context.methods != nullptr ? context.methods->assembly_name() : "",
                         context.owner);
  }
  const Metadata& metadata = *context.methods;
  if (!by_reference) {
    MethodDefRow definition = metadata.method_def(row);
    std::string owner =
        context.owner.empty() ? spell_type_def(metadata, metadata.owner_of_method(row)) : context.owner;
    return name(method, metadata, metadata.assembly_name(), owner, definition.name, definition.signature);
  }
  MemberRefRow reference = metadata.member_ref(row);
  std::string owner =
      context.owner.empty() ? spell_type(metadata, reference.parent).value_or("?") : context.owner;
  name(method, metadata, assembly_of(metadata, reference.parent), owner, reference.name, reference.signature);
}

}  // namespace uscope::image
