// How uscope and its guardian write their requests and answers down: one kind, one length, plain bytes. Both
// ends are the same executable, so layouts are the compiler's; a cut-off message reads as an Error.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "engine/inproc/target/offspring.h"
#include "engine/inproc/target/surgeon.h"

namespace uscope::engine::inproc {

// `child` and `start_over` are not answered.
enum class MessageKind : uint32_t {
  map,
  install,
  remove,
  remove_leftovers,
  forget,
  child,
  take_from_ended,
  start_over,
  take_out,
  answer,
  failure
};

struct Message {
  MessageKind kind = MessageKind::failure;
  std::vector<uint8_t> body;
  Fd fd;  // rides along with `map`, where memory is to be mapped again, and with the answer to it
};

// Nothing: the other end is gone.
std::optional<Message> receive(int socket);
bool send(int socket, const Message& message);

class MessageWriter {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    auto raw = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof value);
  }
  void put_text(std::string_view text) {
    put(uint64_t(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put_all(const std::vector<T>& values) {
    put(uint64_t(values.size()));
    auto raw = reinterpret_cast<const uint8_t*>(values.data());
    bytes_.insert(bytes_.end(), raw, raw + values.size() * sizeof(T));
  }
  std::vector<uint8_t> take() && { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

std::vector<uint8_t> encode(const AreaRequest& request);
Result<AreaRequest> decode_area_request(Bytes body);
struct InstallRequest {
  std::vector<Patch> patches;
  std::vector<GoRuntime> go_runtimes;
  std::vector<ProcessAddr> semaphores;
};
std::vector<uint8_t> encode(std::span<const Patch> patches, std::span<const GoRuntime> go_runtimes,
                            std::span<const ProcessAddr> semaphores);
Result<InstallRequest> decode_install_request(Bytes body);
struct ChildNews {
  pid_t pid = 0;
  Offspring::Probes probes = Offspring::Probes::Off;
};
std::vector<uint8_t> encode(const std::vector<AddressSpan>& spans);
Result<std::vector<AddressSpan>> decode_spans(Bytes body);
// A process that has our memory, and the thread that waits: see RemoveOptions::waits.
struct TakeOutRequest {
  pid_t pid = 0;
  uint64_t waits = 0;
};
std::vector<uint8_t> encode(const TakeOutRequest& request);
Result<TakeOutRequest> decode_take_out_request(Bytes body);
std::vector<uint8_t> encode(const ChildNews& news);
Result<ChildNews> decode_child_news(Bytes body);
std::vector<uint8_t> encode(const Surgeon::Mapped& mapped);
Result<Surgeon::Mapped> decode_mapped(Bytes body);  // without the memory's fd
std::vector<uint8_t> encode(const InstallReport& report);
Result<InstallReport> decode_install_report(Bytes body);
std::vector<uint8_t> encode(const RemoveReport& report);
Result<RemoveReport> decode_remove_report(Bytes body);
std::vector<uint8_t> encode(const EndedThreadsRequest& request);
Result<EndedThreadsRequest> decode_ended_threads_request(Bytes body);
std::vector<uint8_t> encode(const EndedThreads& ended);
Result<EndedThreads> decode_ended_threads(Bytes body);
std::vector<uint8_t> encode(const Error& error);
Error decode_error(Bytes body);

}  // namespace uscope::engine::inproc
