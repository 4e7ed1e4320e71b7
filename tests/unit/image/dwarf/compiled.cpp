#include "unit/image/dwarf/compiled.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace uscope::image::dwarf::testing {
namespace fs = std::filesystem;

bool have(const std::string& tool) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", tool).c_str()) == 0;
}

const std::string& work_folder() {
  struct Folder {
    std::string path;
    Folder() {
      char name[] = "/tmp/uscope-dwarf-XXXXXX";
      path = mkdtemp(name);
    }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

std::string run(const std::string& command) {
  FILE* pipe = popen(fmt::format("cd {} && {}", work_folder(), command).c_str(), "r");
  std::string output;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << output;
  return output;
}

namespace {
void replace(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}
}  // namespace

std::string compile(const std::string& source, const std::string& extension, const std::string& command) {
  static std::map<std::string, std::string> done;
  auto [found, is_new] = done.emplace(source + "\n" + command, "");
  if (!is_new) return found->second;
  std::string stem = fmt::format("{}/p{}", work_folder(), done.size());
  std::ofstream(stem + extension) << source;
  std::string line = command;
  replace(line, "{src}", stem + extension);
  replace(line, "{out}", stem);
  run(line + " 2>&1");
  found->second = stem;
  return stem;
}

std::unique_ptr<Opened> open(const std::string& path) {
  auto elf = ElfFile::open(path);
  if (!elf) throw std::runtime_error(elf.error().message());
  auto info = DebugInfo::open(*elf);
  if (!info) throw std::runtime_error(info.error().message());
  return std::make_unique<Opened>(Opened{std::move(*elf), std::move(*info)});
}

Function function_named(const DebugInfo& info, const std::string& name) {
  std::optional<Function> found;
  info.for_each_function([&](const Function& function) {
    if (function.qualified != name && function.name != name && function.linkage_name != name) return true;
    found = function;
    return false;
  });
  EXPECT_TRUE(found) << "no function " << name;
  return found.value_or(Function{});
}

const Type& type_named(const DebugInfo& info, const std::string& name) {
  auto found = info.find_types(name);
  EXPECT_FALSE(found.empty()) << "no type " << name;
  return info.type(found.empty() ? TypeId{} : found.front());
}

namespace {
std::string spell_at(const DebugInfo& info, TypeId id, int depth) {
  if (!id) return "void";
  if (depth > 16) return "...";
  const Type& type = info.type(id);
  auto target = [&] { return spell_at(info, type.target, depth + 1); };
  if (!type.qualified.empty()) return type.qualified;
  switch (type.kind) {
    case Type::Kind::Pointer:
      return target() + "*";
    case Type::Kind::Reference:
      return target() + "&";
    case Type::Kind::RvalueReference:
      return target() + "&&";
    case Type::Kind::Const:
      return "const " + target();
    case Type::Kind::Volatile:
      return "volatile " + target();
    case Type::Kind::Array: {
      std::string text = target();
      for (auto count : type.dimensions) text += count ? fmt::format("[{}]", *count) : "[]";
      return text;
    }
    case Type::Kind::Function:
      return target() + "()";
    default:
      return fmt::format("<kind {}>", int(type.kind));
  }
}

std::string register_name(uint32_t number) {
  static const char* const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                      "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
  return number < 17 ? names[number] : fmt::format("xmm{}", number - 17);
}

std::string spell_op(const LocOp& op) {
  switch (op.code) {
    case LocOp::Code::Register:
      return register_name(op.number);
    case LocOp::Code::AddConst:
      return fmt::format("{:+}", op.value);
    case LocOp::Code::Constant:
      return fmt::format("{}", op.value);
    case LocOp::Code::Address:
      return fmt::format("@{:#x}", op.value);
    case LocOp::Code::EntryValue:
      return "entry(" + register_name(op.number) + ")";
    case LocOp::Code::Deref:
      return fmt::format(" deref{}", op.number);
    case LocOp::Code::TlsAddress:
      return " tls";
    default:
      return fmt::format(" op{}", int(op.code));
  }
}
}  // namespace

std::string spell(const DebugInfo& info, TypeId id) { return spell_at(info, id, 0); }

std::string spell(const Location& location) {
  std::string text;
  for (const LocPiece& piece : location.pieces) {
    if (!text.empty()) text += " ";
    if (piece.bit_size != 0) text += fmt::format("{}:", piece.bit_size);
    std::string ops;
    for (const LocOp& op : piece.ops) ops += spell_op(op);
    switch (piece.kind) {
      case LocPiece::Kind::Memory:
        text += "[" + ops + "]";
        break;
      case LocPiece::Kind::Register:
        text += ops;
        break;
      case LocPiece::Kind::Value:
        text += "=" + ops;
        break;
      case LocPiece::Kind::Bytes:
        text += "bytes";
        for (uint8_t byte : piece.bytes) text += fmt::format(" {:02x}", byte);
        break;
      case LocPiece::Kind::OptimizedOut:
        text += "<" + piece.reason + ">";
        break;
    }
  }
  return text;
}

}  // namespace uscope::image::dwarf::testing
