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
// How long records are let gather while they come fast, and when that is over.
constexpr int64_t kBatchMilliseconds = 1;
constexpr int64_t kQuietMilliseconds = 10;
constexpr unsigned kQuickPolls = 4;

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
  others_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open() || !others_.is_open()) return fail(Error::from_errno("making an epoll", errno));
  TRY_STATUS(watch(epoll_, others_.get()));
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
  TRY_STATUS(watch(others_, clock.get()));
  timers_.push_back({std::move(clock), attachment.code});
  return {};
}

// What a timer's code reports is handed over before it runs again: it may have asked for the end.
Result<size_t> KernelEngine::run_due_timers(const std::function<void(Bytes)>& on_record) {
  size_t records = 0;
  for (const Timer& timer : timers_) {
    uint64_t expirations = 0;
    if (::read(timer.clock.get(), &expirations, sizeof expirations) != ssize_t(sizeof expirations)) continue;
    // Each period counts, also when the reader came late: interval:ms:10 { @++ } is 100 after a second.
    for (uint64_t i = 0; i < std::min(expirations, kMostRunsAtOnce) && !timers_stopped_; i++) {
      TRY_STATUS(run(timer.code));
      records += consume(on_record);
    }
  }
  return records;
}

Status KernelEngine::wake_on(const Fd& source) {
  if (!source.is_open()) return {};
  return watch(others_, source.get());
}

bool KernelEngine::has_records() const {
  return std::any_of(rings_.begin(), rings_.end(), [](const RingBuffer& ring) { return ring.has_records(); });
}

size_t KernelEngine::consume(const std::function<void(Bytes)>& on_record) {
  size_t count = 0;
  for (RingBuffer& ring : rings_) count += ring.consume(on_record, is_busy_);
  return count;
}

// Waits, if nothing has come yet.
Status KernelEngine::wait_for_records(std::chrono::milliseconds timeout) {
  if (has_records()) return {};
  if (!is_busy_) {
    for (RingBuffer& ring : rings_) ring.release();
    // A record that came just before the release has woken nobody.
    if (has_records()) return {};
  }
  std::array<epoll_event, 16> ready;
  auto limit = std::clamp<int64_t>(timeout.count(), 0, is_busy_ ? kBatchMilliseconds : INT_MAX);
  int count = ::epoll_wait((is_busy_ ? others_ : epoll_).get(), ready.data(), int(ready.size()), int(limit));
  // A signal is the caller's business: back to it at once, with what there is.
  if (count < 0 && errno != EINTR) return fail(Error::from_errno("waiting for records", errno));
  return {};
}

// A wake-up for every record costs both sides more than the record. When records come more often than a
// batch lasts, the reader looks by the clock instead, until none come any more.
void KernelEngine::judge_rate(size_t count) {
  auto now = std::chrono::steady_clock::now();
  bool is_quick = count != 0 && now - last_records_ < std::chrono::milliseconds(kBatchMilliseconds);
  if (count != 0) last_records_ = now;
  if (is_busy_) {
    if (now - last_records_ > std::chrono::milliseconds(kQuietMilliseconds)) is_busy_ = false;
  } else {
    quick_polls_ = is_quick ? quick_polls_ + 1 : 0;
    if (quick_polls_ >= kQuickPolls) is_busy_ = true;
  }
  if (is_busy_) quick_polls_ = 0;
}

Result<size_t> KernelEngine::poll(std::chrono::milliseconds timeout,
                                  const std::function<void(Bytes)>& on_record) {
  if (!epoll_.is_open()) return fail("polling an engine that has no program");
  TRY_STATUS(wait_for_records(timeout));
  // Timers also when there are always records.
  TRY(size_t count, run_due_timers(on_record));
  count += consume(on_record);
  judge_rate(count);
  return count;
}

}  // namespace uscope::engine::kernel
