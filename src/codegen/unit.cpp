#include "codegen/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "codegen/layout_of.h"
#include "event/aggregate.h"

namespace uscope::codegen {
namespace {

constexpr uint64_t kMaxValue = 32u << 10;  // a per-CPU value; larger ones are refused by the kernel
constexpr uint64_t kMaxKey = 16u << 10;    // what scratch memory can hold beside other things
constexpr uint32_t kMostImages = 4096, kMostMappings = 8192;

MapKind map_kind(const lang::MapInfo& info) {
  bool aggregates = info.value.is_aggregate();
  if (info.kind == "lruhash") return aggregates ? MapKind::PerCpuLruHash : MapKind::LruHash;
  if (info.kind == "percpulruhash") return MapKind::PerCpuLruHash;
  if (info.kind == "percpuhash" || aggregates) return MapKind::PerCpuHash;
  return MapKind::Hash;
}

std::vector<uint8_t> bytes_of(uint32_t number) {
  std::vector<uint8_t> out(sizeof number);
  std::memcpy(out.data(), &number, sizeof number);
  return out;
}

}  // namespace

Unit::Unit(const lang::TypedProgram& typed_program, const Inputs& given)
    : typed(typed_program), inputs(given) {
  add_map({"events", MapKind::RingBuffer, 0, 0, inputs.ring_bytes});
  add_map({"lost", MapKind::PerCpuArray, 4, 8, 1});
}

uint32_t Unit::add_map(MapSpec spec) {
  out.program.maps.push_back(std::move(spec));
  return uint32_t(out.program.maps.size() - 1);
}

const Unit::ScriptMap& Unit::script_map(const std::string& name) {
  auto [at, is_new] = script_maps_.try_emplace(name);
  ScriptMap& map = at->second;
  if (!is_new) return map;
  auto found = typed.maps.find(name);
  if (found == typed.maps.end()) {
    static const lang::MapInfo kNone;
    map.info = &kNone;
    problem({}, "map " + name + " is not known");
    return map;
  }
  const lang::MapInfo& info = found->second;
  map.info = &info;
  MapKind kind = map_kind(info);
  map.is_per_cpu = kind == MapKind::PerCpuHash || kind == MapKind::PerCpuLruHash;
  event::Layout value = checked(value_layout(info, typed, inputs.types), info.span);
  map.value_size = info.value.is_aggregate() ? event::value_size(value) : size_of(info.value);
  if (info.value.is_aggregate()) value.size = map.value_size;
  if (info.key) map.key_size = size_of(*info.key);
  if (map.key_size == 0 || map.key_size > kMaxKey)
    problem(info.span, fmt::format("{}: a key of {} bytes", name, map.key_size));
  if (map.value_size == 0 || map.value_size > kMaxValue)
    problem(info.span, fmt::format("{}: a value of {} bytes", name, map.value_size));
  uint64_t entries = info.key ? info.max_entries.value_or(typed.settings.max_map_keys) : 1;
  map.program_map = add_map({name.size() > 1 ? name.substr(1) : "_", kind, uint32_t(map.key_size),
                             uint32_t(map.value_size), uint32_t(std::min<uint64_t>(entries, UINT32_MAX))});
  map.plan_map = uint32_t(out.plan.maps.size());
  event::MapPlan plan{name, map.program_map, std::nullopt, std::move(value), map.is_per_cpu};
  if (info.key) plan.key = layout(*info.key, info.span);
  out.plan.maps.push_back(std::move(plan));
  return map;
}

void Unit::make_all_script_maps() {
  for (const auto& [name, info] : typed.maps)
    if (info.value.known()) script_map(name);
}

uint32_t Unit::scratch_map(uint64_t bytes_needed) {
  if (!scratch_map_) scratch_map_ = add_map({"scratch", MapKind::PerCpuArray, 4, 0, kScratchEntries});
  uint32_t& size = out.program.maps[*scratch_map_].value_size;
  size = std::max(size, uint32_t(bytes_needed));
  return *scratch_map_;
}

uint32_t Unit::zeroes_map(uint64_t size) {
  if (!zeroes_map_) zeroes_map_ = add_map({"zeroes", MapKind::Array, 4, 0, 1});
  uint32_t& most = out.program.maps[*zeroes_map_].value_size;
  most = std::max(most, uint32_t(size));
  return *zeroes_map_;
}

uint32_t Unit::start_time_map() {
  if (!out.start_time_map) out.start_time_map = add_map({"start_time", MapKind::Array, 4, 8, 1});
  return *out.start_time_map;
}

const VmaLayout* Unit::vma_layout() {
  if (!asked_for_vma_layout_ && inputs.vma_layout) vma_layout_ = inputs.vma_layout();
  asked_for_vma_layout_ = true;
  return vma_layout_ ? &*vma_layout_ : nullptr;
}

const UnwindMaps& Unit::unwind_maps() {
  if (!out.unwind) {
    UnwindMaps maps;
    maps.rows = add_map({"unwind_rows", MapKind::Array, 4, sizeof(RowEntry), 1});
    maps.rules = add_map({"unwind_rules", MapKind::Array, 4, sizeof(RuleEntry), kFirstImageRule});
    if (inputs.in_process) {
      maps.state = add_map({"unwind_state", MapKind::Array, 4, sizeof(UnwindState), 1});
      maps.code = add_map({"unwind_code", MapKind::Array, 4, sizeof(CodeRange), 2 * kMostCodeRanges});
      out.unwind = maps;
      return *out.unwind;
    }
    maps.images = add_map({"images", MapKind::Hash, sizeof(ImageKey), sizeof(ImageEntry), kMostImages});
    maps.mappings =
        add_map({"mappings", MapKind::LruHash, sizeof(MappingKey), sizeof(MappingEntry), kMostMappings});
    out.unwind = maps;
  }
  return *out.unwind;
}

uint32_t Unit::probe_names_map(uint64_t size) {
  if (!probe_names_map_) {
    probe_names_map_ = add_map({"probe_names", MapKind::Array, 4, 0, uint32_t(out.plan.probes.size())});
    uint64_t longest = size;
    for (const std::string& name : out.plan.probes) longest = std::max<uint64_t>(longest, name.size() + 1);
    longest = (longest + 7) / 8 * 8;
    out.program.maps[*probe_names_map_].value_size = uint32_t(longest);
    for (uint32_t i = 0; i < out.plan.probes.size(); i++) {
      const std::string& name = out.plan.probes[i];
      std::vector<uint8_t> value(name.begin(), name.end());
      value.resize(longest);
      out.initial_entries.push_back({*probe_names_map_, bytes_of(i), std::move(value)});
    }
  }
  return *probe_names_map_;
}

uint32_t Unit::add_format(event::Format format) {
  out.plan.formats.push_back(std::move(format));
  return uint32_t(out.plan.formats.size() - 1);
}

uint32_t Unit::add_value(event::Layout layout) {
  out.plan.values.push_back(std::move(layout));
  return uint32_t(out.plan.values.size() - 1);
}

uint32_t Unit::add_map_print(uint32_t plan_map) {
  auto& prints = out.plan.map_prints;
  for (uint32_t i = 0; i < prints.size(); i++)
    if (prints[i].map == plan_map) return i;
  prints.push_back({plan_map});
  return uint32_t(prints.size() - 1);
}

uint32_t Unit::add_error_place(std::string helper, lang::Span span) {
  return add_error({std::move(helper), place(span), marked_line(span), ""});
}

uint32_t Unit::add_warning_place(std::string message, lang::Span span) {
  return add_error({"", place(span), marked_line(span), std::move(message)});
}

uint32_t Unit::add_error(event::HelperErrorPlace error) {
  auto& errors = out.plan.errors;
  for (uint32_t i = 0; i < errors.size(); i++)
    if (errors[i].helper == error.helper && errors[i].place == error.place &&
        errors[i].message == error.message)
      return i;
  errors.push_back(std::move(error));
  return uint32_t(errors.size() - 1);
}

std::string Unit::place(lang::Span span) const {
  if (!inputs.sources || span.source >= inputs.sources->size()) return fmt::format("byte {}", span.begin);
  const lang::Source& source = inputs.sources->at(span.source);
  lang::LineColumn at = source.locate(span.begin);
  uint32_t length = span.end > span.begin ? span.end - span.begin : 1;
  return fmt::format("{}:{}:{}-{}", source.name(), at.line, at.column, at.column + length);
}

const std::optional<TaskLayout>& Unit::task_layout() {
  if (!has_asked_for_task_ && inputs.task_layout) task_layout_ = inputs.task_layout();
  has_asked_for_task_ = true;
  return task_layout_;
}

std::string Unit::marked_line(lang::Span span) const {
  if (!inputs.sources || span.source >= inputs.sources->size()) return "";
  const lang::Source& source = inputs.sources->at(span.source);
  lang::LineColumn at = source.locate(span.begin);
  std::string_view line = source.line(at.line);
  size_t length = std::max<size_t>(1, std::min<size_t>(span.end - span.begin, line.size() - at.column + 1));
  return fmt::format("{}\n{}{}", line, std::string(at.column - 1, ' '), std::string(length, '~'));
}

void Unit::problem(lang::Span span, const std::string& message) {
  if (!problem_) problem_ = Error(place(span) + ": " + message);
  if (inputs.diagnostics && !std::exchange(said_in_probe_, true)) inputs.diagnostics->error(span, message);
}

event::Layout Unit::checked(Result<event::Layout> layout, lang::Span span) {
  if (layout) return std::move(*layout);
  problem(span, layout.error().message());
  return {};
}

event::Layout Unit::layout(const lang::Type& type, lang::Span span) {
  return checked(layout_of(type, typed, inputs.types), span);
}

}  // namespace uscope::codegen
