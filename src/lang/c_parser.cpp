#include "lang/c_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace uscope::lang {
namespace {

constexpr uint32_t kMaxDepth = 64;
constexpr uint64_t kMaxSize = uint64_t{1} << 32;
constexpr std::string_view kUntagged = " (anonymous at ";

struct BaseName {
  std::string_view name;
  unsigned bits;
  bool is_signed;
};

constexpr std::array kFixed = {
    BaseName{"int8_t", 8, true},      BaseName{"int16_t", 16, true},    BaseName{"int32_t", 32, true},
    BaseName{"int64_t", 64, true},    BaseName{"uint8_t", 8, false},    BaseName{"uint16_t", 16, false},
    BaseName{"uint32_t", 32, false},  BaseName{"uint64_t", 64, false},  BaseName{"int8", 8, true},
    BaseName{"int16", 16, true},      BaseName{"int32", 32, true},      BaseName{"int64", 64, true},
    BaseName{"uint8", 8, false},      BaseName{"uint16", 16, false},    BaseName{"uint32", 32, false},
    BaseName{"uint64", 64, false},    BaseName{"size_t", 64, false},    BaseName{"ssize_t", 64, true},
    BaseName{"uintptr_t", 64, false}, BaseName{"intptr_t", 64, true},   BaseName{"ptrdiff_t", 64, true},
    BaseName{"u8", 8, false},         BaseName{"u16", 16, false},       BaseName{"u32", 32, false},
    BaseName{"u64", 64, false},       BaseName{"s8", 8, true},          BaseName{"s16", 16, true},
    BaseName{"s32", 32, true},        BaseName{"s64", 64, true},        BaseName{"__u8", 8, false},
    BaseName{"__u16", 16, false},     BaseName{"__u32", 32, false},     BaseName{"__u64", 64, false},
    BaseName{"__s8", 8, true},        BaseName{"__s16", 16, true},      BaseName{"__s32", 32, true},
    BaseName{"__s64", 64, true},      BaseName{"pid_t", 32, true},      BaseName{"uid_t", 32, false},
    BaseName{"gid_t", 32, false},     BaseName{"off_t", 64, true},      BaseName{"time_t", 64, true},
    BaseName{"wchar_t", 32, true},    BaseName{"socklen_t", 32, false}, BaseName{"mode_t", 32, false},
};

constexpr uint64_t kMostUsefulAlignment = 16;  // what `aligned` without a number means on x86-64
constexpr int64_t kMostAligned = int64_t{1} << 28;

constexpr std::array<std::string_view, 4> kRefusedAttributes = {"vector_size", "ext_vector_type", "ms_struct",
                                                                "scalar_storage_order"};

struct Mode {
  std::string_view name;
  unsigned bits;
};
constexpr std::array kModes = {Mode{"QI", 8},  Mode{"byte", 8},  Mode{"HI", 16},     Mode{"SI", 32},
                               Mode{"DI", 64}, Mode{"word", 64}, Mode{"pointer", 64}};

// What a field of this type takes in memory: a char array holds no NUL of its own.
uint64_t stored_size(const Type& type) { return type.is(TypeKind::kString) ? type.size() - 1 : type.size(); }

uint64_t round_up(uint64_t value, uint64_t to) { return to == 0 ? value : (value + to - 1) / to * to; }

bool is_qualifier(const std::string& word) {
  static constexpr std::array<std::string_view, 10> kWords = {
      "const",    "volatile", "static",     "extern",  "inline",
      "register", "restrict", "__restrict", "_Atomic", "__extension__"};
  return std::ranges::find(kWords, word) != kWords.end();
}

// The words of a plain C type, in any order: unsigned long int.
struct Words {
  int longs = 0;
  bool any = false, is_unsigned = false, is_signed = false, is_short = false, is_char = false,
       is_float = false, is_double = false, is_void = false, is_bool = false;

