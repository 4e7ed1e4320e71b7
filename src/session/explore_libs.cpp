#include "session/explore_libs.h"

#include <cstdlib>

#include "image/elf/elf_file.h"
#include "symbols/library_search.h"

namespace uscope::session {
namespace {

std::vector<LibraryFacts> loadable_libraries(const image::ElfFile& file, const Target& target) {
  symbols::LibrarySearch search;
  search.root = target.root;
  // Ours is not the environment of a program in another root.
  if (const char* folders = std::getenv("LD_LIBRARY_PATH"); folders && target.root.empty())
    search.library_path = folders;
  search.image_path = target.shown;
  std::vector<LibraryFacts> out;
  for (auto& found : symbols::find_libraries(file, search)) {
    LibraryFacts facts;
    facts.name = std::move(found.name);
    facts.path = std::move(found.path);
    if (found.real_path != facts.path) facts.real_path = std::move(found.real_path);
    facts.found_by = std::move(found.found_by);
    facts.needed_by = std::move(found.needed_by);
    facts.hint = std::move(found.hint);
    out.push_back(std::move(facts));
  }
  return out;
}

}  // namespace

Result<LibsAnswer> explore_libs(const Target& target) {
  LibsAnswer answer;
  answer.pid = target.pid;
  TRY(answer.program, image_facts(target.path, target.shown, target.root));
  if (target.pid) {
    TRY(answer.libraries, mapped_libraries(*target.pid));
    return answer;
  }
  TRY(const image::ElfFile file, image::ElfFile::open(target.path));
  answer.problems = file.problems();
  answer.libraries = loadable_libraries(file, target);
  return answer;
}

}  // namespace uscope::session
