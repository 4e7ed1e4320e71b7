// What the language has to know of the traced program, declared here and supplied by others: layouts of its
// structs, its enums and typedefs, and what a probe has at hand there. Tests supply tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/attach_point.h"
#include "lang/types.h"

namespace uscope::lang {

struct NamedValue {
  std::string name;
  Type type;
};

struct Constant {
  Type type;  // an enumeration
  int64_t value = 0;
};

// A type that a script names.
struct WrittenType {
  Type type;
  std::string doubt;  // why it may be another one than is meant; empty: it is the one
};

struct Enumerator {
  std::string name;
  int64_t value = 0;
};

class TypeSource {
 public:
  virtual ~TypeSource() = default;

  // "struct foo", "union bar"; also a bare name where the program's language has no tags.
  virtual std::optional<StructLayout> find_struct(std::string_view name) const = 0;
  // A typedef, an enum ("enum color"), a class or base type of the program.
  virtual std::optional<Type> find_type(std::string_view name) const = 0;
  // Of several types of that name the one that the function at the probe (null: no probe) knows.
  virtual std::optional<WrittenType> find_written(std::string_view name, const AttachSpec*) const {
    if (auto known = find_struct(name)) return WrittenType{Type::structure(known->name, known->size), {}};
    if (auto known = find_type(name)) return WrittenType{*known, {}};
    return std::nullopt;
  }
  // Of a struct that the program's own types have led to: why it may be another one than is meant; empty: it
  // is the one.
  virtual std::string doubt_of(std::string_view) const { return {}; }
  // An enumerator; several, where enums give one name different values.
  virtual std::vector<Constant> find_constants(std::string_view name) const = 0;
  // An enumerator of the kernel's: asked for names that nothing else has.
  virtual std::optional<Constant> find_kernel_constant(std::string_view) const { return std::nullopt; }
  // The names of an enum's values ("enum color").
  virtual std::vector<Enumerator> enumerators(std::string_view enum_name) const = 0;

  // Arguments of the function (or usdt) at a probe, nothing when they are not known (no debug info).
  virtual std::optional<std::vector<NamedValue>> arguments(const AttachSpec& probe) const = 0;
  // Variables in scope there.
  virtual std::optional<std::vector<NamedValue>> locals(const AttachSpec& probe) const = 0;
  virtual std::optional<Type> return_type(const AttachSpec& probe) const = 0;
  // Why what the function returns cannot be told, though it returns something; empty: it can.
  virtual std::string why_no_result(const AttachSpec&) const { return {}; }
  // A global variable's type, for uaddr() and bare names.
  virtual std::optional<Type> global(const AttachSpec& probe, std::string_view name) const = 0;
};

// Knows nothing: a program without debug info.
class NoTypes final : public TypeSource {
 public:
  std::optional<StructLayout> find_struct(std::string_view) const override { return std::nullopt; }
  std::optional<Type> find_type(std::string_view) const override { return std::nullopt; }
  std::vector<Constant> find_constants(std::string_view) const override { return {}; }
  std::vector<Enumerator> enumerators(std::string_view) const override { return {}; }
  std::optional<std::vector<NamedValue>> arguments(const AttachSpec&) const override { return std::nullopt; }
  std::optional<std::vector<NamedValue>> locals(const AttachSpec&) const override { return std::nullopt; }
  std::optional<Type> return_type(const AttachSpec&) const override { return std::nullopt; }
  std::optional<Type> global(const AttachSpec&, std::string_view) const override { return std::nullopt; }
};

}  // namespace uscope::lang
