// Opening the one image a perf-style command is about; shared by the files behind perf_probe.h.
#pragma once

#include "probe/image_files.h"
#include "session/perf_probe.h"
#include "symbols/image_symbols.h"
#include "symbols/type_spelling.h"

namespace uscope::session {

struct PerfImage {
  probe::ImageFile file;
  symbols::ImageSymbols symbols;

  image::TypeLookup types() const {
    return [this](image::TypeId id) -> const image::Type& { return symbols.debug_info().type(id); };
  }
};

Result<PerfImage> open_perf_image(const PerfProbeRequest& request);

}  // namespace uscope::session
