// An arbitrary layout and an arbitrary record: decoding takes or refuses it without reading past the bytes,
// and whatever it yields can be shown as text, as JSON, and by any format.
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "event/decode.h"
#include "event/format.h"
#include "view/json.h"
#include "view/text.h"

using namespace uscope;

namespace {

event::Layout layout_from(ByteReader& reader, int depth) {
  using Kind = event::Layout::Kind;
  event::Layout layout;
  layout.kind = static_cast<Kind>(reader.u8() % (static_cast<int>(Kind::Strerror) + 1));
  layout.size = reader.u8();
  layout.is_signed = (reader.u8() & 1) != 0;
  layout.hist_bits = reader.u8();
  layout.lhist_min = reader.read<int16_t>();
  layout.lhist_max = reader.read<int16_t>();
  layout.lhist_step = reader.read<int8_t>();
  layout.tseries_intervals = reader.u8();
  layout.tseries_interval_ns = reader.u32();
  if (reader.u8() & 1) layout.tseries_aggregation = "avg";
  layout.count = reader.u8();
  uint8_t fields = depth < 4 ? reader.u8() % 4 : 0;
  for (uint8_t i = 0; i < fields; ++i) {
    event::Field field;
    field.name = std::string(1, static_cast<char>('a' + i));
    field.offset = reader.u16();
    field.bit_offset = reader.u8();
    field.bit_width = reader.u8() & 1 ? reader.u8() : 0;
    field.layout = layout_from(reader, depth + 1);
    layout.fields.push_back(std::move(field));
  }
  return layout;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader reader(Bytes(data, size));
  event::Layout layout = layout_from(reader, 0);
  std::string_view format = reader.cstring();
  Bytes record = reader.take(reader.remaining());
  std::vector<event::Format> formats(2);
  formats[1].text = std::string(format);
  event::NoNames names;
  auto value = event::decode(layout, record, formats);
  if (!value) return 0;
  auto drop = [](std::string_view) {};
  view::TextOutput text(drop, drop, names);
  view::JsonOutput json(drop, names);
  event::MapContents map{"@x", {{*value, *value}, {*value, *value}}};
  text.map(map, 0, record.empty() ? 1 : record[0]);
  json.map(map, 0, 1);
  std::string out;
  (void)event::FormatString(format).append(out, std::span(&*value, 1), names);
  return 0;
}
