#include "process/load_gate.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "process/maps.h"
#include "process/memory.h"

namespace uscope::process {
namespace {

constexpr std::array<uint8_t, 3> kEnclu = {0x0f, 0x01, 0xd7};
constexpr size_t kLoadBytes = 3;  // of LoadGate::load_code; the rest is the way back
constexpr uint8_t kBreakpoint = 0xcc;

// Where the kernel drives enclaves its ENCLU must stay as it is, in every process: one may begin at any time.
bool may_have_enclaves() {
  Fd file(::open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC));
  std::array<char, 8192> text;
  const ssize_t got = file.is_open() ? ::read(file.get(), text.data(), text.size()) : -1;
  if (got <= 0) return true;
  // The first processor's are everybody's.
  const std::string_view all(text.data(), size_t(got));
  const size_t flags = all.find("\nflags");
  if (flags == std::string_view::npos) return true;
  const size_t end = all.find('\n', flags + 1);
  if (end == std::string_view::npos) return true;
  const std::string_view line = all.substr(flags, end - flags);
  return line.find(" sgx ") != std::string_view::npos || line.ends_with(" sgx");
}

Bytes own_vdso() {
  const uint64_t start = ::getauxval(AT_SYSINFO_EHDR);
  auto maps = start != 0 ? Maps::of(::getpid()) : Result<Maps>(Maps());
  if (start == 0 || !maps) return {};
  const Mapping* mapping = maps->find({start});
  if (mapping == nullptr || mapping->start.value != start) return {};
  return {reinterpret_cast<const uint8_t*>(start), mapping->size()};
}

template <typename T>
std::optional<T> value_at(Bytes bytes, uint64_t offset) {
  ByteReader reader(bytes, offset);
  const T value = reader.read<T>();
  return reader.failed() ? std::nullopt : std::optional(value);
}

// A child that stands still while we make it run single instructions of its vDSO.
class Trial {
 public:
  Trial() {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::raise(SIGSTOP);
      ::_exit(127);
    }
    is_stopped_ = pid_ > 0 && stops_with(SIGSTOP);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }

  bool write(uint64_t address, Bytes bytes) const {
    if (!is_stopped_) return false;
    auto memory = RemoteMemory::open(pid_);
    return memory && memory->write({address}, bytes);
  }

  // Where the next breakpoint is met, from `ip` on, and with which registers. Nothing: a signal came instead.
  struct Outcome {
    uint64_t at;
    user_regs_struct registers;
  };
  std::optional<Outcome> run(uint64_t ip, uint64_t source) {
    user_regs_struct registers{};
    if (!is_stopped_ || ::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0) return std::nullopt;
    registers.rip = ip;
    registers.rsi = source;
    registers.rdi = 0;
    registers.orig_rax = uint64_t(-1);  // no system call to be repeated
    is_stopped_ = ::ptrace(PTRACE_SETREGS, pid_, nullptr, &registers) == 0 &&
                  ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr) == 0 && stops_with(SIGTRAP);
    if (!is_stopped_ || ::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0) return std::nullopt;
    return Outcome{registers.rip - 1, registers};
  }

 private:
  bool stops_with(int signal) const {
    int status = 0;
    pid_t got;
    while ((got = ::waitpid(pid_, &status, __WALL)) < 0 && errno == EINTR) {
    }
    return got == pid_ && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
  }

  pid_t pid_ = -1;
  bool is_stopped_ = false;
};

// Every other byte of the function is a breakpoint, so where a fault leads to shows.
std::optional<uint64_t> find_landing(uint64_t function, uint64_t size, uint64_t load, uint64_t readable) {
  std::vector<uint8_t> code(size, kBreakpoint);
  std::copy_n(LoadGate::load_code.begin(), kLoadBytes, code.begin() + ptrdiff_t(load - function));
  Trial trial;
  if (!trial.write(function, code)) return std::nullopt;
  const auto good = trial.run(load, readable);
  uint64_t value;
  std::memcpy(&value, reinterpret_cast<const void*>(readable), sizeof value);
  if (!good || good->at != load + kLoadBytes || good->registers.rax != value || good->registers.rdi != 0)
    return std::nullopt;
  // Not mapped, the kernel's, and no address at all.
  std::optional<uint64_t> landing;
  for (uint64_t bad : {uint64_t(8), uint64_t(0xffff) << 47, uint64_t(0x1234) << 48}) {
    const auto failed = trial.run(load, bad);
    if (!failed || failed->registers.rdi == 0 || (landing && failed->at != *landing)) return std::nullopt;
    landing = failed->at;
  }
  return landing;
}

}  // namespace

std::optional<VdsoFunction> find_vdso_function(Bytes vdso, std::string_view name) {
  auto header = value_at<Elf64_Ehdr>(vdso, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  uint64_t symbols = 0, texts = 0, hash = 0;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    auto segment = value_at<Elf64_Phdr>(vdso, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_DYNAMIC) continue;
    for (uint64_t at = segment->p_offset;; at += sizeof(Elf64_Dyn)) {
      auto entry = value_at<Elf64_Dyn>(vdso, at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_SYMTAB) symbols = entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) texts = entry->d_un.d_ptr;
      if (entry->d_tag == DT_HASH) hash = entry->d_un.d_ptr;
    }
  }
  auto count = value_at<uint32_t>(vdso, hash + 4);
  if (symbols == 0 || texts == 0 || hash == 0 || !count) return std::nullopt;
  for (uint64_t i = 0; i < *count; ++i) {
    auto symbol = value_at<Elf64_Sym>(vdso, symbols + i * sizeof(Elf64_Sym));
    if (!symbol) return std::nullopt;
    if (cstring_at(vdso, texts + symbol->st_name) != name || !slice(vdso, symbol->st_value, symbol->st_size))
      continue;
    return VdsoFunction{uint32_t(symbol->st_value), uint32_t(symbol->st_size)};
  }
  return std::nullopt;
}

std::optional<LoadGate> find_load_gate() {
  const Bytes vdso = own_vdso();
  auto function = find_vdso_function(vdso, "__vdso_sgx_enter_enclave");
  if (!function || may_have_enclaves()) return std::nullopt;
  const Bytes code = vdso.subspan(function->offset, function->size);
  const auto enclu = std::ranges::search(code, kEnclu);
  if (enclu.empty()) return std::nullopt;
  LoadGate gate;
  gate.load = function->offset + uint32_t(enclu.begin() - code.begin());
  const auto base = uint64_t(vdso.data()), begin = base + function->offset;
  auto landing = find_landing(begin, function->size, base + gate.load, base);
  if (!landing || *landing < begin || *landing >= begin + function->size) return std::nullopt;
  gate.landing = uint32_t(*landing - base);
  // Two patches that do not touch.
  if (gate.landing + 1 > gate.load && gate.landing < gate.load + LoadGate::load_code.size())
    return std::nullopt;
  if (gate.load + LoadGate::load_code.size() > function->offset + function->size) return std::nullopt;
  std::copy_n(vdso.begin() + gate.load, gate.load_original.size(), gate.load_original.begin());
  std::copy_n(vdso.begin() + gate.landing, gate.landing_original.size(), gate.landing_original.begin());
  return gate;
}

}  // namespace uscope::process