  bool take(std::string_view word) {
    if (word == "long")
      ++longs;
    else if (word == "unsigned")
      is_unsigned = true;
    else if (word == "signed" || word == "__signed__")
      is_signed = true;
    else if (word == "short")
      is_short = true;
    else if (word == "char")
      is_char = true;
    else if (word == "float")
      is_float = true;
    else if (word == "double")
      is_double = true;
    else if (word == "void")
      is_void = true;
    else if (word == "bool" || word == "_Bool")
      is_bool = true;
    else if (word != "int")
      return false;
    return any = true;
  }
  Type type() const {
    if (is_void) return Type::void_type();
    if (is_bool) return Type::boolean();
    if (is_float) return Type::floating(32);
    if (is_double) return longs > 0 ? Type::floating(128) : Type::floating(64);
    unsigned bits = is_char ? 8 : is_short ? 16 : longs > 0 ? 64 : 32;
    return Type::integer(bits, !is_unsigned);
  }
};

}  // namespace

std::optional<Type> find_c_base_type(std::string_view name) {
  auto found = std::ranges::find(kFixed, name, &BaseName::name);
  if (found != kFixed.end()) return Type::integer(found->bits, found->is_signed);
  Words words;
  while (!name.empty()) {
    size_t space = name.find(' ');
    std::string_view word = name.substr(0, space);
    if (!word.empty() && !words.take(word)) return std::nullopt;
    name.remove_prefix(space == std::string_view::npos ? name.size() : space + 1);
  }
  if (!words.any) return std::nullopt;
  return words.type();
}

CParser::CParser(CTypes& into, const Source& source, Span definition, const TypeSource& program,
                 Diagnostics& diagnostics)
    : into_(into),
      lexer_(source, definition.source),
      end_(definition.end),
      program_(program),
      diagnostics_(diagnostics) {
  lexer_.seek(definition.begin);
  next();
}

void CParser::next() {
  token_ = lexer_.next();
  if (token_.span.begin >= end_ || failed_) {
    token_ = Token{};
    token_.span = Span{end_, end_, token_.span.source};
  }
}

bool CParser::accept(Tok kind) {
  if (!at(kind)) return false;
  next();
  return true;
}

bool CParser::expect(Tok kind, std::string_view spelled) {
  if (accept(kind)) return true;
  fail(fmt::format("expected {} in C definition", spelled));
  return false;
}

void CParser::fail(std::string message) {
  if (!failed_) diagnostics_.error(token_.span, std::move(message));
  failed_ = true;
  token_.kind = Tok::kEnd;
}

void CParser::run() {
  if (at_word("typedef")) {
    next();
    type_definition();
    return;
  }
  Attributes unused;  // of a variable, if any
  specifier(unused);
}

void CParser::type_definition() {
  Attributes own;
  auto base = specifier(own);
  if (!base || failed_) return;
  uint64_t alignment = alignment_;
  do {
    alignment_ = alignment;
    Declarator alias = declarator(*base, own);
    if (failed_) return;
    if (alias.name.empty()) return fail("expected a name in typedef");
    into_.types_[alias.name] = alias.type;
    into_.alignments_.erase(alias.name);
    if (alias.attributes.aligned != 0) alias.alignment = alias.attributes.aligned;
    if (alias.alignment != 0) into_.alignments_[alias.name] = alias.alignment;
  } while (accept(Tok::kComma));
}

void CParser::skip_parens() {
  uint32_t parens = 0;
  do {
    if (at(Tok::kLeftParen)) ++parens;
    if (at(Tok::kRightParen)) --parens;
    if (at(Tok::kEnd)) return;
    next();
  } while (parens > 0);
}

bool CParser::attributes(Attributes& into) {
  bool any = false;
  while (!failed_ && (at_word("__attribute__") || at_word("__attribute") || at_word("__packed"))) {
    any = true;
    bool is_short = at_word("__packed");
    next();
    if (is_short) {
      into.packed = true;
      continue;
    }
    expect(Tok::kLeftParen, "'('");
    expect(Tok::kLeftParen, "'('");
    while (!failed_ && !at(Tok::kRightParen) && !at(Tok::kEnd)) {
      attribute(into);
      accept(Tok::kComma);
    }
    expect(Tok::kRightParen, "')'");
    expect(Tok::kRightParen, "')'");
  }
  return any;
}

