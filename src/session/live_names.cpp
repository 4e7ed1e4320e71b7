#include "session/live_names.h"

#include <pwd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "process/info.h"
#include "session/cgroups.h"
#include "symbols/lookup.h"
#include "symbols/overloads.h"

namespace uscope::session {
namespace {

using Clock = std::chrono::steady_clock;

// A process may have thousands of mappings: looking at them takes a tenth of the time at most, unless that
// would mean to wait long.
constexpr int kWorkForLook = 9;
constexpr Clock::duration kLookAgain = std::chrono::milliseconds(50);

}  // namespace

void leave_process(std::string& path, std::string& root) {
  if (root.empty() || !path.starts_with(root + "/")) return;
  std::string plain = path.substr(root.size());
  struct stat there {
  }, here{};
  if (::stat(path.c_str(), &there) != 0 || ::stat(plain.c_str(), &here) != 0) return;
  if (there.st_dev != here.st_dev || there.st_ino != here.st_ino) return;
  path = std::move(plain);
  root.clear();
}

std::optional<FileVersion> version_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileVersion{info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

bool is_written_anew(const std::string& path, const std::optional<FileVersion>& since) {
  auto now = version_of(path);
  return now && since && now->is_same_file(*since) && *now != *since;
}

void LiveNames::look_at(uint32_t pid, Process& process) const {
  const auto begin = Clock::now();
  process.batch = batch_;
  auto maps = process::Maps::of(pid_t(pid));
  process.is_gone = !maps || maps->all().empty();
  if (!process.is_gone) process.maps = std::move(*maps);
  const auto end = Clock::now();
  process.next_look = end + std::min<Clock::duration>(kWorkForLook * (end - begin), kLookAgain);
}

const process::Mapping* LiveNames::mapping_of(uint32_t pid, uint64_t address) {
  auto [at, is_new] = processes_.try_emplace(pid);
  Process& process = at->second;
  const bool looks = is_new || (process.batch != batch_ && Clock::now() >= process.next_look);
  if (looks) look_at(pid, process);
  const process::Mapping* found = process.maps.find(ProcessAddr{address});
  // Mapped since: libraries are loaded while a script runs.
  if (found == nullptr && !looks && !process.is_gone) {
    look_at(pid, process);
    found = process.maps.find(ProcessAddr{address});
  }
  return found;
}

const symbols::ImageSymbols* LiveNames::image_of(uint32_t pid, const process::Mapping& mapping) {
  if (mapping.path == "[vdso]") return vdso();
  if (mapping.kind != process::MappingKind::File) return nullptr;
  auto [at, is_new] = images_.try_emplace({mapping.device, mapping.inode});
  Image& image = at->second;
  const bool is_looked_at = std::exchange(image.batch, batch_) == batch_;
  if (!is_new && (is_looked_at || !is_written_anew(image.path, image.version))) return image.symbols.get();
  if (image.symbols) old_images_.push_back(std::move(image.symbols));
  std::string root = "/proc/" + std::to_string(pid) + "/root";
  auto path = process::path_to_mapped_file(pid_t(pid), mapping);
  if (!path) {
    // Gone before it could be opened: another process may map it, too.
    images_.erase(at);
    return nullptr;
  }
  leave_process(*path, root);
  image.path = *path;
  image.version = version_of(*path);
  auto opened = symbols::ImageSymbols::open(*path, root, options_.debug_folders);
  if (opened) image.symbols = std::make_unique<symbols::ImageSymbols>(std::move(*opened));
  return image.symbols.get();
}

// The kernel gives every process the same one: ours serves for all.
const symbols::ImageSymbols* LiveNames::vdso() {
  if (!vdso_) {
    vdso_.emplace();
    auto image = symbols::ImageSymbols::of_vdso();
    if (image) *vdso_ = std::make_unique<symbols::ImageSymbols>(std::move(*image));
  }
  return vdso_->get();
}

const std::string& LiveNames::name_of(const symbols::ImageSymbols& image,
                                      const symbols::FunctionSymbol& function) {
  auto [at, is_new] = function_names_.try_emplace(&function);
  if (is_new)
    at->second = options_.parameters ? symbols::display_name(function.name)
                                     : symbols::distinct_name(function.name, image.functions());
  return at->second;
}

std::optional<LiveNames::Spot> LiveNames::spot_of(uint32_t pid, uint64_t address) {
  const process::Mapping* mapping = mapping_of(pid, address);
  const bool is_gone = processes_.at(pid).is_gone;
  // What a stack has led through since we looked last is newer.
  if (is_gone)
    if (auto spot = past_spot(pid, address)) return spot;
  if (mapping != nullptr) {
    // The process may have gone between the two looks at it.
    if (const symbols::ImageSymbols* image = image_of(pid, *mapping)) {
      auto at = image->image_address(mapping->file_offset(ProcessAddr{address}));
      if (!at) return std::nullopt;
      return Spot{image, mapping->path, *at};
    }
    // Memory of its own; whichever file was there before is not.
    if (mapping->inode == 0) return std::nullopt;
  }
  return is_gone ? std::nullopt : past_spot(pid, address);
}

std::optional<LiveNames::Spot> LiveNames::past_spot(uint32_t pid, uint64_t address) {
  auto past = past_ != nullptr ? past_->find(pid, address) : std::nullopt;
  if (!past || past->image == nullptr) return std::nullopt;
  auto at = past->image->image_address(past->offset);
  if (!at) return std::nullopt;
  return Spot{past->image, past->path, *at};
}

void LiveNames::add_inlined(const Spot& spot, ImageAddr inside, std::vector<event::Frame>& frames) const {
  const symbols::ImageSymbols& image = *spot.image;
  if (const image::Pclntab* go = image.pclntab()) {
    auto found = go->frames_at(inside);
    for (size_t i = 0; i + 1 < found.size(); ++i) {
      event::Frame frame{std::string(found[i].function), 0, spot.path, true};
      if (options_.lines) frame.file = found[i].file, frame.line = found[i].line;
      frames.push_back(std::move(frame));
    }
    return;
  }
  if (image.debug_info().is_empty()) return;
  // Where the innermost stands now; each outer one where it calls the next.
  auto line = options_.lines ? image.debug_info().line_at(inside) : std::nullopt;
  for (const auto& inlined : image.debug_info().inlined_at(inside)) {
    event::Frame frame{inlined.callee, 0, spot.path, true};
    if (line) frame.file = line->file, frame.line = line->line;
    if (options_.lines) line = inlined.call_site;
    frames.push_back(std::move(frame));
  }
}

std::vector<event::Frame> LiveNames::user_frames(uint32_t pid, uint64_t address, bool is_return_address) {
  auto spot = spot_of(pid, address);
  if (!spot) {
    auto jit = jit_names_.find(pid, is_return_address ? address - 1 : address, batch_);
    if (!jit) return {};
    return {{jit->name, address - jit->start.value, "[jit]", false}};
  }
  // The call before a return address may be the last instruction of another function.
  ImageAddr inside = is_return_address && spot->address.value > 0 ? spot->address - 1 : spot->address;
  const symbols::FunctionSymbol* function = spot->image->function_at(inside);
  if (function == nullptr) function = spot->image->cold_part_at(inside);
  // What a signal handler returns to was never called: it begins here.
  if (function == nullptr) function = spot->image->function_at(spot->address);
  if (function == nullptr) return {};
  std::vector<event::Frame> frames;
  if (options_.inlined) add_inlined(*spot, inside, frames);
  event::Frame frame{name_of(*spot->image, *function), spot->address - function->address, spot->path, false};
  if (options_.lines) set_line(*spot, inside, !frames.empty(), frame);
  frames.push_back(std::move(frame));
  return frames;
}

// Of the function itself: where the outermost inlined call in it stands, or the instruction.
void LiveNames::set_line(const Spot& spot, ImageAddr inside, bool has_inlined, event::Frame& frame) const {
  if (const image::Pclntab* go = spot.image->pclntab()) {
    auto found = go->frames_at(inside);
    if (!found.empty()) frame.file = found.back().file, frame.line = found.back().line;
    return;
  }
  if (spot.image->debug_info().is_empty()) return;
  auto line = spot.image->debug_info().line_at(inside);
  if (has_inlined) {
    auto inlined = spot.image->debug_info().inlined_at(inside);
    if (!inlined.empty()) line = inlined.back().call_site;
  }
  if (line) frame.file = line->file, frame.line = line->line;
}

std::optional<event::ImagePlace> LiveNames::image_place(uint32_t pid, uint64_t address) {
  auto spot = spot_of(pid, address);
  if (!spot || !spot->image->is_elf()) return std::nullopt;
  Bytes id = spot->image->elf().build_id();
  auto offset = spot->image->file_offset(spot->address);
  if (id.empty() || !offset) return std::nullopt;
  return event::ImagePlace{image::to_hex(id), offset->value};
}

std::vector<event::Frame> LiveNames::kernel_frames(uint64_t address) {
  auto found = kernel_symbols_.at(address);
  if (!found) return {};
  return {{found->name, found->offset, found->module.empty() ? "kernel" : found->module, false}};
}

bool LiveNames::is_user_code(uint32_t pid, uint64_t address) {
  const process::Mapping* mapping = mapping_of(pid, address);
  if (mapping != nullptr) return mapping->perms.execute;
  // A process that is gone cannot be asked: nothing is held against the address.
  return processes_.at(pid).is_gone || (past_ != nullptr && past_->find(pid, address));
}

std::optional<std::string> LiveNames::probe_function(uint32_t probe) {
  if (!find_probe_functions_) return std::nullopt;
  if (!probe_functions_) probe_functions_ = find_probe_functions_();
  if (probe >= probe_functions_->size() || (*probe_functions_)[probe].empty()) return std::nullopt;
  return (*probe_functions_)[probe];
}

std::optional<std::string> LiveNames::user_name(uint64_t uid) { return process::user_name(uid_t(uid)); }

std::optional<std::string> LiveNames::cgroup_path(uint64_t id, const std::string& hierarchies) {
  auto [at, is_new] = cgroup_paths_.try_emplace({id, hierarchies});
  if (is_new) at->second = session::cgroup_path(id, hierarchies);
  return at->second;
}

int64_t LiveNames::boot_to_wall_ns() {
  if (clock_offset_) return *clock_offset_;
  timespec wall{}, boot{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  return (wall.tv_sec - boot.tv_sec) * 1'000'000'000LL + (wall.tv_nsec - boot.tv_nsec);
}

}  // namespace uscope::session
