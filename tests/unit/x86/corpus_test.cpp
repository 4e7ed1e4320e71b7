// The machine's own libraries as a corpus: instruction starts against objdump, exits against every ret that
// is there, and libc functions moved and run.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <search.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_set>

#include "unit/x86/elf_functions.h"
#include "x86/boundaries.h"
#include "x86/relocate.h"
#include "x86/window.h"

namespace uscope::x86 {
namespace {

using testing::ElfFile;
using testing::ElfFunction;

const char* const libc_path = "/lib/x86_64-linux-gnu/libc.so.6";
const char* const libstdcxx_path = "/lib/x86_64-linux-gnu/libstdc++.so.6";
const char* const libllvm_path = "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1";

// What a caller of analyze() knows of an image.
class Corpus {
 public:
  explicit Corpus(ElfFile elf) : elf_(std::move(elf)) {
    for (const auto& [place, value] : elf_.pointers()) pointed_at_.insert(value);
  }
  const ElfFile& elf() const { return elf_; }
  FunctionCode code_of(const ElfFunction& function) const {
    FunctionCode code;
    code.parts.push_back({function.address, elf_.read(function.address, function.size)});
    auto pads = elf_.landing_pads().find(function.address);
    if (pads != elf_.landing_pads().end()) code.landing_pads = pads->second;
    auto pointer = pointed_at_.upper_bound(function.address);
    for (; pointer != pointed_at_.end() && *pointer < function.address + function.size; ++pointer) {
      code.code_pointers.push_back(*pointer);
    }
    code.read_image = [this](uint64_t address, uint64_t size) {
      auto relocated = size == 8 ? elf_.pointers().find(address) : elf_.pointers().end();
      if (relocated == elf_.pointers().end()) return elf_.read(address, size);
      return Bytes(reinterpret_cast<const uint8_t*>(&relocated->second), 8);
    };
    return code;
  }

 private:
  ElfFile elf_;
  std::set<uint64_t> pointed_at_;
};

std::optional<Corpus> corpus_of(const char* path) {
  auto elf = ElfFile::open(path);
  if (!elf) return std::nullopt;
  return Corpus(std::move(*elf));
}

// The addresses at which `objdump -d` prints an instruction.
std::unordered_set<uint64_t> objdump_starts(const std::string& path) {
  std::unordered_set<uint64_t> starts;
  // One line an instruction, however long.
  const std::string command = "objdump -d -w " + path + " 2>/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char line[512];
  while (pipe && std::fgets(line, sizeof line, pipe.get())) {
    char* end = nullptr;
    const uint64_t address = std::strtoull(line, &end, 16);
    if (line[0] == ' ' && end && *end == ':' && !std::strstr(end, "(bad)")) starts.insert(address);
  }
  return starts;
}

TEST(Corpus, InstructionStartsOfLibcAgreeWithObjdump) {
  const auto corpus = corpus_of(libc_path);
  if (!corpus) GTEST_SKIP() << "no " << libc_path;
  const auto expected = objdump_starts(libc_path);
  if (expected.empty()) GTEST_SKIP() << "no objdump";
  size_t functions = 0, checked = 0;
  for (const ElfFunction& function : corpus->elf().functions()) {
    const Boundaries boundaries(corpus->code_of(function));
    for (uint64_t a = function.address; a < function.address + function.size; ++a) {
      const Boundary boundary = boundaries.at(a);
      ASSERT_EQ(boundary.is_start(), expected.contains(a)) << function.name << ": " << boundary.text(a);
      ++checked;
    }
    ++functions;
  }
  EXPECT_GE(functions, 2000u);
  std::printf("%zu functions, %zu addresses agree with objdump\n", functions, checked);
}

struct Shares {
  size_t functions = 0, complete = 0, unreached_rets = 0;
  size_t entry_windows = 0, exits = 0, exit_windows = 0;
};

size_t unreached_rets(const Flow& flow) {
  size_t count = 0;
  for (const CodeRange& part : flow.parts()) {
    std::vector<uint64_t> rets;
    Decoder decoder(part.bytes, part.address);
    while (auto i = decoder.next()) {
      if (i->kind == Kind::ret) rets.push_back(i->address);
    }
    for (uint64_t ret : rets) count += decoder.at_end() && !flow.find(ret);
  }
  return count;
}

void count_windows(const Flow& flow, uint64_t padding, Shares& shares) {
  const Instruction* first = flow.find(flow.entry());
  const uint64_t site = first && first->kind == Kind::endbr64 ? first->end() : flow.entry();
  shares.entry_windows += window_at(flow, site, near_jump_size, padding).has_value();
  bool all = flow.complete();
  for (const Exit& exit : flow.exits()) {
    if (exit.kind == ExitKind::no_return) continue;
    all = all && (window_before(flow, exit.address, near_jump_size, padding) ||
                  window_at(flow, exit.address, near_jump_size, padding));
  }
  shares.exit_windows += all;
}

Shares shares_of(const Corpus& corpus) {
  Shares shares;
  const auto& functions = corpus.elf().functions();
  for (size_t n = 0; n < functions.size(); ++n) {
    const ElfFunction& function = functions[n];
    const Flow flow = analyze(corpus.code_of(function));
    ++shares.functions;
    shares.complete += flow.complete();
    if (flow.complete()) shares.unreached_rets += unreached_rets(flow);
    const uint64_t end = function.address + function.size;
    uint64_t padding = 0;
    if (n + 1 < functions.size() && functions[n + 1].address >= end && functions[n + 1].address - end < 64) {
      for (Decoder decoder(corpus.elf().read(end, functions[n + 1].address - end), end);
           auto i = decoder.next();) {
        if (!i->is_padding()) break;
        padding += i->length;
      }
    }
    count_windows(flow, padding, shares);
  }
  return shares;
}

class CorpusShares : public ::testing::TestWithParam<const char*> {};

TEST_P(CorpusShares, ExitsOfNearlyEveryFunctionAreKnown) {
  const auto corpus = corpus_of(GetParam());
  if (!corpus) GTEST_SKIP() << "no " << GetParam();
  const Shares shares = shares_of(*corpus);
  const auto percent = [&](size_t n) { return 100.0 * double(n) / double(shares.functions); };
  std::printf(
      "%s: %zu functions; all exits known %.2f %%; 5-byte jump at the entry %.2f %%, at every exit %.2f %%\n",
      GetParam(), shares.functions, percent(shares.complete), percent(shares.entry_windows),
      percent(shares.exit_windows));
  ASSERT_GT(shares.functions, 1000u);
  EXPECT_GE(percent(shares.complete), 99.0);
  // Where all exits are said to be known, no ret is left over.
  EXPECT_EQ(shares.unreached_rets, 0u);
  EXPECT_GE(percent(shares.entry_windows), 95.0);
}

INSTANTIATE_TEST_SUITE_P(Libraries, CorpusShares, ::testing::Values(libc_path, libstdcxx_path, libllvm_path),
                         [](const auto& library) {
                           return std::string(library.index == 0   ? "libc"
                                              : library.index == 1 ? "libstdcxx"
                                                                   : "libLLVM");
                         });

// A libc function of this very process, moved into memory nearby.
class MovedFunction {
 public:
  MovedFunction(const Corpus& corpus, const char* name) {
    void* original = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    if (!original || !dladdr(original, &info)) return;
    const uint64_t address = reinterpret_cast<uint64_t>(original);
    const uint64_t in_file = address - reinterpret_cast<uint64_t>(info.dli_fbase);
    for (const ElfFunction& function : corpus.elf().functions()) {
      if (function.address != in_file) continue;
      for (uint64_t hint = (address & ~uint64_t(0xfffff)) - (32 << 20); !memory_; hint -= 1 << 20) {
        void* got = mmap(reinterpret_cast<void*>(hint), size, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got != MAP_FAILED) memory_ = got;
      }
      const auto copy = relocate({address, Bytes(static_cast<const uint8_t*>(original), function.size)},
                                 reinterpret_cast<uint64_t>(memory_),
                                 {.calls = CallStyle::return_to_copy, .start_stays_in_copy = true});
      EXPECT_TRUE(copy) << name << ": " << copy.error().text();
      if (!copy || copy->bytes.size() > size) return;
      std::memcpy(memory_, copy->bytes.data(), copy->bytes.size());
      ready_ = true;
    }
  }
  ~MovedFunction() {
    if (memory_) munmap(memory_, size);
  }
  MovedFunction(const MovedFunction&) = delete;

