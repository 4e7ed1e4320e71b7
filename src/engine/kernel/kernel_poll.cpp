// The waiting half of the kernel engine: ring buffers and timers under one epoll.
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "engine/kernel/kernel_engine.h"

namespace uscope::engine::kernel {

namespace {

// A uscope that was stopped for an hour does not have to make up for every millisecond of it.
constexpr uint64_t kMostRunsAtOnce = 1000;
constexpr uint64_t kNanosecondsInSecond = 1'000'000'000;

Status watch(const Fd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail(Error::from_errno("waiting for records", errno));
  return {};
}

}  // namespace

Status KernelEngine::open_rings() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return fail(Error::from_errno("making an epoll", errno));
  for (const Map& map : maps_) {
    if (map.spec().kind != codegen::MapKind::RingBuffer) continue;
    TRY(RingBuffer ring, RingBuffer::map(map.fd(), map.spec().max_entries));
    rings_.push_back(std::move(ring));
    TRY_STATUS(watch(epoll_, map.fd()));
  }
  return {};
}

Status KernelEngine::start_timer(const Attachment& attachment) {
  if (attachment.period == 0) return fail("an interval of zero");
  Fd clock(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!clock.is_open()) return fail(Error::from_errno("making a timer", errno));
  itimerspec times{};
  times.it_interval.tv_sec = time_t(attachment.period / kNanosecondsInSecond);
  times.it_interval.tv_nsec = long(attachment.period % kNanosecondsInSecond);
  times.it_value = times.it_interval;
  if (::timerfd_settime(clock.get(), 0, &times, nullptr) != 0)
    return fail(Error::from_errno("starting a timer", errno));
  TRY_STATUS(watch(epoll_, clock.get()));
  timers_.push_back({std::move(clock), attachment.code});
  return {};
}

Status KernelEngine::run_due_timers() {
  for (const Timer& timer : timers_) {
    uint64_t expirations = 0;
    if (::read(timer.clock.get(), &expirations, sizeof expirations) != ssize_t(sizeof expirations)) continue;
    // Each period counts, also when the reader came late: interval:ms:10 { @++ } is 100 after a second.
    for (uint64_t i = 0; i < std::min(expirations, kMostRunsAtOnce); i++) TRY_STATUS(run(timer.code));
  }
  return {};
}

Status KernelEngine::wake_on(const Fd& source) {
  if (!source.is_open()) return {};
  return watch(epoll_, source.get());
}

bool KernelEngine::has_records() const {
  return std::any_of(rings_.begin(), rings_.end(), [](const RingBuffer& ring) { return ring.has_records(); });
}

size_t KernelEngine::consume(const std::function<void(Bytes)>& on_record) {
  size_t count = 0;
  for (RingBuffer& ring : rings_) count += ring.consume(on_record);
  return count;
}

Result<size_t> KernelEngine::poll(std::chrono::milliseconds timeout,
                                  const std::function<void(Bytes)>& on_record) {
  if (!epoll_.is_open()) return fail("polling an engine that has no program");
  // Before waiting: records that came without a wake-up. Timers also when there are always records.
  if (!has_records()) {
    std::array<epoll_event, 16> ready;
    auto limit = std::clamp<int64_t>(timeout.count(), 0, INT_MAX);
    int count = ::epoll_wait(epoll_.get(), ready.data(), int(ready.size()), int(limit));
    // A signal is the caller's business: back to it at once, with what there is.
    if (count < 0 && errno != EINTR) return fail(Error::from_errno("waiting for records", errno));
  }
  TRY_STATUS(run_due_timers());
  return consume(on_record);
}

}  // namespace uscope::engine::kernel
