#include "engine/kernel/loader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "engine/kernel/bpf_calls.h"

namespace uscope::engine::kernel {

namespace {

constexpr size_t kTailLines = 8;
constexpr size_t kSmallestLog = size_t(64) << 10;
constexpr size_t kLargestLog = size_t(16) << 20;
constexpr uint64_t kFirstPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO

bpf_prog_type kernel_type(Shape shape) {
  switch (shape) {
    case Shape::UprobeMulti:
    case Shape::PerfUprobe:
      return BPF_PROG_TYPE_KPROBE;
    case Shape::PerfEvent:
      return BPF_PROG_TYPE_PERF_EVENT;
    case Shape::Tracepoint:
      return BPF_PROG_TYPE_TRACEPOINT;
    case Shape::TestRun:
      return BPF_PROG_TYPE_RAW_TRACEPOINT;
  }
  return BPF_PROG_TYPE_UNSPEC;
}

// What goes to the kernel.
struct Image {
  std::vector<bpf_insn> instructions;
  std::vector<bpf_func_info> functions;  // with callbacks: the main one first
  Fd types;                              // what `functions` names
};

// Loads; with a log, the verifier writes there why it refuses.
int load(const codegen::Code& code, const Image& image, Shape shape, std::string* log) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.prog_type = kernel_type(shape);
  if (shape == Shape::UprobeMulti) attributes.expected_attach_type = kTraceUprobeMulti;
  attributes.insn_cnt = uint32_t(image.instructions.size());
  attributes.insns = uint64_t(image.instructions.data());
  if (!image.functions.empty()) {
    attributes.prog_btf_fd = uint32_t(image.types.get());
    attributes.func_info = uint64_t(image.functions.data());
    attributes.func_info_rec_size = sizeof(bpf_func_info);
    attributes.func_info_cnt = uint32_t(image.functions.size());
  }
  attributes.license = uint64_t("GPL");
  std::string name = object_name(code.name);
  std::memcpy(attributes.prog_name, name.data(), name.size());
  if (log) {
    attributes.log_level = 1;
    attributes.log_buf = uint64_t(log->data());
    attributes.log_size = uint32_t(log->size());
  }
  int fd = -1;
  // EAGAIN: a signal came while the verifier ran.
  for (int tries = 0; tries < 5; tries++) {
    fd = bpf_call(BPF_PROG_LOAD, &attributes, sizeof attributes);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  return fd;
}

// The kernel takes callbacks only from a program that says, in BTF, what its functions are.
Status describe_functions(const codegen::Code& code, size_t prefix_size, Image& image) {
  if (code.functions.empty()) return {};
  auto types = load_function_types();
  if (!types)
    return fail(Error::from_errno("loading " + code.name + ": describing its functions", types.error()));
  image.types = std::move(*types);
  image.functions.push_back({0, kMainFunctionType});
  for (uint32_t first : code.functions)
    image.functions.push_back({uint32_t(prefix_size) + first, kCallbackType});
  return {};
}

Result<std::vector<bpf_insn>> with_maps(const codegen::Code& code, const std::vector<Map>& maps,
                                        const std::vector<bpf_insn>& prefix) {
  std::vector<bpf_insn> instructions = prefix;
  instructions.insert(instructions.end(), code.instructions.begin(), code.instructions.end());
  for (const codegen::MapReference& reference : code.maps) {
    if (reference.map >= maps.size() || size_t(reference.instruction) + 1 >= code.instructions.size() ||
        code.instructions[reference.instruction].code != (BPF_LD | BPF_IMM | BPF_DW))
      return fail(fmt::format("loading {}: instruction {} names no map of the program", code.name,
                              reference.instruction));
    bpf_insn* pair = &instructions[prefix.size() + reference.instruction];
    pair[0].src_reg = reference.is_value ? BPF_PSEUDO_MAP_VALUE : BPF_PSEUDO_MAP_FD;
    pair[0].imm = maps[reference.map].fd();
    pair[1].imm = reference.is_value ? int32_t(reference.value_offset) : 0;
  }
  return instructions;
}

Error refusal(const codegen::Code& code, const Image& image, Shape shape, size_t prefix_size,
              int error_number) {
  std::string log;
  for (size_t size = kSmallestLog; size <= kLargestLog; size *= 4) {
    log.assign(size, '\0');
    int fd = load(code, image, shape, &log);
    int reason = fd < 0 ? errno : 0;
    Fd taken(fd);  // refused once and taken now: the first refusal is what is reported
    if (reason != ENOSPC) break;
  }
  log.resize(std::strlen(log.c_str()));
  VerifierWords words = last_words(log);
  if (words.reason.empty()) {
    Error error = Error::from_errno("loading " + code.name, error_number);
    if (error_number == EPERM || error_number == EACCES)
      return std::move(error).with_hint("the kernel engine needs root, or CAP_BPF and CAP_PERFMON");
    return error;
  }
  std::string where;
  if (words.instruction && *words.instruction >= prefix_size)
    where = fmt::format(" at instruction {}", *words.instruction - prefix_size);
  return Error(fmt::format("loading {}: the kernel's verifier refuses it{}: {}\n{}", code.name, where,
                           words.reason, words.tail));
}

// "12: (79) r0 = …" and "12: R1=ctx() …" tell where the verifier is.
std::optional<uint32_t> instruction_of(std::string_view line) {
  uint32_t number = 0;
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end == line.data() + line.size() || *end != ':') return std::nullopt;
  return number;
}

bool is_statistics(std::string_view line) {
  return line.starts_with("processed ") || line.starts_with("verification time") ||
         line.starts_with("stack depth") || line.starts_with("max_states");
}

bpf_insn instruction(uint8_t code, uint8_t destination, uint8_t source, int16_t offset, int32_t immediate) {
  bpf_insn result{};
  result.code = code;
  result.dst_reg = destination & 0xf;
  result.src_reg = source & 0xf;
  result.off = offset;
  result.imm = immediate;
  return result;
}

void load_immediate(std::vector<bpf_insn>& code, uint8_t destination, uint64_t value) {
  code.push_back(instruction(BPF_LD | BPF_IMM | BPF_DW, destination, 0, 0, int32_t(value)));
  code.push_back(instruction(0, 0, 0, 0, int32_t(value >> 32)));
}

}  // namespace