// One of the list. What changes the layout in a way that is not known here is refused, all else passed over.
void CParser::attribute(Attributes& into) {
  std::string_view name = token_.text;
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__"))
    name = name.substr(2, name.size() - 4);
  if (at(Tok::kIdent) && std::ranges::find(kRefusedAttributes, name) != kRefusedAttributes.end())
    return fail(fmt::format("the attribute '{}' is not supported in C definitions", name));
  bool aligns = name == "aligned", has_mode = name == "mode";
  into.packed |= name == "packed";
  next();
  if (aligns && !at(Tok::kLeftParen)) into.aligned = std::max(into.aligned, kMostUsefulAlignment);
  if (!at(Tok::kLeftParen)) return;
  if (!aligns && !has_mode) return skip_parens();
  next();
  if (has_mode) {
    into.mode = token_.text;
    next();
  } else {
    int64_t bytes = constant().value_or(CValue()).value;
    if (bytes <= 0 || bytes > kMostAligned || (bytes & (bytes - 1)) != 0)
      return fail("an alignment is a power of two");
    into.aligned = std::max(into.aligned, static_cast<uint64_t>(bytes));
  }
  expect(Tok::kRightParen, "')'");
}

// int x __attribute__((mode(DI))): the integer of that width.
void CParser::apply_mode(Declarator& field) {
  std::string_view mode = field.attributes.mode;
  if (mode.empty() || failed_) return;
  if (mode.size() > 4 && mode.starts_with("__") && mode.ends_with("__"))
    mode = mode.substr(2, mode.size() - 4);
  auto known = std::ranges::find(kModes, mode, &Mode::name);
  if (known == kModes.end() || !field.type.is(TypeKind::kInt))
    return fail(fmt::format("the attribute 'mode({})' is not supported here", mode));
  field.type = Type::integer(known->bits, field.type.is_signed());
}

std::optional<Type> CParser::specifier(Attributes& own) {
  is_untagged_ = false;
  while (at(Tok::kIdent) && is_qualifier(token_.text)) next();
  if (attributes(own)) return specifier(own);
  if (at_word("struct") || at_word("union")) {
    std::string tag = token_.text;
    next();
    auto made = composite(tag);
    alignment_ = 0;
    is_untagged_ = made && std::string_view(made->name()).substr(tag.size()).starts_with(kUntagged);
    return made;
  }
  if (at_word("enum")) {
    next();
    alignment_ = 0;
    return enumeration();
  }
  return named_type();
}

std::optional<Type> CParser::named_type() {
  alignment_ = 0;
  Words words;
  while (at(Tok::kIdent) && (words.take(token_.text) || is_qualifier(token_.text))) next();
  plain_char_ = words.any && words.is_char && !words.is_signed && !words.is_unsigned;
  if (words.any) return words.type();
  if (!at(Tok::kIdent)) {
    fail("expected a type in C definition");
    return std::nullopt;
  }
  std::string name = token_.text;
  std::optional<Type> found = into_.find_type(name);
  if (auto aligned = into_.alignments_.find(name); aligned != into_.alignments_.end())
    alignment_ = aligned->second;
  if (!found) found = program_.find_type(name);
  if (!found) found = find_c_base_type(name);
  if (!found) {
    fail(fmt::format("unknown type name '{}'", name));
    return std::nullopt;
  }
  next();
  while (at(Tok::kIdent) && is_qualifier(token_.text)) next();
  return found;
}

std::optional<Type> CParser::composite(const std::string& tag) {
  Attributes own;
  attributes(own);
  std::string name;
  if (at(Tok::kIdent)) {
    name = tag + " " + token_.text;
    next();
  } else {
    name = fmt::format("{}{}{}:{})", tag, kUntagged, token_.span.source, token_.span.begin);
  }
  if (!at(Tok::kLeftBrace)) {
    if (const StructLayout* known = into_.find_struct(name)) return Type::structure(name, known->size);
    // Fine behind a pointer; which one of that name it is depends on the probe.
    return Type::structure(name, 0);
  }
  if (!into_.pack_.is_known) fail("the #pragma before this definition is not supported");
  if (++depth_ > kMaxDepth) fail("C definition nested too deeply");
  if (failed_) return std::nullopt;
  uint32_t end = 0;
  Attributes behind = attributes_behind_body(end);
  Layout layout;
  layout.out.name = name;
  layout.is_union = tag == "union";
  layout.packed = own.packed || behind.packed;
  layout.out.alignment = std::max({layout.out.alignment, own.aligned, behind.aligned});
  bool done = body(layout);
  --depth_;
  if (!done || failed_) return std::nullopt;
  lexer_.seek(end);
  next();
  Type type = Type::structure(name, layout.out.size);
  into_.structs_[name] = std::move(layout.out);
  into_.types_[name] = type;
  return type;
}

