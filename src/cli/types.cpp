#include "cli/types.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>

#include "cli/output.h"
#include "session/explore_types.h"
#include "symbols/type_print.h"

namespace uscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using symbols::LayoutItem;
using symbols::TypeLayout;

std::string list_as_text(const session::TypesAnswer& answer) {
  std::string text;
  for (const auto& type : answer.listed) {
    fmt::format_to(std::back_inserter(text), "{:<9} {:>8}  {}\n", type.kind, type.size, type.name);
  }
  return text;
}

std::string definitions_as_text(const session::TypesAnswer& answer, bool with_offsets) {
  std::string text;
  for (const TypeLayout& layout : answer.definitions) {
    if (!text.empty()) text += '\n';
    text += symbols::print_type(layout, with_offsets);
  }
  return text;
}

const char* kind_word(LayoutItem::Kind kind) {
  using Kind = LayoutItem::Kind;
  switch (kind) {
    case Kind::Member:
      return "member";
    case Kind::Bitfield:
      return "bitfield";
    case Kind::Base:
      return "base";
    case Kind::VirtualBase:
      return "virtual base";
    case Kind::VtablePointer:
      return "vtable pointer";
    case Kind::Static:
      return "static";
    case Kind::Hole:
      return "hole";
    case Kind::Padding:
      return "padding";
    case Kind::VirtualArea:
      return "virtual area";
    case Kind::Discriminant:
      return "discriminant";
    case Kind::Variant:
      return "variant";
    case Kind::Enumerator:
      return "enumerator";
    case Kind::Cut:
      return "cut";
  }
  return "";
}

Json as_json(const LayoutItem& item) {
  Json json;
  json["kind"] = kind_word(item.kind);
  if (!item.name.empty()) json["name"] = item.name;
  if (!item.type.empty()) json["type"] = item.type;
  if (item.value) json["value"] = *item.value;
  if (item.bit_offset) {
    json["offset"] = *item.bit_offset / 8;
    if (item.kind == LayoutItem::Kind::Bitfield || *item.bit_offset % 8) json["bit"] = *item.bit_offset % 8;
  }
  if (item.kind == LayoutItem::Kind::Bitfield || item.bit_size % 8) {
    json["bits"] = item.bit_size;
  } else if (item.bit_offset) {
    json["size"] = item.bit_size / 8;
  }
  if (!item.note.empty()) json["note"] = item.note;
  if (item.is_expanded) {
    json["members"] = Json::array();
    for (const auto& inner : item.items) json["members"].push_back(as_json(inner));
  }
  return json;
}

Json as_json(const TypeLayout& layout) {
  Json json;
  json["name"] = layout.name;
  if (!layout.keyword.empty()) json["kind"] = layout.keyword;
  if (!layout.alias_of.empty()) json["alias_of"] = layout.alias_of;
  if (!layout.underlying.empty()) json["underlying"] = layout.underlying;
  if (layout.is_incomplete) json["incomplete"] = true;
  json["size"] = layout.size;
  json["align"] = layout.alignment;
  json["holes"] = layout.holes;
  json["hole_bits"] = layout.hole_bits;
  json["padding_bits"] = layout.padding_bits;
  if (!layout.decl_file.empty()) json["file"] = layout.decl_file;
  if (layout.decl_line) json["line"] = layout.decl_line;
  json["members"] = Json::array();
  for (const auto& item : layout.items) json["members"].push_back(as_json(item));
  return json;
}

std::string answer_as_json(const session::TypesAnswer& answer, bool is_list) {
  Json json = Json::array();
  if (is_list) {
    for (const auto& type : answer.listed)
      json.push_back({{"kind", type.kind}, {"size", type.size}, {"name", type.name}});
  } else {
    for (const TypeLayout& layout : answer.definitions) json.push_back(as_json(layout));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int types_command(std::span<const char* const> arguments) {
  CLI::App app(
      "Shows a program's types as its debug info has them: the list of them, or definitions with offsets,\n"
      "sizes, holes, base classes and variants, written as C, C++, Rust or Go would.",
      "uscope types");
  app.footer(
      "Examples:\n"
      "  uscope types ./server                  every named type: kind, size, name\n"
      "  uscope types ./server conn             one definition\n"
      "  uscope types ./server 'http::*'        every definition that matches\n"
      "  uscope types --depth 2 1234 conn       with its members' types, of process 1234's program\n");
  std::string target_argument;
  session::TypesRequest request;
  bool as_json_text = false;
  bool no_offsets = false;
  app.add_option("FILE|PID", target_argument, "A file, a program on the PATH, or a process id")->required();
  app.add_option("NAME|GLOB", request.pattern, "Type's name, qualified or not, or a pattern");
  app.add_option("--depth", request.depth, "Write out the types of members, that many levels deep")
      ->check(CLI::Range(0, 32));
  app.add_flag("--no-offsets", no_offsets, "Definitions only, without offsets and sizes");
  app.add_flag("--json", as_json_text, "The same as JSON");
  if (auto code = parse_arguments(app, arguments)) return *code;

  auto target = session::find_target(target_argument);
  if (!target) return report(target.error());
  request.target = std::move(*target);
  auto answer = session::explore_types(request);
  if (!answer) return report(answer.error());
  for (const auto& problem : answer->problems) warn(problem);
  const bool is_list = request.pattern.empty();
  if (as_json_text) return write_output(answer_as_json(*answer, is_list));
  return write_output(is_list ? list_as_text(*answer) : definitions_as_text(*answer, !no_offsets));
}

}  // namespace uscope::cli
