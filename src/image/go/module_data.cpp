#include "image/go/module_data.h"

namespace uscope::image {
namespace {

// Positions in runtime.moduledata, in words. The head has kept its shape since Go 1.16; Go 1.20 put covctrs
// and ecovctrs before gofunc.
enum Word : uint64_t {
  names = 1,
  files = 7,
  pc_values = 10,
  first_pc = 20,
  last_pc = 21,
  text = 22,
  funcdata_1_18 = 38,
  funcdata_1_20 = 40,
};

}  // namespace

std::optional<GoModuleData> find_module_data(const RelocatedImage& image, ImageAddr table,
                                             const Pclntab::Header& header) {
  if (header.format < PclntabFormat::Go1_16) return std::nullopt;
  constexpr size_t most_candidates = 64;
  for (ImageAddr place : image.find_pointer(table.value, most_candidates)) {
    auto word = [&](Word index) { return image.pointer_at(place + uint64_t(index) * 8).value_or(0); };
    if (word(names) != table.value + header.names || word(files) != table.value + header.files ||
        word(pc_values) != table.value + header.pc_values) {
      continue;
    }
    GoModuleData data{.first_pc = word(first_pc), .last_pc = word(last_pc), .text = word(text)};
    if (header.format == PclntabFormat::Go1_18) data.funcdata = word(funcdata_1_18);
    if (header.format == PclntabFormat::Go1_20) data.funcdata = word(funcdata_1_20);
    return data;
  }
  return std::nullopt;
}

}  // namespace uscope::image