// They may stand there too; looked at before the body, since they change the layout. They end at `end`.
CParser::Attributes CParser::attributes_behind_body(uint32_t& end) {
  uint32_t back = token_.span.begin;
  uint32_t braces = 0;
  do {
    if (at(Tok::kLeftBrace)) ++braces;
    if (at(Tok::kRightBrace)) --braces;
    next();
  } while (braces > 0 && !at(Tok::kEnd));
  Attributes found;
  attributes(found);
  end = token_.span.begin;
  lexer_.seek(back);
  if (!failed_) next();
  return found;
}

bool CParser::body(Layout& layout) {
  expect(Tok::kLeftBrace, "'{'");
  while (!failed_ && !at(Tok::kRightBrace)) {
    if (at(Tok::kEnd)) fail("expected '}' in C definition");
    if (accept(Tok::kSemicolon)) continue;
    if (!member(layout)) return false;
  }
  expect(Tok::kRightBrace, "'}'");
  uint64_t bytes = round_up(layout.bit, 8) / 8;
  layout.out.size = round_up(std::max(bytes, layout.out.size), layout.out.alignment);
  return !failed_;
}

bool CParser::member(Layout& layout) {
  Attributes own;
  auto base = specifier(own);
  if (!base || failed_) return false;
  if (at(Tok::kSemicolon)) {
    // `struct tag { … };` inside declares a type and no member.
    if (is_untagged_) place_anonymous(layout, *base);
    return true;
  }
  bool is_char = plain_char_;
  uint64_t alignment = alignment_;
  do {
    plain_char_ = is_char;
    alignment_ = alignment;
    Declarator field = declarator(*base, own);
    if (failed_) return false;
    field.type = whole(std::move(field.type));
    if (field.bits) {
      place_bits(layout, field);
    } else {
      place(layout, field);
    }
  } while (!failed_ && accept(Tok::kComma));
  if (at(Tok::kRightBrace)) return true;  // compilers let the last `;` go, and so do scripts
  return expect(Tok::kSemicolon, "';'");
}

// name, *name, name[2][3], (*name)(int), name : 3
CParser::Declarator CParser::declarator(Type base, const Attributes& own) {
  Declarator out;
  out.attributes = own;
  out.alignment = alignment_;
  if (++depth_ > kMaxDepth) fail("C definition nested too deeply");
  while (at(Tok::kStar) || (at(Tok::kIdent) && is_qualifier(token_.text))) {
    if (at(Tok::kStar)) {
      base = Type::pointer(base);
      out.alignment = 0;
    }
    next();
  }
  attributes(out.attributes);
  out.span = token_.span;
  if (accept(Tok::kLeftParen)) {
    parenthesized(out, base);
  } else {
    if (at(Tok::kIdent)) {
      out.name = token_.text;
      next();
    }
    out.type = std::move(base);
    array_suffix(out.type);
    if (accept(Tok::kColon)) {
      int64_t bits = constant().value_or(CValue()).value;
      if (bits < 0) fail("a bitfield has no negative width");
      out.bits = static_cast<uint64_t>(bits);
    }
  }
  attributes(out.attributes);
  apply_mode(out);
  --depth_;
  return out;
}

