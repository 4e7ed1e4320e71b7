#include "engine/inproc/target/build_patches.h"

#include <fmt/format.h>

#include <algorithm>

#include "x86/encode.h"
#include "x86/relocate.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kStubAlignment = 16;
constexpr uint64_t kMostMovedBytes = 40;  // an instruction, moved; see x86/relocate

// Into one that serves for all in turn: memory for each would cost more than the rest of it.
void move_to_process(const PatchPlan& plan, std::span<const SiteRequest> sites, uint64_t bias,
                     PlannedPatch& patch) {
  patch.window = plan.window;
  patch.window.start += bias;
  patch.window.end += bias;
  for (x86::Instruction& i : patch.window.instructions) {
    i.address += bias;
    if (i.relative_size != 0) i.target += bias;
    if (i.rip_relative) i.memory_target += bias;
  }
  patch.bytes = plan.bytes;
  patch.probes.clear();
  for (const PlannedProbe& probe : plan.probes) {
    SiteProbe here;
    here.address = {probe.address.value + bias};
    here.shown = {sites[probe.site].address.value + bias};
    here.code = sites[probe.site].code;
    here.cookie = sites[probe.site].cookie;
    here.only_if = probe.only_if;
    here.flags_dead = probe.flags_dead;
    here.red_zone_in_use = probe.red_zone_in_use;
    if (probe.behind) {
      here.stack_change = probe.behind->stack_change;
      here.again = probe.behind->again;
    }
    patch.probes.push_back(here);
  }
}

// Sees code through a cache: sites lie close together.
class CodeReader {
 public:
  explicit CodeReader(const process::RemoteMemory& memory) : memory_(memory) {}
  Bytes at(ProcessAddr address, size_t size) {
    if (address < start_ || address + size > start_ + cache_.size()) {
      start_ = address;
      cache_.resize(size_t(64) << 10);
      cache_.resize(memory_.read_some(start_, cache_));
    }
    return slice(cache_, address - start_, size).value_or(Bytes());
  }

 private:
  const process::RemoteMemory& memory_;
  ProcessAddr start_;
  std::vector<uint8_t> cache_;
};

bool is_loaded(const PatchPlan& plan, const LoadedCode& loaded) {
  const ProcessAddr start{plan.window.start + loaded.bias}, last{plan.window.end - 1 + loaded.bias};
  return std::ranges::any_of(
      loaded.spans, [&](const AddressSpan& span) { return span.contains(start) && span.contains(last); });
}

uint8_t moved_bytes(const x86::Window& window) {
  return uint8_t(std::min<uint64_t>(window.end - window.start, UINT8_MAX));
}

std::string has_changed(ProcessAddr at) {
  return fmt::format("the code at {:#x} is not what its file says: something else has changed it", at.value);
}

class Builder {
 public:
  Builder(std::span<const SiteRequest> sites, const LoadedCode& loaded, const process::RemoteMemory& memory,
          StubEmitter& emitter, StubArea& area)
      : sites_(sites), loaded_(loaded), bias_(loaded.bias), code_(memory), emitter_(emitter), area_(area) {}

  void add(const PatchPlan& plan);
  BuiltPatches finish() &&;

 private:
  Result<EmittedStub> make_stub(const PlannedPatch& planned);
  Result<Patch> make_hole(const PatchPlan::Hole& hole, ProcessAddr to);
  Result<Patch> make_room(const PatchPlan::Hole& hole, ProcessAddr to);
  Status make_patches(const PatchPlan& plan);
  Result<Patch> jump(ProcessAddr from, ProcessAddr to, unsigned size, Bytes original);

  std::span<const SiteRequest> sites_;
  const LoadedCode& loaded_;
  uint64_t bias_;
  CodeReader code_;
  StubEmitter& emitter_;
  StubArea& area_;
  PlannedPatch planned_;
  BuiltPatches built_;
};

