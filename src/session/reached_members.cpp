#include "session/reached_members.h"

namespace uscope::session {
namespace {

// C++ lets a class hide what its bases have, and knows no nearest among two bases. Go takes the shallowest.
int rank_of(PartKind kind, int depth) { return kind == PartKind::Base ? 1 : depth; }

}  // namespace

void ReachedMembers::add(lang::TypeField field) { members_.push_back({std::move(field), "", 0, 0}); }

void ReachedMembers::hide(const std::string& name) { hidden_.push_back(name); }

void ReachedMembers::add_part(const ReachedMembers& part, PartKind kind, const std::string& name,
                              uint64_t offset) {
  bool is_own = kind == PartKind::Anonymous;
  std::string prefix = is_own ? "" : name + (kind == PartKind::Base ? "::" : ".");
  for (const Member& inner : part.members_) {
    int depth = inner.depth + (is_own ? 0 : 1);
    members_.push_back({inner.field, prefix, depth, rank_of(kind, depth)});
    members_.back().field.offset += offset;
  }
  for (const auto& [of, inner] : part.unclear_) {
    int depth = inner.depth + (is_own ? 0 : 1);
    unclear_parts_.push_back({of, {inner.members, depth, rank_of(kind, depth)}});
  }
}

void ReachedMembers::note_unclear(const std::string& name, const std::string& members, int depth) {
  Unclear& at = unclear_[name];
  if (!at.members.empty()) at.members += ", ";
  at.members += members;
  at.depth = depth;
}

void ReachedMembers::settle() {
  struct Nearest {
    int rank = INT32_MAX;
    int count = 0;
  };
  std::map<std::string, Nearest> nearest;
  auto count = [&](const std::string& name, int rank, int times) {
    Nearest& at = nearest[name];
    if (rank < at.rank) at = {rank, 0};
    if (rank == at.rank) at.count += times;
  };
  for (const std::string& name : hidden_) count(name, 0, 1);
  for (const Member& member : members_) count(member.field.name, member.rank, 1);
  for (const auto& [name, part] : unclear_parts_) count(name, part.rank, 2);
  for (Member& member : members_) {
    std::string name = member.field.name;
    const Nearest& best = nearest[name];
    bool is_meant = member.rank == best.rank && best.count == 1;
    if (member.rank == 0 || is_meant) continue;
    member.field.name = member.prefix + name;
    if (member.rank == best.rank) note_unclear(name, member.field.name, member.depth);
  }
  for (const auto& [name, part] : unclear_parts_)
    if (part.rank == nearest[name].rank) note_unclear(name, part.members, part.depth);
}

void ReachedMembers::fill(lang::StructLayout& layout) const {
  for (const Member& member : members_) layout.fields.push_back(member.field);
  for (const auto& [name, unclear] : unclear_) layout.unclear.emplace(name, unclear.members);
}

}  // namespace uscope::session
