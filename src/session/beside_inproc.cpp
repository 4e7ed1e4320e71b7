#include "session/beside_inproc.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "engine/inproc/target/patched_files.h"

namespace uscope::session {
namespace {

using engine::AttachFailure;
using engine::Attachment;
using engine::Site;
using engine::inproc::PatchedFile;

bool is_user_probe(const Attachment& attachment) {
  return attachment.kind == Attachment::Kind::UserProbe || attachment.kind == Attachment::Kind::UserReturn;
}

Error meets(pid_t pid) {
  return Error(
      fmt::format("process {0} is traced by the in-process engine, which has patched the code there; a "
                  "breakpoint would make it crash (end that trace, or run `uscope detach {0}`)",
                  pid));
}

// Which processes get the breakpoints: one, or all.
std::vector<PatchedFile> patched_files(const std::vector<Attachment>& attachments, std::future<bool>& look) {
  std::set<std::optional<pid_t>> scopes;
  for (const Attachment& attachment : attachments)
    if (is_user_probe(attachment)) scopes.insert(attachment.pid);
  if (scopes.contains(std::nullopt)) {
    const bool is_at_work = look.valid() ? look.get() : engine::inproc::is_guardian_at_work();
    return is_at_work ? engine::inproc::find_patched_files(std::nullopt) : std::vector<PatchedFile>();
  }
  std::vector<PatchedFile> files;
  for (std::optional<pid_t> pid : scopes)
    std::ranges::move(engine::inproc::find_patched_files(pid), std::back_inserter(files));
  return files;
}

std::vector<AttachFailure> find_meetings(const std::vector<Attachment>& attachments,
                                         const std::vector<PatchedFile>& files) {
  std::vector<AttachFailure> failures;
  for (size_t a = 0; a < attachments.size(); ++a) {
    struct stat info {};
    if (!is_user_probe(attachments[a]) || ::stat(attachments[a].file.c_str(), &info) != 0) continue;
    for (size_t s = 0; s < attachments[a].sites.size(); ++s)
      for (const PatchedFile& file : files)
        if (file.inode == info.st_ino && file.device == info.st_dev &&
            file.covers(attachments[a].sites[s].offset)) {
          failures.push_back({a, s, meets(file.pid)});
          break;
        }
  }
  return failures;
}

// Of a return probe with an exit that is refused, none is taken.
void refuse_whole_returns(const std::vector<Attachment>& attachments, std::vector<AttachFailure>& failures) {
  std::map<uint64_t, Error> incomplete;  // by cookie
  std::set<std::pair<size_t, size_t>> known;
  for (const AttachFailure& failure : failures) {
    const Site& site = attachments[failure.attachment].sites[failure.site];
    known.insert({failure.attachment, failure.site});
    if (site.needs_all) incomplete.try_emplace(site.cookie, failure.error);
  }
  for (size_t a = 0; a < attachments.size() && !incomplete.empty(); ++a)
    for (size_t s = 0; s < attachments[a].sites.size(); ++s) {
      const Site& site = attachments[a].sites[s];
      auto found = incomplete.find(site.cookie);
      if (site.needs_all && found != incomplete.end() && !known.contains({a, s}))
        failures.push_back({a, s, found->second});
    }
}

}  // namespace

std::future<bool> look_for_inproc() {
  return std::async(std::launch::async, engine::inproc::is_guardian_at_work);
}

Result<engine::AttachReport> attach_beside_inproc(engine::Engine& engine,
                                                  const std::vector<Attachment>& attachments,
                                                  std::future<bool>& look) {
  if (std::ranges::none_of(attachments, is_user_probe)) return engine.attach(attachments);
  std::vector<AttachFailure> refused = find_meetings(attachments, patched_files(attachments, look));
  if (refused.empty()) return engine.attach(attachments);
  refuse_whole_returns(attachments, refused);
  std::set<std::pair<size_t, size_t>> without;
  for (const AttachFailure& failure : refused) without.insert({failure.attachment, failure.site});
  std::vector<Attachment> rest = attachments;
  std::vector<std::vector<size_t>> numbers(attachments.size());  // which of its sites an attachment still has
  for (size_t a = 0; a < attachments.size(); ++a) {
    rest[a].sites.clear();
    for (size_t s = 0; s < attachments[a].sites.size(); ++s) {
      if (without.contains({a, s})) continue;
      rest[a].sites.push_back(attachments[a].sites[s]);
      numbers[a].push_back(s);
    }
  }
  TRY(engine::AttachReport report, engine.attach(rest));
  for (AttachFailure& failure : report.failures)
    if (is_user_probe(rest[failure.attachment])) failure.site = numbers[failure.attachment][failure.site];
  std::ranges::move(refused, std::back_inserter(report.failures));
  return report;
}

}  // namespace uscope::session
