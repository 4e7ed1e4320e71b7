// Shared memory that a hostile target has written to: whatever is in it, uscope's own code and its changes of
// maps stay inside of it. It lies between pages that nobody may touch, in a large reserve of address space:
// an offset that leads out of it faults.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "engine/inproc/own_code.h"
#include "engine/inproc/runtime/clock_source.h"
#include "engine/inproc/runtime/hash_map.h"
#include "engine/inproc/runtime/map_store.h"
#include "engine/inproc/runtime/ring_reader.h"
#include "unit/engine/inproc/own_process.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kReserve = uint64_t(1) << 43;  // on each side

// One thing after another that BEGIN and interval do: all kinds of maps, long keys, records, loops.
constexpr char kScript[] = R"(
  config = { max_map_keys = 64 }
  let @lru = lruhash(8);
  let @ = hash(1500);
  BEGIN {
    @n++; @one = count(); @h = hist(nsecs); @s = stats(pid);
    @[1] = 2; @[2] = 3; @keyed[pid, tid] = count(); @keyed[1, 2] = count(); @text["a text"] = 1;
    @text[comm] = 2; @by[1] = sum(3); @by[2] = sum(4); @max[7] = max(2); @wide["x", 1] = avg(5);
    @lru[1] = 1; @lru[2] = 1; @lru[3] = 1; @lru[4] = 1; @lru[5] = 1; @lru[6] = 1; @lru[7] = 1; @lru[8] = 1;
    @lru[9] = 1; @lru[10] = 1;
    printf("%d %s %d\n", @n, comm, @[1]);
    $i = 0;
    while ($i < 40) { @many[$i] = $i; @many_sums[$i] = sum($i); $i++; }
    for ($kv : @many) { printf("%d", $kv.0); @seen[$kv.0] = $kv.1; }
    for ($kv : @many_sums) { printf("%d", $kv.0); }
    for ($kv : @text) { printf("%s", $kv.0); }
    delete(@many, 3); delete(@many_sums, 4); delete(@text, "a text"); delete(@lru, 9);
    if (has_key(@many, 5)) { printf("%d", len(@many)); }
    clear(@by); zero(@max); print(@n); print(@many); clear(@many);
    printf("%d %d", nsecs, (int64)@by[2]);
  }
)";

// Without loops: lookups are part of the code.
constexpr char kPlainScript[] = R"(
  config = { max_map_keys = 64 }
  BEGIN { @[(uint64)nsecs & 31] = count(); }
  BEGIN { @sums[(uint64)nsecs & 31] = sum(3); }
  BEGIN { @values[(uint64)nsecs & 31] = 7; }
)";

