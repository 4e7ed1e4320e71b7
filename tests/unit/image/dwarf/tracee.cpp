#include "unit/image/dwarf/tracee.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <thread>

namespace uscope::image::dwarf::testing {
namespace {

uint64_t first_mapping(pid_t pid, const std::string& path) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::string line;
  while (std::getline(maps, line)) {
    if (line.ends_with(path)) return std::stoull(line, nullptr, 16);
  }
  return 0;
}

bool poke_byte(pid_t pid, uint64_t address, uint8_t byte) {
  errno = 0;
  long word = ptrace(PTRACE_PEEKTEXT, pid, address, nullptr);
  if (errno != 0) return false;
  long patched = (word & ~0xffL) | byte;
  return ptrace(PTRACE_POKETEXT, pid, address, patched) == 0;
}

}  // namespace

uint64_t Stopped::general(uint32_t number) const {
  const auto& r = registers;
  const uint64_t values[] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                             r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
  return number < 17 ? values[number] : 0;
}

bool Stopped::read(uint64_t address, void* to, size_t size) const {
  iovec local{to, size}, remote{reinterpret_cast<void*>(address), size};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == ssize_t(size);
}

namespace {

// Evaluates what these tests meet; anything else is a failure.
std::optional<uint64_t> evaluate(const Stopped& at, const std::vector<LocOp>& ops) {
  std::vector<uint64_t> stack;
  auto pop = [&] {
    uint64_t value = stack.empty() ? 0 : stack.back();
    if (!stack.empty()) stack.pop_back();
    return value;
  };
  for (const LocOp& op : ops) {
    switch (op.code) {
      case LocOp::Code::Register:
        if (op.number >= 17) {
          uint64_t low = 0;
          std::memcpy(&low, &at.vectors.xmm_space[(op.number - 17) * 4], 8);
          stack.push_back(low);
        } else {
          stack.push_back(at.general(op.number));
        }
        break;
      case LocOp::Code::Constant:
        stack.push_back(uint64_t(op.value));
        break;
      case LocOp::Code::Address:
        stack.push_back(uint64_t(op.value) + at.bias);
        break;
      case LocOp::Code::AddConst:
        stack.push_back(pop() + uint64_t(op.value));
        break;
      case LocOp::Code::Add:
        stack.push_back(pop() + pop());
        break;
      case LocOp::Code::And:
        stack.push_back(pop() & pop());
        break;
      case LocOp::Code::Shl: {
        uint64_t count = pop();
        stack.push_back(pop() << count);
        break;
      }
      case LocOp::Code::Shr: {
        uint64_t count = pop();
        stack.push_back(pop() >> count);
        break;
      }
      case LocOp::Code::Sar: {
        uint64_t count = pop();
        stack.push_back(uint64_t(int64_t(pop()) >> count));
        break;
      }
      case LocOp::Code::Deref: {
        uint64_t value = 0;
        if (!at.read(pop(), &value, op.number)) return {};
        stack.push_back(value);
        break;
      }
      default:
        return {};
    }
  }
  if (stack.empty()) return {};
  return stack.back();
}

bool piece_bytes(const Stopped& at, const LocPiece& piece, uint64_t size, std::vector<uint8_t>& out) {
  uint64_t skip = piece.bit_offset / 8;
  std::vector<uint8_t> bytes(size);
  switch (piece.kind) {
    case LocPiece::Kind::Memory: {
      auto address = evaluate(at, piece.ops);
      if (!address || !at.read(*address + skip, bytes.data(), size)) return false;
      break;
    }
    case LocPiece::Kind::Register: {
      uint8_t content[16] = {};
      uint32_t number = piece.ops[0].number;
      if (number >= 17) {
        std::memcpy(content, &at.vectors.xmm_space[(number - 17) * 4], 16);
      } else {
        uint64_t value = at.general(number);
        std::memcpy(content, &value, 8);
      }
      if (skip + size > (number >= 17 ? 16u : 8u)) return false;
      std::memcpy(bytes.data(), content + skip, size);
      break;
    }
    case LocPiece::Kind::Value: {
      auto value = evaluate(at, piece.ops);
      if (!value || size > 8) return false;
      std::memcpy(bytes.data(), &*value, size);
      break;
    }
    case LocPiece::Kind::Bytes:
      if (piece.bytes.size() < size) return false;
      std::memcpy(bytes.data(), piece.bytes.data(), size);
      break;
    case LocPiece::Kind::OptimizedOut:
      return false;
  }
  out.insert(out.end(), bytes.begin(), bytes.end());
  return true;
}

}  // namespace

