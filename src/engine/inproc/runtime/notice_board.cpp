#include "engine/inproc/runtime/notice_board.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <csignal>

namespace uscope::engine::inproc {
namespace {

// After an exec other memory lies in its place, where a sleeper on the old one is not woken.
constexpr timespec kLookAgain{0, 100'000'000};

long futex(uint32_t* word, int what, uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, word, what, value, timeout, nullptr, 0);
}

}  // namespace

NoticeBoard::NoticeBoard(std::span<uint8_t> shared)
    : shared_(shared), source_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  waiter_ = std::thread([this] { wait_for_notices(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

NoticeBoard::~NoticeBoard() {
  is_ending_ = true;
  __atomic_store_n(&header().answers_notices, 0, __ATOMIC_RELEASE);
  futex(&header().notices_answered, FUTEX_WAKE, INT_MAX, nullptr);
  futex(&header().notices, FUTEX_WAKE, INT_MAX, nullptr);
  waiter_.join();
}

void NoticeBoard::wait_for_notices() {
  uint32_t seen = __atomic_load_n(&header().notices, __ATOMIC_ACQUIRE);
  while (!is_ending_) {
    futex(&header().notices, FUTEX_WAIT, seen, &kLookAgain);
    const uint32_t now = __atomic_load_n(&header().notices, __ATOMIC_ACQUIRE);
    if (now == seen) continue;
    seen = now;
    const uint64_t one = 1;
    if (::write(source_.get(), &one, sizeof one) < 0) continue;  // full: it is readable
  }
}

std::optional<NoticeBoard::Notice> NoticeBoard::take() {
  SharedHeader& shared = header();
  uint64_t count;
  if (::read(source_.get(), &count, sizeof count) < 0) count = 0;  // it may be the waiter's turn still
  const uint32_t number = __atomic_load_n(&shared.notices, __ATOMIC_ACQUIRE);
  if (number == __atomic_load_n(&shared.notices_answered, __ATOMIC_RELAXED)) return std::nullopt;
  const uint32_t kinds = __atomic_exchange_n(&shared.notice_kinds, 0, __ATOMIC_ACQ_REL);
  Notice notice;
  notice.number = number;
  // None: it was taken with an earlier notice, which may have been too early for it.
  notice.of_libraries = kinds == 0 || (kinds >> kLibraryNotice & 1);
  notice.of_exec = kinds >> kExecNotice & 1;
  notice.thread = pid_t(__atomic_load_n(&shared.exec_tid, __ATOMIC_ACQUIRE));
  notice.of_all_threads = kinds >> kSandboxAllNotice & 1;
  if ((kinds >> kSandboxNotice & 1) || notice.of_all_threads) {
    notice.sandboxed = pid_t(__atomic_exchange_n(&shared.sandbox_pid, 0, __ATOMIC_ACQ_REL));
    notice.thread_pointer = __atomic_exchange_n(&shared.sandbox_tag, 0, __ATOMIC_ACQ_REL) - 1;
  }
  return notice;
}

void NoticeBoard::answer(const Notice& notice) { answer_up_to(notice.number); }

void NoticeBoard::answer_all() { answer_up_to(__atomic_load_n(&header().notices, __ATOMIC_ACQUIRE)); }

void NoticeBoard::answer_up_to(uint32_t number) {
  __atomic_store_n(&header().notices_answered, number, __ATOMIC_RELEASE);
  futex(&header().notices_answered, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace uscope::engine::inproc
