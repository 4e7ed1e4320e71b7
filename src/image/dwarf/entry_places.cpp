#include "image/dwarf/entry_places.h"

#include <dwarf.h>

#include <algorithm>
#include <array>

#include "image/abi_rust.h"
#include "image/dwarf/byte_sources.h"
#include "image/dwarf/go_attributes.h"
#include "image/dwarf/padding.h"

namespace uscope::image::dwarf {
namespace {

constexpr uint32_t rbp = 6, rsp = 7;
constexpr const char* not_stored =
    "kept in the function's frame, which is not yet written at its first instruction";
constexpr const char* reassigned = "described only as it may be after the function's first assignments";

// Registers that a caller can pass something in: arguments, al (variadic), r10 (static chain).
bool is_argument_register(uint32_t number) {
  switch (number) {
    case 0:   // rax
    case 1:   // rdx
    case 2:   // rcx
    case 4:   // rsi
    case 5:   // rdi
    case 8:   // r8
    case 9:   // r9
    case 10:  // r10
      return true;
    default:
      return number >= 17 && number <= 24;  // xmm0–xmm7
  }
}

bool is_go_register(uint32_t number) {
  return is_argument_register(number) || number == 3 || number == 11 || (number >= 17 && number <= 31);
}

// Whether the debug info's word depends on a register, rather than on the frame or on nothing.
bool names_register(const LocPiece& piece) {
  return std::ranges::any_of(piece.ops, [](const LocOp& op) {
    return op.code == LocOp::Code::Register && op.number != rsp && op.number != rbp &&
           op.number != cfa_register;
  });
}

// A value that depends on nothing in the program.
bool is_constant(const LocPiece& piece) {
  return piece.kind == LocPiece::Kind::Bytes ||
         (piece.kind == LocPiece::Kind::Value &&
          std::ranges::all_of(piece.ops, [](const LocOp& op) { return op.code == LocOp::Code::Constant; }));
}

LocPiece memory(uint32_t base, int64_t offset) {
  LocPiece piece{.kind = LocPiece::Kind::Memory, .ops = {{LocOp::Code::Register, base, 0}}};
  if (offset != 0) piece.ops.push_back({LocOp::Code::AddConst, 0, offset});
  return piece;
}

// In which row of places a byte is passed, and how far back in it: integer registers, vectors, the stack.
std::optional<std::pair<size_t, int64_t>> passing_order(const ByteSource& source) {
  constexpr std::array<uint32_t, 6> integers = {5, 4, 1, 2, 8, 9};
  const bool is_known = source.kind == ByteSource::Kind::Register || source.kind == ByteSource::Kind::Memory;
  if (!is_known) return {};
  if (source.reg == rsp) return std::pair<size_t, int64_t>(2, source.offset);
  if (source.reg >= 17) return std::pair<size_t, int64_t>(1, source.reg);
  auto at = std::ranges::find(integers, source.reg);
  if (at == integers.end()) return {};
  return std::pair<size_t, int64_t>(0, at - integers.begin());
}

}  // namespace

EntryPlaces::EntryPlaces(const Store& store, TypeReader& types, const FrameTable& frames, PrologueEnds& ends,
                         const Die& die, const Function& function)
    : store_(store),
      types_(types),
      frames_(frames),
      ends_(ends),
      die_(die),
      function_(function),
      reader_(types, frames, *die.unit, die, function.entry.value, true) {}

TypeLookup EntryPlaces::lookup() const {
  return [this](TypeId id) -> const Type& { return types_.get(id); };
}

void EntryPlaces::add(const Die& die) {
  Parameter parameter{.variable = reader_.read(die, is_gnu())};
  parameter.size = types_.get(parameter.variable.type).size;
  parameter.from_list = VariableReader::is_from_list(die);
  judge(parameter);
  parameters_.push_back(std::move(parameter));
}

std::optional<CfaRule> EntryPlaces::rule_in_body() {
  if (function_.ranges.empty()) return {};
  const uint64_t entry = function_.entry.value;
  return dwarf::rule_in_body(frames_, entry, ends_.between(*die_.unit, entry, function_.ranges[0].end.value));
}

// A piece that lies in a frame: [base + n], or [[base + n]].
std::optional<EntryPlaces::Home> EntryPlaces::home_of(const LocPiece& piece, bool from_list) {
  const auto& ops = piece.ops;
  Home home;
  if (piece.kind != LocPiece::Kind::Memory || ops.empty() || ops[0].code != LocOp::Code::Register) return {};
  int64_t offset = 0;
  size_t next = 1;
  if (next < ops.size() && ops[next].code == LocOp::Code::AddConst) offset = ops[next++].value;
  if (next < ops.size() && ops[next].code == LocOp::Code::Deref && ops[next].number == 8) {
    home.is_pointer = true;
    next++;
  }
  if (next != ops.size()) return {};
  if (ops[0].number == cfa_register) {
    home.cfa_offset = offset;
    return home;
  }
  // gcc's lists are exact for each address; LLVM counts from the registers as they are after the prologue.
  if (is_gnu() && from_list) {
    if (ops[0].number == rsp) home.cfa_offset = offset - 8;
    return home;
  }
  auto rule = rule_in_body();
  if (rule && rule->base == ops[0].number) home.cfa_offset = offset - rule->offset;
  return home;
}

EntryPlaces::State EntryPlaces::judge_piece(LocPiece& piece, bool is_only, Parameter& parameter) {
  auto missing = [&](std::string reason) {
    piece = {.kind = LocPiece::Kind::OptimizedOut, .bit_size = piece.bit_size, .reason = std::move(reason)};
    return State::Unavailable;
  };
  if (piece.kind == LocPiece::Kind::OptimizedOut) return State::Unavailable;
  if (piece.kind == LocPiece::Kind::Bytes) return State::Settled;
  bool in_frame = false, foreign = false;
  for (const LocOp& op : piece.ops) {
    if (op.code != LocOp::Code::Register) continue;
    in_frame |= op.number == cfa_register || op.number == rsp || op.number == rbp;
    foreign |= !(is_go() ? is_go_register(op.number) : is_argument_register(op.number));
  }
  if (!in_frame) {
    if (foreign) return missing("said to be in a register that passes no arguments");
    return State::Settled;
  }
  auto home = home_of(piece, parameter.from_list);
  if (!home) return missing(not_stored);
  // Above the return address is the caller's part of the stack, written before the call. Go also keeps room
  // there for registers to be spilled to, so what is there has to be told by the convention.
  const bool is_callers = home->cfa_offset && *home->cfa_offset >= 0 && !is_go();
  if (is_callers && !(is_only && !parameter.from_list && is_stored_at(*home->cfa_offset))) {
    LocPiece place = memory(rsp, *home->cfa_offset + 8);
    // LLVM leaves out that the slot holds the address.
    if (types_.is_passed_by_address(parameter.variable.type)) home->is_pointer = true;
    if (home->is_pointer) place.ops.push_back({LocOp::Code::Deref, 8, 0});
    place.bit_size = piece.bit_size;
    place.bit_offset = piece.bit_offset;
    piece = std::move(place);
    return State::Settled;
  }
  if (!is_only) return missing(not_stored);
  parameter.home = *home;
  return State::InFrame;
}

void EntryPlaces::judge(Parameter& parameter) {
  auto& pieces = parameter.variable.location.pieces;
  State worst = State::Settled;
  for (LocPiece& piece : pieces) {
    State state = judge_piece(piece, pieces.size() == 1, parameter);
    if (state != State::Settled) worst = state;
  }
  parameter.state = pieces.empty() ? State::Unavailable : worst;
  // gcc may name, once for the whole function, the register that it chose for the time after the first moves.
  // A constant is one that all callers pass, and then the function is not seen by others.
  const bool is_chosen = is_gnu() && !parameter.from_list &&
                         (std::ranges::any_of(pieces, names_register) ||
                          (std::ranges::any_of(pieces, is_constant) && is_global()));
  if (parameter.state == State::Settled && is_chosen) parameter.state = State::Chosen;
}

const std::vector<IncomingStore>& EntryPlaces::stores() {
  if (!stores_) {
    Bytes code = store_.image().bytes_from(function_.entry);
    uint64_t limit = function_.ranges.empty() ? 0 : function_.ranges[0].end - function_.entry;
    stores_ = incoming_stores(code.first(std::min<uint64_t>({code.size(), limit, 1024})));
  }
  return *stores_;
}

// Microsoft's convention has room above the return address for what comes in registers.
bool EntryPlaces::is_stored_at(int64_t cfa_offset) {
  return std::ranges::any_of(stores(), [&](const IncomingStore& store) {
    return store.reg != UINT32_MAX && store.cfa_offset <= cfa_offset &&
           cfa_offset < store.cfa_offset + store.size;
  });
}

// Which registers the prologue puts into the parameter's slot.
std::optional<Location> EntryPlaces::trace(const Parameter& parameter) {
  uint64_t size = parameter.home.is_pointer ? 8 : parameter.size;
  if (size == 0 || size > 128 || !parameter.home.cfa_offset) return {};
  std::vector<bool> used(size, true);
  if (!parameter.home.is_pointer) used = used_bytes(parameter.variable.type, lookup());
  Location location;
  uint64_t at = 0;
  while (at < size) {
    int64_t wanted = *parameter.home.cfa_offset + int64_t(at);
    auto found = std::find_if(stores().begin(), stores().end(), [&](const IncomingStore& store) {
      return store.cfa_offset <= wanted && wanted < store.cfa_offset + store.size;
    });
    if (found == stores().end() || found->reg == UINT32_MAX) {
      if (at >= used.size() || used[at]) return {};
      location.pieces.push_back({.kind = LocPiece::Kind::Bytes, .bytes = {0}, .bit_size = 8});
      at++;
      continue;
    }
    uint64_t skipped = uint64_t(wanted - found->cfa_offset);
    uint64_t bytes = std::min<uint64_t>(found->size - skipped, size - at);
    location.pieces.push_back({.kind = LocPiece::Kind::Register,
                               .ops = {{LocOp::Code::Register, found->reg, 0}},
                               .bit_size = bytes * 8,
                               .bit_offset = skipped * 8});
    at += bytes;
  }
  for (const LocPiece& piece : location.pieces) {
    if (piece.kind != LocPiece::Kind::Register) continue;
    uint32_t number = piece.ops[0].number;
    if (!(is_go() ? is_go_register(number) : is_argument_register(number))) return {};
  }
  if (location.pieces.size() == 1) location.pieces[0].bit_size = 0;
  if (!parameter.home.is_pointer) return location;
  auto pointer = location.as_register();
  if (!pointer) return {};
  return Location{{memory(*pointer, 0)}};
}

// --- System V ----------------------------------------------------------------------------------------------

bool EntryPlaces::convention_applies() const {
  if (function_.language != Language::C && function_.language != Language::Cpp) return false;
  auto convention = die_.inherited(DW_AT_calling_convention);
  if (convention && convention->value != DW_CC_normal) return false;
  bool is_prototyped = function_.language == Language::Cpp || die_.inherited(DW_AT_prototyped).has_value();
  for (const Parameter& parameter : parameters_) {
    // Constructors of classes with virtual bases get more, or less, than is declared.
    const std::string& name = parameter.variable.name;
    if (name == "__in_chrg" || name == "__vtt_parm" || name == "vtt") return false;
    // Without a prototype floats are passed as doubles.
    const Type& type = types_.get(parameter.variable.type);
    if (!is_prototyped && type.kind == Type::Kind::Float && type.size < 8) return false;
  }
  return true;
}

// Whether each parameter has one place for the whole function, in memory: as in unoptimised code.
bool EntryPlaces::all_have_homes() const {
  return std::ranges::all_of(parameters_, [](const Parameter& parameter) {
    const bool in_memory =
        parameter.state == State::InFrame ||
        (parameter.state == State::Settled && parameter.variable.location.as_memory_at_register());
    return in_memory && !parameter.from_list;
  });
}

bool EntryPlaces::is_global() const {
  const std::string& name = function_.linkage_name.empty() ? function_.name : function_.linkage_name;
  return store_.has_global_symbol(function_.entry.value, name);
}

bool EntryPlaces::convention_is_kept(const Places& convention) const {
  for (size_t i = 0; i < parameters_.size(); i++) {
    const Parameter& parameter = parameters_[i];
    bool is_settled = parameter.state == State::Settled;
    // What is spread over registers gcc does not follow, and it says less than nothing of those.
    bool is_followed = parameter.state == State::Chosen && parameter.variable.location.pieces.size() == 1 &&
                       follows_variables(die_.unit->facts().producer);
    if ((is_settled || is_followed) && convention[i] &&
        !agree(parameter.variable.location, *convention[i], parameter.size)) {
      return false;
    }
  }
  if (all_have_homes()) return true;
  // gcc makes clones under other names when it changes a signature; LLVM changes what it can see all callers
  // of, and may not pass what is not used.
  return is_gnu() && is_global();
}

// Which of the described places come in the order in which a convention hands out registers, and the stack
// behind them. Two in a wrong order, or in one register, were assigned to.
std::vector<bool> EntryPlaces::in_order(const Places& described) const {
  const bool is_ordered = function_.language == Language::C || function_.language == Language::Cpp ||
                          function_.language == Language::Rust;
  struct Span {
    int64_t low = INT64_MAX, high = INT64_MIN;
  };
  std::vector<std::array<Span, 3>> spans(described.size());
  for (size_t i = 0; i < described.size(); i++) {
    for (const ByteSource& source : byte_sources(*described[i], parameters_[i].size)) {
      auto order = passing_order(source);
      if (!order) continue;
      Span& span = spans[i][order->first];
      span = {std::min(span.low, order->second), std::max(span.high, order->second)};
    }
  }
  std::vector<bool> good(described.size(), true);
  for (size_t j = 0; j < spans.size(); j++) {
    for (size_t i = 0; i < j; i++) {
      for (size_t row = 0; row < spans[j].size(); row++) {
        const Span &before = spans[i][row], &after = spans[j][row];
        const bool is_wrong = before.high >= after.low && (is_ordered || after.high >= before.low);
        if (is_wrong && before.high >= before.low && after.high >= after.low) good[i] = good[j] = false;
      }
    }
  }
  return good;
}

// LLVM drops the place before an assignment that takes no instruction (as gcc does, without marks of where
// statements begin, if there is none), so its places are believed where the convention has the same. A
// function that is not seen by others may get less than is declared, and Rust's convention is known for
// scalars only: there registers in the right order are enough, if nothing is computed.
void EntryPlaces::drop_what_is_assigned(const Places& convention, bool kept) {
  if (all_have_homes()) return;
  Places described(parameters_.size());
  bool is_computed = false;
  for (size_t i = 0; i < parameters_.size(); i++) {
    described[i] = parameters_[i].variable.location;
    const TypeId type = parameters_[i].variable.type;
    const bool is_bool = strip_aliases(types_.get(type), lookup()).kind == Type::Kind::Bool;
    uint64_t at = 0;
    for (LocPiece& piece : described[i]->pieces) {
      const uint64_t bytes = piece.bit_size == 0 ? parameters_[i].size : piece.bit_size / 8;
      if (auto slice = as_register_bytes(piece, at, bytes, is_bool)) piece = *slice;
      is_computed |= piece.kind == LocPiece::Kind::Value && names_register(piece);
      at += bytes;
    }
  }
  const std::vector<bool> ordered = in_order(described);
  const bool is_changeable = !is_global();
  for (size_t i = 0; i < parameters_.size(); i++) {
    if (parameters_[i].state == State::InFrame) continue;
    Location& location = parameters_[i].variable.location;
    const std::vector<bool> used = used_bytes(parameters_[i].variable.type, lookup());
    uint64_t at = 0;
    bool is_dropped = false;
    for (LocPiece& piece : location.pieces) {
      const uint64_t from = at;
      at += piece.bit_size == 0 ? parameters_[i].size : piece.bit_size / 8;
      if (piece.kind == LocPiece::Kind::OptimizedOut) continue;
      const bool is_convention = (ordered[i] || !is_changeable) && convention[i] &&
                                 same_bytes(*described[i], *convention[i], from, at, used);
      const bool is_likely = (is_changeable || !convention[i]) && ordered[i] && !is_computed &&
                             same_bytes(*described[i], *described[i], from, at, used);
      if (is_convention || is_likely) continue;
      piece = {.kind = LocPiece::Kind::OptimizedOut, .bit_size = piece.bit_size, .reason = reassigned};
      is_dropped = true;
    }
    if (is_dropped && kept && convention[i]) location = *convention[i];
  }
}

void EntryPlaces::settle_native() {
  bool any_open = std::any_of(parameters_.begin(), parameters_.end(),
                              [](const Parameter& p) { return p.state != State::Settled; });
  const bool is_exact = lists_what_is_passed(die_.unit->facts().producer);
  if (!any_open && is_exact) return;
  Places convention(parameters_.size());
  bool kept = false;
  std::vector<TypeId> ids;
  for (const Parameter& parameter : parameters_) ids.push_back(parameter.variable.type);
  if (function_.language == Language::Rust)
    convention = rust_parameters(ids, function_.return_type, lookup());
  if (convention_applies()) {
    convention = sysv_parameters(ids, function_.return_type, lookup(), function_.compiler);
    kept = convention_is_kept(convention);
  }
  // One contradiction between the code and the convention, and the convention is not used for any of them.
  Places traced(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); i++) {
    const Parameter& parameter = parameters_[i];
    if (parameter.state != State::InFrame) continue;
    traced[i] = trace(parameter);
    if (!convention[i]) continue;
    bool by_reference = convention[i]->as_memory_at_register().value_or(Location::Based{rsp, 0}).base != rsp;
    kept &= by_reference == parameter.home.is_pointer;
    kept &= !traced[i] || agree(*traced[i], *convention[i], parameter.size);
  }
  for (size_t i = 0; i < parameters_.size(); i++) {
    Parameter& parameter = parameters_[i];
    Location& location = parameter.variable.location;
    if (parameter.state == State::Settled) continue;
    // Two that agree: but a register may also be the convention's by chance, if a signature was changed.
    const bool is_confirmed = parameter.state == State::Chosen && convention[i] &&
                              follows_variables(die_.unit->facts().producer) &&
                              same_bytes(location, *convention[i], 0, parameter.size,
                                         used_bytes(parameter.variable.type, lookup()));
    if (is_confirmed) continue;
    if (traced[i]) {
      location = *traced[i];
    } else if (kept && convention[i]) {
      location = *convention[i];
    } else if (parameter.state == State::Chosen) {
      location = optimized_out("said to be in a register that need not be the one it is passed in");
    } else if (parameter.state == State::InFrame) {
      location = optimized_out(not_stored);
    }
  }
  if (!is_exact) drop_what_is_assigned(convention, kept);
}