std::optional<std::vector<uint8_t>> Stopped::bytes_of(const Location& location, uint64_t size) const {
  std::vector<uint8_t> bytes;
  for (const LocPiece& piece : location.pieces) {
    if (bytes.size() >= size) break;
    uint64_t part = piece.bit_size == 0 ? size : piece.bit_size / 8;
    if (!piece_bytes(*this, piece, std::min(part, size - bytes.size()), bytes)) return {};
  }
  if (bytes.size() != size) return {};
  return bytes;
}

namespace {

std::string format_number(const Type& type, const std::vector<uint8_t>& bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min<size_t>(8, bytes.size()));
  unsigned bits = unsigned(std::min<size_t>(8, bytes.size()) * 8);
  if (type.size == 16) {
    uint64_t high = 0;
    std::memcpy(&high, bytes.data() + 8, 8);
    return fmt::format("{:#x}:{:#x}", high, value);
  }
  if (type.is_signed && bits < 64 && (value >> (bits - 1)) != 0) value |= ~uint64_t(0) << bits;
  return type.is_signed ? fmt::format("{}", int64_t(value)) : fmt::format("{}", value);
}

std::string format_float(const std::vector<uint8_t>& bytes) {
  char text[64] = "?";
  if (bytes.size() == 4) {
    float value;
    std::memcpy(&value, bytes.data(), 4);
    snprintf(text, sizeof text, "%g", double(value));
  } else if (bytes.size() == 8) {
    double value;
    std::memcpy(&value, bytes.data(), 8);
    snprintf(text, sizeof text, "%g", value);
  } else if (bytes.size() == 16) {
    long double value;
    std::memcpy(&value, bytes.data(), 16);
    snprintf(text, sizeof text, "%Lg", value);
  }
  return text;
}

std::string read_text(const Stopped& at, uint64_t address, uint64_t length) {
  std::string text(std::min<uint64_t>(length, 4096), '\0');
  if (!at.read(address, text.data(), text.size())) return "?";
  return '"' + text + '"';
}

}  // namespace

