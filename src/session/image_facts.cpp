// What one ELF file is, for explore_libs.
#include <algorithm>

#include "image/elf/debug_files.h"
#include "image/elf/elf_file.h"
#include "image/go/build_info.h"
#include "session/explore_libs.h"
#include "symbols/image_symbols.h"

namespace uscope::session {
namespace {

constexpr size_t most_producers = 8;

std::string_view language_name(image::Language language) {
  switch (language) {
    case image::Language::C:
      return "C";
    case image::Language::Cpp:
      return "C++";
    case image::Language::Rust:
      return "Rust";
    case image::Language::Go:
      return "Go";
    case image::Language::Assembly:
      return "assembly";
    default:
      return "";
  }
}

bool needs(const image::DynamicInfo& dynamic, std::string_view prefix) {
  return std::ranges::any_of(dynamic.needed, [&](std::string_view name) { return name.starts_with(prefix); });
}

void add_language(ImageFacts& facts, std::string_view name) {
  if (name.empty() || std::ranges::find(facts.languages, name) != facts.languages.end()) return;
  facts.languages.emplace_back(name);
}

}  // namespace

Result<ImageFacts> image_facts(const std::string& path, const std::string& shown, const std::string& root) {
  TRY(const symbols::ImageSymbols image, symbols::ImageSymbols::open(path, root));
  if (!image.is_elf())
    return fail(Error(shown + " is no ELF file").with_hint("`uscope offsets` reads .NET assemblies"));
  const image::ElfFile& file = image.elf();
  const image::DynamicInfo dynamic = file.dynamic();
  ImageFacts facts;
  facts.path = shown;
  facts.type =
      file.type() == image::ElfType::Executable ? "non-PIE executable" : image::to_string(file.type());
  facts.interpreter = file.interpreter();
  facts.is_dynamic = !facts.interpreter.empty() || !dynamic.needed.empty();
  facts.soname = dynamic.soname;
  facts.build_id = image::to_hex(file.build_id());
  const image::Section* table = file.find_section(".symtab");
  facts.is_stripped = !table || table->size == 0;
  facts.debug_info = image::describe(image.debug_files());

  add_language(facts, language_name(image.language()));
  for (const auto& producer : image.debug_info().producers()) {
    // Assembly is in everything that has a C library linked in.
    if (producer.language != image::Language::Assembly) add_language(facts, language_name(producer.language));
    if (facts.producers.size() < most_producers) facts.producers.push_back(producer.text);
  }
  for (std::string_view comment : file.comments()) {
    facts.compilers.emplace_back(comment);
    if (comment.starts_with("rustc ")) add_language(facts, "Rust");
  }
  if (const auto go = image::read_go_build_info(file)) {
    facts.compilers.insert(facts.compilers.begin(), go->version);
    facts.go_module = go->module.empty() ? go->path : go->module + " " + go->module_version;
  }
  if (needs(dynamic, "libstdc++.so") || needs(dynamic, "libc++.so")) add_language(facts, "C++");
  return facts;
}

}  // namespace uscope::session
