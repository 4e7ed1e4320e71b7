// The syntax tree of a script: plain structs, each node owned by its parent. The parser makes it, passes
// rewrite it in place (an Expr keeps its address when its `node` is replaced), type resolution fills
// Expr::type, and a code generator reads it. No node refers to another except by ownership or by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lang/lexer.h"
#include "lang/source.h"
#include "lang/types.h"

namespace uscope::lang {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;

// A type as written: `uint64`, `struct foo *`, `uint8[8]`, `string[64]`, `typeof($x)`.
struct TypeSpec {
  Span span;
  std::string name;  // "uint64", "struct foo", "string"; empty for typeof
  ExprPtr of;        // typeof(expression)
  uint32_t pointers = 0;
  bool sized = false;                // had [N] or []
  std::vector<uint64_t> dimensions;  // of arrays, outermost first; 0 for []
};

enum class UnaryOp : uint8_t { kNegate, kNot, kBitNot, kDereference, kAddressOf };
enum class BinaryOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
};

struct Block {
  Span span;  // with its braces
  std::vector<Stmt> statements;
  ExprPtr value;        // a last expression without `;`
  uint32_t height = 0;  // of the tallest expression inside
};

// one node a line reads best.
// clang-format off
// Literals and names.
struct IntLiteral {
  uint64_t value = 0;
  bool negative = false;
  std::string spelling;
};  // negative: value is two's complement
struct FloatLiteral {
  double value = 0;
  std::string spelling;
};
struct StringLiteral {
  std::string value;
};
struct BoolLiteral {
  bool value = false;
};
struct Identifier {
  std::string name;
};  // a builtin, a constant, a macro, a mode: passes decide
struct Builtin {
  std::string name;
};  // resolved: pid, comm, arg0, retval, ...
struct Positional {
  uint64_t number = 0;
};                          // $1
struct PositionalCount {};  // $#
struct Variable {
  std::string name;  // "$x"
  uint32_t slot = 0;  // index into TypedProbe::variables, from type resolution
};
struct MapAccess {
  std::string name;
  ExprPtr key;
};  // "@m"; key null for a scalar map or the map as a whole

// Operations.
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
struct Increment {
  ExprPtr target;
  bool down = false;
  bool prefix = false;
};  // target: Variable or MapAccess
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};
struct Ternary {
  ExprPtr condition, then, otherwise;
};  // then null: `a ?: b`
struct Cast {
  TypeSpec type;
  ExprPtr operand;
};
struct Field {
  ExprPtr object;
  std::string name;
  Span name_span;
  bool is_reference = false;  // the address that a C++ reference holds; its reader stands around it
};  // `.` and `->` are the same
struct TupleIndex {
  ExprPtr object;
  uint64_t index = 0;
};
struct Index {
  ExprPtr object, index;
};
struct Call {
  std::string name;
  Span name_span;
  std::vector<ExprPtr> arguments;
};
struct SizeOf {
  std::optional<TypeSpec> type;
  ExprPtr operand;
};
struct OffsetOf {
  std::optional<TypeSpec> type;
  ExprPtr operand;
  std::vector<std::string> path;
};
struct TypeInfo {
  std::optional<TypeSpec> type;
  ExprPtr operand;
  bool only_type = false;
};  // typeinfo(), typeof()
struct Comptime {
  ExprPtr operand;
};

// Composites.
struct Tuple {
  std::vector<ExprPtr> elements;
};
struct RecordField {
  std::string name;
  Span name_span;
  ExprPtr value;
};
struct Record {
  std::vector<RecordField> fields;
};
struct BlockExpr {
  Block block;
  bool is_expansion = false;  // of a macro, called at the expression's span
};
struct If {
  ExprPtr condition;
  Block then;
  ExprPtr otherwise;
};  // otherwise: BlockExpr, If or null