class Target {
 public:
  explicit Target(const char* script = kScript)
      : compiled_(compile_script(script).value()), code_(TargetCode::compile(compiled_.program).value()) {
    const uint64_t bytes = code_->plan().shared_bytes;
    reserve_ = mmap(nullptr, reserved(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserve_ == MAP_FAILED) abort();
    void* at = static_cast<uint8_t*>(reserve_) + kReserve;
    const int fd = memfd_create("test", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, off_t(bytes)) != 0) abort();
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != at) abort();
    close(fd);
    shared_ = {static_cast<uint8_t*>(at), bytes};
    if (!code_->prepare_shared(shared_)) abort();
    ClockSource().publish(header().clock);
    own_ = OwnCode::place(*code_, shared_).value();
  }
  ~Target() { munmap(reserve_, reserved()); }

  const SharedPlan& plan() const { return code_->shared_plan(); }
  std::span<uint8_t> shared() const { return shared_; }
  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(shared_.data()); }
  size_t maps() const { return plan().maps.size(); }
  void run() const {
    for (uint32_t i = 0; i < compiled_.program.codes.size(); i++)
      if (compiled_.program.codes[i].kind == codegen::CodeKind::RunOnce) run_often(i);
  }
  // Keys come from the clock.
  void run_often(uint32_t code) const {
    for (int i = 0; i < 20; i++) own_->run(code);
  }

  // All that uscope does with maps and records.
  void use() const {
    run();
    MapStore store(plan(), shared_);
    for (uint32_t i = 0; i < maps(); i++) {
      const MapInfo& map = plan().maps[i];
      if (map.kind == Kind::Ring) {
        RingReader reader(plan(), i, shared_);
        reader.read([](Bytes) {}, true);
        continue;
      }
      if (map.max_entries > kFew) continue;  // what a script has at most: nothing here is about size
      for (uint32_t key = 0; key < 24; key++) {
        std::vector<uint8_t> bytes(map.key_size), value(map.value_size, uint8_t(key));
        std::memcpy(bytes.data(), &key, std::min<size_t>(sizeof key, bytes.size()));
        (void)store.set_entry(i, bytes, value);
        (void)store.find_entry(i, bytes);
        if (key % 3 == 0) (void)store.remove_entry(i, bytes);
      }
      if (!is_per_thread(map.kind) || header().threads_used < 64) {
        (void)store.for_each_entry(i, [](const MapEntry&) {});
        (void)store.clear(i);
      }
    }
    (void)store.losses();
    run();
  }

  // What is in front of the maps' values; all of it may be looked at in no time.
  std::span<uint8_t> descriptions() const {
    return shared_.first(kMapInfosOffset + maps() * (sizeof(MapInfo) + sizeof(MapLive)));
  }
  // The part of a map that has links, up to some thousand elements.
  std::span<uint8_t> buckets(const MapInfo& map) const {
    const uint64_t count = map.kind == Kind::Ring ? map.element_count * sizeof(ChunkHeader)
                                                  : (uint64_t(map.bucket_mask) + 1) * sizeof(Bucket);
    return shared_.subspan(map.buckets, map.buckets ? std::min<uint64_t>(count, 1 << 16) : 0);
  }
  std::span<uint8_t> elements(const MapInfo& map) const {
    return shared_.subspan(map.elements, map.elements ? std::min<uint64_t>(element_bytes(map), 1 << 17) : 0);
  }

  static constexpr uint32_t kFew = 1 << 16;

 private:
  static uint64_t element_bytes(const MapInfo& map) {
    if (map.kind == Kind::Ring) return uint64_t(map.element_count) * kChunkBytes;
    if (map.kind == Kind::Array) return uint64_t(map.max_entries) * map.value_stride;
    return uint64_t(map.element_count) * map.element_size;
  }
  uint64_t reserved() const { return 2 * kReserve + code_->plan().shared_bytes; }
  codegen::Compiled compiled_;
  std::unique_ptr<TargetCode> code_;
  void* reserve_ = nullptr;
  std::span<uint8_t> shared_;
  std::unique_ptr<OwnCode> own_;
};

// Numbers that a forger would choose: just behind the end, far away, negative.
uint32_t forged(std::mt19937_64& random) {
  static constexpr uint32_t kNumbers[] = {
      0,    1,    2,    0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 4096, 4097,
      4608, 4609, 2048, 2049,       0x10000001, 0x20000000, 0x40000000, 16,   17};
  return random() % 4 == 0 ? uint32_t(random()) : kNumbers[random() % std::size(kNumbers)];
}

void forge(std::span<uint8_t> bytes, std::mt19937_64& random, uint32_t one_in) {
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    if (random() % one_in != 0) continue;
    const uint32_t number = forged(random);
    std::memcpy(bytes.data() + i, &number, 4);
  }
}

TEST(HostileTarget, WorksWhileNobodyForges) {
  Target target;
  target.run();
  MapStore store(target.plan(), target.shared());
  size_t entries = 0;
  for (uint32_t i = 0; i < target.maps(); i++) {
    if (is_array(target.plan().maps[i].kind) || target.plan().maps[i].kind == Kind::Ring) continue;
    ASSERT_TRUE(store.for_each_entry(i, [&](const MapEntry&) { entries++; }));
  }
  EXPECT_GT(entries, 80u);
  target.use();
}

