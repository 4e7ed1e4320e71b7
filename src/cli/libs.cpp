#include "cli/libs.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>

#include "cli/output.h"
#include "session/explore_libs.h"

namespace uscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using session::ImageFacts;
using session::LibraryFacts;
using session::LibsAnswer;

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : std::string(between)) + part;
  return text;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void add_field(std::string& text, std::string_view label, std::string_view value) {
  if (!value.empty()) fmt::format_to(std::back_inserter(text), "  {:<12} {}\n", label, value);
}

std::string program_as_text(const ImageFacts& program, std::optional<pid_t> pid, bool verbose) {
  std::string text = program.path + ": " + program.type;
  if (!program.languages.empty()) text += ", " + joined(program.languages, " and ");
  if (program.type.find("static") == std::string::npos) text += program.is_dynamic ? ", dynamic" : ", static";
  text += program.is_stripped ? ", stripped\n" : ", not stripped\n";
  if (pid) add_field(text, "process", std::to_string(*pid));
  add_field(text, "soname", program.soname);
  add_field(text, "compiler", joined(program.compilers, "; "));
  if (verbose || program.compilers.empty()) {
    for (const auto& producer : program.producers) add_field(text, "built by", producer);
  }
  add_field(text, "Go module", program.go_module);
  add_field(text, "build-id", program.build_id.empty() ? "none" : program.build_id);
  add_field(text, "debug info", program.debug_info);
  add_field(text, "interpreter", program.interpreter);
  return text;
}

// What is out of the ordinary about a library, and with `verbose` the ordinary too.
std::vector<std::string> remarks(const LibraryFacts& library, bool verbose) {
  std::vector<std::string> out;
  if (!library.managed.empty()) out.push_back(library.managed);
  if (library.is_opened_later) out.push_back("loaded at run time (dlopen or preload)");
  if (library.is_deleted) out.push_back("deleted since");
  if (library.is_replaced) out.push_back("replaced since: another file has that name now");
  const bool is_usual = library.found_by == "ld.so.cache" || library.found_by == "standard folder" ||
                        library.found_by == "interpreter";
  if (!library.found_by.empty() && (verbose || !is_usual)) out.push_back("by " + library.found_by);
  if (!library.needed_by.empty() && (verbose || library.path.empty())) {
    out.push_back("needed by " + joined(library.needed_by, ", "));
  }
  if (!library.hint.empty()) out.push_back(library.hint);
  return out;
}

std::string library_as_text(const LibraryFacts& library, bool verbose) {
  std::string text = "    ";
  if (!library.name.empty() && library.name != library.path) text += library.name + " => ";
  text += library.path.empty() ? "not found" : library.path;
  // `/lib` is itself a link on most systems; a file of another name is what a user wants to know.
  if (verbose || file_name(library.real_path) != file_name(library.path)) {
    if (!library.real_path.empty()) text += " -> " + library.real_path;
  }
  if (library.address) text += fmt::format(" (0x{:x})", library.address->value);
  if (const auto notes = remarks(library, verbose); !notes.empty()) text += "  [" + joined(notes, "; ") + "]";
  return text + "\n";
}

std::string as_text(const LibsAnswer& answer, bool verbose) {
  std::string text = program_as_text(answer.program, answer.pid, verbose);
  for (const bool managed : {false, true}) {
    std::string lines;
    for (const auto& library : answer.libraries) {
      if (library.managed.empty() != managed) lines += library_as_text(library, verbose);
    }
    if (!lines.empty()) text += (managed ? "  assemblies\n" : "  libraries\n") + lines;
  }
  return text;
}

Json as_json(const LibraryFacts& library) {
  Json json;
  json["name"] = library.name;
  json["path"] = library.path.empty() ? Json() : Json(library.path);
  if (!library.real_path.empty()) json["real_path"] = library.real_path;
  if (!library.found_by.empty()) json["found_by"] = library.found_by;
  json["needed_by"] = library.needed_by;
  if (library.address) json["address"] = library.address->value;
  if (library.is_opened_later) json["loaded_at_run_time"] = true;
  if (library.is_deleted) json["deleted"] = true;
  if (library.is_replaced) json["replaced"] = true;
  if (!library.managed.empty()) json["managed"] = library.managed;
  if (!library.hint.empty()) json["hint"] = library.hint;
  return json;
}

std::string answer_as_json(const LibsAnswer& answer) {
  const ImageFacts& program = answer.program;
  Json json;
  if (answer.pid) json["pid"] = *answer.pid;
  json["path"] = program.path;
  json["type"] = program.type;
  json["dynamic"] = program.is_dynamic;
  json["stripped"] = program.is_stripped;
  json["languages"] = program.languages;
  json["compilers"] = program.compilers;
  json["producers"] = program.producers;
  if (!program.go_module.empty()) json["go_module"] = program.go_module;
  if (!program.soname.empty()) json["soname"] = program.soname;
  json["build_id"] = program.build_id.empty() ? Json() : Json(program.build_id);
  json["debug_info"] = program.debug_info;
  json["interpreter"] = program.interpreter.empty() ? Json() : Json(program.interpreter);
  json["libraries"] = Json::array();
  for (const auto& library : answer.libraries) json["libraries"].push_back(as_json(library));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int libs_command(std::span<const char* const> arguments) {
  CLI::App app(
      "Shows what a program is: static or dynamic, by which compiler, with which debug info; and its\n"
      "libraries: of a file those that its loader would take, of a process those that it has mapped.",
      "uscope libs");
  app.footer(
      "Examples:\n"
      "  uscope libs ./server       nothing is run: safe for files that you do not trust\n"
      "  uscope libs 1234           what process 1234 really has mapped, also in a container\n"
      "  uscope libs -v python3     with who asks for each library and how it is found\n");
  std::string target_argument;
  bool as_json_text = false;
  bool verbose = false;
  app.add_option("FILE|PID", target_argument, "A file, a program on the PATH, or a process id")->required();
  app.add_flag("-v,--verbose", verbose, "Also who needs each library, and how it is found");
  app.add_flag("--json", as_json_text, "The same as JSON");
  if (auto code = parse_arguments(app, arguments)) return *code;

  auto target = session::find_target(target_argument);
  if (!target) return report(target.error());
  auto answer = session::explore_libs(*target);
  if (!answer) return report(answer.error());
  for (const auto& problem : answer->problems) warn(problem);
  return write_output(as_json_text ? answer_as_json(*answer) : as_text(*answer, verbose));
}

}  // namespace uscope::cli
