#include "engine/inproc/code/target_code.h"

#include <algorithm>
#include <cstring>

#include "engine/inproc/code/code_facts.h"
#include "engine/inproc/code/probe_body.h"
#include "engine/inproc/code/site_stubs.h"
#include "engine/inproc/runtime/calls_to_come.h"
#include "engine/inproc/runtime/shared_plan.h"
#include "runtime_blob.h"

namespace uscope::engine::inproc {
namespace {

namespace asm86 = asmjit::x86;

constexpr uint64_t kPage = 4096;
constexpr uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }
constexpr uint64_t kCodeStart = round_up(kBlob.size(), 64);  // in an area, behind the blob

class ErrorCatcher : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error, const char* message, asmjit::BaseEmitter*) override {
    if (message_.empty()) message_ = message;
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

bool pairs_calls(const codegen::Program& program) {
  return std::ranges::any_of(program.codes, [](const codegen::Code& code) {
    return std::ranges::any_of(code.instructions, [](const bpf_insn& each) {
      return each.code == (BPF_JMP | BPF_CALL) && each.src_reg == 0 && each.imm == codegen::kEnterFunction;
    });
  });
}

struct Emitted {
  std::vector<uint8_t> bytes;         // of all after the blob
  std::vector<uint64_t> bodies;       // offsets in the area, by code
  std::vector<uint64_t> own_entries;  // the same, of what can be called in uscope's own process
};

ReadableMemory readable(const MemoryPlaces& places) {
  ReadableMemory known{};
  auto plain = [](const KnownMemory::Range& range) {
    return AddressRange{range.begin.value, range.end.value};
  };
  known.first_stack = plain(places.known.first_stack);
  known.may_grow = plain(places.known.may_grow);
  for (size_t i = 0; i < places.known.constant.size() && i < kMostConstant; i++)
    known.constant[i] = plain(places.known.constant[i]);
  known.load_gate = places.load_gate ? places.load_gate->value : 0;
  return known;
}

class CompiledCode : public TargetCode {
 public:
  CompiledCode(codegen::Program program, SharedPlan shared, std::vector<CodeFacts> facts)
      : program_(std::move(program)), shared_(std::move(shared)), facts_(std::move(facts)) {}

  Status measure() {
    // The places do not matter for the size, as long as they are near or far as real ones are.
    constexpr uint64_t kSomewhere = uint64_t(0x7000) << 32;
    TRY(measured_, emit(kSomewhere, {{kSomewhere / 2}, {kSomewhere / 4}, {}}));
    plan_.shared_bytes = shared_.bytes;
    plan_.private_bytes = kPrivateBytes;
    plan_.reads_memory = std::ranges::any_of(facts_, &CodeFacts::reads_memory);
    plan_.system_calls = calls_to_come(program_, {plan_.reads_memory, has_rdfsbase()});
    plan_.code_bytes = round_up(kCodeStart + measured_.bytes.size(), kPage);
    return {};
  }

  const MemoryPlan& plan() const override { return plan_; }
  x86::RegisterSet read_at_entry(uint32_t code) const override { return facts_[code].read_at_entry(); }
  const SharedPlan& shared_plan() const override { return shared_; }

  Status prepare_shared(std::span<uint8_t> shared) const override {
    if (shared.size() < shared_.bytes) return fail("too little shared memory");
    shared_.write(shared);
    auto* header = reinterpret_cast<SharedHeader*>(shared.data());
    header->pairs_calls = pairs_calls(program_);
    header->most_waiting = kMostWaiting;
    return {};
  }

  std::vector<uint8_t> private_header(const MemoryPlaces& places, Process process) const override {
    PrivateHeader header{};
    header.alive = kAlive;
    header.shared = places.shared.value;
    header.is_own = process == Process::Own;
    header.knows = 1;
    header.pid = places.pid;
    header.known = readable(places);
    std::vector<uint8_t> out(sizeof header);
    std::memcpy(out.data(), &header, sizeof header);
    return out;
  }

  void tell_children(std::span<uint8_t> shared, const MemoryPlaces& places) const override {
    reinterpret_cast<SharedHeader*>(shared.data())->known = readable(places);
  }

