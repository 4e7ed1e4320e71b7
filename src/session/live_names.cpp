#include "session/live_names.h"

#include <pwd.h>
#include <time.h>

#include "process/info.h"
#include "symbols/lookup.h"

namespace uscope::session {

const process::Mapping* LiveNames::mapping_of(uint32_t pid, uint64_t address) {
  ProcessAddr at{address};
  auto known = maps_.find(pid);
  if (known != maps_.end())
    if (const process::Mapping* mapping = known->second.find(at)) return mapping;
  // Unknown, or mapped since: libraries are loaded while a script runs.
  auto fresh = process::Maps::of(pid_t(pid));
  if (!fresh) return nullptr;
  return maps_.insert_or_assign(pid, std::move(*fresh)).first->second.find(at);
}

const symbols::ImageSymbols* LiveNames::image_of(uint32_t pid, const process::Mapping& mapping) {
  if (mapping.kind != process::MappingKind::File) return nullptr;
  auto [at, is_new] = images_.try_emplace({mapping.device, mapping.inode});
  if (is_new) {
    auto path = process::path_to_mapped_file(pid_t(pid), mapping);
    auto image = path ? symbols::ImageSymbols::open(*path)
                      : Result<symbols::ImageSymbols>(std::unexpected(path.error()));
    if (image) at->second = std::make_unique<symbols::ImageSymbols>(std::move(*image));
  }
  return at->second.get();
}

std::vector<event::Frame> LiveNames::user_frames(uint32_t pid, uint64_t address, bool is_return_address) {
  const process::Mapping* mapping = mapping_of(pid, address);
  const symbols::ImageSymbols* image = mapping != nullptr ? image_of(pid, *mapping) : nullptr;
  if (image == nullptr) return {};
  auto at = image->image_address(mapping->file_offset(ProcessAddr{address}));
  if (!at) return {};
  // The call before a return address may be the last instruction of another function.
  ImageAddr inside = is_return_address && at->value > 0 ? *at - 1 : *at;
  const symbols::FunctionSymbol* function = image->function_at(inside);
  if (function == nullptr) return {};
  std::vector<event::Frame> frames;
  if (!image->debug_info().is_empty())
    for (const auto& inlined : image->debug_info().inlined_at(inside))
      frames.push_back({inlined.callee, 0, mapping->path, true});
  frames.push_back({symbols::bare_name(function->name), *at - function->address, mapping->path, false});
  return frames;
}

std::vector<event::Frame> LiveNames::kernel_frames(uint64_t) { return {}; }

bool LiveNames::is_user_code(uint32_t pid, uint64_t address) {
  const process::Mapping* mapping = mapping_of(pid, address);
  // A process that is gone cannot be asked: nothing is held against the address.
  if (mapping == nullptr) return !maps_.contains(pid);
  return mapping->perms.execute;
}

std::optional<std::string> LiveNames::probe_function(uint32_t probe) {
  if (probe >= probe_functions_.size() || probe_functions_[probe].empty()) return std::nullopt;
  return probe_functions_[probe];
}

std::optional<std::string> LiveNames::user_name(uint64_t uid) { return process::user_name(uid_t(uid)); }

std::optional<std::string> LiveNames::cgroup_path(uint64_t) { return std::nullopt; }

int64_t LiveNames::boot_to_wall_ns() {
  timespec wall{}, boot{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  return (wall.tv_sec - boot.tv_sec) * 1'000'000'000LL + (wall.tv_nsec - boot.tv_nsec);
}

}  // namespace uscope::session