VerifierWords last_words(std::string_view log) {
  std::vector<std::string_view> lines;
  while (!log.empty()) {
    std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (!line.empty() && !is_statistics(line)) lines.push_back(line);
  }
  VerifierWords words;
  if (lines.empty()) return words;
  words.reason = lines.back();
  for (auto line = lines.rbegin(); line != lines.rend() && !words.instruction; ++line)
    words.instruction = instruction_of(*line);
  size_t first = lines.size() - std::min(lines.size(), kTailLines);
  for (size_t i = first; i < lines.size(); i++) {
    if (i > first) words.tail += '\n';
    words.tail += "  ";
    words.tail += lines[i];
  }
  return words;
}

Result<Fd> load_code(const codegen::Code& code, const std::vector<Map>& maps, Shape shape,
                     const std::vector<bpf_insn>& prefix) {
  Image image;
  TRY(image.instructions, with_maps(code, maps, prefix));
  TRY_STATUS(describe_functions(code, prefix.size(), image));
  int fd = load(code, image, shape, nullptr);
  if (fd < 0 && errno == EPERM) {
    lift_memlock_limit();
    fd = load(code, image, shape, nullptr);
  }
  if (fd >= 0) return Fd(fd);
  return fail(refusal(code, image, shape, prefix.size(), errno));
}

Result<std::vector<bpf_insn>> only_process(pid_t pid) {
  struct stat ns {};
  if (::stat("/proc/self/ns/pid", &ns) != 0)
    return fail(Error::from_errno("looking at /proc/self/ns/pid", errno));
  std::vector<bpf_insn> code;
  code.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0));  // keep the context
  if (ns.st_ino == kFirstPidNamespace) {
    code.push_back(instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid));
    code.push_back(instruction(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32));
  } else {
    // The number that this namespace gives to the process; for others it fails and leaves zero.
    code.push_back(instruction(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 0));
    load_immediate(code, 1, ns.st_dev);
    load_immediate(code, 2, ns.st_ino);
    code.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_X, 3, 10, 0, 0));
    code.push_back(instruction(BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, 0, -8));
    code.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, 8));
    code.push_back(instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_ns_current_pid_tgid));
    code.push_back(instruction(BPF_LDX | BPF_MEM | BPF_W, 0, 10, -4, 0));
  }
  code.push_back(instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2, pid));
  code.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0));
  code.push_back(instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
  code.push_back(instruction(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0));
  return code;
}

}  // namespace uscope::engine::kernel