// --- Go ----------------------------------------------------------------------------------------------------

void EntryPlaces::settle_go_registers(const GoCall& call) {
  // Blank parameters and the dictionaries of generics are not described, so the convention can be off. It is
  // right up to the last parameter whose described place agrees with it, for the kind of register that has.
  size_t sure_integers = 0, sure_floats = 0, index = 0;
  for (const Parameter& parameter : parameters_) {
    if (parameter.variable.is_result) continue;
    const GoPlace& place = call.parameters[index++];
    const auto& described = parameter.variable.location.pieces;
    for (size_t i = 0; i < described.size(); i++) {
      if (described[i].kind != LocPiece::Kind::Register) continue;
      uint32_t number = described[i].ops[0].number;
      bool known = std::any_of(
          place.location.pieces.begin(), place.location.pieces.end(),
          [&](const LocPiece& p) { return p.kind == LocPiece::Kind::Register && p.ops[0].number == number; });
      if (known) (number >= 17 ? sure_floats : sure_integers) = index;
    }
  }
  index = 0;
  for (Parameter& parameter : parameters_) {
    if (parameter.variable.is_result) continue;
    const GoPlace& place = call.parameters[index++];
    Location& location = parameter.variable.location;
    if (parameter.size == 0) {
      location = optimized_out("has no size, so it is not passed");
      continue;
    }
    std::vector<uint32_t> described;
    for (const LocPiece& piece : location.pieces) {
      if (piece.kind == LocPiece::Kind::Register) described.push_back(piece.ops[0].number);
    }
    auto components = go_components(parameter.variable.type, lookup());
    bool in_frame = parameter.state == State::InFrame;
    if (components && described.size() == components->size() && !in_frame) {
      // Compilers leave padding out of the pieces, or get its size wrong: lay them out anew.
      location = go_pieces(*components, described, parameter.size);
      continue;
    }
    bool is_sure = place.in_registers;
    for (const LocPiece& piece : place.location.pieces) {
      if (piece.kind != LocPiece::Kind::Register) continue;
      is_sure &= index <= (piece.ops[0].number >= 17 ? sure_floats : sure_integers);
    }
    if (in_frame && !parameter.home.is_pointer) {
      auto traced = trace(parameter);
      bool on_stack = !place.in_registers && parameter.home.cfa_offset == int64_t(place.stack_offset);
      if (on_stack) {
        location = place.location;
      } else if (traced) {
        location = *traced;
      } else {
        location = is_sure ? place.location : optimized_out(not_stored);
      }
      continue;
    }
    if (is_sure) {
      location = place.location;
    } else if (parameter.state == State::Unavailable || in_frame ||
               described.size() < location.pieces.size()) {
      location = optimized_out("not used, so the compiler did not say where it is");
    }
  }
}

