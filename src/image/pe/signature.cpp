#include "image/pe/signature.h"

#include <fmt/format.h>

#include <array>

namespace uscope::image {
namespace {

constexpr size_t kMaxText = 16 * 1024;
constexpr size_t kMaxSuffix = 2048;
constexpr unsigned kMaxDepth = 64;
constexpr unsigned kMaxSteps = 20'000;

// ECMA-335 II.23.1.16, and ReadyToRun's own three.
enum Element : uint8_t {
  kPointer = 0x0f,
  kByRef = 0x10,
  kValueType = 0x11,
  kClass = 0x12,
  kTypeVariable = 0x13,
  kArray = 0x14,
  kGenericInstance = 0x15,
  kFunctionPointer = 0x1b,
  kVector = 0x1d,
  kMethodVariable = 0x1e,
  kRequiredModifier = 0x1f,
  kOptionalModifier = 0x20,
  kNativeValueType = 0x3d,
  kCanonical = 0x3e,
  kModuleOverride = 0x3f,
  kSentinel = 0x41,
  kPinned = 0x45,
};

struct Primitive {
  uint8_t element;
  std::string_view il;
  std::string_view reflection;
};
constexpr std::array kPrimitives = {
    Primitive{0x01, "void", "System.Void"},
    Primitive{0x02, "bool", "System.Boolean"},
    Primitive{0x03, "char", "System.Char"},
    Primitive{0x04, "int8", "System.SByte"},
    Primitive{0x05, "uint8", "System.Byte"},
    Primitive{0x06, "int16", "System.Int16"},
    Primitive{0x07, "uint16", "System.UInt16"},
    Primitive{0x08, "int32", "System.Int32"},
    Primitive{0x09, "uint32", "System.UInt32"},
    Primitive{0x0a, "int64", "System.Int64"},
    Primitive{0x0b, "uint64", "System.UInt64"},
    Primitive{0x0c, "float32", "System.Single"},
    Primitive{0x0d, "float64", "System.Double"},
    Primitive{0x0e, "string", "System.String"},
    Primitive{0x16, "typedref", "System.TypedReference"},
    Primitive{0x18, "native int", "System.IntPtr"},
    Primitive{0x19, "native uint", "System.UIntPtr"},
    Primitive{0x1c, "object", "System.Object"},
    Primitive{kCanonical, "System.__Canon", "System.__Canon"},
};

constexpr std::array<std::string_view, 10> kCallingConventions = {"",
                                                                  "unmanaged cdecl ",
                                                                  "unmanaged stdcall ",
                                                                  "unmanaged thiscall ",
                                                                  "unmanaged fastcall ",
                                                                  "vararg ",
                                                                  "",
                                                                  "",
                                                                  "",
                                                                  "unmanaged "};

enum class Style { kIl, kReflection };

// Walks one signature and appends its text. Any failure is sticky: ok() turns false and the text is of no
// use.
class Speller {
 public:
  Speller(Style style, const Metadata* metadata, const ModuleLookup* modules)
      : style_(style), metadata_(metadata), modules_(modules) {}

  void type(ByteReader& in, unsigned depth);
  void method(ByteReader& in, std::string_view name, unsigned depth);
  void type_token(MetadataToken token, unsigned depth);

  bool ok() const { return ok_; }
  bool unresolved() const { return unresolved_; }
  std::string take() { return std::move(out_); }

 private:
  void append(std::string_view text);
  void append_name(std::string_view text);
  bool step(unsigned depth);
  bool modifier(uint8_t element, ByteReader& in, std::string& suffix, unsigned depth);
  void plain(uint8_t element, ByteReader& in, unsigned depth);
  void generic_instance(ByteReader& in, unsigned depth);
  void array(ByteReader& in, unsigned depth);
  void function_pointer(ByteReader& in, unsigned depth);
  void module_override(ByteReader& in, unsigned depth);
  void type_ref(uint32_t row, unsigned depth);
  void type_def(uint32_t row, unsigned depth);
  void full_name(std::string_view name_space, std::string_view name);
  void arguments(ByteReader& in, uint32_t count, unsigned depth);

