#include "session/script_places.h"

#include <algorithm>
#include <array>
#include <set>

#include "image/elf/symbols.h"
#include "image/usdt/notes.h"
#include "session/entry_address.h"
#include "session/function_result.h"
#include "session/goroutine_number.h"
#include "session/tracepoint_arguments.h"

namespace uscope::session {
namespace {

using codegen::ArgumentPlace;
using codegen::PlaceStep;
using image::LocOp;
using image::LocPiece;

constexpr uint32_t instruction_pointer = 16;

// DWARF's numbers of xmm0 to xmm15.
constexpr uint32_t first_vector = 17, last_vector = 32;
// From one to the next in the context.
constexpr uint32_t vector_stride = 16;
bool is_vector(uint32_t number) { return number >= first_vector && number <= last_vector; }

constexpr const char* not_shown =
    "it is in a vector register, which the kernel does not show to probes; try --engine inproc";

Status add_steps(const LocPiece& piece, ImageAddr site, std::optional<uint32_t> vector_offset,
                 ArgumentPlace& place) {
  bool started = false;
  auto start = [&](uint32_t number) -> Status {
    if (started) return fail("it is computed from several registers");
    auto offset = context_offset(number);
    if (!offset && is_vector(number) && vector_offset) {
      if (piece.kind != LocPiece::Kind::Register) return fail("it is computed from a vector register");
      offset = *vector_offset + (number - first_vector) * vector_stride;
    }
    if (!offset) return fail(is_vector(number) ? not_shown : "it is in a register that probes do not see");
    place.start = ArgumentPlace::Start::Register;
    place.register_offset = *offset;
    started = true;
    return {};
  };
  for (const LocOp& op : piece.ops) {
    switch (op.code) {
      case LocOp::Code::Register:
        TRY_STATUS(start(op.number));
        break;
      case LocOp::Code::Constant:
        if (started) return fail("it is computed");
        place.start = ArgumentPlace::Start::Constant;
        place.constant = op.value;
        started = true;
        break;
      case LocOp::Code::Address:
        // The instruction pointer is known to be at the site: the distance from there needs no load address.
        TRY_STATUS(start(instruction_pointer));
        place.steps.push_back({PlaceStep::Kind::Add, op.value - int64_t(site.value), 8});
        break;
      case LocOp::Code::AddConst:
        place.steps.push_back({PlaceStep::Kind::Add, op.value, 8});
        break;
      case LocOp::Code::Deref:
        place.steps.push_back({PlaceStep::Kind::Load, 0, op.number});
        break;
      case LocOp::Code::EntryValue:
        return fail("only the value that a register had on entry to the function is known");
      case LocOp::Code::TlsAddress:
        return fail("it is thread-local");
      default:
        return fail("it is computed in a way that probes cannot follow yet");
    }
  }
  return started ? Status() : fail("it has no place here");
}

// What a register must hold of the type. LLVM may name the register of a struct's first part as if it held
// all of it; vectors are in one.
constexpr uint64_t no_vector = UINT64_MAX;
uint64_t register_size(const symbols::ImageSymbols& image, image::TypeId id) {
  auto lookup = [&image](image::TypeId of) -> const image::Type& { return image.debug_info().type(of); };
  const image::Type& type = strip_aliases(lookup(id), lookup);
  bool is_one = type.is_vector || type.kind == image::Type::Kind::Float;
  return type.size <= 8 || is_one ? type.size : no_vector;
}

bool has_address(const image::Location& location) {
  for (const LocPiece& piece : location.pieces)
    if (std::ranges::any_of(piece.ops, [](const LocOp& op) { return op.code == LocOp::Code::Address; }))
      return true;
  return false;
}

Result<ArgumentPlace> find_place(const ScriptTypes::Place& site,
                                 const std::vector<image::dwarf::Variable>& variables, std::string_view name,
                                 std::optional<uint32_t> vector_offset, bool is_inproc) {
  for (const auto& variable : variables) {
    if (variable.name != name) continue;
    ImageAddr probed = site.address;
    // Only static addresses are counted from the probed instruction: the look for it reads the function.
    if (has_address(variable.location)) probed = entry_address(*site.image, site.address, is_inproc);
    auto place =
        to_place(variable.location, probed, vector_offset, register_size(*site.image, variable.type));
    if (!place) return fail(std::move(place.error()).while_doing("`" + variable.name + "`"));
    return place;
  }
  return fail("no variable `" + std::string(name) + "` is known here");
}

// From "kept in the function's frame", "has no size", "its location uses operation 0xfa".
std::string sentence(const std::string& reason) {
  if (reason.empty()) return "it is optimized out here";
  if (reason.starts_with("its ")) return reason;
  return (reason.starts_with("has ") ? "it " : "it is ") + reason;
}

// "it is …" said of something named.
std::string without_subject(const std::string& sentence) {
  constexpr std::string_view it = "it ";
  return sentence.starts_with(it) ? sentence.substr(it.size()) : sentence;
}

// The 64-bit register behind a name of any width.
Result<uint32_t> register_offset(const image::UsdtRegister& reg, std::optional<uint32_t> vector_offset = {}) {
  auto offset = context_offset(reg.number);
  if (!offset && is_vector(reg.number) && vector_offset)
    offset = *vector_offset + (reg.number - first_vector) * vector_stride;
  if (!offset) return fail(is_vector(reg.number) ? not_shown : "it is in a register that probes do not see");
  return *offset;
}

Status start_at(const image::UsdtOperand& operand, ImageAddr site, ArgumentPlace& place) {
  int64_t amount = operand.displacement;
  bool is_static = !operand.symbol.empty();
  if (is_static) {
    if (!operand.symbol_address)
      return fail("the image does not say where " + std::string(operand.symbol) + " is");
    // Counted from the probed instruction, whose address the probe sees: needs no load address.
    amount += int64_t(operand.symbol_address->value) - int64_t(site.value);
  }
  if (is_static || operand.base) {
    TRY(uint32_t offset, is_static ? *context_offset(instruction_pointer) : register_offset(*operand.base));
    place.register_offset = offset;
    if (amount != 0) place.steps.push_back({PlaceStep::Kind::Add, amount});
  } else {
    place.start = ArgumentPlace::Start::Constant;
    place.constant = amount;
  }
  return {};
}

const image::UsdtProbe* find_usdt(const std::vector<image::UsdtProbe>& probes,
                                  const lang::AttachSpec& wanted) {
  for (const image::UsdtProbe& probe : probes)
    if (probe.provider == wanted.provider && probe.name == wanted.function) return &probe;
  return nullptr;
}

}  // namespace

std::optional<uint32_t> context_offset(uint32_t number) {
  // struct pt_regs of x86-64, by DWARF's numbers: rax rdx rcx rbx rsi rdi rbp rsp r8 … r15 rip.
  static constexpr std::array<uint32_t, 17> offsets = {80, 96, 88, 40, 104, 112, 32, 152, 72,
                                                       64, 56, 48, 24, 16,  8,   0,  128};
  if (number >= offsets.size()) return std::nullopt;
  return offsets[number];
}

namespace {

Result<ArgumentPlace> piece_place(const LocPiece& piece, ImageAddr site,
                                  std::optional<uint32_t> vector_offset) {
  ArgumentPlace place;
  switch (piece.kind) {
    case LocPiece::Kind::OptimizedOut:
      return fail(sentence(piece.reason));
    case LocPiece::Kind::Memory:
      place.is_address = true;
      break;
    case LocPiece::Kind::Register:
    case LocPiece::Kind::Value:
      break;
    case LocPiece::Kind::Bytes: {
      if (piece.bytes.size() > 8) return fail("it is a constant of more than 8 bytes");
      place.start = ArgumentPlace::Start::Constant;
      for (size_t i = piece.bytes.size(); i-- > 0;) place.constant = place.constant << 8 | piece.bytes[i];
      return place;
    }
  }
  if (piece.bit_offset != 0) return fail("it is a part of a register");
  TRY_STATUS(add_steps(piece, site, vector_offset, place));
  return place;
}

}  // namespace

Result<ArgumentPlace> to_place(const image::Location& location, ImageAddr site,
                               std::optional<uint32_t> vector_offset, uint64_t size) {
  if (location.pieces.empty()) return fail("it has no place here");
  bool is_one = location.pieces.size() == 1;
  ArgumentPlace whole;
  for (const LocPiece& piece : location.pieces) {
    TRY(ArgumentPlace place, piece_place(piece, site, vector_offset));
    uint64_t bytes = is_one ? size : piece.bit_size / 8;
    bool is_register = piece.kind == LocPiece::Kind::Register;
    if (is_one && !(is_register && bytes > 8)) return place;
    if (!is_one && (piece.bit_size == 0 || piece.bit_size % 8 != 0))
      return fail("it is spread over several places of unknown sizes");
    if (!is_register || bytes <= 8) {
      whole.parts.push_back({std::move(place), uint32_t(bytes)});
      continue;
    }
    // Both halves of a vector register lie in the context, one behind the other.
    if (!is_vector(piece.ops[0].number) || bytes == no_vector)
      return fail("it is said to be in one register, which is too small");
    if (bytes > vector_stride) return fail("it is in a vector register of more than 16 bytes");
    ArgumentPlace upper = place;
    upper.register_offset += 8;
    whole.parts.push_back({std::move(place), 8});
    whole.parts.push_back({std::move(upper), uint32_t(bytes - 8)});
  }
  return whole;
}

Result<ArgumentPlace> ScriptPlaces::argument(const lang::AttachSpec& probe, std::string_view name) const {
  if (probe.kind == lang::ProbeKind::kTracepoint) return tracepoint_place(probe, name);
  auto site = types_.site(probe);
  if (!site) return fail("the place of " + probe.text + " is not known");
  if (!site->image->debug_info().function_head_at(site->address))
    return fail("nothing is known of the arguments of " + probe.function);
  return find_place(*site, site->image->debug_info().parameters_at(site->address), name, vector_offset_,
                    is_inproc_);
}

Result<ArgumentPlace> ScriptPlaces::local(const lang::AttachSpec& probe, std::string_view name) const {
  auto site = types_.site(probe);
  if (!site) return fail("the place of " + probe.text + " is not known");
  return find_place(*site, site->image->debug_info().variables_at(site->address), name, vector_offset_,
                    is_inproc_);
}

Result<std::vector<ArgumentPlace>> ScriptPlaces::results(const lang::AttachSpec& probe) const {
  auto site = types_.site(probe);
  if (!site) return fail("is not known: nothing is known of " + probe.text);
  TRY(auto locations, result_places(*site->image, site->address, types_.result_use(*site->image)));
  std::vector<ArgumentPlace> places;
  auto types = result_types(*site->image, site->address);
  for (const image::Location& location : locations) {
    uint64_t size =
        types && places.size() < types->size() ? register_size(*site->image, (*types)[places.size()]) : 8;
    auto place = to_place(location, site->address, vector_offset_, size);
    if (!place) return fail(without_subject(place.error().message()));
    places.push_back(std::move(*place));
  }
  return places;
}

// Go passes nothing where C does. argN is C's register, whatever the function is, to bpftrace only.
Status ScriptPlaces::numbered_arguments(const lang::AttachSpec& probe) const {
  if (numbers_anywhere_ || probe.kind != lang::ProbeKind::kUprobe) return {};
  auto site = types_.site(probe);
  const image::Pclntab* table = site && site->image->is_elf() ? site->image->pclntab() : nullptr;
  if (table == nullptr || table->function_at(site->address) == nullptr) return {};
  return fail("Go passes its arguments in other places than C: take args.NAME, or reg(\"ax\")");
}

Result<ArgumentPlace> to_place(const image::UsdtArgument& argument, ImageAddr site,
                               std::optional<uint32_t> vector_offset) {
  using Kind = image::UsdtOperand::Kind;
  const image::UsdtOperand& operand = argument.operand;
  if (argument.is_float && argument.size != 4 && argument.size != 8)
    return fail("it is a floating-point number of " + std::to_string(argument.size) + " bytes");
  if (operand.segment != 0) return fail("it is thread-local");
  ArgumentPlace place;
  place.size = argument.size;
  place.is_signed = argument.is_signed;
  place.is_float = argument.is_float;
  switch (operand.kind) {
    case Kind::Register: {
      TRY(place.register_offset, register_offset(*operand.base, vector_offset));
      if (operand.base->is_high_byte) place.steps.push_back({PlaceStep::Kind::ShiftRight, 8});
      return place;
    }
    case Kind::Constant:
      TRY_STATUS(start_at(operand, site, place));
      return place;
    case Kind::Memory:
      TRY_STATUS(start_at(operand, site, place));
      place.is_address = true;
      if (operand.index) {
        TRY(uint32_t offset, register_offset(*operand.index));
        place.steps.push_back({PlaceStep::Kind::AddRegister, operand.scale, 8, offset});
      }
      return place;
    case Kind::Unknown:
      break;
  }
  return fail("its note is not understood: " + std::string(argument.text));
}

size_t ScriptPlaces::usdt_sites(const lang::AttachSpec& probe) const {
  const symbols::ImageSymbols* image = types_.image_of(probe);
  if (image == nullptr || !image->is_elf()) return 0;
  auto probes = image::read_usdt_probes(image->elf());
  const image::UsdtProbe* found = find_usdt(probes, probe);
  return found ? found->sites.size() : 0;
}

Result<ArgumentPlace> ScriptPlaces::usdt_argument(const lang::AttachSpec& probe, size_t site,
                                                  size_t number) const {
  const symbols::ImageSymbols* image = types_.image_of(probe);
  if (image == nullptr || !image->is_elf()) return ArgumentPlaces::usdt_argument(probe, site, number);
  auto probes = image::read_usdt_probes(image->elf());
  const image::UsdtProbe* found = find_usdt(probes, probe);
  if (!found || site >= found->sites.size()) return ArgumentPlaces::usdt_argument(probe, site, number);
  const auto& arguments = found->sites[site].arguments;
  if (number >= arguments.size())
    return fail(probe.text + " has " + std::to_string(arguments.size()) + " arguments: there is no arg" +
                std::to_string(number));
  auto place = to_place(arguments[number], found->sites[site].address, vector_offset_);
  if (!place) return fail(std::move(place.error()).while_doing("`arg" + std::to_string(number) + "`"));
  return place;
}

namespace {

// Where a variable always lies, if it does.
std::optional<uint64_t> fixed_address(const image::Location& location) {
  if (location.pieces.size() != 1 || location.pieces[0].ops.size() != 1) return std::nullopt;
  const LocOp& op = location.pieces[0].ops[0];
  if (op.code != LocOp::Code::Address) return std::nullopt;
  return uint64_t(op.value);
}

// Static variables of several files may have one name: the one of the probe's own unit is meant.
Result<ImageAddr> symbol_address(const ScriptTypes::Place& site, const lang::AttachSpec& probe,
                                 std::string_view name) {
  for (const auto& symbols :
       {image::read_data_symbols(site.image->elf()), image::read_function_symbols(site.image->elf())}) {
    std::set<uint64_t> found;
    for (const image::Symbol& symbol : symbols.symbols)
      if (symbol.name == name && symbol.kind != image::SymbolKind::ThreadLocal)
        found.insert(symbol.address.value);
    if (found.size() == 1) return ImageAddr{*found.begin()};
    if (found.empty()) continue;
    auto own = own_variable(site, name);
    auto address = own ? fixed_address(own->location) : std::nullopt;
    if (address && found.contains(*address)) return ImageAddr{*address};
    return fail(std::to_string(found.size()) + " symbols of " + probe.target + " are named " +
                std::string(name) + ", and debug info does not say that one is of the file of " +
                probe.function);
  }
  return fail("Could not resolve symbol: " + probe.target + ":" + std::string(name));
}

}  // namespace

// Counted from the probed instruction, which the program has wherever it was loaded. A return probe sits on
// several, so that the instruction alone does not say where the program lies.
Result<ArgumentPlace> ScriptPlaces::symbol(const lang::AttachSpec& probe, std::string_view name) const {
  auto site = types_.site(probe);
  if (!site || !site->image->is_elf()) return fail("the place of " + probe.text + " is not known");
  if (probe.kind != lang::ProbeKind::kUprobe) return fail("uaddr() needs a probe on one instruction");
  TRY(ImageAddr address, symbol_address(*site, probe, name));
  ArgumentPlace place;
  place.register_offset = *context_offset(instruction_pointer);
  ImageAddr probed = entry_address(*site->image, site->address, is_inproc_);
  place.steps.push_back({PlaceStep::Kind::Add, int64_t(address.value) - int64_t(probed.value), 8});
  return place;
}

// Go keeps the running goroutine in R14.
Result<ArgumentPlace> ScriptPlaces::goroutine(const lang::AttachSpec& probe) const {
  constexpr uint32_t kR14 = 14;  // DWARF's number
  auto site = types_.site(probe);
  if (!site) return fail("the place of " + probe.text + " is not known");
  TRY(uint64_t offset, goid_offset(*site->image, site->address));
  ArgumentPlace place;
  place.register_offset = *context_offset(kR14);
  place.steps.push_back({PlaceStep::Kind::Add, int64_t(offset), 8});
  place.steps.push_back({PlaceStep::Kind::Load, 0, 8});
  return place;
}

}  // namespace uscope::session
