// Turns a DWARF expression into a Location: resolves what the debug info knows (the frame base, the CFA,
// indexed addresses), keeps what only a running program knows. What it cannot express becomes OptimizedOut
// with the reason. Internal to dwarf/.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "image/dwarf/unit.h"
#include "image/location.h"

namespace uscope::image::dwarf {

struct ExpressionContext {
  const Unit* unit = nullptr;
  // At a function's first instruction an entry value is still in its register.
  bool at_entry = false;
  // Push the canonical frame address, the frame base. Nothing: not known at this instruction.
  std::function<std::optional<std::vector<LocOp>>()> cfa;
  std::function<std::optional<std::vector<LocOp>>()> frame_base;
};

Location to_location(Bytes expression, const ExpressionContext& context);
// The operations alone: of a frame base, or a CFA. DW_OP_regN, which names the frame pointer there, pushes
// it.
std::optional<std::vector<LocOp>> to_computation(Bytes expression, const ExpressionContext& context);
Location optimized_out(std::string reason);

}  // namespace uscope::image::dwarf