void EntryPlaces::settle_go_stack(const GoCall& call, bool is_complete) {
  size_t index = 0;
  for (Parameter& parameter : parameters_) {
    if (parameter.variable.is_result) continue;
    const GoPlace& place = call.parameters[index++];
    Location& location = parameter.variable.location;
    bool in_frame = parameter.state == State::InFrame && !parameter.home.is_pointer;
    if (in_frame && parameter.home.cfa_offset.value_or(-1) >= 0) {
      location = {{memory(rsp, *parameter.home.cfa_offset + 8)}};
    } else if (is_complete) {
      // Go before 1.17 repeats pieces in its lists, which makes them useless.
      location = place.location;
    } else {
      location = optimized_out("the compiler did not say clearly where it is");
    }
  }
}

// What goes over the stack lies above what was passed there, and parameters may be undescribed: then only the
// debug info can say where. Registers are handed out anew for the results, all of which are described.
void EntryPlaces::settle_go_results(const GoCall& call, bool in_registers, bool is_complete) {
  size_t index = 0;
  for (Parameter& parameter : parameters_) {
    if (!parameter.variable.is_result) continue;
    const GoPlace& place = call.results[index++];
    Location& location = parameter.variable.at_return;
    bool has_home = parameter.state == State::InFrame && !parameter.home.is_pointer &&
                    parameter.home.cfa_offset.value_or(-1) >= 0;
    if (parameter.size == 0) {
      location = optimized_out("has no size, so it is not returned");
    } else if (place.in_registers) {
      location = place.location;
    } else if (has_home) {
      location = {{memory(rsp, *parameter.home.cfa_offset + 8)}};
    } else if (is_complete && !in_registers) {
      location = place.location;
    } else {
      location = optimized_out("is on the stack, and the compiler did not say where");
    }
  }
}

