// Whether this machine's kernel lets a load fail without a signal; most distributions' kernels do, in vDSOs
// like the one below.
#include "process/load_gate.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <cstring>
#include <vector>

namespace uscope::process {
namespace {

struct MadeUpVdso {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(4096);

  template <typename T>
  void put(size_t at, const T& value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  MadeUpVdso() {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_phoff = 64;
    header.e_phnum = 1;
    put(0, header);
    Elf64_Phdr dynamic{};
    dynamic.p_type = PT_DYNAMIC;
    dynamic.p_offset = 0x100;
    put(64, dynamic);
    put(0x100, Elf64_Dyn{DT_HASH, {0x200}});
    put(0x110, Elf64_Dyn{DT_STRTAB, {0x300}});
    put(0x120, Elf64_Dyn{DT_SYMTAB, {0x400}});
    put(0x204, uint32_t(3));
    std::memcpy(bytes.data() + 0x301, "time\0enter", 11);
    put(0x418, Elf64_Sym{1, 0, 0, 0, 0x800, 16});
    put(0x430, Elf64_Sym{6, 0, 0, 0, 0x820, 157});
  }
};

TEST(LoadGate, FindsAFunctionOfAVdso) {
  MadeUpVdso vdso;
  auto found = find_vdso_function(vdso.bytes, "enter");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->offset, 0x820u);
  EXPECT_EQ(found->size, 157u);
  EXPECT_FALSE(find_vdso_function(vdso.bytes, "leave"));
}

TEST(LoadGate, TakesNoLiesOfAVdso) {
  for (size_t size = 0; size < 0x830; size += 7) {
    MadeUpVdso vdso;
    vdso.bytes.resize(size);
    EXPECT_FALSE(find_vdso_function(vdso.bytes, "enter")) << size;
  }
  MadeUpVdso far;
  far.put(0x430, Elf64_Sym{6, 0, 0, 0, ~uint64_t(0), 157});
  EXPECT_FALSE(find_vdso_function(far.bytes, "enter"));
  far.put(0x204, ~uint32_t(0));
  EXPECT_FALSE(find_vdso_function(far.bytes, "leave"));
}

// A kernel without one says so quickly; of one that has it, all that was found must make sense.
TEST(LoadGate, OfThisMachineIsNoneOrWhole) {
  auto gate = find_load_gate();
  if (!gate) return;
  const auto* vdso = reinterpret_cast<const uint8_t*>(::getauxval(AT_SYSINFO_EHDR));
  EXPECT_EQ(std::memcmp(vdso + gate->load, "\x0f\x01\xd7", 3), 0) << "the trial changed a child, not us";
  EXPECT_EQ(std::memcmp(vdso + gate->load, gate->load_original.data(), gate->load_original.size()), 0);
  EXPECT_EQ(vdso[gate->landing], gate->landing_original[0]);
}

}  // namespace
}  // namespace uscope::process
