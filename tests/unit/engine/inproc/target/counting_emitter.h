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
    return 48 * patch.probes.size() + 40 * patch.window.instructions.size() + 16;
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
    size_t probe = 0;
    const x86::Window& window = patch.window;
    // Runs of instructions between probes, each moved on its own: samples branch only out of their windows.
    for (size_t i = 0; i < window.instructions.size();) {
      const uint64_t at = window.instructions[i].address;
      const auto place = uint32_t(out.size() - begin);
      for (; probe < patch.probes.size() && patch.probes[probe].address.value == at; ++probe) {
        // lea -128(%rsp), %rsp; pushf; push %rax; movabs counter, %rax; lock incq (%rax); and back
        put({0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0x48, 0xb8});
        const uint64_t counter = counters_.value + 8 * patch.probes[probe].code;
        auto raw = reinterpret_cast<const uint8_t*>(&counter);
        out.insert(out.end(), raw, raw + 8);
        put({0xf0, 0x48, 0xff, 0x00, 0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0});
        stub.probe_parts.push_back({place, uint32_t(out.size() - begin)});
      }
      size_t end = i + 1;
      while (end < window.instructions.size() &&
             (probe == patch.probes.size() ||
              window.instructions[end].address != patch.probes[probe].address.value))
        ++end;
      const uint64_t run_end = window.instructions[end - 1].end();
      auto moved = x86::relocate({at, patch.bytes.subspan(at - window.start, run_end - at)}, here());
      if (!moved) return fail(moved.error().text());
      for (const auto& p : moved->places) {
        const uint32_t copy = p.original == 0 ? place : uint32_t(out.size() - begin) + p.copy;
        stub.places.push_back({uint32_t(at - window.start) + p.original, copy});
      }
      out.insert(out.end(), moved->bytes.begin(), moved->bytes.end());
      if (end == window.instructions.size() && moved->falls_through) {
        put({0xe9});
        put_relative(window.end);
      }
      i = end;
    }
    stub.size = uint32_t(out.size() - begin);
    return stub;
  }

 private:
  ProcessAddr counters_;
};

}  // namespace uscope::engine::inproc
