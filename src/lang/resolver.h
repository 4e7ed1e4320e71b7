// Type resolution, behind compile.h: one class, its parts in resolver.cpp (the rounds, statements),
// resolve_expression.cpp, resolve_call.cpp, resolve_function.cpp and resolve_type.cpp. Types flow until
// nothing changes any more: what a map holds may be known only from a later probe. Rounds before the last are
// silent; the last one reports.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lang/diagnostics.h"
#include "lang/functions.h"
#include "lang/type_source.h"
#include "lang/typed_program.h"

namespace uscope::lang {

struct ResolverOptions {
  bool allow_unsafe = false;
};

class Resolver {
 public:
  Resolver(TypedProgram& program, const TypeSource& types, ResolverOptions options, Diagnostics& diagnostics);
  void run();

 private:
  // What a variable gets through others takes a round for each; a text that is appended to itself takes many,
  // up to max_strlen.
  static constexpr int kMaxRounds = 10000;

  // What is being resolved: a probe or a function.
  struct Scope {
    const std::vector<AttachSpec>* attach_points = nullptr;  // null in a function
    const Type* retval = nullptr;                            // TypedProbe::result, if there is one
    std::vector<VariableInfo>* variables = nullptr;
    Type result;  // of a function
    std::string name;
    std::vector<std::map<std::string, uint32_t>> blocks;
    std::map<std::pair<std::string, uint32_t>, uint32_t>
        slots;                    // by name and first place; kept between rounds
    std::set<uint32_t> declared;  // slots with a type of their own
    std::set<uint32_t> assigned;
    uint32_t loops = 0;
    bool in_function = false;
  };

  // resolver.cpp
  void round();
  void run_probe(TypedProbe& probe, Scope& scope);
  void run_function(TypedFunction& function, Scope& scope);
  void block(Block& block);
  void statement(Stmt& stmt);
  void expression_statement(Stmt& stmt, ExprStmt& node);
  void assign_variable(Stmt& stmt, AssignVariable& node);
  void assign_map(Stmt& stmt, AssignMap& node);
  void declare(Stmt& stmt, Declare& node);
  void for_loop(Stmt& stmt, For& node);
  void unroll(Stmt& stmt, Unroll& node);
  void jump(Stmt& stmt, Jump& node);
  void store(uint32_t slot, const Expr& value, Span span);
  void check_maps();
  void warn_of_cast(const Expr& value, const Type& type, const Type& into);
  // What a message about the expression underlines: of a cast only its type.
  static Span head_of(const Expr& expr);
  uint32_t define(const std::string& name, Span span);
  const uint32_t* find_variable(const std::string& name) const;
  MapInfo& map(const std::string& name, Span span);
  void merge_map_value(MapInfo& map, const Type& type, const Expr* value, Span span);
  void map_key(MapInfo& map, Expr* key, Span span);

  // resolve_expression.cpp
  Type expression(Expr& expr);
  Type compute(Expr& expr);
  Type identifier(Expr& expr);
  std::optional<Constant> find_constant(const std::string& name, Span span);
  void both_sides(Binary& node);
  Type builtin(Expr& expr, const std::string& name);
  Type numbered_type(size_t number);
  Type result_type(const Expr& expr);
  Type variable(Expr& expr, Variable& node);
  Type map_access(Expr& expr, MapAccess& node);
  Type unary(Expr& expr, Unary& node);
  Type increment(Expr& expr, Increment& node);
  Type binary(Expr& expr, Binary& node);
  Type ternary(Expr& expr, Ternary& node);
  Type cast(Expr& expr, Cast& node);
  Type field(Expr& expr, Field& node);
  Type read(const Expr& expr, const Type& type);
  Type field_itself(Expr& expr, Field& node);
  void no_field(Span span, const StructLayout& layout, const std::string& name);
  Type tuple_index(Expr& expr, TupleIndex& node);
  Type index(Expr& expr, Index& node);
  Type size_of(Expr& expr, SizeOf& node);
  Type offset_of(Expr& expr, OffsetOf& node);
  Type type_info(Expr& expr, TypeInfo& node);
  Type if_expression(Expr& expr, If& node);
  void mismatch(const Expr& expr, const Binary& node, const Type& left, const Type& right);
  Type integer_of(const Type& type) const;

