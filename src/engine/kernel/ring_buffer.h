// The reader's side of a BPF ring buffer: the kernel's pages, mapped. Records come in the order in which the
// programs reserved them. One reader, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/result.h"

namespace uscope::engine::kernel {

class RingBuffer {
 public:
  // `size` as the map was made with: a power of two and whole pages. Keeps no fd.
  static Result<RingBuffer> map(int fd, size_t size);
  RingBuffer(RingBuffer&& other) noexcept;
  RingBuffer& operator=(RingBuffer&&) = delete;
  ~RingBuffer();

  // Is there a finished record? After a false, the next record that is finished wakes an epoll on the map,
  // unless the last ones were consumed quietly.
  bool has_records() const;
  // Hands over what was there when called, up to the first record that is still being written. Returns how
  // many. The bytes are the kernel's and are gone when on_record returns. Quietly: keeps back the room of the
  // last record, so that the kernel sees a reader that is behind, and wakes nobody for the next.
  size_t consume(const std::function<void(Bytes)>& on_record, bool quietly = false);
  // Gives back what was kept.
  void release();

 private:
  RingBuffer(size_t size, uint64_t* consumer, uint64_t* producer);

  void publish(uint64_t position);

  size_t size_;
  uint64_t read_ = 0;   // how far we have read; the kernel knows of it, or of less
  uint64_t* consumer_;  // our position, on a page of its own that we write
  uint64_t* producer_;  // the kernel's, on a page followed by the data, mapped twice in a row
  const uint8_t* data_;
};

}  // namespace uscope::engine::kernel
