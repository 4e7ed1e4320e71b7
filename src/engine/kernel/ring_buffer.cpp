#include "engine/kernel/ring_buffer.h"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <utility>

namespace uscope::engine::kernel {

namespace {

size_t page_size() { return size_t(::sysconf(_SC_PAGESIZE)); }

uint64_t load(uint64_t* word) { return std::atomic_ref(*word).load(std::memory_order_acquire); }

uint32_t header_at(const uint8_t* data) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(data), __ATOMIC_ACQUIRE);
}

}  // namespace

RingBuffer::RingBuffer(size_t size, uint64_t* consumer, uint64_t* producer)
    : size_(size),
      consumer_(consumer),
      producer_(producer),
      data_(reinterpret_cast<const uint8_t*>(producer) + page_size()) {}

RingBuffer::RingBuffer(RingBuffer&& other) noexcept
    : size_(other.size_),
      read_(other.read_),
      consumer_(std::exchange(other.consumer_, nullptr)),
      producer_(std::exchange(other.producer_, nullptr)),
      data_(other.data_) {}

RingBuffer::~RingBuffer() {
  if (consumer_) ::munmap(consumer_, page_size());
  if (producer_) ::munmap(producer_, page_size() + 2 * size_);
}

Result<RingBuffer> RingBuffer::map(int fd, size_t size) {
  if (!std::has_single_bit(size) || size % page_size() != 0)
    return fail("a ring buffer's size must be a power of two and whole pages");
  void* consumer = ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (consumer == MAP_FAILED) return fail(Error::from_errno("mapping the ring buffer's position", errno));
  void* producer = ::mmap(nullptr, page_size() + 2 * size, PROT_READ, MAP_SHARED, fd, off_t(page_size()));
  if (producer == MAP_FAILED) {
    int reason = errno;
    ::munmap(consumer, page_size());
    return fail(Error::from_errno("mapping the ring buffer", reason));
  }
  return RingBuffer(size, static_cast<uint64_t*>(consumer), static_cast<uint64_t*>(producer));
}

bool RingBuffer::has_records() const {
  uint64_t position = read_;
  // The kernel wakes us only for a record at our position. Our position must be visible before we look for
  // more, or both sides may conclude that the other will act.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (load(producer_) == position) return false;
  return (header_at(data_ + (position & (size_ - 1))) & BPF_RINGBUF_BUSY_BIT) == 0;
}

void RingBuffer::publish(uint64_t position) {
  std::atomic_ref(*consumer_).store(position, std::memory_order_release);
}

void RingBuffer::release() { publish(read_); }

size_t RingBuffer::consume(const std::function<void(Bytes)>& on_record, bool quietly) {
  // Each store of our position pulls its cache line away from the programs that look at it: not for each
  // record.
  const uint64_t step = size_ / 8;
  uint64_t position = read_, last = read_, published = read_;
  const uint64_t end = load(producer_);
  size_t count = 0;
  while (position != end) {
    const uint8_t* record = data_ + (position & (size_ - 1));
    uint32_t header = header_at(record);
    if (header & BPF_RINGBUF_BUSY_BIT) break;
    uint64_t length = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
    if (!(header & BPF_RINGBUF_DISCARD_BIT)) {
      on_record(Bytes(record + BPF_RINGBUF_HDR_SZ, length));
      count++;
    }
    last = position;
    position += (length + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
    if (position - published >= step) {
      publish(last);
      published = last;
    }
  }
  read_ = position;
  // What is large is not kept: the room is needed.
  bool keeps = quietly && position - last < size_ / 16;
  if (!keeps)
    publish(position);
  else if (last != position)
    publish(last);
  return count;
}

}  // namespace uscope::engine::kernel
