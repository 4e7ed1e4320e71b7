#include "image/dwarf/entry_places.h"

namespace uscope::image::dwarf {

EntryPlaces::EntryPlaces(const Store& store, TypeReader& types, const FrameTable& frames, const Die& die,
                         const Function& function)
    : store_(store),
      types_(types),
      frames_(frames),
      die_(die),
      function_(function),
      reader_(types, frames, *die.unit, die, function.entry.value) {}

void EntryPlaces::add(const Die& parameter) {
  parameters_.push_back({.die = parameter, .variable = reader_.read(parameter)});
}

std::vector<Variable> EntryPlaces::finish() {
  std::vector<Variable> result;
  for (Parameter& parameter : parameters_) result.push_back(std::move(parameter.variable));
  return result;
}

}  // namespace uscope::image::dwarf