  // resolve_call.cpp
  Type call(Expr& expr, Call& node);
  void argument(const FunctionSpec* spec, const Call& node, size_t position);
  Type with_mode(const Call& node);
  Type register_value(const Expr& expr, const Call& node);
  Type named_address(const Expr& expr, const Call& node);
  Type plain_function(const Expr& expr, const Call& node);
  bool check_arguments(const Expr& expr, const FunctionSpec& spec, Call& node);
  void check_format(const Expr& expr, const Call& node);
  Type aggregate(const Expr& expr, Call& node);
  Type text_function(Expr& expr, Call& node);
  Type map_function(Expr& expr, Call& node);
  Type stack(Expr& expr, Call& node);
  Type print(const Expr& expr, Call& node);
  Type user_function(Expr& expr, Call& node, const TypedFunction& function);
  void aggregate_parameters(const Expr& value, MapInfo& map);

  // resolve_function.cpp
  void check_signal(const Expr& expr, const Call& node);
  void check_network(const Expr& expr, const Call& node);
  Type type_question(Expr& expr, Call& node);
  Type assertion(const Expr& expr, const Call& node);
  Type setting_value(Expr& expr, const std::string& name);
  void warn_unstable(const std::string& feature, UnstableFeature wanted, Span span);

  // resolve_type.cpp
  Type resolve(const TypeSpec& spec);
  // A type that the script names; every attach point must know the same one.
  std::optional<Type> find_named(const std::string& name, Span span);
  std::optional<Type> find_written(const std::string& name, const AttachSpec* probe, Span span);
  // A type out of the script's definitions: structs that it only names are filled in.
  Type complete(const Type& type, Span span);
  // That what a struct of the script holds of others' is what the probes know by that name.
  void check_held(const StructLayout& own, Span span, int depth = 0);
  // Whether one can count in steps of what the pointer points to.
  void check_step(const Type& pointer, Span span);
  // Has the types known that the probe's arguments and result lead to.
  void reach_types();
  const StructLayout* layout(const std::string& name);
  // Says once of a struct behind a pointer if it may be another one.
  void note_doubt(const Type& pointee, Span span);
  std::optional<std::vector<NamedValue>> probe_values(bool locals, Span span);
  AddressSpace space() const;
  // Where a pointer points to that lies in `object`: the memory that the object was reached in.
  AddressSpace origin(const Expr& object, const Type& pointer) const;
  bool all_probes(bool (*test)(ProbeKind)) const;
  bool any_probe(bool (*test)(ProbeKind)) const;
  std::string_view first_probe_type() const;

  Diagnostic* error(Span span, std::string message);
  void warn(Span span, std::string message, std::string hint = "");

  TypedProgram& program_;
  const TypeSource& types_;
  ResolverOptions options_;
  Diagnostics& diagnostics_;
  Diagnostic silent_;
  std::vector<Scope> probe_scopes_, function_scopes_;
  Scope* scope_ = nullptr;
  std::map<std::string, StructLayout> layouts_;  // found in the program so far
  std::set<const Expr*> mapped_calls_;           // aggregates that are assigned to a map, where they belong
  const Expr* narrowed_ = nullptr;               // cast to a number that a script can have
  std::set<std::string> unstable_;               // features that were warned of
  // Types that may be others than are meant, by their places: sizeof() asks only in the first round.
  std::map<decltype(Span::begin), std::pair<Span, std::string>> doubts_;
  std::set<std::string> reached_;  // attach points whose types reach_types() went over
  Type wanted_enum_;               // what an enumerator is compared with
  bool last_round_ = false;
  bool changed_ = false;
};

}  // namespace uscope::lang