  bool ready() const { return ready_; }
  template <typename F>
  F* as(F*) const {
    return reinterpret_cast<F*>(memory_);
  }

 private:
  static constexpr size_t size = 1 << 16;
  void* memory_ = nullptr;
  bool ready_ = false;
};

int compare_ints(const void* a, const void* b) {
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

TEST(Corpus, MovedLibcFunctionsComputeTheSame) {
  const auto corpus = corpus_of(libc_path);
  if (!corpus) GTEST_SKIP() << "no " << libc_path;
  const char* const words[] = {"",        "0",        "a1",       "a01",       "a001",
                               "item#99", "item#100", "alpha1.2", "alpha1.10", "zz"};

  MovedFunction verscmp(*corpus, "strverscmp"), a64(*corpus, "a64l"), to_long(*corpus, "strtol");
  MovedFunction network(*corpus, "inet_network"), swap(*corpus, "swab"), search(*corpus, "bsearch");
  MovedFunction format(*corpus, "snprintf"), sort(*corpus, "qsort"), token(*corpus, "strsep");
  if (!verscmp.ready()) GTEST_SKIP() << "this process runs with another libc";
  for (const MovedFunction* moved : {&a64, &to_long, &network, &swap, &search, &format, &sort, &token}) {
    ASSERT_TRUE(moved->ready());
  }
  for (const char* a : words) {
    for (const char* b : words)
      EXPECT_EQ(verscmp.as(&strverscmp)(a, b) < 0, strverscmp(a, b) < 0) << a << " " << b;
    EXPECT_EQ(a64.as(&a64l)(a), a64l(a)) << a;
    EXPECT_EQ(to_long.as(&strtol)(a, nullptr, 16), strtol(a, nullptr, 16)) << a;
  }
  int numbers[] = {42, 7, -3, 1000, 0, 8, 8, -100};
  sort.as (&qsort)(numbers, 8, sizeof(int), compare_ints);
  EXPECT_TRUE(std::is_sorted(std::begin(numbers), std::end(numbers)));
  for (int key = -101; key < 50; ++key) {
    EXPECT_EQ(search.as(static_cast<void* (*)(const void*, const void*, size_t, size_t,
                                              int (*)(const void*, const void*))>(nullptr))(
                  &key, numbers, 8, sizeof(int), compare_ints) != nullptr,
              std::binary_search(std::begin(numbers), std::end(numbers), key))
        << key;
  }
  char text[64];
  format.as (&snprintf)(text, sizeof text, "%d %s %.3f %c", 42, "words", 2.5, 'x');
  EXPECT_STREQ(text, "42 words 2.500 x");
  char list[] = "a,b,,c";
  char* rest = list;
  EXPECT_STREQ(token.as(&strsep)(&rest, ","), "a");
  EXPECT_STREQ(rest, "b,,c");
}

}  // namespace
}  // namespace uscope::x86