  Style style_;
  const Metadata* metadata_;
  const ModuleLookup* modules_;
  std::string out_;
  unsigned steps_ = 0;
  bool ok_ = true;
  bool unresolved_ = false;
};

void Speller::append(std::string_view text) {
  if (out_.size() + text.size() > kMaxText) ok_ = false;
  if (ok_) out_ += text;
}

// Reflection style escapes what would otherwise read as syntax.
void Speller::append_name(std::string_view text) {
  if (style_ == Style::kIl || text.find_first_of(",[]&*+\\") == std::string_view::npos) return append(text);
  for (char c : text) {
    if (std::string_view(",[]&*+\\").find(c) != std::string_view::npos) append("\\");
    append({&c, 1});
  }
}

bool Speller::step(unsigned depth) {
  if (depth > kMaxDepth || ++steps_ > kMaxSteps) ok_ = false;
  return ok_;
}

void Speller::type(ByteReader& in, unsigned depth) {
  std::string suffix;
  for (;;) {
    if (!step(depth)) return;
    uint8_t element = in.u8();
    if (suffix.size() > kMaxSuffix) ok_ = false;
    if (in.failed() || !ok_) break;
    if (modifier(element, in, suffix, depth)) continue;
    plain(element, in, depth);
    break;
  }
  if (in.failed()) ok_ = false;
  append(suffix);
}

// Pointers and their like are read outside in and written inside out.
bool Speller::modifier(uint8_t element, ByteReader& in, std::string& suffix, unsigned depth) {
  switch (element) {
    case kPointer:
      suffix.insert(0, "*");
      return true;
    case kByRef:
      suffix.insert(0, "&");
      return true;
    case kVector:
      suffix.insert(0, "[]");
      return true;
    case kPinned:
      suffix.insert(0, " pinned");
      return true;
    case kNativeValueType:
      return true;
    case kRequiredModifier:
    case kOptionalModifier:
      break;
    default:
      return false;
  }
  Speller inner(Style::kIl, metadata_, modules_);
  inner.steps_ = steps_;
  inner.type_token(decode_type_token(read_compressed(in)), depth + 1);
  steps_ = inner.steps_;
  if (!inner.ok_) ok_ = false;
  if (ok_ && style_ == Style::kIl) {
    suffix.insert(0, fmt::format(" {}({})", element == kRequiredModifier ? "modreq" : "modopt", inner.out_));
  }
  return true;
}

void Speller::plain(uint8_t element, ByteReader& in, unsigned depth) {
  for (const Primitive& primitive : kPrimitives) {
    if (primitive.element == element)
      return append(style_ == Style::kIl ? primitive.il : primitive.reflection);
  }
  switch (element) {
    case kValueType:
    case kClass:
      if (style_ == Style::kIl) append(element == kClass ? "class " : "valuetype ");
      return type_token(decode_type_token(read_compressed(in)), depth + 1);
    case kTypeVariable:
      return append(fmt::format("!{}", read_compressed(in)));
    case kMethodVariable:
      return append(fmt::format("!!{}", read_compressed(in)));
    case kGenericInstance:
      return generic_instance(in, depth);
    case kArray:
      return array(in, depth);
    case kFunctionPointer:
      return function_pointer(in, depth);
    case kModuleOverride:
      return module_override(in, depth);
    default:
      ok_ = false;
  }
}

void Speller::arguments(ByteReader& in, uint32_t count, unsigned depth) {
  for (uint32_t i = 0; i < count && ok_; ++i) {
    if (i != 0) append(",");
    type(in, depth + 1);
  }
}

void Speller::generic_instance(ByteReader& in, unsigned depth) {
  type(in, depth + 1);
  append(style_ == Style::kIl ? "<" : "[");
  arguments(in, read_compressed(in), depth);
  append(style_ == Style::kIl ? ">" : "]");
}

void Speller::array(ByteReader& in, unsigned depth) {
  type(in, depth + 1);
  uint32_t rank = read_compressed(in);
  if (rank == 0 || rank > 32) ok_ = false;  // the runtime's own limit
  if (!ok_) return;
  std::array<int64_t, 32> sizes{}, bounds{};
  uint32_t size_count = read_compressed(in);
  if (size_count > rank) ok_ = false;
  for (uint32_t i = 0; i < size_count && ok_; ++i) sizes[i] = read_compressed(in);
  uint32_t bound_count = read_compressed(in);
  if (bound_count > rank) ok_ = false;
  for (uint32_t i = 0; i < bound_count && ok_; ++i) bounds[i] = read_compressed_signed(in);
  if (!ok_) return;
  if (style_ == Style::kReflection) return append(rank == 1 ? "[*]" : "[" + std::string(rank - 1, ',') + "]");
  std::string text;
  for (uint32_t i = 0; i < rank; ++i) {
    if (i != 0) text += ',';
    if (bounds[i] == 0 && i < size_count) {
      text += fmt::format("{}", sizes[i]);
    } else if (i < bound_count) {
      text += fmt::format("{}...", bounds[i]);
      if (i < size_count) text += fmt::format("{}", bounds[i] + sizes[i] - 1);
    }
  }
  append(rank == 1 && size_count == 0 && bound_count == 0 ? "[...]" : "[" + text + "]");
}

void Speller::function_pointer(ByteReader& in, unsigned depth) {
  if (style_ == Style::kIl) {
    append("method ");
    return method(in, "*", depth + 1);
  }
  in.skip(1);  // calling convention
  uint32_t count = read_compressed(in);
  type(in, depth + 1);
  append("(");
  arguments(in, count, depth);
  append(")");
}

void Speller::module_override(ByteReader& in, unsigned depth) {
  const Metadata* outer = metadata_;
  metadata_ = modules_ != nullptr ? modules_->module(read_compressed(in)) : nullptr;
  if (modules_ == nullptr) ok_ = false;  // plain ECMA signatures have no such element
  type(in, depth + 1);
  metadata_ = outer;
}

void Speller::method(ByteReader& in, std::string_view name, unsigned depth) {
  if (!step(depth)) return;
  uint8_t convention = in.u8();
  if ((convention & 0x40) != 0) append("explicit ");
  if ((convention & 0x20) != 0) append("instance ");
  unsigned kind = convention & 0x0f;
  append(kind < kCallingConventions.size() ? kCallingConventions[kind] : "");
  if (kind >= 6 && kind != 9) ok_ = false;  // a field, locals, a property, an instantiation: no method
  if ((convention & 0x10) != 0) read_compressed(in);  // how many type parameters
  uint32_t count = read_compressed(in);
  type(in, depth + 1);
  append(" ");
  append(name);
  append("(");
  for (uint32_t i = 0; i < count && ok_; ++i) {
    if (i != 0) append(",");
    ByteReader ahead = in;
    if (ahead.u8() == kSentinel) {
      append("...,");
      in = ahead;
    }
    type(in, depth + 1);
  }
  append(")");
}

void Speller::type_token(MetadataToken token, unsigned depth) {
  if (!step(depth)) return;
  if (metadata_ == nullptr) {
    unresolved_ = true;
    return append(fmt::format("{:#010x}", token.value()));
  }
  if (!metadata_->contains(token)) {
    ok_ = false;
    return;
  }
  switch (token.table) {
    case MetadataTable::kTypeDef:
      return type_def(token.row, depth);
    case MetadataTable::kTypeRef:
      return type_ref(token.row, depth);
    case MetadataTable::kTypeSpec: {
      ByteReader in(metadata_->type_spec(token.row));
      return type(in, depth + 1);
    }
    default:
      ok_ = false;
  }
}

void Speller::full_name(std::string_view name_space, std::string_view name) {
  if (!name_space.empty()) {
    append_name(name_space);
    append(".");
  }
  append_name(name);
}

void Speller::type_def(uint32_t row, unsigned depth) {
  if (!step(depth)) return;
  TypeDefRow type = metadata_->type_def(row);
  if (uint32_t outer = metadata_->enclosing_type(row); outer != 0) {
    type_def(outer, depth + 1);
    append(style_ == Style::kIl ? "/" : "+");
  }
  full_name(type.name_space, type.name);
}

void Speller::type_ref(uint32_t row, unsigned depth) {
  if (!step(depth)) return;
  TypeRefRow type = metadata_->type_ref(row);
  if (type.scope.table == MetadataTable::kTypeRef && metadata_->contains(type.scope)) {
    type_ref(type.scope.row, depth + 1);
    append(style_ == Style::kIl ? "/" : "+");
  } else if (style_ == Style::kIl && type.scope.table == MetadataTable::kAssemblyRef) {
    append("[");
    append(metadata_->assembly_ref_name(type.scope.row));
    append("]");
  } else if (style_ == Style::kIl && type.scope.table == MetadataTable::kModuleRef) {
    append("[.module ");
    append(metadata_->module_ref_name(type.scope.row));
    append("]");
  }
  full_name(type.name_space, type.name);
}

}  // namespace

std::string spell_type_def(const Metadata& metadata, uint32_t row) {
  return spell_type(metadata, {MetadataTable::kTypeDef, row}).value_or("");
}

std::optional<std::string> spell_type(const Metadata& metadata, MetadataToken type) {
  Speller speller(Style::kReflection, &metadata, nullptr);
  speller.type_token(type, 0);
  if (!speller.ok()) return std::nullopt;
  return speller.take();
}

std::optional<std::string> spell_method(const Metadata& metadata, Bytes signature, std::string_view name) {
  Speller speller(Style::kIl, &metadata, nullptr);
  ByteReader reader(signature);
  speller.method(reader, name, 0);
  if (!speller.ok() || reader.failed()) return std::nullopt;
  return speller.take();
}

std::optional<SpelledType> spell_ready_to_run_type(ByteReader& reader, const Metadata* metadata,
                                                   const ModuleLookup& modules) {
  Speller speller(Style::kReflection, metadata, &modules);
  speller.type(reader, 0);
  if (!speller.ok() || reader.failed()) return std::nullopt;
  return SpelledType{speller.take(), speller.unresolved()};
}

}  // namespace uscope::image
