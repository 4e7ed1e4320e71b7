// Everything the DWARF reader answers about arbitrary bytes. The first byte says what follows: 0, an image;
// else 4 bytes of length, an image of that length, and a .dwp package for it.
// Seeds: tests/fuzz/make_dwarf_seeds FOLDER.
#include <cstdint>
#include <cstring>

#include "image/dwarf/debug_info.h"
#include "image/dwarf/functions.h"
#include "image/dwarf/store.h"
#include "image/elf/elf_file.h"

using namespace uscope;
using namespace uscope::image;
using namespace uscope::image::dwarf;

namespace {

uint64_t sum(const DebugInfo& info, const std::vector<Variable>& variables) {
  uint64_t total = 0;
  for (const Variable& variable : variables) {
    total += variable.name.size() + variable.location.pieces.size() + info.type(variable.type).size;
    total += variable.location.is_available() + variable.location.as_register().value_or(0);
    if (variable.location.pieces.empty()) __builtin_trap();
  }
  return total;
}

uint64_t ask_about_functions(const DebugInfo& info) {
  uint64_t total = 0;
  size_t count = 0;
  std::vector<Function> functions;
  info.for_each_function([&](const Function& function) {
    functions.push_back(function);
    return ++count < 20;
  });
  for (const Function& function : functions) {
    total += sum(info, function.parameters) + info.type(function.return_type).members.size();
    for (uint64_t offset : {0, 1, 9}) {
      ImageAddr at = function.entry + offset;
      if (auto found = info.function_at(at)) total += found->ranges.size();
      total += sum(info, info.variables_at(at, offset == 1));
      total += info.inlined_at(at).size();
      if (auto line = info.line_at(at)) total += line->line;
    }
    if (!function.ranges.empty()) {
      total += info.lines_between(function.ranges[0].begin, function.ranges[0].end).size();
    }
  }
  return total;
}

uint64_t ask_about_names(const DebugInfo& info) {
  uint64_t total = info.source_files().size() + info.lines_of_file("a.c").size();
  for (TypeId id : info.find_types("*", 500)) {
    const Type& type = info.type(id);
    for (const Member& member : type.members) total += info.type(member.type).size;
    total += info.definition_of(id).value + type.qualified.size();
  }
  total += info.find_types("pair").size() + info.inlined_copies("small", 100).size();
  if (auto global = info.global("counter")) total += global->location.pieces.size();
  return total + info.problems().size();
}

void ask_split(const ElfFile& image, Bytes package) {
  auto elf = ElfFile::from_bytes(package, "package");
  if (!elf) return;
  Store store(image, image, "");
  store.set_package(std::make_unique<Package>(std::move(*elf)));
  TypeReader types(store);
  FrameTable frames(image, {});
  FunctionReader reader(store, types, frames);
  size_t count = 0;
  store.for_each_unit([&](const Unit& unit) {
    for (uint64_t offset : std::vector<uint64_t>(unit.index().concrete)) {
      Die die = unit.die_at(offset);
      if (!die || ++count > 20) break;
      Function function = reader.read(die);
      for (const Variable& parameter : function.parameters) types.get(parameter.type);
    }
    return count < 20;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) return 0;
  Bytes input(data + 1, size - 1);
  Bytes package;
  if (data[0] != 0) {
    uint32_t length = 0;
    std::memcpy(&length, input.data(), 4);
    input = input.subspan(4);
    length = uint32_t(std::min<uint64_t>(length, input.size()));
    package = input.subspan(length);
    input = input.first(length);
  }
  auto elf = ElfFile::from_bytes(input, "fuzz");
  if (!elf) return 0;
  if (!package.empty()) {
    ask_split(*elf, package);
    return 0;
  }
  auto info = DebugInfo::open(*elf);
  if (!info || info->is_empty()) return 0;
  return ask_about_functions(*info) + ask_about_names(*info) == UINT64_MAX ? 1 : 0;
}