// (*name)(int), (*name)[3], (*name[2])(int): eight bytes, whatever is pointed to. (name)[3] is name[3]; what
// else there may be inside is refused. Behind the `(`.
void CParser::parenthesized(Declarator& out, Type base) {
  bool pointer = at(Tok::kStar);
  while (at(Tok::kStar) || (pointer && at(Tok::kIdent) && is_qualifier(token_.text))) next();
  if (at(Tok::kIdent)) {
    out.name = token_.text;
    next();
  }
  if (pointer) {
    out.type = Type::pointer(Type::void_type());
    out.alignment = 0;
    array_suffix(out.type);
  }
  expect(Tok::kRightParen, "')'");
  bool function = at(Tok::kLeftParen);
  if (function) skip_parens();
  array_suffix(base);
  if (pointer) return;
  out.type = function ? Type::void_type() : std::move(base);
}

bool CParser::array_suffix(Type& type) {
  std::vector<uint64_t> dimensions;
  while (!failed_ && accept(Tok::kLeftBracket)) {
    int64_t count = 0;
    if (!at(Tok::kRightBracket)) count = constant().value_or(CValue()).value;
    expect(Tok::kRightBracket, "']'");
    if (count < 0 || static_cast<uint64_t>(count) > kMaxSize || dimensions.size() > 8)
      fail("array is too large");
    dimensions.push_back(static_cast<uint64_t>(count));
  }
  if (!dimensions.empty()) type = whole(std::move(type));
  bool text = plain_char_ && type.is(TypeKind::kInt) && type.size() == 1;
  for (auto dimension = dimensions.rbegin(); dimension != dimensions.rend(); ++dimension) {
    uint64_t element = stored_size(type), size = 0;
    if (__builtin_mul_overflow(*dimension, element, &size) || size > kMaxSize) {
      fail("array is too large");
      return false;
    }
    // As many as the program put there, where it says no number: no text of a length that is known.
    bool characters = text && dimension == dimensions.rbegin() && *dimension != 0;
    type = characters ? Type::string(*dimension + 1) : Type::array(type, *dimension, element);
  }
  return !dimensions.empty();
}

// Of the program's or the kernel's, which rarely say it: as its members need it, unless it is packed.
uint64_t CParser::alignment_of(const StructLayout& outside, uint32_t depth) const {
  uint64_t found = std::max<uint64_t>(outside.alignment, 1);
  if (found > 1 || depth > kMaxDepth) return found;
  for (const TypeField& field : outside.fields) {
    uint64_t alignment = alignment_of(field.type, depth + 1);
    if (field.offset % alignment != 0) return 1;
    found = std::max(found, alignment);
  }
  return outside.size % found == 0 ? found : 1;
}

uint64_t CParser::alignment_of(const Type& type, uint32_t depth) const {
  if (type.is(TypeKind::kArray)) return alignment_of(type.element(), depth);
  if (type.is(TypeKind::kString)) return 1;
  if (type.is(TypeKind::kStruct)) {
    if (const StructLayout* layout = into_.find_struct(type.name())) return layout->alignment;
    auto outside = program_.find_struct(type.name());
    return outside ? alignment_of(*outside, depth) : 1;
  }
  return std::clamp<uint64_t>(type.size(), 1, 16);
}

bool CParser::is_incomplete(const Type& type) const {
  if (type.is(TypeKind::kArray)) return is_incomplete(type.element());
  if (type.is(TypeKind::kVoid)) return true;
  return type.is(TypeKind::kStruct) && type.size() == 0 && !into_.find_struct(type.name());
}

// A struct whose size matters: where the script does not define it, the one that is known by that name.
Type CParser::whole(Type type) const {
  if (!type.is(TypeKind::kStruct) || type.size() != 0 || into_.find_struct(type.name())) return type;
  auto outside = program_.find_struct(type.name());
  return outside ? Type::structure(type.name(), outside->size) : type;
}

