#include "unit/engine/inproc/own_process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "engine/inproc/runtime/clock_source.h"
#include "engine/inproc/runtime/hash_map.h"
#include "engine/inproc/runtime/shared_plan.h"
#include "engine/inproc/target/known_memory.h"
#include "lang/compile.h"
#include "x86/encode.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kStubRoom = 1 << 20;
constexpr uint64_t kPage = 4096;

uint8_t* map_near(uint64_t to, uint64_t bytes) {
  for (uint64_t distance = 64 << 20; distance < uint64_t(1800) << 20; distance += 16 << 20) {
    const uint64_t at = (to - distance) / kPage * kPage;
    void* got = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == reinterpret_cast<void*>(at)) return static_cast<uint8_t*>(got);
    if (got != MAP_FAILED) munmap(got, bytes);
  }
  return nullptr;
}

[[noreturn]] void give_up(const std::string& why) {
  fprintf(stderr, "%s\n", why.c_str());
  abort();
}

}  // namespace

Result<codegen::Compiled> compile_script(const std::string& text) {
  lang::SourceSet sources;
  sources.add("script", text);
  lang::Diagnostics diagnostics;
  lang::CompileInputs inputs;
  inputs.allow_unsafe = true;
  auto typed = lang::compile(sources, 0, inputs, lang::NoTypes(), diagnostics);
  if (!typed) return fail(diagnostics.render(sources));
  codegen::Inputs given;
  given.sources = &sources;
  given.loops = codegen::Loops::Unchecked;
  given.possible_cpus = kMostThreads;
  return codegen::generate(*typed, given);
}

OwnProcess::OwnProcess(const codegen::Program& program) {
  auto code = TargetCode::compile(program);
  if (!code) give_up(code.error().message());
  code_ = std::move(*code);
  const MemoryPlan& plan = code_->plan();
  const int fd = memfd_create("test", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, off_t(plan.shared_bytes)) != 0) give_up("memfd");
  void* shared = mmap(nullptr, plan.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  void* own = mmap(nullptr, plan.private_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shared == MAP_FAILED || own == MAP_FAILED || madvise(own, kWipedBytes, MADV_WIPEONFORK) != 0)
    give_up("mapping");
  shared_ = {static_cast<uint8_t*>(shared), plan.shared_bytes};
  private_ = static_cast<uint8_t*>(own);
  places_ = {{uint64_t(shared)}, {uint64_t(own)}, find_known_memory(getpid()), {}, {}};
  area_bytes_ = plan.code_bytes + kStubRoom;
  area_ = map_near(uint64_t(&give_up), area_bytes_);
  if (!area_) give_up("no room near the code");
  if (!code_->prepare_shared(shared_)) give_up("preparing");
  places_.pid = uint32_t(::getpid());
  auto private_header = code_->private_header(places_, TargetCode::Process::Target);
  std::memcpy(private_, private_header.data(), private_header.size());
  auto area = code_->code_area({uint64_t(area_)}, places_);
  if (!area) give_up(area.error().message());
  std::memcpy(area_, area->data(), area->size());
  area_used_ = plan.code_bytes;
  emitter_ = code_->emitter({uint64_t(area_)});
  ClockSource().publish(header().clock);
}

OwnProcess::~OwnProcess() {
  unpatch();
  munmap(area_, area_bytes_);
  munmap(private_, code_->plan().private_bytes);
  munmap(shared_.data(), shared_.size());
}

void OwnProcess::patch_entry(const void* function, const Probe& probe) { patch(function, {probe}, {}); }
void OwnProcess::patch_exit(const void* function, const Probe& probe) { patch(function, {}, {probe}); }

