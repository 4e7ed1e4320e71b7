// What a function returns, at its RET: in a register, in several, or in memory.
#include <fmt/format.h>

#include "codegen/code_generator.h"
#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

// The places of its results at this site. Attach points that share the code must have them in the same place.
std::vector<ArgumentPlace> CodeGenerator::result_places(const Expr& expr) {
  reads_result_ = true;
  const ArgumentPlaces* places = unit_.inputs.places;
  // To bpftrace a number is in that register, whatever is known of the function.
  bool is_raw = unit_.typed.settings.as_bpftrace && expr.type.is_scalar();
  if (!places || is_raw) return {result_register()};
  auto in_rax = [](const std::vector<ArgumentPlace>& all) {
    return all.empty() || (all.size() == 1 && is_result_register(all[0]));
  };
  auto known = [&](const lang::AttachSpec& attach) -> std::optional<std::vector<ArgumentPlace>> {
    auto found = places->results(attach);
    if (found) return std::move(*found);
    std::string of = site_.is_shared ? " of " + attach.function : "";
    unit_.problem(expr.span, fmt::format("`retval`{} {}", of, found.error().message()));
    return std::nullopt;
  };
  auto own = known(*site_.attach);
  if (!own) return {};
  bool is_common = in_rax(*own);
  for (const lang::AttachSpec& other : site_.probe->attach_points) {
    if (!is_common || !site_.is_shared) break;
    auto its = known(other);
    if (!its) return {};
    is_common = in_rax(*its);
  }
  if (site_.is_shared && !is_common) depends_on_place_ = true;
  if (own->empty()) own->push_back(result_register());
  return std::move(*own);
}

CodeGenerator::Located CodeGenerator::locate_place(const Expr& expr, const ArgumentPlace& place,
                                                   const Type& type) {
  if (!place.parts.empty()) {
    uint64_t size = user_size(type);
    Place whole = frame_.allocate(std::max<uint64_t>(size, 8));
    store_parts(place.parts, whole, size);
    return copied(whole);
  }
  place_value(place);
  if (place.is_address) return outside(false, 0);
  if (user_size(type) > 8) {
    unsupported(expr.span, fmt::format("a value of {} bytes in one register", user_size(type)));
    return {};
  }
  return copied(keep(R0));
}

CodeGenerator::Located CodeGenerator::locate_result(const Expr& expr) {
  std::vector<ArgumentPlace> places = result_places(expr);
  reading_ = expr.span;
  if (expr.type.is(TypeKind::kFloat) && expr.type.size() > 8 && !places.empty())
    unit_.problem(expr.span,
                  fmt::format("a floating-point number of {} bytes cannot be shown", expr.type.size()));
  if (!expr.type.is(TypeKind::kTuple)) {
    if (places.size() != 1) return {};
    return locate_place(expr, places[0], expr.type);
  }
  // Go's several results.
  if (places.size() != expr.type.fields().size()) return {};
  auto offsets = field_offsets(expr.type);
  Place whole = frame_.allocate(std::max<uint64_t>(size_of(expr.type), 8));
  if (has_padding(expr.type)) clear(whole, size_of(expr.type));
  for (size_t i = 0; i < places.size(); i++) {
    Temporaries temporaries(frame_);
    const Type& type = expr.type.fields()[i].type;
    store_located(locate_place(expr, places[i], type), type, whole.at(offsets[i]), type);
  }
  return ours(whole);
}

// A number -> R0.
void CodeGenerator::scalar_result(const Expr& expr) {
  std::vector<ArgumentPlace> places = result_places(expr);
  if (places.size() != 1) return;
  // Of a number in two registers the lower one counts, as where C makes 64 bits of it.
  const ArgumentPlace& place = places[0].parts.empty() ? places[0] : places[0].parts[0].place;
  reading_ = expr.span;
  place_value(place);
  if (place.is_address) return load_located(outside(false, 0), expr.type, 0, 0);
  extend(R0, expr.type);
}

}  // namespace uscope::codegen
