#include "engine/inproc/code/site_stubs.h"

#include <fmt/format.h>

#include <cstring>

#include "engine/inproc/code/probe_body.h"
#include "engine/inproc/runtime/layout.h"
#include "x86/encode.h"

namespace uscope::engine::inproc {
namespace {

constexpr size_t kMostMovedBytes = 40;  // an instruction, moved; see x86/relocate
constexpr size_t kMostProbeBytes = 64;
constexpr int32_t kRedZone = 128;

class Stub {
 public:
  Stub(const PlannedPatch& patch, ProcessAddr where, const std::vector<BodyEntry>& bodies,
       std::vector<uint8_t>& out)
      : patch_(patch), where_(where.value), start_(out.size()), bodies_(bodies), out_(out) {
    stub_.entry = where;
  }

  Result<EmittedStub> run() {
    const uint64_t begin = patch_.window.start, end = patch_.window.end;
    if (patch_.bytes.size() != end - begin || patch_.probes.empty()) return fail("no patch at all");
    uint64_t at = begin;
    for (size_t i = 0; i < patch_.probes.size(); i++) {
      const SiteProbe& probe = patch_.probes[i];
      if (probe.address.value < at || probe.address.value > end || probe.code >= bodies_.size())
        return fail(fmt::format("no instruction of the window begins at {:#x}", probe.address.value));
      TRY_STATUS(move(at, probe.address.value));
      if (!falls_through_)
        return fail(fmt::format("nothing runs into the probe at {:#x}", probe.address.value));
      at = probe.address.value;
      TRY_STATUS(call_probe(probe));
    }
    TRY_STATUS(move(at, end));
    if (falls_through_) TRY_STATUS(jump_back(end));
    add_records();
    stub_.size = uint32_t(out_.size() - start_);
    return std::move(stub_);
  }

 private:
  uint64_t here() const { return where_ + (out_.size() - start_); }
  uint32_t offset() const { return uint32_t(out_.size() - start_); }
  void put(std::initializer_list<uint8_t> bytes) { out_.insert(out_.end(), bytes); }
  void put_number(int32_t value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof value);
  }

  // The instructions in [from, to), as they do the same here.
  Status move(uint64_t from, uint64_t to) {
    if (from == to) return {};
    const uint64_t begin = patch_.window.start;
    x86::CodeRange run{from, patch_.bytes.subspan(from - begin, to - from)};
    auto moved = x86::relocate(run, here());
    if (!moved) return fail(moved.error().text());
    for (const x86::Relocated::Place& place : moved->places) {
      const uint32_t original = uint32_t(from - begin) + place.original;
      // Where a probe sits on an instruction, its place is the probe.
      if (stub_.places.empty() || stub_.places.back().original != original)
        stub_.places.push_back({original, offset() + place.copy});
    }
    falls_through_ = moved->falls_through;
    out_.insert(out_.end(), moved->bytes.begin(), moved->bytes.end());
    return {};
  }

  Status call_probe(const SiteProbe& probe) {
    const uint32_t begin = offset();
    const auto original = uint32_t(probe.address.value - patch_.window.start);
    if (stub_.places.empty() || stub_.places.back().original != original)
      stub_.places.push_back({original, begin});
    size_t skip = 0;
    if (probe.only_if) {
      put({uint8_t(0x70 | (*probe.only_if ^ 1)), 0});  // jcc over the probe
      skip = out_.size();
    }
    const bool keeps_flags = (!probe.flags_dead && probe.again.empty()) || probe.only_if;
    const BodyEntry& body = bodies_[probe.code];
    if (probe.red_zone_in_use) put({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea rsp, [rsp - 128]
    put({0x50});                                                     // push rax
    if (keeps_flags) put({0x9f, 0x0f, 0x90, 0xc0, 0x50});            // lahf; seto al; push rax
    if (body.needs_site) {
      put({0x48, 0x8d, 0x05});  // lea rax, [rip + record]
      records_.push_back({out_.size(), make_record(probe, keeps_flags)});
      put_number(0);
    }
    if (!x86::reaches(here() + 5, body.address)) return fail("the probe's code is out of reach");
    put({0xe8});
    put_number(int32_t(body.address - (here() + 4)));
    if (keeps_flags) put({0x58, 0x04, 0x7f, 0x9e});                           // pop rax; add al, 127; sahf
    put({0x58});                                                              // pop rax
    if (probe.red_zone_in_use) put({0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0});  // lea rsp, [rsp + 128]
    if (skip) out_[skip - 1] = uint8_t(out_.size() - skip);
    if (!probe.again.empty()) TRY_STATUS(run_again(probe));
    stub_.probe_parts.push_back({begin, offset()});
    return {};
  }

  Status run_again(const SiteProbe& probe) {
    auto moved = x86::relocate({probe.address.value - probe.again.size(), probe.again}, here());
    if (!moved || !moved->falls_through) return fail("its first instruction cannot be run elsewhere");
    out_.insert(out_.end(), moved->bytes.begin(), moved->bytes.end());
    return {};
  }

  static SiteRecord make_record(const SiteProbe& probe, bool keeps_flags) {
    SiteRecord record{};
    record.cookie = probe.cookie;
    record.address = probe.shown.value != 0 ? probe.shown.value : probe.address.value;
    record.ax_offset = kBodyPushes + (keeps_flags ? 8 : 0);
    record.sp_offset = record.ax_offset + 8 + (probe.red_zone_in_use ? kRedZone : 0) - probe.stack_change;
    return record;
  }

  Status jump_back(uint64_t to) {
    if (auto jump = x86::encode_jump(here(), to)) {
      out_.insert(out_.end(), jump->begin(), jump->end());
      return {};
    }
    return fail("the patched code is out of reach");
  }

  void add_records() {
    if (records_.empty()) return;
    while (here() % alignof(SiteRecord) != 0) put({0xcc});
    for (const auto& [position, record] : records_) {
      const auto displacement = int32_t(out_.size() - (position + 4));
      std::memcpy(&out_[position], &displacement, sizeof displacement);
      const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
      out_.insert(out_.end(), bytes, bytes + sizeof record);
    }
  }

  const PlannedPatch& patch_;
  uint64_t where_;
  size_t start_;
  const std::vector<BodyEntry>& bodies_;
  std::vector<uint8_t>& out_;
  EmittedStub stub_;
  std::vector<std::pair<size_t, SiteRecord>> records_;
  bool falls_through_ = true;
};

}  // namespace

size_t SiteStubs::most_bytes(const PlannedPatch& patch) const {
  size_t moved = patch.window.instructions.size();
  for (const SiteProbe& probe : patch.probes) moved += !probe.again.empty();
  return patch.probes.size() * (kMostProbeBytes + sizeof(SiteRecord)) + moved * kMostMovedBytes +
         x86::absolute_jump_size + 16;
}

Result<EmittedStub> SiteStubs::emit(const PlannedPatch& patch, ProcessAddr where, std::vector<uint8_t>& out) {
  const size_t size = out.size();
  auto stub = Stub(patch, where, bodies_, out).run();
  if (!stub) out.resize(size);
  return stub;
}

}  // namespace uscope::engine::inproc