void EntryPlaces::settle_go() {
  std::vector<TypeId> parameters, results;
  std::optional<size_t> announced;
  for (Parameter& parameter : parameters_) {
    Variable& variable = parameter.variable;
    (variable.is_result ? results : parameters).push_back(variable.type);
    if (!variable.is_result) continue;
    variable.location = optimized_out("a result: it is there when the function returns");
    // Before Go 1.18 an unnamed result's number counts all parameters, described or not.
    if (variable.name.starts_with("~r") && !announced)
      announced = std::strtoul(variable.name.c_str() + 2, nullptr, 10);
  }
  bool in_registers = go_passes_in_registers(die_.unit->facts().producer);
  bool is_complete = announced && *announced == parameters.size();
  auto call = go_call(parameters, results, in_registers, lookup());
  if (!call) {
    for (Parameter& parameter : parameters_) {
      if (parameter.state == State::InFrame) parameter.variable.location = optimized_out(not_stored);
      parameter.variable.at_return = optimized_out("is of a type whose size is not known");
    }
    return;
  }
  settle_go_results(*call, in_registers, is_complete);
  if (in_registers) {
    settle_go_registers(*call);
  } else {
    settle_go_stack(*call, is_complete);
  }
}

std::vector<Variable> EntryPlaces::finish() {
  is_go() ? settle_go() : settle_native();
  std::vector<Variable> result;
  for (Parameter& parameter : parameters_) result.push_back(std::move(parameter.variable));
  return result;
}

}  // namespace uscope::image::dwarf
