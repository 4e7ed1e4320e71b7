// Functions whose exits are hard to get at, called from hot threads under signals, each result checked:
// returns of one byte that jumps lead to with other code right behind them, functions that run on into the
// next one, the C library's string functions in assembly, which do both. Prints READY, runs until its
// standard input closes; ends with 0 if all was right.
#include <envz.h>
#include <langinfo.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <cwctype>
#include <string>
#include <thread>
#include <vector>

extern "C" {
// What -D_FORTIFY_SOURCE calls.
void* __memcpy_chk(void*, const void*, size_t, size_t);
void* __mempcpy_chk(void*, const void*, size_t, size_t);
void* __memmove_chk(void*, const void*, size_t, size_t);
void* __memset_chk(void*, int, size_t, size_t);

long lone_ret(long), run_on(long), run_on_next(long), two_rets(const long*, long);
}

// As compilers write them: `lone_ret` is reached by two jumps and from above; the next block is right behind
// it.
asm(R"(
  .text
  .p2align 4
  .type lone_ret, @function
lone_ret:
  mov %rdi, %rax
  cmp $100, %rdi
  ja 2f
  test $1, %dil
  je 1f
  lea 1(%rax,%rax), %rax
  cmp $50, %rdi
  ja 1f
  add %rdi, %rax
  sub $7, %rax
1: ret
2: neg %rax
  ret
  .size lone_ret, .-lone_ret

  .p2align 4
  .type two_rets, @function
two_rets:
  xor %eax, %eax
  test %rsi, %rsi
  jne 4f
  jmp 6f
  .p2align 3
3: add $8, %rdi
  dec %rsi
  je 5f
4: add (%rdi), %rax
  cmpq $0, (%rdi)
  jne 3b
5: ret
6: ret
  .size two_rets, .-two_rets

  .p2align 5
  .type run_on, @function
run_on:
  cmp $1000, %rdi
  ja 7f
  add $5, %rdi
  .size run_on, .-run_on
  .p2align 4
  .type run_on_next, @function
run_on_next:
  lea (%rdi,%rdi,2), %rax
  ret
  .size run_on_next, .-run_on_next
7: mov $-1, %rax
  ret
)");

static std::atomic<bool> stop;
static std::atomic<unsigned long> wrong, signals_taken;
static const bool is_hot = std::getenv("TORTURE_HOT") != nullptr;

static void check(bool right, const char* what) {
  if (right) return;
  if (wrong++ == 0) std::fprintf(stderr, "wrong: %s\n", what);
}

static long lone_ret_again(long n) {
  if (n > 100) return -n;
  if (n % 2 == 0) return n;
  return n > 50 ? 2 * n + 1 : 2 * n + 1 + n - 7;
}

static void own_code() {
  for (long n = 0; n < 200; ++n) {
    check(lone_ret(n) == lone_ret_again(n), "lone_ret");
    check(run_on(n) == 3 * (n + 5) && run_on_next(n) == 3 * n, "run_on");
    check(run_on(1001 + n) == -1, "run_on, away");
  }
  const long numbers[] = {1, 2, 3, 0, 5};
  const long sums[] = {0, 1, 3, 6, 6, 6};
  for (long n = 0; n <= 5; ++n) check(two_rets(numbers, n) == sums[n], "two_rets");
}

static void characters() {
  for (wint_t c = 0; c < 300; ++c) {
    const bool is_digit = c >= '0' && c <= '9', is_lower = c >= 'a' && c <= 'z';
    const bool is_upper = c >= 'A' && c <= 'Z', is_letter = is_lower || is_upper;
    check((iswalnum(c) != 0) == (is_digit || is_letter), "iswalnum");
    check((iswalpha(c) != 0) == is_letter, "iswalpha");
    check((iswdigit(c) != 0) == is_digit, "iswdigit");
    check((iswlower(c) != 0) == is_lower, "iswlower");
    check((iswcntrl(c) != 0) == (c < 32 || c == 127), "iswcntrl");
    check((iswprint(c) != 0) == (c >= 32 && c < 127), "iswprint");
    check((iswspace(c) != 0) == (c == 32 || (c >= 9 && c <= 13)), "iswspace");
    check(towlower(c) == (is_upper ? c + 32 : c), "towlower");
  }
}

// Sizes from nothing to more than a page: every way through them.
static void memory(std::vector<unsigned char>& from, std::vector<unsigned char>& to) {
  for (size_t size = 0; size < 5000; size = size < 300 ? size + 1 : size * 5 / 4) {
    std::memset(to.data(), 0xee, size + 1);
    check(__memcpy_chk(to.data(), from.data(), size, to.size()) == to.data(), "memcpy's result");
    check(std::memcmp(to.data(), from.data(), size) == 0 && to[size] == 0xee, "memcpy");
    check(__mempcpy_chk(to.data() + 3, from.data(), size, to.size()) == to.data() + 3 + size, "mempcpy");
    check(std::memcmp(to.data() + 3, from.data(), size) == 0, "mempcpy's bytes");
    check(__memmove_chk(to.data(), to.data() + 3, size, to.size()) == to.data(), "memmove's result");
    check(bcmp(to.data(), from.data(), size) == 0, "memmove");
    check(__memset_chk(to.data(), 7, size, to.size()) == to.data(), "memset's result");
    to[size] = 9;
    check(std::memchr(to.data(), 9, size + 1) == to.data() + size, "memchr");
    check(size == 0 || memrchr(to.data(), 7, size + 1) == to.data() + size - 1, "memrchr");
    check(memrchr(to.data(), 3, size) == nullptr, "memrchr for nothing");
  }
}

static void strings() {
  std::string a, b;
  std::wstring wide;
  for (size_t size = 0; size < 200; ++size) {
    check(strcasecmp(a.c_str(), b.c_str()) == 0 && strncasecmp(a.c_str(), b.c_str(), size + 3) == 0,
          "strcasecmp");
    check(wide.c_str() + size == std::wmemchr(wide.c_str(), 0, size + 1), "wmemchr");
    check(wcschrnul(wide.c_str(), L'!') == wide.c_str() + size, "wcschrnul");
    check(std::wcscmp(wide.c_str(), (wide + L"x").c_str()) < 0, "wcscmp");
    check(std::wcsncmp(wide.c_str(), (wide + L"x").c_str(), size) == 0, "wcsncmp");
    a += char('a' + size % 26);
    b += char('A' + size % 26);
    wide += wchar_t('a' + size % 26);
  }
  static const char environment[] = "one=1\0two\0three=3";
  check(std::strcmp(envz_get(environment, sizeof environment, "three"), "3") == 0, "envz_get");
  check(envz_get(environment, sizeof environment, "four") == nullptr, "envz_get for nothing");
  check(std::strcmp(nl_langinfo(RADIXCHAR), ".") == 0, "nl_langinfo");
}

static void work() {
  std::vector<unsigned char> from(8192), to(8192);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 256);
  while (!stop) {
    own_code();
    characters();
    memory(from, to);
    strings();
    if (!is_hot) ::usleep(1000);
  }
}

int main() {
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals_taken; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  itimerval often{{0, 500}, {0, 500}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(work);
  std::puts("READY");
  std::fflush(stdout);
  for (char byte;;) {
    const ssize_t got = ::read(0, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return wrong == 0 ? 0 : 1;
}