Result<EmittedStub> Builder::make_stub(const PlannedPatch& planned) {
  const size_t before = area_.bytes.size();
  const size_t start = (before + kStubAlignment - 1) / kStubAlignment * kStubAlignment;
  if (start + emitter_.most_bytes(planned) > area_.size) return fail("there is no room left for stubs");
  area_.bytes.resize(start, 0xcc);
  auto stub = emitter_.emit(planned, area_.start + start, area_.bytes);
  if (!stub) area_.bytes.resize(before);
  return stub;
}

Result<Patch> Builder::jump(ProcessAddr from, ProcessAddr to, unsigned size, Bytes original) {
  Patch patch;
  patch.address = from;
  patch.size = uint8_t(size);
  std::ranges::copy(original.first(size), patch.original.begin());
  if (size == x86::short_jump_size) {
    auto bytes = x86::encode_short_jump(from.value, to.value);
    if (!bytes) return fail("the filler is out of reach");
    std::ranges::copy(*bytes, patch.replacement.begin());
  } else {
    auto bytes = x86::encode_jump(from.value, to.value);
    if (!bytes) return fail("the stub is out of reach");
    std::ranges::copy(*bytes, patch.replacement.begin());
  }
  return patch;
}

Result<Patch> Builder::make_hole(const PatchPlan::Hole& hole, ProcessAddr to) {
  if (hole.evicted) return make_room(hole, to);
  TRY(Patch patch, jump({hole.address.value + bias_}, to, x86::near_jump_size, hole.bytes));
  patch.hole_offset = 0;
  return patch;
}

// Moves instructions that have no probe of their own: a jump to their copy, and behind it the one that was
// in need of room.
Result<Patch> Builder::make_room(const PatchPlan::Hole& hole, ProcessAddr to) {
  const PatchPlan::Hole::Evicted& evicted = *hole.evicted;
  const ProcessAddr start{evicted.window.start + bias_};
  const Bytes now = code_.at(start, evicted.window.size());
  if (now.size() != evicted.window.size() ||
      !std::ranges::equal(now.first(evicted.bytes.size()), evicted.bytes))
    return fail(has_changed(start));
  const size_t copy_offset = (area_.bytes.size() + kStubAlignment - 1) / kStubAlignment * kStubAlignment;
  const ProcessAddr copy = area_.start + copy_offset;
  auto moved = x86::relocate({start.value, evicted.bytes}, copy.value);
  if (!moved) return fail(moved.error().text());
  if (copy_offset + moved->bytes.size() + x86::near_jump_size > area_.size)
    return fail("there is no room left for stubs");
  const uint8_t size = 2 * x86::near_jump_size;
  TRY(Patch patch, jump(start, copy, x86::near_jump_size, now));
  TRY(Patch second,
      jump(start + x86::near_jump_size, to, x86::near_jump_size, now.subspan(x86::near_jump_size)));
  std::copy_n(second.original.begin(), x86::near_jump_size, patch.original.begin() + x86::near_jump_size);
  std::copy_n(second.replacement.begin(), x86::near_jump_size,
              patch.replacement.begin() + x86::near_jump_size);
  patch.size = size;
  patch.moved = moved_bytes(evicted.window);
  patch.hole_offset = uint8_t(x86::near_jump_size);
  for (const x86::Relocated::Place& place : moved->places)
    if (place.original != 0 && place.original < size)
      patch.places.push_back({start + place.original, copy + place.copy});
  std::vector<uint8_t> bytes = moved->bytes;
  if (moved->falls_through) {
    auto back = x86::encode_jump((copy + bytes.size()).value, evicted.window.end + bias_);
    if (!back) return fail("the code behind the moved instructions is out of reach");
    bytes.insert(bytes.end(), back->begin(), back->end());
  }
  area_.bytes.resize(copy_offset, 0xcc);
  area_.bytes.insert(area_.bytes.end(), bytes.begin(), bytes.end());
  return patch;
}

