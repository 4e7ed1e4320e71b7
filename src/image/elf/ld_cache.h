// /etc/ld.so.cache: the table that ldconfig writes and glibc's loader searches. Views the bytes it is given;
// bounded on any input. Answers with paths only: whether a file is there, and of the right kind, is the
// caller's business.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace uscope::image {

class LdCache {
 public:
  // The bytes must outlive it. Both layouts: glibc's since 2.2 alone, and the same behind the older one.
  static Result<LdCache> parse(Bytes bytes);

  // Paths for a library's name that an x86-64 program could load, as the cache orders them.
  std::vector<std::string_view> find(std::string_view soname) const;
  size_t size() const { return count_; }

 private:
  Bytes bytes_;  // from the header that offsets are relative to
  uint32_t count_ = 0;
};

// The level that a path's `glibc-hwcaps/x86-64-vN/` folder asks of the processor: 2 to 4; 1 for any other
// path.
int hwcaps_level(std::string_view path);
// The highest level that this machine's processor has.
int supported_hwcaps_level();

}  // namespace uscope::image