void CParser::place(Layout& layout, const Declarator& field) {
  if (is_incomplete(field.type))
    return fail(fmt::format("field '{}' has incomplete type '{}'", field.name, field.type.spell()));
  uint64_t alignment = field.alignment != 0 ? field.alignment : alignment_of(field.type);
  if (layout.packed || field.attributes.packed) alignment = 1;
  alignment = std::max(alignment, field.attributes.aligned);
  uint64_t most = into_.pack_.most;
  if (most != 0 && (field.attributes.aligned > most || field.alignment > most))
    return fail("an aligned member under #pragma pack is not supported");
  if (most != 0) alignment = std::min(alignment, most);
  uint64_t offset = layout.is_union ? 0 : round_up(round_up(layout.bit, 8) / 8, alignment);
  layout.out.alignment = std::max(layout.out.alignment, alignment);
  layout.out.fields.push_back(TypeField{field.name, field.type, offset, 0, 0});
  uint64_t end = offset + stored_size(field.type);
  if (end > kMaxSize) return fail("struct is too large");
  layout.bit = layout.is_union ? 0 : end * 8;
  layout.out.size = std::max(layout.out.size, end);
}

// System V: a bitfield never crosses a boundary of its declared type, and aligns the struct to it if it has a
// name.
void CParser::place_bits(Layout& layout, const Declarator& field) {
  uint64_t unit = std::max<uint64_t>(field.type.size(), 1) * 8;
  if (*field.bits > unit) return fail(fmt::format("width of bitfield '{}' exceeds its type", field.name));
  uint64_t bit = layout.is_union ? 0 : layout.bit;
  if (*field.bits == 0) {
    layout.bit = round_up(bit, unit);
    return;
  }
  // Compilers differ in these.
  if (field.attributes.aligned != 0 || field.alignment != 0)
    return fail("a bitfield with an alignment is not supported");
  if (into_.pack_.most != 0 && into_.pack_.most < unit / 8)
    return fail("a bitfield under #pragma pack is not supported");
  bool packed = layout.packed || field.attributes.packed;
  bool crosses = bit / unit != (bit + *field.bits - 1) / unit;
  if (crosses && !packed) bit = round_up(bit, unit);
  if (!field.name.empty()) {
    if (!packed) layout.out.alignment = std::max(layout.out.alignment, unit / 8);
    // Packed ones may start in any byte; they are then read from the byte they start in.
    uint64_t storage = crosses && packed ? bit / 8 : bit / unit * (unit / 8);
    // As in bpftrace, the bits are a number without a sign, whatever the type.
    Type type =
        field.type.is(TypeKind::kInt) ? Type::integer(static_cast<unsigned>(unit), false) : field.type;
    layout.out.fields.push_back(TypeField{field.name, std::move(type), storage,
                                          static_cast<uint32_t>(bit - storage * 8),
                                          static_cast<uint32_t>(*field.bits)});
  }
  uint64_t end = bit + *field.bits;
  layout.out.size = std::max(layout.out.size, round_up(end, 8) / 8);
  layout.bit = layout.is_union ? 0 : end;
}

// The members of an unnamed struct or union are the outer one's members too.
void CParser::place_anonymous(Layout& layout, const Type& type) {
  Declarator whole;
  whole.type = type;
  place(layout, whole);
  if (failed_) return;
  uint64_t base = layout.out.fields.back().offset;
  layout.out.fields.pop_back();
  const StructLayout* inner = into_.find_struct(type.name());
  if (inner == nullptr) return;
  for (TypeField field : inner->fields) {
    field.offset += base;
    layout.out.fields.push_back(std::move(field));
  }
}