// clang-format on
using ExprNode =
    std::variant<IntLiteral, FloatLiteral, StringLiteral, BoolLiteral, Identifier, Builtin, Positional,
                 PositionalCount, Variable, MapAccess, Unary, Increment, Binary, Ternary, Cast, Field,
                 TupleIndex, Index, Call, SizeOf, OffsetOf, TypeInfo, Comptime, Tuple, Record, BlockExpr, If>;

struct Expr {
  Span span;
  ExprNode node;
  Type type;            // filled by type resolution
  uint32_t height = 1;  // of the tree below; bounded by the parser so that recursion over it is safe

  template <typename T>
  T* as() {
    return std::get_if<T>(&node);
  }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

// clang-format off
struct ExprStmt { ExprPtr expression; };
struct Discard { ExprPtr expression; };  // `_ = e`
struct AssignVariable { std::string name; Span name_span; std::optional<BinaryOp> op; ExprPtr value; uint32_t slot = 0; };
struct AssignMap { ExprPtr target; std::optional<BinaryOp> op; ExprPtr value; };  // target: MapAccess
struct Declare { std::string name; Span name_span; std::optional<TypeSpec> type; ExprPtr value; uint32_t slot = 0; };
struct While { ExprPtr condition; Block body; };
struct Unroll { ExprPtr count; Block body; };
struct For { std::string variable; Span variable_span; ExprPtr map; ExprPtr begin, end; Block body; uint32_t slot = 0; };  // map, or a range
enum class JumpKind : uint8_t { kBreak, kContinue, kReturn };
struct Jump { JumpKind kind; ExprPtr value; };
struct Import { std::string path; };

// clang-format on

using StmtNode =
    std::variant<ExprStmt, Discard, AssignVariable, AssignMap, Declare, While, Unroll, For, Jump, Import>;

struct Stmt {
  Span span;
  StmtNode node;

  template <typename T>
  T* as() {
    return std::get_if<T>(&node);
  }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

// Top level.
// clang-format off
struct CDefinition { Span span; std::string text; };  // a preprocessor line, or a struct/union/enum/typedef without its `;`
struct ConfigValue {
  enum class Kind : uint8_t { kInt, kBool, kString, kWord };
  Kind kind = Kind::kWord;
  std::string text;  // as to be read by the configuration: decimal, true, the string
  uint64_t integer = 0;
};
struct ConfigSetting { Span span; std::string name; ConfigValue value; };
struct Config { Span span; std::vector<ConfigSetting> settings; };
struct MapDeclaration { Span span; std::string name; std::string kind; uint64_t max_entries = 0; };
struct MacroParameter { Span span; std::string name; };  // "$x", "@m" or "x"
struct Macro { Span span; std::string name; Span name_span; std::vector<MacroParameter> parameters; Block body; };
struct Parameter { Span span; std::string name; TypeSpec type; };
struct Function { Span span; std::string name; Span name_span; std::vector<Parameter> parameters; TypeSpec result; Block body; };
struct AttachPoint { Span span; std::string text; };  // as written, quotes and all; attach_point.h takes it apart
struct Probe { Span span; std::vector<AttachPoint> attach_points; ExprPtr predicate; Span head; Block body; };
struct TopImport { Span span; std::string path; };

// clang-format on

using Item = std::variant<Config, TopImport, MapDeclaration, Macro, Function, Probe>;

struct Program {
  std::string shebang;  // "#!..." without its newline
  std::vector<CDefinition> c_definitions;
  std::vector<Item> items;  // in the order written
  std::vector<Comment> comments;
  uint32_t source = 0;
};

// How tightly an operator binds; higher is tighter.
int precedence(BinaryOp op);
std::string_view spell(BinaryOp op);
std::string_view spell(UnaryOp op);

ExprPtr make_expr(Span span, ExprNode node);
// Deep copies, for macros.
ExprPtr clone(const Expr& expr);
Stmt clone(const Stmt& stmt);
Block clone(const Block& block);
TypeSpec clone(const TypeSpec& type);

}  // namespace uscope::lang
