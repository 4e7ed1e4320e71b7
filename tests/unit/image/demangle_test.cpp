#include "image/demangle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "unit/image/elf/programs.h"

namespace uscope::image {
namespace {

struct Case {
  std::string_view mangled, demangled, stripped;
};

const Case cases[] = {
    {"_Z3fooi", "foo(int)", "foo"},
    {"_ZN12_GLOBAL__N_15anonfEPFviE", "(anonymous namespace)::anonf(void (*)(int))",
     "(anonymous namespace)::anonf"},
    {"_ZNK1SclEi", "S::operator()(int) const", "S::operator()"},
    {"_ZNK1SltERKS_", "S::operator<(S const&) const", "S::operator<"},
    {"_ZN1SlsEi", "S::operator<<(int)", "S::operator<<"},
    {"_ZNO1SrsEi", "S::operator>>(int) &&", "S::operator>>"},
    {"_ZNV1SpmEi", "S::operator->*(int) volatile", "S::operator->*"},
    {"_ZNR1SixEi", "S::operator[](int) &", "S::operator[]"},
    {"_ZN1ScmEi", "S::operator,(int)", "S::operator,"},
    {"_ZN1SnwEm", "S::operator new(unsigned long)", "S::operator new"},
    {"_ZN1SdaEPv", "S::operator delete[](void*)", "S::operator delete[]"},
    {"_ZNK1ScviEv", "S::operator int() const", "S::operator int"},
    {"_ZN1ScvPFviEEv", "S::operator void (*)(int)()", "S::operator void (*)(int)"},
    {"_ZN1ScvPT_IcEEv", "S::operator char*<char>()", "S::operator char*<char>"},
    {"_Zli2_qPKcm", "operator\"\" _q(char const*, unsigned long)", "operator\"\" _q"},
    {"_Z5fpretIiEPFvcET_", "void (*fpret<int>(int))(char)", "fpret<int>"},
    {"_Z2ftIXadL_Z2fxiEEEvv", "void ft<&(fx(int))>()", "ft<&(fx(int))>"},
    {"_ZNKR1S2tmIiEET_S1_", "int S::tm<int>(int) const &", "S::tm<int>"},
    {"_Z6retstrB5cxx11St8functionIFicEE", "retstr[abi:cxx11](std::function<int (char)>)",
     "retstr[abi:cxx11]"},
    {"_ZZ3useiENKUliE_clEi", "use(int)::{lambda(int)#1}::operator()(int) const",
     "use(int)::{lambda(int)#1}::operator()"},
    {"_ZZZ3useiENKUliE_clEiENKUlT_E_clIcEEDaS0_",
     "auto use(int)::{lambda(int)#1}::operator()(int) const::{lambda(auto:1)#1}::operator()<char>(char) "
     "const",
     "use(int)::{lambda(int)#1}::operator()(int) const::{lambda(auto:1)#1}::operator()<char>"},
    {"_ZThn16_N1A1fEi", "non-virtual thunk to A::f(int)", "non-virtual thunk to A::f"},
    {"_Z3fooi.part.0", "foo(int) [clone .part.0]", "foo [clone .part.0]"},
    {"_ZTIFviE", "typeinfo for void (int)", "typeinfo for void (int)"},
    {"_ZGVZ3foovE1x", "guard variable for foo()::x", "guard variable for foo()::x"},
    // Rust: legacy and v0, with and without what LLVM appends.
    {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", "core::fmt::write"},
    {"_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0a1b2c3d4e5f6789E.llvm.123",
     "core::ptr::drop_in_place<alloc::string::String>", "core::ptr::drop_in_place<alloc::string::String>"},
    {"_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar", "foo::bar"},
};

TEST(Demangle, NamesWithAndWithoutParameters) {
  for (const Case& c : cases) {
    auto demangled = demangle(c.mangled);
    ASSERT_TRUE(demangled) << c.mangled;
    EXPECT_EQ(*demangled, c.demangled) << c.mangled;
    EXPECT_EQ(demangle_without_parameters(c.mangled), std::string(c.stripped)) << c.mangled;
    EXPECT_EQ(strip_parameters(c.demangled), c.stripped) << c.mangled;
  }
}

TEST(Demangle, OtherNamesAreLeftAlone) {
  for (std::string_view name : {"main", "", "_", "_Z", "_R", "_ZN", "Zfoo", "main.(*T).Method"}) {
    EXPECT_EQ(demangle(name), std::nullopt) << name;
  }
  EXPECT_EQ(demangle(std::string_view("_Z3fooi\0x", 9)), std::nullopt);
  for (std::string_view text : {"main", "core::fmt::write", "<T as core::fmt::Display>::fmt",
                                "a::{{closure}}", "", "(", ")", "f(", "x)y("}) {
    EXPECT_EQ(strip_parameters(text), text);
  }
}

// libiberty can leave parameters out by itself: for every name of the machine's C++ library both ways agree.
TEST(Demangle, StrippingAgreesWithLibibertyOnAllOfLibstdcxx) {
  size_t count = 0;
  for (const std::string& line : lines_of(output_of("nm -D /lib/x86_64-linux-gnu/libstdc++.so.6"))) {
    std::string name = line.substr(line.rfind(' ') + 1);
    name = name.substr(0, name.find('@'));
    auto whole = demangle(name);
    if (!whole) continue;
    ++count;
    ASSERT_EQ(strip_parameters(*whole), demangle_without_parameters(name)) << name << "\n" << *whole;
  }
  EXPECT_GT(count, 4000u);
}

TEST(Demangle, LongNamesGetThrough) {
  std::string name = "_Z1f", want = "f(";
  for (int i = 0; i < 900; ++i) {
    name += fmt::format("5t{:04}", i);
    want += fmt::format("{}t{:04}", i == 0 ? "" : ", ", i);
  }
  EXPECT_GT(name.size(), 5000u);
  EXPECT_EQ(demangle(name), want + ")");
}

TEST(Demangle, HostileNamesAreRefusedInTime) {
  auto start = std::chrono::steady_clock::now();
  // Each type is a pair of the one before: the text doubles with every 10 characters.
  std::string doubling = "_Z1fSt4pairIiiE";
  const char* digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int i = 0; i < 34; ++i) doubling += fmt::format("S_IS{0}_S{0}_E", digits[i]);
  EXPECT_EQ(demangle(doubling), std::nullopt);
  // Recursion as deep as the name is long.
  for (size_t length : {1000, 5000, 32000, 500000}) {
    (void)demangle("_Z1f" + std::string(length, 'P') + "i");
    (void)demangle("_Z1f" + std::string(length, 'F'));
    (void)demangle("_Z" + std::string(length, 'N'));
    (void)demangle("_R" + std::string(length, 'N'));
    (void)demangle("_RMC0" + std::string(length, 'R') + "l");
    (void)strip_parameters(std::string(length, '(') + std::string(length, '<'));
  }
  EXPECT_EQ(demangle("_Z" + std::string(500000, 'N')), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace uscope::image
