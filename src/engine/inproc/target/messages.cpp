#include "engine/inproc/target/messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uscope::engine::inproc {
namespace {

struct MessageHeader {
  MessageKind kind;
  uint32_t has_fd;
  uint64_t size;
};

constexpr uint64_t kMostBytes = uint64_t(1) << 30;

bool send_all(int socket, Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(size_t(sent));
  }
  return true;
}

bool receive_all(int socket, std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(size_t(got));
  }
  return true;
}

union FdSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

Error cut_off() { return Error("a message between uscope and its guardian was cut off"); }

template <typename T>
std::optional<std::vector<T>> read_all(ByteReader& reader) {
  const uint64_t count = reader.u64();
  if (count > reader.remaining() / sizeof(T)) return std::nullopt;
  std::vector<T> values(count);
  const Bytes raw = reader.take(count * sizeof(T));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

std::string read_text(ByteReader& reader) { return std::string(as_text(reader.take(reader.u64()))); }

}  // namespace

bool send(int socket, const Message& message) {
  MessageHeader header{message.kind, message.fd.is_open(), message.body.size()};
  iovec part{&header, sizeof header};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  FdSpace space{};
  if (message.fd.is_open()) {
    packet.msg_control = space.bytes;
    packet.msg_controllen = sizeof space.bytes;
    cmsghdr* control = CMSG_FIRSTHDR(&packet);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = message.fd.get();
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  ssize_t sent;
  do sent = ::sendmsg(socket, &packet, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == ssize_t(sizeof header) && send_all(socket, message.body);
}

std::optional<Message> receive(int socket) {
  MessageHeader header{};
  iovec part{&header, sizeof header};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  FdSpace space{};
  packet.msg_control = space.bytes;
  packet.msg_controllen = sizeof space.bytes;
  ssize_t got;
  do got = ::recvmsg(socket, &packet, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  while (got < 0 && errno == EINTR);
  if (got != ssize_t(sizeof header) || header.size > kMostBytes) return std::nullopt;
  Message message;
  message.kind = header.kind;
  if (cmsghdr* control = CMSG_FIRSTHDR(&packet);
      control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    message.fd = Fd(fd);
  }
  message.body.resize(header.size);
  if (!receive_all(socket, message.body)) return std::nullopt;
  return message;
}

std::vector<uint8_t> encode(const AreaRequest& request) {
  MessageWriter out;
  out.put(uint64_t(request.can_wait));
  out.put(uint64_t(request.most_patches));
  out.put_all(request.pieces);
  out.put_all(request.system_calls);
  return std::move(out).take();
}

Result<AreaRequest> decode_area_request(Bytes body) {
  ByteReader reader(body);
  AreaRequest request;
  request.can_wait = reader.u64() != 0;
  request.most_patches = reader.u64();
  auto pieces = read_all<PieceRequest>(reader);
  auto calls = pieces ? read_all<process::CallToCome>(reader) : std::nullopt;
  if (!reader || !calls) return fail(cut_off());
  request.pieces = std::move(*pieces);
  request.system_calls = std::move(*calls);
  return request;
}

std::vector<uint8_t> encode(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes,
                            std::span<const ProcessAddr> semaphores) {
  MessageWriter out;
  out.put_all(std::vector<ProcessAddr>(semaphores.begin(), semaphores.end()));
  out.put_all(std::vector<GoRuntime>(go_runtimes.begin(), go_runtimes.end()));
  out.put(uint64_t(patches.size()));
  for (const Patch& patch : patches) {
    out.put(patch.address);
    out.put(patch.size);
    out.put(patch.moved);
    out.put(uint8_t(patch.hole_offset ? *patch.hole_offset + 1 : 0));
    out.put(patch.via);
    out.put(patch.bundle);
    out.put(patch.goes_last);
    out.put(patch.original);
    out.put(patch.replacement);
    out.put_all(patch.places);
  }
  return std::move(out).take();
}

Result<InstallRequest> decode_install_request(Bytes body) {
  ByteReader reader(body);
  InstallRequest request;
  auto semaphores = read_all<ProcessAddr>(reader);
  if (!semaphores) return fail(cut_off());
  request.semaphores = std::move(*semaphores);
  auto runtimes = read_all<GoRuntime>(reader);
  if (!runtimes) return fail(cut_off());
  request.go_runtimes = std::move(*runtimes);
  std::vector<Patch>& patches = request.patches;
  const uint64_t count = reader.u64();
  for (uint64_t i = 0; i < count && reader; ++i) {
    Patch& patch = patches.emplace_back();
    patch.address = reader.read<ProcessAddr>();
    patch.size = reader.u8();
    patch.moved = reader.u8();
    if (const uint8_t hole = reader.u8(); hole != 0) patch.hole_offset = uint8_t(hole - 1);
    patch.via = reader.read<ProcessAddr>();
    patch.bundle = reader.read<ProcessAddr>();
    patch.goes_last = reader.u8() != 0;
    patch.original = reader.read<decltype(patch.original)>();
    patch.replacement = reader.read<decltype(patch.replacement)>();
    auto places = read_all<Patch::Place>(reader);
    if (!places || patch.size > max_patch_size) return fail(cut_off());
    patch.places = std::move(*places);
  }
  if (!reader) return fail(cut_off());
  return request;
}

std::vector<uint8_t> encode(const std::vector<AddressSpan>& spans) {
  MessageWriter out;
  out.put_all(spans);
  return std::move(out).take();
}

Result<std::vector<AddressSpan>> decode_spans(Bytes body) {
  ByteReader reader(body);
  auto spans = read_all<AddressSpan>(reader);
  if (!spans) return fail(cut_off());
  return std::move(*spans);
}

std::vector<uint8_t> encode(const TakeOutRequest& request) {
  MessageWriter out;
  out.put(request);
  return std::move(out).take();
}

Result<TakeOutRequest> decode_take_out_request(Bytes body) {
  TakeOutRequest request;
  if (body.size() != sizeof request) return fail(cut_off());
  std::memcpy(&request, body.data(), sizeof request);
  return request;
}

std::vector<uint8_t> encode(const ChildNews& news) {
  MessageWriter out;
  out.put(news);
  return std::move(out).take();
}

Result<ChildNews> decode_child_news(Bytes body) {
  ChildNews news;
  if (body.size() != sizeof news) return fail(cut_off());
  std::memcpy(&news, body.data(), sizeof news);
  return news;
}

std::vector<uint8_t> encode(const Surgeon::Mapped& mapped) {
  MessageWriter out;
  out.put_all(mapped.pieces);
  out.put(mapped.stopped_ns);
  return std::move(out).take();
}

Result<Surgeon::Mapped> decode_mapped(Bytes body) {
  ByteReader reader(body);
  Surgeon::Mapped mapped;
  auto pieces = read_all<Piece>(reader);
  if (!pieces) return fail(cut_off());
  mapped.pieces = std::move(*pieces);
  mapped.stopped_ns = reader.u64();
  return mapped;
}

std::vector<uint8_t> encode(const InstallReport& report) {
  MessageWriter out;
  out.put(report.moved_threads);
  out.put(report.moved_frames);
  out.put(report.stopped_ns);
  out.put(uint64_t(report.refused.size()));
  for (const InstallReport::Refusal& refusal : report.refused) {
    out.put(uint64_t(refusal.patch));
    out.put_text(refusal.reason);
  }
  return std::move(out).take();
}

Result<InstallReport> decode_install_report(Bytes body) {
  ByteReader reader(body);
  InstallReport report;
  report.moved_threads = reader.u32();
  report.moved_frames = reader.u32();
  report.stopped_ns = reader.u64();
  const uint64_t count = reader.u64();
  for (uint64_t i = 0; i < count && reader; ++i) {
    const size_t patch = reader.u64();
    report.refused.push_back({patch, read_text(reader)});
  }
  if (!reader) return fail(cut_off());
  return report;
}

std::vector<uint8_t> encode(const RemoveReport& report) {
  MessageWriter out;
  out.put(report);
  return std::move(out).take();
}

Result<RemoveReport> decode_remove_report(Bytes body) {
  ByteReader reader(body);
  auto report = reader.read<RemoveReport>();
  if (!reader) return fail(cut_off());
  return report;
}

std::vector<uint8_t> encode(const EndedThreadsRequest& request) {
  MessageWriter out;
  out.put(request.pid);
  out.put(request.private_memory);
  out.put(request.shared);
  out.put_all(request.numbers);
  return std::move(out).take();
}

Result<EndedThreadsRequest> decode_ended_threads_request(Bytes body) {
  ByteReader reader(body);
  EndedThreadsRequest request;
  request.pid = reader.read<pid_t>();
  request.private_memory = reader.read<ProcessAddr>();
  request.shared = reader.read<ProcessAddr>();
  auto numbers = read_all<uint32_t>(reader);
  if (!reader || !numbers) return fail(cut_off());
  request.numbers = std::move(*numbers);
  return request;
}

std::vector<uint8_t> encode(const EndedThreads& ended) {
  MessageWriter out;
  out.put_all(ended.numbers);
  out.put(ended.stopped_ns);
  return std::move(out).take();
}

Result<EndedThreads> decode_ended_threads(Bytes body) {
  ByteReader reader(body);
  EndedThreads ended;
  auto numbers = read_all<uint32_t>(reader);
  if (!numbers) return fail(cut_off());
  ended.numbers = std::move(*numbers);
  ended.stopped_ns = reader.u64();
  if (!reader) return fail(cut_off());
  return ended;
}

std::vector<uint8_t> encode(const Error& error) {
  MessageWriter out;
  out.put_text(error.what());
  out.put_text(error.hint());
  return std::move(out).take();
}

Error decode_error(Bytes body) {
  ByteReader reader(body);
  std::string what = read_text(reader);
  return Error(std::move(what)).with_hint(read_text(reader));
}

}  // namespace uscope::engine::inproc