void OwnProcess::patch(const void* function, const std::vector<Probe>& at_entry,
                       const std::vector<Probe>& at_exit) {
  auto* start = static_cast<uint8_t*>(const_cast<void*>(function));
  static constexpr uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  if (std::memcmp(start, kEndbr64, sizeof kEndbr64) == 0) start += sizeof kEndbr64;
  // Nobody tells how long the function is: as long as it must be to make sense.
  x86::Flow flow;
  uint64_t exit = 0;
  for (size_t size = 1; size < 512 && (!flow.complete() || !exit); size++) {
    x86::FunctionCode whole;
    whole.parts.push_back({uint64_t(start), Bytes(start, size)});
    flow = x86::analyze(whole);
    for (const x86::Exit& each : flow.exits())
      if (each.kind == x86::ExitKind::ret && !exit) exit = each.address;
  }
  auto add = [&](PlannedPatch& patch, uint64_t at, const std::vector<Probe>& probes) {
    for (const Probe& each : probes) {
      SiteProbe site;
      site.address = {at};
      site.code = each.code;
      site.cookie = each.cookie;
      site.flags_dead = each.flags_dead;
      site.red_zone_in_use = each.red_zone_in_use;
      patch.probes.push_back(site);
    }
  };
  std::vector<PlannedPatch> patches;
  auto window = at_entry.empty() ? x86::window_before(flow, exit) : x86::window_at(flow, uint64_t(start));
  if (!window) give_up(window.error().text());
  PlannedPatch first;
  first.window = *window;
  add(first, uint64_t(start), at_entry);
  if (exit >= window->start && exit < window->end) {
    add(first, exit, at_exit);
  } else if (!at_exit.empty()) {
    auto behind = x86::window_before(flow, exit);
    if (!behind) give_up(behind.error().text());
    if (behind->start < window->end) give_up("the windows overlap");
    PlannedPatch second;
    second.window = *behind;
    add(second, exit, at_exit);
    patches.push_back(second);
  }
  patches.push_back(first);
  for (PlannedPatch& each : patches) {
    auto* at = reinterpret_cast<uint8_t*>(each.window.start);
    each.bytes = Bytes(at, each.window.end - each.window.start);
    std::vector<uint8_t> bytes;
    const uint64_t where = uint64_t(area_) + area_used_;
    auto stub = emitter_->emit(each, {where}, bytes);
    if (!stub) give_up(stub.error().message());
    if (bytes.size() > emitter_->most_bytes(each) || stub->size != bytes.size()) give_up("a stub's size");
    std::memcpy(area_ + area_used_, bytes.data(), bytes.size());
    area_used_ += (bytes.size() + 15) / 16 * 16;
    auto jump = x86::encode_jump(uint64_t(at), stub->entry.value);
    if (!jump) give_up("out of reach");
    auto* page = reinterpret_cast<uint8_t*>(uint64_t(at) / kPage * kPage);
    mprotect(page, 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
    patched_.push_back({at, std::vector<uint8_t>(at, at + jump->size())});
    std::memcpy(at, jump->data(), jump->size());
  }
}

void OwnProcess::set_load_gate(uint64_t gate) {
  reinterpret_cast<PrivateHeader*>(private_)->known.load_gate = gate;
}

std::vector<Patch> OwnProcess::patch_as_planned(TextFacts& facts, std::span<const SiteRequest> sites) {
  const ImagePlan plan = plan_image(facts, sites);
  if (!plan.refused.empty()) give_up(plan.refused[0].reason);
  auto memory = process::RemoteMemory::open(getpid());
  if (!memory) give_up(memory.error().message());
  StubArea area{{uint64_t(area_) + area_used_}, area_bytes_ - area_used_};
  BuiltPatches built =
      build_patches(plan, sites, {0, {{ProcessAddr{0}, ~uint64_t{0}}}}, *memory, *emitter_, area);
  if (!built.refused.empty()) give_up(built.refused[0].reason);
  std::memcpy(area_ + area_used_, area.bytes.data(), area.bytes.size());
  area_used_ += (area.bytes.size() + 15) / 16 * 16;
  for (const Patch& each : built.patches) {
    auto* at = reinterpret_cast<uint8_t*>(each.address.value);
    auto* page = reinterpret_cast<uint8_t*>(each.address.value / kPage * kPage);
    mprotect(page, 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
    patched_.push_back({at, std::vector<uint8_t>(at, at + each.size)});
    std::memcpy(at, each.replacement.data(), each.size);
  }
  return built.patches;
}

void OwnProcess::unpatch() {
  for (const Patched& each : patched_) std::memcpy(each.at, each.old.data(), each.old.size());
  patched_.clear();
}

void OwnProcess::run(uint32_t code) {
  reinterpret_cast<void (*)()>(code_->entry_of(code, {uint64_t(area_)}).value)();
}

MapInfo* OwnProcess::map(uint32_t number) const {
  return reinterpret_cast<MapInfo*>(shared_.data() + kMapInfosOffset) + number;
}

ThreadBlock* OwnProcess::block(uint32_t index) const {
  const SharedPlan& plan = code_->shared_plan();
  return reinterpret_cast<ThreadBlock*>(shared_.data() + plan.thread_blocks + index * plan.thread_stride);
}

uint64_t OwnProcess::dropped() const {
  uint64_t sum = header().hits_without_slot;
  for (uint32_t i = 0; i < header().threads_used; i++) sum += block(i)->dropped;
  return sum;
}

uint64_t OwnProcess::total(uint32_t number, uint64_t key, uint32_t offset) const {
  MapInfo* info = map(number);
  uint64_t sum = 0;
  HashMap hash(info, shared_.data(), nullptr);
  Element* e = is_array(info->kind) ? nullptr : hash.find(reinterpret_cast<const uint8_t*>(&key));
  if (!is_array(info->kind) && !e) return 0;
  const uint32_t copies = is_per_thread(info->kind) ? header().threads_used : 1;
  for (uint32_t i = 0; i < copies; i++) {
    auto* thread = reinterpret_cast<uint8_t*>(block(i));
    const uint8_t* value = e ? hash.value_of(e, thread)
                           : info->kind == Kind::Array
                               ? shared_.data() + info->elements + key * info->value_stride
                               : thread + info->thread_values + key * info->value_stride;
    sum += load_word(value + offset);
  }
  return sum;
}

void OwnProcess::wipe_private() { madvise(private_, code_->plan().private_bytes, MADV_DONTNEED); }

}  // namespace uscope::engine::inproc
