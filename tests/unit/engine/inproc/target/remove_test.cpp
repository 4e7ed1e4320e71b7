// What removal does to threads that stand where a hole was.
#include "engine/inproc/target/remove.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>

#include "unit/engine/inproc/target/busy_child.h"

namespace uscope::engine::inproc {
namespace {

extern "C" const uint8_t wait_at_hole[], wait_at_hole_end[];
// Ten bytes that a hole with moved instructions takes: its jump would stand at the sixth, where here an
// instruction of the program stands.
asm(R"(
.pushsection .text
wait_at_hole:
  .byte 0x0f, 0x1f, 0x44, 0, 0
  jmp .
  nop
  nop
  nop
wait_at_hole_end:
.popsection
)");

TEST(InprocRemoval, LeavesAThreadWhereTheProgramsOwnBytesAreBack) {
  auto* place = static_cast<uint64_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(place, MAP_FAILED);
  Child child([&] {
    // Something of uscope's is there.
    Fd memory(::memfd_create("uscope", MFD_CLOEXEC));
    if (::ftruncate(memory.get(), 4096) != 0) return 1;
    void* here = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, memory.get(), 0);
    __atomic_store_n(place, uint64_t(here), __ATOMIC_RELEASE);
    reinterpret_cast<void (*)()>(uint64_t(wait_at_hole))();
    return 0;
  });
  while (__atomic_load_n(place, __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));

  Patch patch;
  patch.address = {uint64_t(wait_at_hole)};
  patch.size = 10;
  patch.hole_offset = 5;
  std::copy(wait_at_hole, wait_at_hole_end, patch.original.begin());
  patch.replacement = {0xe9, 1, 2, 3, 4, 0xe9, 5, 6, 7, 8};
  JournalContents journal;
  journal.owner = Owner::self();
  journal.mappings = {{{*place}, 4096}};
  journal.patches = {patch};
  auto report = remove(child.pid(), {journal});
  ASSERT_TRUE(report) << why(report.error());
  EXPECT_TRUE(report->is_clean);
  EXPECT_EQ(report->restored, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(::kill(child.pid(), 0), 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, id_t(child.pid()), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  EXPECT_EQ(ended.si_pid, 0) << "it was led into bytes that are no code";
  ::kill(child.pid(), SIGKILL);
  child.wait();
  ::munmap(place, 4096);
}

}  // namespace
}  // namespace uscope::engine::inproc
