// A journal's place in the test's own process, and what is found there.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "engine/inproc/target/journal.h"

namespace uscope::engine::inproc {

class OwnJournal : public ::testing::Test {
 protected:
  void SetUp() override {
    size_ = Journal::size_for(100);
    Fd memory(::memfd_create("uscope", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memory.get(), off_t(size_)), 0);
    memory_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, memory.get(), 0);
    ASSERT_NE(memory_, MAP_FAILED);
    auto remote = process::RemoteMemory::open(::getpid());
    ASSERT_TRUE(remote) << remote.error().message();
    remote_.emplace(std::move(*remote));
  }
  void TearDown() override { ::munmap(memory_, size_); }

  AddressSpan where() const { return {{uint64_t(memory_)}, size_}; }
  JournalContents contents() const {
    JournalContents contents;
    contents.owner = Owner::self();
    contents.mappings = {where()};
    return contents;
  }
  std::vector<JournalContents> found() {
    auto maps = process::Maps::of(::getpid());
    return maps ? Journal::find_all(*remote_, *maps) : std::vector<JournalContents>();
  }
  static Patch patch_at(uint64_t address) {
    Patch patch;
    patch.address = {address};
    patch.size = 5;
    patch.original = {1, 2, 3, 4, 5};
    patch.replacement = {0xe9, 6, 7, 8, 9};
    return patch;
  }

  uint64_t size_ = 0;
  void* memory_ = nullptr;
  std::optional<process::RemoteMemory> remote_;
};

}  // namespace uscope::engine::inproc
