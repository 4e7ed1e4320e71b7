// Which members of a struct a script reaches by which names: its own, and those of anonymous structs, base
// classes and embedded structs as if they were its own, as far as C++ and Go let them. Add all, then
// settle().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lang/types.h"

namespace uscope::session {

enum class PartKind { Anonymous, Base, Embedded };

class ReachedMembers {
 public:
  // The struct's own, in the order of the debug info.
  void add(lang::TypeField field);
  // A name that hides those of bases and has no place in the struct: of a static member.
  void hide(const std::string& name);
  // All that a settled part reaches, which lies at `offset`.
  void add_part(const ReachedMembers& part, PartKind kind, const std::string& name, uint64_t offset);
  // Members that others hide get the name of their part before their own.
  void settle();

  void fill(lang::StructLayout& layout) const;

 private:
  struct Member {
    lang::TypeField field;
    std::string prefix;
    int depth = 0;  // in bases inside each other
    int rank = 0;   // the smallest of a name is what it stands for
  };
  // A name that stands for several.
  struct Unclear {
    std::string members;
    int depth = 0, rank = 0;
  };
  void note_unclear(const std::string& name, const std::string& members, int depth);

  std::vector<Member> members_;
  std::vector<std::string> hidden_;
  std::vector<std::pair<std::string, Unclear>> unclear_parts_;
  std::map<std::string, Unclear> unclear_;
};

}  // namespace uscope::session
