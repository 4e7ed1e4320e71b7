// Outputs that keep what was written, for tests.
#pragma once

#include <string>
#include <string_view>

#include "event/symbol_names.h"
#include "view/json.h"
#include "view/text.h"

namespace uscope::view {

struct Recorded {
  std::string out, diagnostics;
  event::NoNames names;
  TextOutput text{[this](std::string_view t) { out += t; }, [this](std::string_view t) { diagnostics += t; },
                  names};
  JsonOutput json{[this](std::string_view t) { out += t; }, names};

  std::string take() { return std::exchange(out, ""); }
};

inline event::Value text_value(std::string text) { return {std::move(text)}; }

// hist() of these values.
event::Value hist_of(const std::vector<int64_t>& values, uint32_t bits = 0);
event::Value lhist_of(const std::vector<int64_t>& values, int64_t min, int64_t max, int64_t step);

}  // namespace uscope::view
