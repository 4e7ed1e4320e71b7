#include "session/compile_script.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/fd.h"
#include "engine/inproc/runtime/layout.h"
#include "lang/parser.h"
#include "lang/printer.h"
#include "session/machine_facts.h"
#include "session/unwinding.h"

namespace uscope::session {
namespace {

// Linux 6.9 counts the rounds of a script's loops itself.
bool can_count_loops() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 9);
}

// Beside the file that includes it, where the user says, and where compilers look.
std::optional<lang::HeaderFile> find_header(const std::string& name, const std::string& from,
                                            const std::vector<std::string>& given) {
  std::vector<std::string> folders;
  if (size_t slash = from.rfind('/'); slash != std::string::npos) folders.push_back(from.substr(0, slash));
  folders.insert(folders.end(), given.begin(), given.end());
  for (const char* usual : {".", "/usr/local/include", "/usr/include/x86_64-linux-gnu", "/usr/include",
                            "/usr/lib/gcc/x86_64-linux-gnu/12/include"})
    folders.emplace_back(usual);
  if (name.starts_with('/')) folders = {""};
  for (const std::string& folder : folders) {
    std::string path = folder.empty() ? name : folder + "/" + name;
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    auto text = read_text_file(path);
    if (text) return lang::HeaderFile{path, std::move(*text)};
  }
  return std::nullopt;
}

std::string type_name(const lang::Type& type) {
  return type.known() ? without_marks(type.spell()) : "unknown";
}

}  // namespace

ScriptCompiler::ScriptCompiler(const RunRequest& request, ProbeScope scope)
    : request_(request), types_(request.debug_folders), probes_(types_, std::move(scope)) {
  source_ = sources_.add(request.name, request.text);
}

lang::CompileInputs ScriptCompiler::inputs() {
  lang::CompileInputs inputs;
  inputs.command_line = request_.command_line;
  inputs.allow_unsafe = request_.allow_unsafe;
  inputs.as_bpftrace = request_.is_bpftrace;
  inputs.environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  inputs.matcher = [this](const lang::AttachSpec& point, lang::Diagnostics& diagnostics) {
    return probes_.match(point, diagnostics);
  };
  inputs.loader = [](const std::string& path) -> std::optional<std::string> {
    auto text = read_text_file(path);
    return text ? std::optional<std::string>(std::move(*text)) : std::nullopt;
  };
  inputs.find_header = [this](const std::string& name, const std::string& from) {
    return find_header(name, from, request_.include_folders);
  };
  inputs.included_headers = request_.include_files;
  inputs.knows_kernel_types = ::access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  return inputs;
}

std::optional<lang::TypedProgram> ScriptCompiler::compile(std::string& messages) {
  lang::Diagnostics diagnostics;
  auto program = lang::compile(sources_, source_, inputs(), types_, diagnostics);
  messages = diagnostics.render(sources_, request_.with_warnings);
  return program;
}

Result<codegen::Compiled> ScriptCompiler::generate(const lang::TypedProgram& program,
                                                   std::optional<pid_t> child, const ChosenEngine& engine,
                                                   std::string& messages) const {
  codegen::Inputs inputs;
  if (engine.is_inproc) inputs.vector_offset = uint32_t(sizeof(engine::inproc::Registers));
  ScriptPlaces places(types_, engine.is_inproc, inputs.vector_offset, request_.is_bpftrace);
  inputs.sources = &sources_;
  lang::Diagnostics diagnostics;
  inputs.diagnostics = &diagnostics;
  inputs.types = &types_;
  inputs.places = &places;
  inputs.loops = can_count_loops() ? codegen::Loops::MayGoto : codegen::Loops::Walked;
  inputs.report_reads = request_.with_helper_warnings;
  add_machine_facts(inputs);
  inputs.value_copies = inputs.possible_cpus;
  if (engine.is_inproc) {
    inputs.loops = codegen::Loops::Unchecked;
    inputs.value_copies = engine::inproc::kMostThreads;
    inputs.in_process = true;
  }
  if (child) inputs.child_pid = uint32_t(*child);
  if (!engine.is_inproc) inputs.vma_layout = kernel_vma_layout;
  if (request_.is_bpftrace) {
    auto& processes = inputs.dwarf_processes.emplace(request_.dwarf_pids.begin(), request_.dwarf_pids.end());
    if (child) processes.push_back(uint32_t(*child));
    if (request_.pid) processes.push_back(uint32_t(*request_.pid));
  }
  auto compiled = codegen::generate(program, inputs);
  messages = diagnostics.render(sources_);
  return compiled;
}

std::string ScriptCompiler::tree() {
  lang::Diagnostics diagnostics;
  auto program = lang::parse(sources_, source_, diagnostics);
  return program ? lang::print(*program, sources_) : diagnostics.render(sources_);
}

std::string ScriptCompiler::arguments_text(const lang::AttachSpec& point) const {
  std::string text;
  for (const lang::NamedValue& value : types_.arguments(point).value_or(std::vector<lang::NamedValue>()))
    text += fmt::format("    {} {}\n", type_name(value.type), value.name);
  return text;
}

std::string show_types(const lang::TypedProgram& program) {
  std::string text;
  for (const auto& [name, map] : program.maps) {
    std::string key = map.key ? "[" + type_name(*map.key) + "]" : "";
    text += fmt::format("{}{}: {}\n", name, key, type_name(map.value));
  }
  for (const lang::TypedProbe& probe : program.probes) {
    for (const lang::AttachSpec& point : probe.attach_points) text += point.text + "\n";
    for (const lang::VariableInfo& variable : probe.variables)
      text += fmt::format("  {}: {}\n", variable.name, type_name(variable.type));
  }
  return text;
}

}  // namespace uscope::session