TEST(HostileTarget, ForgedDescriptionsAreNotFollowed) {
  for (uint64_t seed = 0; seed < 8; seed++) {
    std::mt19937_64 random(seed);
    Target target(seed % 4 < 2 ? kScript : kPlainScript);
    if (seed % 2) target.run();
    forge(target.descriptions(), random, seed % 3 == 0 ? 1 : 5);
    // All threads' copies of all values take long; once is enough.
    if (seed != 0) target.header().threads_used = uint32_t(random() % 64);
    target.use();
  }
}

TEST(HostileTarget, ForgedLinksAreNotFollowed) {
  for (uint64_t seed = 0; seed < 10; seed++) {
    std::mt19937_64 random(seed);
    Target target(seed % 4 < 2 ? kScript : kPlainScript);
    target.run();
    const uint32_t one_in = 1 + uint32_t(seed % 5);
    for (const MapInfo& map : target.plan().maps) {
      forge(target.buckets(map), random, one_in);
      forge(target.elements(map), random, 1 + one_in % 3);
      // Locks that nobody gives back cost time only; here the rest is to be reached.
      if (map.kind == Kind::Ring || map.buckets == 0) continue;
      auto* buckets = reinterpret_cast<Bucket*>(target.buckets(map).data());
      for (size_t i = 0; i < target.buckets(map).size() / sizeof(Bucket); i++) buckets[i].lock = 0;
      MapLive* live = live_of(&map, target.shared().data());
      live->free_list = random() << 32 | forged(random);
      live->fresh = forged(random);
      live->lru_hand = forged(random);
    }
    target.use();
  }
}

// Every list of a map is one circle.
TEST(HostileTarget, CirclesEnd) {
  Target target;
  target.run();
  for (const MapInfo& map : target.plan().maps) {
    if (map.kind == Kind::Ring || is_array(map.kind)) continue;
    HashMap hash(&map, target.shared().data(), nullptr);
    for (uint32_t i = 0; i < std::min(map.element_count, 64u); i++) {
      hash.element(i)->next = i % 64 + 1;
      hash.element(i)->flags = kUsedBefore;
    }
    auto* buckets = reinterpret_cast<Bucket*>(target.buckets(map).data());
    for (size_t i = 0; i < target.buckets(map).size() / sizeof(Bucket); i++)
      buckets[i] = {0, uint32_t(i % 8) + 1};
    live_of(&map, target.shared().data())->fresh = map.element_count;
  }
  target.use();
}

// What was looked at may be another when it is used.
TEST(HostileTarget, ForgesAllTheWhile) {
  Target target;
  target.run();
  std::atomic<bool> is_over = false;
  std::thread forger([&] {
    std::mt19937_64 random(7);
    while (!is_over) {
      for (const MapInfo& map : target.plan().maps) {
        if (map.kind == Kind::Ring || is_array(map.kind)) continue;
        MapLive* live = live_of(&map, target.shared().data());
        __atomic_store_n(&live->fresh, forged(random), __ATOMIC_RELAXED);
        __atomic_store_n(&live->free_list, random() % 2 ? forged(random) : 0, __ATOMIC_RELAXED);
        auto* buckets = reinterpret_cast<Bucket*>(target.buckets(map).data());
        const size_t count = std::min<size_t>(target.buckets(map).size() / sizeof(Bucket), 64);
        for (size_t i = 0; i < count; i++) {
          __atomic_store_n(&buckets[i].first, random() % 2 ? forged(random) : 1, __ATOMIC_RELAXED);
          __atomic_store_n(&buckets[i].lock, 0, __ATOMIC_RELAXED);
        }
      }
    }
  });
  for (int i = 0; i < 20; i++) target.use();
  is_over = true;
  forger.join();
}

}  // namespace
}  // namespace uscope::engine::inproc
