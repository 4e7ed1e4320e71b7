#include "event/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "event/aggregate.h"

namespace uscope::event {
namespace {

using Kind = Layout::Kind;

// Layouts come from types of the traced program; a broken one must not recurse or grow without end.
constexpr int kMaxDepth = 64;
constexpr uint64_t kMaxElements = 1u << 20;
constexpr uint64_t kMaxStackFrames = 1u << 16;
// As bpftrace marks text that did not fit.

uint64_t extend(uint64_t bits, unsigned width, bool is_signed) {
  if (width == 0 || width >= 64) return bits;
  bits &= (uint64_t{1} << width) - 1;
  if (is_signed && (bits >> (width - 1)) != 0) bits |= ~uint64_t{0} << width;
  return bits;
}

class Decoder {
 public:
  Decoder(Bytes bytes, std::span<const Format> formats)
      : bytes_(bytes), formats_(formats), elements_left_(2 * bytes.size() + 64) {}

  Result<Value> value(const Layout& layout, uint64_t offset, const std::string& what, int depth = 0);
  Result<Value> field(const Field& field, uint64_t base, const std::string& what, int depth);

 private:
  Result<Bytes> part(uint64_t offset, uint64_t size, const std::string& what) const;
  Result<std::vector<uint64_t>> words(uint64_t offset, uint64_t count, const std::string& what) const;
  Result<Value> wide_integer(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Integer> integer(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Value> scalar(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Value> text(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Value> buffer(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Value> array(const Layout& layout, uint64_t offset, const std::string& what, int depth);
  Result<Value> fields(const Layout& layout, uint64_t offset, const std::string& what, int depth);
  Result<Value> aggregate(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Value> stack(const Layout& layout, uint64_t offset, const std::string& what) const;
  Result<Value> looked_up(const Layout& layout, uint64_t offset, const std::string& what) const;

  Bytes bytes_;
  std::span<const Format> formats_;
  // Elements of arrays have bytes, and arrays of arrays at most as many again: a layout that asks for more
  // lies.
  uint64_t elements_left_;
};

Result<Bytes> Decoder::part(uint64_t offset, uint64_t size, const std::string& what) const {
  if (auto found = slice(bytes_, offset, size)) return *found;
  return fail(fmt::format("{} needs {} bytes at {}, the record has {}", what, size, offset, bytes_.size()));
}

Result<std::vector<uint64_t>> Decoder::words(uint64_t offset, uint64_t count, const std::string& what) const {
  TRY(Bytes found, part(offset, count * 8, what));
  std::vector<uint64_t> out(count);
  if (count != 0) std::memcpy(out.data(), found.data(), count * 8);
  return out;
}

Result<Integer> Decoder::integer(const Layout& layout, uint64_t offset, const std::string& what) const {
  uint64_t size = layout.size;
  if (size == 0 || size > 8) return fail(fmt::format("{}: an integer of {} bytes", what, size));
  TRY(Bytes found, part(offset, size, what));
  uint64_t bits = 0;
  std::memcpy(&bits, found.data(), size);
  return Integer{extend(bits, static_cast<unsigned>(size * 8), layout.is_signed), layout.is_signed,
                 static_cast<uint8_t>(size)};
}

Value enum_value(const Layout& layout, const Integer& number) {
  for (const auto& [value, name] : layout.enumerators) {
    if (value == number.as_signed()) return {EnumValue{number, name}};
  }
  return {EnumValue{number, ""}};
}

Value of_integer(const Layout& layout, const Integer& number) {
  if (layout.kind == Kind::Bool) return {number.bits != 0};
  if (layout.kind == Kind::Enum) return enum_value(layout, number);
  if (layout.kind == Kind::Pointer) return {Pointer{number.bits}};
  return {number};
}

// A number of more than 64 bits is shown by its digits.
Result<Value> Decoder::wide_integer(const Layout& layout, uint64_t offset, const std::string& what) const {
  TRY(auto half, words(offset, 2, what));
  uint64_t extension = layout.is_signed && (half[0] >> 63) != 0 ? UINT64_MAX : 0;
  if (half[1] == extension) return Value{Integer{half[0], layout.is_signed, 8}};
  bool is_negative = layout.is_signed && (half[1] >> 63) != 0;
  auto rest = static_cast<unsigned __int128>(half[1]) << 64 | half[0];
  if (is_negative) rest = -rest;
  std::string digits;
  for (; rest != 0; rest /= 10) digits.insert(digits.begin(), static_cast<char>('0' + rest % 10));
  return Value{(is_negative ? "-" : "") + digits};
}

Result<Value> Decoder::scalar(const Layout& layout, uint64_t offset, const std::string& what) const {
  if (layout.kind == Kind::Integer && layout.size == 16) return wide_integer(layout, offset, what);
  if (layout.kind != Kind::Float) {
    TRY(Integer number, integer(layout, offset, what));
    return of_integer(layout, number);
  }
  TRY(Bytes found, part(offset, layout.size, what));
  if (layout.size == sizeof(float)) {
    float number = 0;
    std::memcpy(&number, found.data(), sizeof number);
    return Value{Float{number, 4}};
  }
  if (layout.size == sizeof(double)) {
    double number = 0;
    std::memcpy(&number, found.data(), sizeof number);
    return Value{Float{number, 8}};
  }
  return Value{fmt::format("<a float of {} bytes>", layout.size)};  // within a struct that is shown whole
}

Result<Value> Decoder::text(const Layout& layout, uint64_t offset, const std::string& what) const {
  // A record may end with its last text's NUL.
  uint64_t there = offset < bytes_.size() ? bytes_.size() - offset : 0;
  TRY(Bytes found, part(offset, std::min(layout.size, there), what));
  std::string_view all = as_text(found);
  size_t end = all.find('\0');
  if (end == std::string_view::npos && there < layout.size) TRY_STATUS(part(offset, layout.size, what));
  std::string shown(all.substr(0, end));
  if (shown.size() + 1 >= layout.size) shown += layout.trailer;
  return Value{std::move(shown)};
}

Result<Value> Decoder::buffer(const Layout& layout, uint64_t offset, const std::string& what) const {
  TRY(Bytes found, part(offset, layout.size, what));
  ByteReader reader(found);
  uint64_t length = reader.u32();
  if (reader.failed() || length > reader.remaining()) {
    return fail(
        fmt::format("{}: a buffer says {} bytes and has room for {}", what, length, reader.remaining()));
  }
  return Value{Buffer{std::string(as_text(reader.take(length)))}};
}

Result<Value> Decoder::array(const Layout& layout, uint64_t offset, const std::string& what, int depth) {
  if (layout.fields.empty()) return fail(fmt::format("{}: an array of nothing", what));
  const Layout& element = layout.fields.front().layout;
  uint64_t size = value_size(element);
  if (layout.count > kMaxElements || size > bytes_.size() + 1 || layout.count > elements_left_) {
    return fail(fmt::format("{}: an array of {} times {} bytes", what, layout.count, size));
  }
  elements_left_ -= layout.count;
  TRY_STATUS(part(offset, layout.count * size, what));
  Array out;
  out.elements.reserve(layout.count);
  for (uint64_t i = 0; i < layout.count; ++i) {
    TRY(Value one, value(element, offset + i * size, what, depth + 1));
    out.elements.push_back(std::move(one));
  }
  return Value{std::move(out)};
}

Result<Value> Decoder::field(const Field& field, uint64_t base, const std::string& what, int depth) {
  const Layout& layout = field.layout;
  uint64_t offset = 0;
  if (__builtin_add_overflow(base, field.offset, &offset)) return fail(what + " lies outside the record");
  if (field.bit_width == 0) return value(layout, offset, what, depth + 1);
  if (field.bit_offset >= 64 || field.bit_width > 64) return fail(what + ": no such bits");
  uint64_t size =
      (uint64_t(field.bit_offset) + field.bit_width + 7) / 8;  // a packed struct's may cross words
  TRY(Bytes found, part(offset, size, what));
  unsigned __int128 bits = 0;
  std::memcpy(&bits, found.data(), size);
  uint64_t number = extend(uint64_t(bits >> field.bit_offset), field.bit_width, layout.is_signed);
  return of_integer(layout, {number, layout.is_signed, static_cast<uint8_t>(std::min<uint64_t>(size, 8))});
}

Result<Value> Decoder::fields(const Layout& layout, uint64_t offset, const std::string& what, int depth) {
  Tuple tuple;
  Record record;
  for (size_t i = 0; i < layout.fields.size(); ++i) {
    const Field& one = layout.fields[i];
    std::string name = one.name.empty() ? std::to_string(i) : one.name;
    TRY(Value decoded, field(one, offset, what.empty() ? name : what + "." + name, depth));
    if (layout.kind == Kind::Tuple) {
      tuple.elements.push_back(std::move(decoded));
    } else {
      record.fields.emplace_back(one.name, std::move(decoded));
    }
  }
  if (layout.kind == Kind::Tuple) return Value{std::move(tuple)};
  return Value{std::move(record)};
}

Integer average(uint64_t total, uint64_t count, bool is_signed) {
  Integer out{total, is_signed, 8};
  if (count == 0) return Integer{0, is_signed, 8};
  // A count that does not fit the signed range divides anything to 0.
  if (out.is_negative() && count <= INT64_MAX) {
    out.bits = static_cast<uint64_t>(out.as_signed() / static_cast<int64_t>(count));
  } else {
    out.bits = out.is_negative() ? 0 : total / count;
  }
  return out;
}

Value time_series(const Layout& layout, const std::vector<uint64_t>& words) {
  TimeSeries out{layout.tseries_interval_ns, layout.tseries_intervals, {}};
  uint64_t newest = 0;
  for (size_t i = 0; i + 3 <= words.size(); i += 3) {
    if (words[i + 1] == 0) continue;
    Integer value{words[i], layout.is_signed, 8};
    if (layout.tseries_aggregation == "avg") value = average(words[i], words[i + 1], layout.is_signed);
    out.points.push_back({words[i + 2], value});
    newest = std::max(newest, words[i + 2]);
  }
  // A place that nothing was written to for a whole round still holds an old interval.
  std::erase_if(out.points,
                [&](const auto& point) { return newest - point.epoch >= layout.tseries_intervals; });
  std::ranges::sort(out.points, {}, &TimeSeries::Point::epoch);
  return {std::move(out)};
}

Result<Value> Decoder::aggregate(const Layout& layout, uint64_t offset, const std::string& what) const {
  TRY(auto word, words(offset, value_size(layout) / 8, what));
  switch (layout.kind) {
    case Kind::Count:
      return unsigned_value(word[0]);
    case Kind::Sum:
    case Kind::Min:
    case Kind::Max:
      return Value{Integer{word[0], layout.is_signed, 8}};
    case Kind::Avg:
      return Value{Average{average(word[0], word[1], layout.is_signed)}};
    case Kind::Stats:
      return Value{
          Stats{word[1], average(word[0], word[1], layout.is_signed), Integer{word[0], layout.is_signed, 8}}};
    case Kind::Hist:
      return Value{Histogram{false, layout.hist_bits, 0, 0, 1, std::move(word)}};
    case Kind::Lhist:
      return Value{
          Histogram{true, 0, layout.lhist_min, layout.lhist_max, layout.lhist_step, std::move(word)}};
    default:
      return time_series(layout, word);
  }
}

Result<Value> Decoder::stack(const Layout& layout, uint64_t offset, const std::string& what) const {
  TRY(Bytes head, part(offset, 16, what));
  ByteReader reader(head);
  Stack out;
  out.is_kernel = layout.kind == Kind::KernelStack;
  out.style = layout.stack_style;
  out.pid = reader.u32();
  out.end = StackEnd(reader.u32());
  uint64_t count = reader.u64();
  uint64_t room = layout.size < 16 ? 0 : (layout.size - 16) / 8;
  if (count > room || count > kMaxStackFrames) {
    return fail(fmt::format("{}: a stack says {} frames and has room for {}", what, count, room));
  }
  TRY(out.addresses, words(offset + 16, count, what));
  constexpr uint64_t kExact = uint64_t(1) << 63;
  // Not so in the kernel, whose addresses all have this bit.
  for (uint64_t& address : out.addresses) {
    if (out.is_kernel) break;
    out.is_exact.push_back((address & kExact) != 0);
    address &= ~kExact;
  }
  return Value{std::move(out)};
}

Result<Value> Decoder::looked_up(const Layout& layout, uint64_t offset, const std::string& what) const {
  auto reader_of = [&](uint64_t size) -> Result<ByteReader> {
    TRY(Bytes found, part(offset, size, what));
    return ByteReader(found);
  };
  switch (layout.kind) {
    case Kind::UserSymbol: {
      TRY(ByteReader reader, reader_of(16));
      uint64_t address = reader.u64();
      uint32_t pid = reader.u32();
      return Value{Symbol{address, pid, reader.u32()}};
    }
    case Kind::KernelSymbol: {
      TRY(ByteReader reader, reader_of(8));
      return Value{Symbol{reader.u64(), 0, UINT32_MAX, true}};
    }
    case Kind::CgroupPath: {
      TRY(ByteReader reader, reader_of(16));
      uint64_t id = reader.u64();
      uint64_t format = reader.u64();
      return Value{CgroupPath{id, format < formats_.size() ? formats_[format].text : ""}};
    }
    case Kind::Inet: {
      TRY(ByteReader reader, reader_of(24));
      Inet inet{reader.u64(), {}};
      std::ranges::copy(reader.take(16), inet.address.begin());
      return Value{inet};
    }
    case Kind::MacAddress: {
      TRY(ByteReader reader, reader_of(6));
      MacAddress mac;
      std::ranges::copy(reader.take(6), mac.address.begin());
      return Value{mac};
    }
    case Kind::Timestamp: {
      TRY(ByteReader reader, reader_of(16));
      uint64_t time = reader.u64();
      uint64_t format = reader.u64();
      if (format >= formats_.size()) return fail(fmt::format("{}: no time format {}", what, format));
      return Value{Timestamp{time, formats_[format].text}};
    }
    default: {
      TRY(ByteReader reader, reader_of(8));
      uint64_t number = reader.u64();
      if (layout.kind == Kind::Username) return Value{Username{number}};
      if (layout.kind == Kind::SignalName) return Value{SignalName{number}};
      return Value{Strerror{number}};
    }
  }
}

Result<Value> Decoder::value(const Layout& layout, uint64_t offset, const std::string& what, int depth) {
  if (depth > kMaxDepth) return fail(what + " is nested too deeply");
  switch (layout.kind) {
    case Kind::None:
      return Value{};
    case Kind::Bool:
    case Kind::Integer:
    case Kind::Float:
    case Kind::Enum:
    case Kind::Pointer:
      return scalar(layout, offset, what);
    case Kind::String:
      return text(layout, offset, what);
    case Kind::Buffer:
      return buffer(layout, offset, what);
    case Kind::Array:
      return array(layout, offset, what, depth);
    case Kind::Struct:
    case Kind::Tuple:
    case Kind::Record:
      return fields(layout, offset, what, depth);
    case Kind::UserStack:
    case Kind::KernelStack:
      return stack(layout, offset, what);
    case Kind::UserSymbol:
    case Kind::KernelSymbol:
    case Kind::Inet:
    case Kind::MacAddress:
    case Kind::Timestamp:
    case Kind::Username:
    case Kind::CgroupPath:
    case Kind::Strerror:
    case Kind::SignalName:
      return looked_up(layout, offset, what);
    default:
      return aggregate(layout, offset, what);
  }
}

}  // namespace

Result<Value> decode(const Layout& layout, Bytes bytes, std::span<const Format> formats) {
  return Decoder(bytes, formats).value(layout, 0, "the value");
}

Result<std::vector<Value>> decode_arguments(const Format& format, Bytes bytes,
                                            std::span<const Format> formats) {
  Decoder decoder(bytes, formats);
  std::vector<Value> out;
  out.reserve(format.arguments.fields.size());
  for (size_t i = 0; i < format.arguments.fields.size(); ++i) {
    TRY(Value one, decoder.field(format.arguments.fields[i], 0, fmt::format("argument {}", i + 1), 0));
    out.push_back(std::move(one));
  }
  return out;
}

Result<MapContents> decode_map(const MapPlan& map, std::span<const RawEntry> entries,
                               std::span<const Format> formats) {
  MapContents out{map.name, {}};
  out.entries.reserve(entries.size());
  for (const RawEntry& raw : entries) {
    MapEntry entry;
    if (map.key) {
      TRY(entry.key, Decoder(raw.key, formats).value(*map.key, 0, "a key of " + map.name));
    }
    std::vector<uint8_t> merged = merge_copies(map.value, raw.copies);
    TRY(entry.value, Decoder(merged, formats).value(map.value, 0, "a value of " + map.name));
    out.entries.push_back(std::move(entry));
  }
  return out;
}

}  // namespace uscope::event
