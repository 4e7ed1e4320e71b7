// What lies at an offset of a file: the way back from explore_offsets.
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "session/explore_offsets.h"
#include "session/native_images.h"
#include "symbols/function_code.h"
#include "symbols/image_symbols.h"
#include "symbols/lookup.h"
#include "x86/boundaries.h"

namespace uscope::session {
namespace {

// Whether an instruction begins there. The code's addresses are the image's; the user thinks in file offsets.
void judge(const x86::FunctionCode& code, uint64_t address, FileOffset offset, OffsetPlace& place) {
  const x86::Boundary boundary = x86::Boundaries(code).at(address);
  switch (boundary.answer) {
    case x86::Boundary::Answer::start:
      return;
    case x86::Boundary::Answer::inside: {
      const uint64_t into = address - boundary.instruction.address;
      place.trouble = fmt::format(
          "0x{:x} is inside the {}-byte instruction at 0x{:x}; a probe there would crash the program",
          offset.value, boundary.instruction.length, offset.value - into);
      return;
    }
    default:
      place.is_known = false;
      place.trouble = fmt::format("whether an instruction begins at 0x{:x} cannot be told", offset.value);
  }
}

std::optional<OffsetPlace> in_assemblies(const NativeImages& images, Bytes file, FileOffset offset) {
  for (const auto& image : images.images) {
    const image::NativeMethod* method = image.find(offset);
    if (!method) continue;
    OffsetPlace place{.function = method->full_name()};
    const bool is_cold =
        method->cold && offset >= method->cold->offset && offset - method->cold->offset < method->cold->size;
    const FileOffset start = is_cold ? method->cold->offset : method->offset;
    const ImageAddr rva = is_cold ? method->cold->rva : method->rva;
    const uint64_t size = is_cold ? method->cold->size : method->size;
    place.delta = offset - start;
    if (is_cold) place.function += " [cold part]";
    const auto bytes = slice(file, start.value, size);
    x86::FunctionCode code;
    if (bytes) code.parts.push_back({rva.value, *bytes});
    judge(code, rva.value + place.delta, offset, place);
    return place;
  }
  return std::nullopt;
}

Result<OffsetPlace> in_elf(const Target& target, FileOffset offset) {
  TRY(const symbols::ImageSymbols image, symbols::ImageSymbols::open(target.path, target.root));
  const auto address = image.image_address(offset);
  OffsetPlace place;
  if (!address) {
    place.trouble =
        fmt::format("no part of {} that is loaded has the file offset 0x{:x}", target.shown, offset.value);
    return place;
  }
  if (const auto line = image.debug_info().line_at(*address))
    place.source = fmt::format("{}:{}", line->file, line->line);
  const symbols::FunctionSymbol* function = image.function_at(*address);
  if (!function) {
    place.is_known = false;
    place.trouble = fmt::format("no function that has a name holds 0x{:x}", offset.value);
    return place;
  }
  place.function = symbols::display_name(function->name);
  place.delta = *address - function->address;
  if (const auto code = symbols::function_code(image, *function)) {
    judge(*code, address->value, offset, place);
  } else if (place.delta != 0) {
    place.is_known = false;
    place.trouble = "the function's code is not in the file";
  }
  return place;
}

}  // namespace

Result<OffsetPlace> explain_offset(const OffsetsRequest& request, FileOffset offset) {
  const Target& target = request.target;
  TRY(const MappedFile file, MappedFile::open(target.path));
  if (holds_assemblies(file.bytes())) {
    TRY(const NativeImages images,
        read_named_images(file.bytes(), target.path, target.root, request.map_file));
    if (auto place = in_assemblies(images, file.bytes(), offset)) return *place;
    if (image::looks_like_pe(file.bytes())) {
      OffsetPlace nowhere;
      nowhere.is_known = false;
      nowhere.trouble = fmt::format("no method of {} has code at 0x{:x}", target.shown, offset.value);
      return nowhere;
    }
  }
  return in_elf(target, offset);
}

}  // namespace uscope::session
