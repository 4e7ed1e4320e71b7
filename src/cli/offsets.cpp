#include "cli/offsets.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <string>

#include "cli/output.h"
#include "session/explore_offsets.h"

namespace uscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using session::OffsetPlace;
using session::OffsetRow;
using session::OffsetsAnswer;
using session::OffsetsRequest;

std::optional<FileOffset> as_offset(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() == 2) return std::nullopt;
  return FileOffset{value};
}

std::string as_text(const OffsetsAnswer& answer, bool with_addresses) {
  std::string text;
  for (const OffsetRow& row : answer.rows) {
    fmt::format_to(std::back_inserter(text), "offset: {:x} : ", row.offset.value);
    if (with_addresses) {
      text += row.address ? fmt::format("address: {:x} : ", row.address->value) : "address: not mapped : ";
    }
    text += row.name;
    text += row.differs_in_memory ? "  [differs in memory]\n" : "\n";
  }
  return text;
}

std::string as_json(const OffsetsAnswer& answer) {
  Json json;
  json["image"] = answer.image;
  json["functions"] = Json::array();
  for (const OffsetRow& row : answer.rows) {
    Json function = {{"offset", row.offset.value}, {"size", row.size}, {"name", row.name}};
    if (!row.symbol.empty()) function["symbol"] = row.symbol;
    if (row.address) function["address"] = row.address->value;
    if (row.differs_in_memory) function["differs_in_memory"] = true;
    json["functions"].push_back(std::move(function));
  }
  json["notes"] = answer.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string as_text(FileOffset offset, const OffsetPlace& place) {
  std::string text =
      fmt::format("offset: {:x} : {}", offset.value, place.function.empty() ? "?" : place.function);
  if (place.delta) text += fmt::format("+0x{:x}", place.delta);
  if (!place.source.empty()) text += "  " + place.source;
  return text + "\n";
}

std::string as_json(FileOffset offset, const OffsetPlace& place) {
  Json json;
  json["offset"] = offset.value;
  json["function"] = place.function.empty() ? Json() : Json(place.function);
  json["delta"] = place.delta;
  json["instruction_start"] = place.is_known ? Json(place.trouble.empty()) : Json();
  if (!place.trouble.empty()) json["trouble"] = place.trouble;
  if (!place.source.empty()) json["source"] = place.source;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int explain(const OffsetsRequest& request, FileOffset offset, bool wants_json) {
  auto place = session::explain_offset(request, offset);
  if (!place) return report(place.error());
  if (wants_json) return write_output(as_json(offset, *place));
  const int code = place->function.empty() ? 0 : write_output(as_text(offset, *place));
  if (!place->trouble.empty()) report(Error(place->trouble));
  // A place where no probe may sit is a failure, so that scripts can ask.
  return code != 0 || !place->trouble.empty() ? 1 : 0;
}

int usage_error(std::string_view sentence) {
  std::fprintf(stderr, "uscope offsets: %.*s; see uscope offsets --help\n", int(sentence.size()),
               sentence.data());
  return 2;
}

int list(const OffsetsRequest& request, bool wants_json) {
  auto answer = session::explore_offsets(request);
  if (!answer) return report(answer.error());
  for (const auto& problem : answer->notes) warn(problem);
  return write_output(wants_json ? as_json(*answer) : as_text(*answer, request.with_addresses));
}

}  // namespace

int offsets_command(std::span<const char* const> arguments) {
  CLI::App app(
      "Shows where each function lies in its file: the offset that the kernel's uprobes, perf probe and bcc\n"
      "take. For ELF files and for .NET assemblies with native code (ReadyToRun, crossgen). With 0xOFFSET, "
      "the\n"
      "other way round: the function there, and whether an instruction begins at it.",
      "uscope offsets");
  app.footer(
      "Examples:\n"
      "  uscope offsets 112 app.dll                  every method of an assembly that process "
      "112 has mapped\n"
      "  uscope offsets app.dll '*Provider::*'       of a file, by pattern\n"
      "  uscope offsets --addresses 112 libc.so.6 'malloc'\n"
      "  uscope offsets ./server 0x1900              what is at that offset\n");
  OffsetsRequest request;
  std::vector<std::string> words;
  bool wants_json = false;
  app.add_option("FILE|PID", words,
                 "FILE [GLOB|0xOFFSET], or PID IMAGE [GLOB]: a process id and a file it has mapped")
      ->required()
      ->expected(1, 3);
  app.add_flag("--addresses", request.with_addresses, "Also the address in the process");
  app.add_option("--map", request.map_file, "Take the names from this crossgen map");
  app.add_flag("--json", wants_json, "The same as JSON");
  if (auto code = parse_arguments(app, arguments)) return *code;

  const bool is_process = session::is_pid(words[0]);
  if (is_process && words.size() < 2)
    return usage_error("name a file that the process has mapped: PID IMAGE");
  if (!is_process && words.size() > 2) return usage_error("one FILE and one pattern at most");
  if (!is_process && request.with_addresses) return usage_error("--addresses wants a process: PID IMAGE");
  auto target = session::find_target(words[0]);
  if (!target) return report(target.error());
  request.target = std::move(*target);
  if (is_process) request.image = words[1];
  if (words.size() > (is_process ? 2u : 1u)) request.pattern = words.back();
  if (auto offset = as_offset(request.pattern); offset && !is_process)
    return explain(request, *offset, wants_json);
  return list(request, wants_json);
}

}  // namespace uscope::cli
