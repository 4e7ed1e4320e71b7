// A script on functions of the test itself, and what it has collected.
#pragma once

#include <string>

#include "engine/inproc/runtime/map_store.h"
#include "engine/inproc/runtime/ring_reader.h"
#include "unit/engine/inproc/own_process.h"

namespace uscope::engine::inproc {

struct Traced {
  explicit Traced(const std::string& script)
      : compiled(compile_script(script).value()),
        process(compiled.program),
        store(process.code().shared_plan(), process.shared()),
        ring(process.code().shared_plan(), 0, process.shared()) {}

  uint32_t map_of(const std::string& name) const {
    for (const event::MapPlan& each : compiled.plan.maps)
      if (each.name == name) return each.program_map;
    abort();
  }
  uint64_t total(const std::string& name, uint64_t key = 0, uint32_t offset = 0) const {
    return process.total(map_of(name), key, offset);
  }

  codegen::Compiled compiled;
  OwnProcess process;
  MapStore store;
  RingReader ring;
};

}  // namespace uscope::engine::inproc