std::string Stopped::format(const DebugInfo& info, TypeId id, const std::vector<uint8_t>& bytes,
                            int depth) const {
  using Kind = Type::Kind;
  const Type& type = info.type(id);
  if (depth > 8) return "...";
  uint64_t words[3] = {};
  std::memcpy(words, bytes.data(), std::min<size_t>(24, bytes.size()));
  auto part = [&](uint64_t offset, uint64_t size) {
    if (offset + size > bytes.size()) return std::vector<uint8_t>(size);
    return std::vector<uint8_t>(bytes.begin() + long(offset), bytes.begin() + long(offset + size));
  };
  auto pointed = [&](TypeId target) {
    std::vector<uint8_t> there(info.type(target).size);
    if (there.empty() || !read(words[0], there.data(), there.size())) return std::string("?");
    return format(info, target, there, depth + 1);
  };
  switch (type.kind) {
    case Kind::Typedef:
    case Kind::Const:
    case Kind::Volatile:
    case Kind::Atomic:
    case Kind::Restrict:
      return format(info, type.target, bytes, depth + 1);
    case Kind::Bool:
      return bytes[0] == 0 ? "false" : bytes[0] == 1 ? "true" : "bad bool";
    case Kind::Float:
      return format_float(bytes);
    case Kind::Complex:
      return format_float(part(0, type.size / 2)) + "+i" + format_float(part(type.size / 2, type.size / 2));
    case Kind::Reference:
    case Kind::RvalueReference:
      return pointed(type.target);
    case Kind::Pointer: {
      const Type* target = &info.type(type.target);
      if (target->kind == Kind::Const) target = &info.type(target->target);
      if (target->kind != Kind::Character) return words[0] == 0 ? "nil" : fmt::format("{:#x}", words[0]);
      std::string text;
      for (char c; read(words[0] + text.size(), &c, 1) && c != 0 && text.size() < 1000;) text += c;
      return '"' + text + '"';
    }
    case Kind::GoString:
      return read_text(*this, words[0], words[1]);
    case Kind::GoSlice: {
      std::string text = "[";
      uint64_t size = info.type(type.target).size;
      for (uint64_t i = 0; i < words[1] && i < 100; i++) {
        std::vector<uint8_t> there(size);
        if (!read(words[0] + i * size, there.data(), size)) return "?";
        text += (i ? " " : "") + format(info, type.target, there, depth + 1);
      }
      return text + "]";
    }
    case Kind::Array: {
      std::string text = "[";
      uint64_t size = info.type(type.target).size;
      for (uint64_t at = 0; size != 0 && at + size <= bytes.size(); at += size) {
        text += (at ? " " : "") + format(info, type.target, part(at, size), depth + 1);
      }
      return text + "]";
    }
    case Kind::Struct:
    case Kind::Class:
    case Kind::Union: {
      if (type.name == "&str") return read_text(*this, words[0], words[1]);
      std::string text = "{";
      for (const Member& member : type.members) {
        if (member.is_static || member.is_artificial) continue;
        if (text.size() > 1) text += " ";
        if (!member.is_base && !member.name.empty()) text += member.name + "=";
        if (member.bit_size != 0) {
          uint64_t value = 0;
          for (uint32_t i = 0; i < member.bit_size; i++) {
            uint64_t bit = member.bit_offset + i;
            if (bit / 8 < bytes.size()) value |= uint64_t((bytes[bit / 8] >> (bit % 8)) & 1) << i;
          }
          if (info.type(member.type).is_signed && (value >> (member.bit_size - 1)) != 0)
            value |= ~uint64_t(0) << member.bit_size;
          text += fmt::format("{}", int64_t(value));
          continue;
        }
        text += format(info, member.type, part(member.offset, info.type(member.type).size), depth + 1);
        if (type.kind == Kind::Union) break;
      }
      return text + "}";
    }
    default:
      return format_number(type, bytes);
  }
}

std::string run_traced(const ElfFile& elf, const std::vector<std::string>& command,
                       const std::vector<ImageAddr>& addresses,
                       const std::function<void(ImageAddr, const Stopped&)>& visit) {
  int output[2];
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(output[1], 1);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(output[1]);
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = ::read(output[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  });
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status));
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  uint64_t bias = first_mapping(child, command[0]) - (elf.lowest_address().value & ~uint64_t(0xfff));
  std::map<uint64_t, uint8_t> original;
  for (ImageAddr address : addresses) {
    uint64_t at = address.value + bias;
    errno = 0;
    original[at] = uint8_t(ptrace(PTRACE_PEEKTEXT, child, at, nullptr));
    EXPECT_TRUE(errno == 0 && poke_byte(child, at, 0xcc));
  }
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  for (pid_t tid; (tid = waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (tid == child) break;
      continue;
    }
    int signal = WSTOPSIG(status);
    bool is_event = (status >> 16) != 0 || signal == SIGSTOP;
    if (signal == SIGTRAP && !is_event) {
      Stopped stopped{.pid = tid, .bias = bias};
      ptrace(PTRACE_GETREGS, tid, nullptr, &stopped.registers);
      uint64_t at = stopped.registers.rip - 1;
      if (auto found = original.find(at); found != original.end()) {
        poke_byte(tid, at, found->second);
        stopped.registers.rip = at;
        ptrace(PTRACE_SETREGS, tid, nullptr, &stopped.registers);
        ptrace(PTRACE_GETFPREGS, tid, nullptr, &stopped.vectors);
        visit({at - bias}, stopped);
      }
      signal = 0;
    }
    ptrace(PTRACE_CONT, tid, nullptr, is_event ? 0 : signal);
  }
  reader.join();
  close(output[0]);
  return text;
}

}  // namespace uscope::image::dwarf::testing