  Result<std::vector<uint8_t>> code_area(ProcessAddr where, const MemoryPlaces& places) const override {
    TRY(Emitted emitted, emit(where.value, places));
    if (emitted.bodies != measured_.bodies) return fail("the code came out differently than it was measured");
    std::vector<uint8_t> out(kBlob.begin(), kBlob.end());
    out.resize(kCodeStart, 0xcc);
    out.insert(out.end(), emitted.bytes.begin(), emitted.bytes.end());
    return out;
  }

  std::unique_ptr<StubEmitter> emitter(ProcessAddr area) const override {
    std::vector<BodyEntry> bodies;
    for (size_t i = 0; i < measured_.bodies.size(); i++)
      bodies.push_back({area.value + measured_.bodies[i], facts_[i].needs_site});
    return std::make_unique<SiteStubs>(std::move(bodies));
  }

  BusyWords busy_words(const MemoryPlaces& places) const override {
    return {places.private_memory + kFirstSlotHeader + offsetof(Slot, busy), kSlotStride, 1u << kSlotBits};
  }

  ProcessAddr entry_of(uint32_t code, ProcessAddr area) const override {
    return area + measured_.own_entries[code];
  }

 private:
  Result<Emitted> emit(uint64_t where, const MemoryPlaces& places) const;

  codegen::Program program_;
  SharedPlan shared_;
  std::vector<CodeFacts> facts_;
  MemoryPlan plan_;
  Emitted measured_;
};

// push rax; lea rax, [record]; call body; pop rax; ret
void emit_own_entry(asm86::Assembler& out, asmjit::Label entry, asmjit::Label body) {
  SiteRecord record{};
  record.ax_offset = kBodyPushes;
  record.sp_offset = kBodyPushes + 8;
  asmjit::Label data = out.newLabel();
  out.align(asmjit::AlignMode::kCode, 16);
  out.bind(entry);
  out.push(asm86::rax);
  out.lea(asm86::rax, asm86::ptr(data));
  out.call(body);
  out.pop(asm86::rax);
  out.ret();
  out.align(asmjit::AlignMode::kData, 8);
  out.bind(data);
  out.embed(&record, sizeof record);
}

Result<Emitted> CompiledCode::emit(uint64_t where, const MemoryPlaces& places) const {
  AreaPlaces area{where, places.shared.value, places.private_memory.value,
                  places.shared.value + kMapInfosOffset};
  if (places.maps) area.maps = places.maps->value;
  asmjit::CodeHolder holder;
  ErrorCatcher errors;
  holder.init(asmjit::Environment(asmjit::Arch::kX64), where + kCodeStart);
  holder.setErrorHandler(&errors);
  asm86::Assembler out(&holder);
  const MapInfo* scratch = shared_.scratch ? &shared_.maps[*shared_.scratch] : nullptr;
  const SharedRoutines routines = emit_shared_routines(out, area, scratch);
  std::vector<asmjit::Label> bodies, own_entries;
  for (size_t i = 0; i < program_.codes.size(); i++) {
    bodies.push_back(out.newLabel());
    own_entries.push_back(out.newLabel());
    const ValueFlow flow(program_.codes[i], program_, facts_[i]);
    TRY_STATUS(emit_body(out, bodies[i], routines, program_.codes[i], facts_[i], flow, shared_, area));
    emit_own_entry(out, own_entries[i], bodies[i]);
  }
  holder.flatten();
  holder.resolveUnresolvedLinks();
  holder.relocateToBase(where + kCodeStart);
  if (!errors.message().empty()) return fail("assembling: " + errors.message());
  Emitted emitted;
  emitted.bytes.resize(holder.codeSize());
  holder.copyFlattenedData(emitted.bytes.data(), emitted.bytes.size());
  for (size_t i = 0; i < bodies.size(); i++) {
    emitted.bodies.push_back(kCodeStart + holder.labelOffsetFromBase(bodies[i]));
    emitted.own_entries.push_back(kCodeStart + holder.labelOffsetFromBase(own_entries[i]));
  }
  return emitted;
}

}  // namespace

Result<std::unique_ptr<TargetCode>> TargetCode::compile(const codegen::Program& program) {
  TRY(SharedPlan shared, SharedPlan::make(program));
  std::vector<CodeFacts> facts;
  for (const codegen::Code& code : program.codes) {
    TRY(CodeFacts each, facts_of(code, program));
    facts.push_back(std::move(each));
  }
  auto compiled = std::make_unique<CompiledCode>(program, std::move(shared), std::move(facts));
  TRY_STATUS(compiled->measure());
  return compiled;
}

}  // namespace uscope::engine::inproc
