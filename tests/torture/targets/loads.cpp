// Libraries that come and go while threads use them, children by vfork, posix_spawn and system, and an
// allocator that never rests; each checks its results. Prints READY, runs until its standard input closes;
// ends with 0 if all was right.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

static std::atomic<bool> stop;
static std::atomic<unsigned long> wrong, rounds;

static void check(bool right, const char* what) {
  if (right) return;
  if (wrong++ == 0) std::fprintf(stderr, "wrong: %s\n", what);
}

// Two libraries that nothing else here keeps loaded.
NOINLINE void load_and_use() {
  if (void* math = ::dlopen("libm.so.6", RTLD_NOW)) {
    auto root = reinterpret_cast<double (*)(double)>(::dlsym(math, "cbrt"));
    check(root && std::fabs(root(27) - 3) < 1e-12, "cbrt");
    ::dlclose(math);
  }
  if (void* zip = ::dlopen("libz.so.1", RTLD_LAZY)) {
    auto sum =
        reinterpret_cast<unsigned long (*)(unsigned long, const char*, unsigned)>(::dlsym(zip, "crc32"));
    check(sum && sum(0, "123456789", 9) == 0xcbf43926, "crc32");
    ::dlclose(zip);
  }
}

NOINLINE int vfork_child(int status) {
  pid_t child = ::vfork();
  if (child == 0) ::_exit(status);
  int ended = 0;
  check(child > 0 && ::waitpid(child, &ended, 0) == child, "vfork");
  return WEXITSTATUS(ended);
}

NOINLINE int spawned_child() {
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t child;
  if (::posix_spawnp(&child, "true", nullptr, nullptr, arguments, environ) != 0) return -1;
  int ended = 0;
  check(::waitpid(child, &ended, 0) == child, "waiting for what was spawned");
  return ended;
}

NOINLINE size_t churn(std::mt19937& random) {
  std::map<std::string, std::vector<unsigned>> map;
  size_t put = 0, found = 0;
  for (int i = 0; i < 300; i++) {
    std::string key = "key " + std::to_string(random() % 64);
    map[key].resize(random() % 512, unsigned(key.size()));
    if (random() % 3 == 0) map.erase(key);
  }
  for (auto& [key, values] : map) {
    put += values.size() * key.size();
    for (unsigned value : values) found += value;
  }
  check(put == found, "the allocator's work");
  return found;
}

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++)
    threads.emplace_back([] {
      while (!stop) load_and_use(), rounds++, ::usleep(500);
    });
  threads.emplace_back([] {
    for (int i = 0; !stop; i++, rounds++, ::usleep(2000)) {
      check(vfork_child(i % 200) == i % 200, "the status of a vfork child");
      check(spawned_child() == 0, "the status of a spawned child");
      if (i % 8 == 0) check(std::system("exit 3") == 3 << 8, "system");
    }
  });
  for (int i = 0; i < 2; i++)
    threads.emplace_back([i] {
      std::mt19937 random(static_cast<unsigned>(i));
      while (!stop) churn(random), rounds++;
    });
  std::printf("READY\n");
  std::fflush(stdout);
  for (char byte; ::read(0, &byte, 1) > 0;) {
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%lu rounds, %lu wrong\n", rounds.load(), wrong.load());
  return wrong == 0 && rounds > 0 ? 0 : 1;
}
