// A stub that only counts: enough to see whether patches are passed, without any compiled program.
#pragma once

#include "engine/inproc/stub_emitter.h"
#include "x86/encode.h"
#include "x86/relocate.h"

namespace uscope::engine::inproc {

class CountingEmitter : public StubEmitter {
 public:
  // One 8-byte counter a code, from here on.
  explicit CountingEmitter(ProcessAddr counters) : counters_(counters) {}

  size_t most_bytes(const PlannedPatch& patch) const override {
    return 96 * patch.probes.size() + 40 * patch.window.instructions.size() + 16;
  }

  Result<EmittedStub> emit(const PlannedPatch& patch, ProcessAddr where, std::vector<uint8_t>& out) override {
    const size_t begin = out.size();
    auto here = [&] { return where.value + (out.size() - begin); };
    auto put = [&](std::initializer_list<int> bytes) {
      for (int byte : bytes) out.push_back(uint8_t(byte));
    };
    auto put_relative = [&](uint64_t to) {
      const auto distance = int32_t(to - (here() + 4));
      auto raw = reinterpret_cast<const uint8_t*>(&distance);
      out.insert(out.end(), raw, raw + 4);
    };
    EmittedStub stub;
    stub.entry = where;
    const x86::Window& window = patch.window;
    uint64_t at = window.start;
    bool falls_through = true;
    // Runs of instructions between probes, each moved on its own: samples branch only out of their windows.
    auto move_up_to = [&](uint64_t end) -> Status {
      if (at == end) return {};
      auto moved = x86::relocate({at, patch.bytes.subspan(at - window.start, end - at)}, here());
      if (!moved) return fail(moved.error().text());
      for (const auto& p : moved->places) {
        const auto original = uint32_t(at - window.start) + p.original;
        // Where a probe sits on an instruction, its place is the probe.
        if (stub.places.empty() || stub.places.back().original != original)
          stub.places.push_back({original, uint32_t(out.size() - begin) + p.copy});
      }
      out.insert(out.end(), moved->bytes.begin(), moved->bytes.end());
      falls_through = moved->falls_through;
      at = end;
      return {};
    };
    for (const SiteProbe& probe : patch.probes) {
      TRY_STATUS(move_up_to(probe.address.value));
      if (!falls_through) return fail("nothing runs into a probe");
      const auto place = uint32_t(out.size() - begin);
      if (stub.places.empty() || stub.places.back().original != at - window.start)
        stub.places.push_back({uint32_t(at - window.start), place});
      if (probe.only_if) put({0x70 | (*probe.only_if ^ 1), kProbeBytes});
      // lea -128(%rsp), %rsp; pushf; push %rax; movabs counter, %rax; lock incq (%rax); and back
      put({0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0x48, 0xb8});
      const uint64_t counter = counters_.value + 8 * probe.code;
      auto raw = reinterpret_cast<const uint8_t*>(&counter);
      out.insert(out.end(), raw, raw + 8);
      put({0xf0, 0x48, 0xff, 0x00, 0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0});
      if (!probe.again.empty()) {
        auto again = x86::relocate({at - probe.again.size(), probe.again}, here());
        if (!again) return fail(again.error().text());
        out.insert(out.end(), again->bytes.begin(), again->bytes.end());
      }
      stub.probe_parts.push_back({place, uint32_t(out.size() - begin)});
    }
    TRY_STATUS(move_up_to(window.end));
    if (falls_through) {
      put({0xe9});
      put_relative(window.end);
    }
    stub.size = uint32_t(out.size() - begin);
    return stub;
  }

 private:
  static constexpr int kProbeBytes = 31;  // what a condition leads over
  ProcessAddr counters_;
};

}  // namespace uscope::engine::inproc
