#include "unit/engine/kernel/target.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "engine/kernel/tracefs.h"

namespace uscope::engine::kernel {

namespace {

constexpr const char* kSource = R"(
#define _SDT_HAS_SEMAPHORES 1
#include <pthread.h>
#include <stdio.h>
#include <sys/sdt.h>
#include <unistd.h>
unsigned short demo_hit_semaphore __attribute__((section(".probes")));
long work(long a, long b);
void many(void);
__asm__(".text\n.globl work\n.type work,@function\nwork: push %rbp\n mov %rsp,%rbp\n lea (%rdi,%rsi),%rax\n"
        " pop %rbp\n ret\n.size work,.-work\n"
        ".globl many\n.type many,@function\nmany:\n.rept 3000\n push %rbp\n pop %rbp\n ret\n.endr\n.size many,.-many\n"
        ".globl traps\n.type traps,@function\ntraps: .rept 8\n int3\n.endr\n.size traps,.-traps\n");
static void *calls(void *unused) {
  for (long i = 0; i < 5; i++) work(i, 100);
  return unused;
}
int main(void) {
  char command;
  while (read(0, &command, 1) == 1) {
    long answer = 0;
    if (command == 'w')
      for (long i = 0; i < 10; i++) answer += work(i, 7);
    if (command == 't') {
      pthread_t threads[2];
      for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, calls, 0);
      for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    }
    if (command == 'm')
      for (int i = 0; i < 3000; i++) ((void (*)(void))((char *)many + 3 * i))();
    if (command == 's') {
      answer = *(volatile unsigned short *)&demo_hit_semaphore;
      __asm__ volatile("usdt_here:");
      DTRACE_PROBE1(demo, hit, answer);
    }
    write(1, &answer, sizeof answer);
  }
  return 0;
}
)";

}  // namespace

std::string why_no_uprobes() {
  if (::geteuid() != 0) return "the kernel's uprobes need root";
  if (!std::filesystem::exists("/sys/bus/event_source/devices/uprobe/type"))
    return "no uprobes in this kernel";
  return "";
}

bool have_tracefs() {
  if (find_tracefs()) return true;
  return ::mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, nullptr) == 0;
}

TargetFile::TargetFile() {
  char folder[] = "/tmp/uscope_kernel_test_XXXXXX";
  if (!::mkdtemp(folder)) std::abort();
  folder_ = folder;
  path_ = folder_ + "/target";
  std::ofstream(path_ + ".c") << kSource;
  std::string command = "gcc -O1 -no-pie -pthread -o " + path_ + " " + path_ + ".c";
  if (std::system(command.c_str()) != 0) std::abort();
  elf_ = read_text_file(path_).value();
}

TargetFile::~TargetFile() { std::filesystem::remove_all(folder_); }

FileOffset TargetFile::offset_of(const std::string& symbol) const {
  const char* base = elf_.data();
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(base);
  auto* sections = reinterpret_cast<const Elf64_Shdr*>(base + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* names = base + sections[sections[i].sh_link].sh_offset;
    auto* symbols = reinterpret_cast<const Elf64_Sym*>(base + sections[i].sh_offset);
    for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
      if (symbol != names + symbols[s].st_name) continue;
      const Elf64_Shdr& home = sections[symbols[s].st_shndx];
      return {symbols[s].st_value - home.sh_addr + home.sh_offset};
    }
  }
  std::abort();
}

const TargetFile& target_file() {
  static const TargetFile file;
  return file;
}

Target::Target() {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  const char* path = target_file().path().c_str();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::execl(path, path, nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
  tell('?');  // it has started
}

Target::~Target() {
  ::close(to_);
  ::close(from_);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

long Target::tell(char command) {
  long answer = -1;
  if (::write(to_, &command, 1) != 1 || ::read(from_, &answer, sizeof answer) != sizeof answer) return -1;
  return answer;
}

std::string Target::text_at(const std::string& symbol, size_t size) const {
  // Linked without PIE at the usual place, text at its file offset above it.
  uint64_t address = 0x400000 + target_file().offset_of(symbol).value;
  Fd memory(::open(("/proc/" + std::to_string(pid_) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(size, '\0');
  if (::pread(memory.get(), bytes.data(), size, off_t(address)) != ssize_t(size)) return "unreadable";
  return bytes;
}

Attachment user_probe(const std::string& symbol, uint32_t code) {
  Attachment attachment;
  attachment.code = code;
  attachment.file = target_file().path();
  attachment.sites = {{target_file().offset_of(symbol)}};
  return attachment;
}

uint64_t sum_at(Engine& engine, uint32_t map, uint32_t index, size_t offset) {
  auto entry = engine.find_entry(map, as_bytes({reinterpret_cast<const char*>(&index), sizeof index}));
  if (!entry || !*entry) return ~uint64_t(0);
  uint64_t sum = 0;
  for (const auto& value : (*entry)->values) sum += ByteReader(value, offset).u64();
  return sum;
}

}  // namespace uscope::engine::kernel
