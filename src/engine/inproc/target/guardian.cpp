#include "engine/inproc/target/guardian.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "engine/inproc/target/messages.h"
#include "process/info.h"
#include "process/proc_dir.h"

namespace uscope::engine::inproc {
namespace {

constexpr int kSocket = 3;  // the only fd that a guardian keeps, but for three that lead nowhere
constexpr auto kLastPatience = std::chrono::seconds(30);
// A thread of the target waits for it, half a second at most.
constexpr auto kWaitersPatience = std::chrono::milliseconds(300);
constexpr auto kSleepersPatience = std::chrono::milliseconds(50);

Message answer(std::vector<uint8_t> body) { return {MessageKind::answer, std::move(body), Fd()}; }

template <typename T, typename Encode>
Message answer_of(Result<T> result, Encode encode_result) {
  if (!result) return {MessageKind::failure, encode(result.error()), Fd()};
  return encode_result(*result);
}

using Clock = std::chrono::steady_clock;

struct Patient {
  pid_t pid;
  Surgeon surgeon{pid};
  Offspring offspring{};
  // Of the memory that all it forks have in common with it.
  std::optional<uint64_t> shared_inode{};
  // Since removal was first asked for, and not finished: threads get this much time once, however often it is
  // asked for again.
  std::optional<Clock::time_point> give_up{};
};

Result<RemoveReport> remove_all(Patient& patient) {
  if (!patient.give_up) patient.give_up = Clock::now() + kRemovalPatience;
  RemoveOptions options;
  options.patience = std::chrono::ceil<std::chrono::milliseconds>(*patient.give_up - Clock::now());
  auto report = patient.surgeon.remove(options);
  patient.offspring.heal_all(*patient.give_up);
  // A child that has hit no probe has told nobody. To look through all processes takes a millisecond or more.
  if (patient.shared_inode && patient.surgeon.may_be_somewhere())
    patient.offspring.heal_untold(*patient.shared_inode, patient.pid, *patient.give_up);
  if (report && report->is_clean) patient.give_up.reset();
  return report;
}

// The first has what is shared; when that is given to another program, it stays the same.
void note_shared(Patient& patient, const Fd& memory) {
  struct stat info {};
  if (!patient.shared_inode && ::fstat(memory.get(), &info) == 0) patient.shared_inode = info.st_ino;
}

bool is_asleep(pid_t pid, pid_t tid) {
  auto text = read_text_file(fmt::format("/proc/{}/task/{}/stat", pid, tid));
  auto stat = text ? process::parse_stat(*text) : fail(std::move(text).error());
  return !stat || stat->state != 'R';
}

// A stop wakes threads out of the calls that they sleep in, to make them again: they must be in there before
// a filter comes that might not allow them.
Result<RemoveReport> take_out(const TakeOutRequest& request) {
  RemoveOptions options;
  options.patience = kWaitersPatience;
  options.waits = request.waits;
  std::vector<pid_t> sleepers = process::thread_ids(request.pid);
  std::erase_if(sleepers, [&](pid_t tid) { return !is_asleep(request.pid, tid); });
  auto report = remove_own(request.pid, options);
  const auto give_up = Clock::now() + kSleepersPatience;
  while (Clock::now() < give_up &&
         !std::ranges::all_of(sleepers, [&](pid_t tid) { return is_asleep(request.pid, tid); }))
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return report;
}

// Nothing: there is no answer to that.
std::optional<Message> perform(Patient& patient, const Message& request) {
  Surgeon& surgeon = patient.surgeon;
  switch (request.kind) {
    case MessageKind::map: {
      auto area = decode_area_request(request.body);
      if (!area) return Message{MessageKind::failure, encode(area.error()), Fd()};
      return answer_of(surgeon.map(*area, request.fd), [&](Surgeon::Mapped& mapped) {
        note_shared(patient, mapped.memory);
        return Message{MessageKind::answer, encode(mapped), std::move(mapped.memory)};
      });
    }
    case MessageKind::install: {
      auto work = decode_install_request(request.body);
      if (!work) return Message{MessageKind::failure, encode(work.error()), Fd()};
      return answer_of(surgeon.install(work->patches, work->go_runtimes, work->semaphores),
                       [](const InstallReport& report) { return answer(encode(report)); });
    }
    case MessageKind::remove:
      return answer_of(remove_all(patient),
                       [](const RemoveReport& report) { return answer(encode(report)); });
    case MessageKind::remove_leftovers:
      return answer_of(inproc::remove_leftovers(patient.pid),
                       [](const RemoveReport& report) { return answer(encode(report)); });
    case MessageKind::forget: {
      auto spans = decode_spans(request.body);
      if (!spans) return Message{MessageKind::failure, encode(spans.error()), Fd()};
      if (auto done = surgeon.forget(*spans); !done)
        return Message{MessageKind::failure, encode(done.error()), Fd()};
      return answer({});
    }
    case MessageKind::take_from_ended: {
      auto wanted = decode_ended_threads_request(request.body);
      if (!wanted) return Message{MessageKind::failure, encode(wanted.error()), Fd()};
      return answer_of(surgeon.take_from_ended(*wanted),
                       [](const EndedThreads& ended) { return answer(encode(ended)); });
    }
    case MessageKind::take_out: {
      auto wanted = decode_take_out_request(request.body);
      if (!wanted) return Message{MessageKind::failure, encode(wanted.error()), Fd()};
      return answer_of(take_out(*wanted), [](const RemoveReport& report) { return answer(encode(report)); });
    }
    case MessageKind::start_over:
      surgeon.start_over();
      return std::nullopt;
    case MessageKind::child:
      if (auto news = decode_child_news(request.body)) patient.offspring.add(news->pid, news->probes);
      return std::nullopt;
    default:
      return Message{MessageKind::failure, encode(Error("an unknown request")), Fd()};
  }
}

// uscope is gone. If it was killed, what it left behind is ours to take out. If it has been told that a
// thread will not leave, it has told the user, and waits for our own end.
void remove_at_end(Patient& patient) {
  const bool was_told = patient.give_up.has_value();
  const auto give_up = Clock::now() + kLastPatience;
  for (;;) {
    auto report = remove_all(patient);
    if ((report && report->is_clean) || was_told || Clock::now() >= give_up) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

void become_guardian(int socket) {
  ::setsid();
  ::prctl(PR_SET_NAME, guardian_name);
  for (int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2})
    ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  // Whoever reads uscope's output must see its end when uscope ends, not when we do.
  int nowhere = ::open("/dev/null", O_RDWR);
  for (int fd : {0, 1, 2})
    if (nowhere >= 0) ::dup2(nowhere, fd);
  ::dup2(socket, kSocket);
  if (::syscall(SYS_close_range, kSocket + 1, ~0u, 0) != 0)
    for (int fd = kSocket + 1; fd < 4096; ++fd) ::close(fd);
  // The target stands still while we work: on a busy machine that must not last for other programs' turns.
  sched_param first{.sched_priority = 1};
  if (::sched_setscheduler(0, SCHED_RR, &first) != 0) ::setpriority(PRIO_PROCESS, 0, -20);
  // The target's folder must not be kept busy either.
  if (::chdir("/") != 0) return;
}

// Until there is a request, or the other end is gone.
void look_after_offspring(Offspring& offspring) {
  for (;;) {
    int timeout = -1;
    if (auto due = offspring.next_due()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - std::chrono::steady_clock::now());
      timeout = int(std::max<int64_t>(left.count(), 0));
    }
    pollfd source{kSocket, POLLIN, 0};
    const int ready = ::poll(&source, 1, timeout);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
    offspring.heal_due();
  }
}

[[noreturn]] void guard(pid_t target, int socket) {
  become_guardian(socket);
  Patient patient{target};
  for (;;) {
    look_after_offspring(patient.offspring);
    auto request = receive(kSocket);
    if (!request) break;
    auto reply = perform(patient, *request);
    if (reply && !send(kSocket, *reply)) break;
  }
  remove_at_end(patient);
  ::_exit(0);
}

Result<Message> ask(int socket, MessageKind kind, std::vector<uint8_t> body, Fd fd = Fd()) {
  const Error lost("the guardian process that works on the target has died");
  if (!send(socket, {kind, std::move(body), std::move(fd)})) return fail(lost);
  auto reply = receive(socket);
  if (!reply) return fail(lost);
  if (reply->kind == MessageKind::failure) return fail(decode_error(reply->body));
  return std::move(*reply);
}

}  // namespace

Result<Guardian> Guardian::start(pid_t target) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(Error::from_errno("starting the guardian process", errno));
  Fd ours(pair[0]), theirs(pair[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Error::from_errno("starting the guardian process", errno));
  if (pid == 0) guard(target, theirs.get());
  return Guardian(pid, std::move(ours));
}

Guardian::Guardian(Guardian&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}

Guardian::~Guardian() {
  socket_.reset();
  if (pid_ <= 0) return;
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<Surgeon::Mapped> Guardian::map(const AreaRequest& request, const Fd& shared) {
  Fd copy;
  if (shared.is_open()) copy = Fd(::fcntl(shared.get(), F_DUPFD_CLOEXEC, 0));
  TRY(Message reply, ask(socket_.get(), MessageKind::map, encode(request), std::move(copy)));
  TRY(Surgeon::Mapped mapped, decode_mapped(reply.body));
  mapped.memory = std::move(reply.fd);
  return mapped;
}

Result<InstallReport> Guardian::install(std::span<const Patch> patches,
                                        std::span<const GoRuntime> go_runtimes,
                                        std::span<const ProcessAddr> semaphores) {
  TRY(Message reply, ask(socket_.get(), MessageKind::install, encode(patches, go_runtimes, semaphores)));
  return decode_install_report(reply.body);
}

Result<RemoveReport> Guardian::remove() {
  TRY(Message reply, ask(socket_.get(), MessageKind::remove, {}));
  return decode_remove_report(reply.body);
}

Result<RemoveReport> Guardian::take_out(pid_t pid, uint64_t waits) {
  TRY(Message reply, ask(socket_.get(), MessageKind::take_out, encode(TakeOutRequest{pid, waits})));
  return decode_remove_report(reply.body);
}

Result<RemoveReport> Guardian::remove_leftovers() {
  TRY(Message reply, ask(socket_.get(), MessageKind::remove_leftovers, {}));
  return decode_remove_report(reply.body);
}

Status Guardian::forget(const std::vector<AddressSpan>& spans) {
  TRY([[maybe_unused]] Message reply, ask(socket_.get(), MessageKind::forget, encode(spans)));
  return {};
}

Result<EndedThreads> Guardian::take_from_ended(const EndedThreadsRequest& request) {
  TRY(Message reply, ask(socket_.get(), MessageKind::take_from_ended, encode(request)));
  return decode_ended_threads(reply.body);
}

void Guardian::start_over() { (void)send(socket_.get(), {MessageKind::start_over, {}, Fd()}); }

void Guardian::tell_of_child(pid_t child, Offspring::Probes probes) {
  (void)send(socket_.get(), {MessageKind::child, encode(ChildNews{child, probes}), Fd()});
}

}  // namespace uscope::engine::inproc