std::optional<Type> CParser::enumeration() {
  std::string name = "enum";
  Span begin = token_.span;
  Attributes own;
  attributes(own);
  if (at_word("class") || at_word("struct")) next();
  if (at(Tok::kIdent)) {
    name += " " + token_.text;
    next();
  } else {
    name = fmt::format("enum{}{}:{})", kUntagged, begin.source, begin.begin);
  }
  if (!at(Tok::kLeftBrace)) {
    if (auto known = into_.find_type(name)) return known;
    if (auto outside = program_.find_type(name)) return outside;
    return Type::enumeration(name, 4, false);
  }
  next();
  std::vector<Enumerator> all;
  CValue value;
  bool negative = false, large = false;
  while (!failed_ && at(Tok::kIdent)) {
    std::string enumerator = token_.text;
    Span span = token_.span;
    next();
    if (accept(Tok::kAssign)) value = constant().value_or(CValue());
    if (into_.constants_.contains(enumerator)) {
      token_.span = span;
      fail(fmt::format("redefinition of enumerator '{}'", enumerator));
      return std::nullopt;
    }
    into_.constants_[enumerator] = Constant{Type(), value.value};
    all.push_back({std::move(enumerator), value.value});
    negative |= value.is_negative();
    large |= value.value > UINT32_MAX || value.value < INT32_MIN;
    value.value = static_cast<int64_t>(static_cast<uint64_t>(value.value) + 1);
    if (!accept(Tok::kComma)) break;
  }
  expect(Tok::kRightBrace, "'}'");
  attributes(own);
  if (own.packed || own.aligned != 0) fail("an enum with a layout of its own is not supported");
  if (failed_) return std::nullopt;
  large |= negative && std::ranges::any_of(all, [](const auto& one) { return one.value > INT32_MAX; });
  Type type = Type::enumeration(name, large ? 8 : 4, negative);
  for (const auto& one : all) into_.constants_[one.name].type = type;
  into_.types_[name] = type;
  into_.enums_[name] = std::move(all);
  return type;
}

std::optional<CValue> CParser::constant() {
  auto value = binary_constant(1);
  if (!value || !accept(Tok::kQuestion)) return value;
  auto yes = constant();
  expect(Tok::kColon, "':'");
  auto no = constant();
  if (!yes || !no) return std::nullopt;
  return c_choose(value->value != 0, *yes, *no);
}

std::optional<CValue> CParser::binary_constant(int least) {
  auto left = unary_constant();
  while (left && !failed_ && c_precedence(token_.kind) >= least) {
    Tok op = token_.kind;
    next();
    auto right = binary_constant(c_precedence(op) + 1);
    if (!right) return std::nullopt;
    left = c_apply(op, *left, *right);
    if (!left) fail("this has no value in C");
  }
  return left;
}

std::optional<CValue> CParser::unary_constant() {
  if (++depth_ > kMaxDepth) fail("C definition nested too deeply");
  std::optional<CValue> out;
  Tok op = token_.kind;
  if (at_word("sizeof")) {
    next();
    out = size_constant();
  } else if (op == Tok::kMinus || op == Tok::kTilde || op == Tok::kBang || op == Tok::kPlus) {
    next();
    out = unary_constant();
    if (out) out = c_apply(op, *out);
  } else if (accept(Tok::kLeftParen)) {
    out = parenthesized_constant();
  } else if (at(Tok::kInt)) {
    out = c_literal(token_.integer, token_.text);
    next();
  } else if (at(Tok::kIdent)) {
    if (auto known = into_.find_constant(token_.text)) out = c_number(known->value);
    if (!out) fail(fmt::format("'{}' is no constant", token_.text));
    next();
  } else {
    fail("expected a constant in C definition");
  }
  --depth_;
  return failed_ ? std::nullopt : out;
}

std::optional<CValue> CParser::size_constant() {
  expect(Tok::kLeftParen, "'('");
  Attributes own;
  auto base = specifier(own);
  if (!base || failed_) return std::nullopt;
  Type type = whole(declarator(*base, own).type);
  if (is_incomplete(type)) fail(fmt::format("the size of '{}' is not known", type.spell()));
  expect(Tok::kRightParen, "')'");
  return CValue{static_cast<int64_t>(stored_size(type)), true, true};
}

// A cast, or something in parentheses; behind the `(`.
std::optional<CValue> CParser::parenthesized_constant() {
  bool is_cast = at(Tok::kIdent) && !into_.find_constant(token_.text) &&
                 (is_qualifier(token_.text) || at_word("enum") || find_c_base_type(token_.text) ||
                  into_.find_type(token_.text));
  if (!is_cast) {
    auto out = constant();
    expect(Tok::kRightParen, "')'");
    return out;
  }
  Attributes own;
  auto to = specifier(own);
  expect(Tok::kRightParen, "')'");
  auto operand = unary_constant();
  if (!to || !operand) return std::nullopt;
  auto out = c_cast(*operand, *to);
  if (!out) fail(fmt::format("a cast to '{}' is not supported in C definitions", to->spell()));
  return out;
}

}  // namespace uscope::lang