Status Builder::make_patches(const PatchPlan& plan) {
  move_to_process(plan, sites_, bias_, planned_);
  const PlannedPatch& planned = planned_;
  const ProcessAddr start{planned.window.start};
  const Bytes now = code_.at(start, planned.window.size());
  if (now.size() != planned.window.size()) return fail(fmt::format("{:#x} cannot be read", start.value));
  if (!std::ranges::equal(now.first(plan.bytes.size()), plan.bytes)) return fail(has_changed(start));
  const std::vector<uint8_t> original(now.begin(), now.end());
  TRY(EmittedStub stub, make_stub(planned));
  if (plan.hole) {
    const ProcessAddr hole_at{plan.hole->address.value + bias_};
    TRY(Patch hole, make_hole(*plan.hole, stub.entry));
    TRY(Patch patch, jump(start, hole_at, x86::short_jump_size, original));
    patch.via = hole_at;
    built_.patches.push_back(std::move(hole));
    built_.patches.push_back(std::move(patch));
  } else {
    TRY(Patch patch, jump(start, stub.entry, x86::near_jump_size, original));
    built_.patches.push_back(std::move(patch));
  }
  Patch& patch = built_.patches.back();
  patch.moved = moved_bytes(plan.window);
  for (const x86::Relocated::Place& place : stub.places)
    if (place.original != 0 && place.original < patch.size)
      patch.places.push_back({start + place.original, stub.entry + place.copy});
  return {};
}

void Builder::add(const PatchPlan& plan) {
  if (!is_loaded(plan, loaded_)) return;
  if (Status made = make_patches(plan); !made) {
    for (const PlannedProbe& probe : plan.probes)
      built_.refused.push_back({probe.site, made.error().message()});
    return;
  }
  for (const PlannedProbe& probe : plan.probes)
    built_.sites_at.emplace_back(built_.patches.back().address, probe.site);
}

BuiltPatches Builder::finish() && {
  // Holes are not far from those that lead to them.
  if (!std::ranges::is_sorted(built_.patches, {}, &Patch::address))
    std::ranges::sort(built_.patches, {}, &Patch::address);
  return std::move(built_);
}

}  // namespace

BuiltPatches build_patches(const ImagePlan& plan, std::span<const SiteRequest> sites,
                           const LoadedCode& loaded, const process::RemoteMemory& memory,
                           StubEmitter& emitter, StubArea& area) {
  Builder builder(sites, loaded, memory, emitter, area);
  for (const PatchPlan& patch : plan.patches) builder.add(patch);
  return std::move(builder).finish();
}

std::vector<SiteRefusal> changed_code(const ImagePlan& plan, const LoadedCode& loaded,
                                      const process::RemoteMemory& memory) {
  std::vector<SiteRefusal> changed;
  CodeReader code(memory);
  for (const PatchPlan& patch : plan.patches) {
    if (!is_loaded(patch, loaded)) continue;
    const ProcessAddr start{patch.window.start + loaded.bias};
    if (std::ranges::equal(code.at(start, patch.bytes.size()), patch.bytes)) continue;
    for (const PlannedProbe& probe : patch.probes) changed.push_back({probe.site, has_changed(start)});
  }
  return changed;
}

uint64_t most_stub_bytes(const ImagePlan& plan, std::span<const SiteRequest> sites,
                         const StubEmitter& emitter) {
  uint64_t bytes = 0;
  PlannedPatch planned;
  for (const PatchPlan& patch : plan.patches) {
    move_to_process(patch, sites, 0, planned);
    bytes += emitter.most_bytes(planned) + kStubAlignment;
    if (patch.hole && patch.hole->evicted)
      bytes += kMostMovedBytes * (patch.hole->evicted->window.instructions.size() + 1) + kStubAlignment;
  }
  return bytes;
}

}  // namespace uscope::engine::inproc
