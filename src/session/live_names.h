// Names for what a running script shows: functions at addresses of live processes, users, times. Implements
// event's SymbolNames. Looks at the maps of a process once in each batch of records: what is mapped changes.
// Keeps the last ones and the images it met, so that processes that end meanwhile still have names for what
// was looked up before; for those never looked at while they lived, PastMappings knows. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "event/symbol_names.h"
#include "process/maps.h"
#include "session/jit_names.h"
#include "session/kernel_symbols.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

// A path below /proc/PID/root ends with the process: where our own file system has the same file by the same
// name, that is taken, and `root` is empty.
void leave_process(std::string& path, std::string& root);

// A file may be written anew in place, as cp and linkers do: its bytes are others then, and its length.
struct FileVersion {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t written_seconds = 0, written_nanoseconds = 0;

  bool is_same_file(const FileVersion& other) const { return device == other.device && inode == other.inode; }
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};
std::optional<FileVersion> version_of(const std::string& path);
// False also where nobody can tell any more.
bool is_written_anew(const std::string& path, const std::optional<FileVersion>& since);

// What was mapped at an address of a process when a probe looked.
struct PastMapping {
  const symbols::ImageSymbols* image = nullptr;
  std::string path;
  FileOffset offset;  // of the address
};

class PastMappings {
 public:
  virtual ~PastMappings() = default;
  virtual void begin_batch() {}
  virtual std::optional<PastMapping> find(uint32_t process, uint64_t address) = 0;
};

struct NameOptions {
  std::vector<std::string> debug_folders;
  bool inlined = true;      // calls that the compiler inlined are frames
  bool lines = false;       // name+offset@file:line
  bool stack_ends = true;   // say why a stack ends early
  bool parameters = false;  // after every C++ name, not only where it would be ambiguous
};

class LiveNames final : public event::SymbolNames {
 public:
  std::vector<event::Frame> user_frames(uint32_t pid, uint64_t address, bool is_return_address) override;
  std::vector<event::Frame> kernel_frames(uint64_t address) override;
  std::optional<event::ImagePlace> image_place(uint32_t pid, uint64_t address) override;
  bool is_user_code(uint32_t pid, uint64_t address) override;
  bool shows_stack_ends() override { return options_.stack_ends; }
  std::optional<std::string> probe_function(uint32_t probe) override;
  // The functions of the script's probes, by their numbers; empty where a probe is on none. Asked for once,
  // if any is shown: there may be very many.
  void set_probe_functions(std::function<std::vector<std::string>()> find) {
    find_probe_functions_ = std::move(find);
    probe_functions_.reset();
  }
  void set_options(const NameOptions& options) { options_ = options; }
  const NameOptions& options() const { return options_; }
  // Records follow: what was seen of processes before may not hold any more.
  void begin_batch() {
    ++batch_;
    if (past_ != nullptr) past_->begin_batch();
  }
  // Asked where a process is gone. Null: nobody knows.
  void set_past_mappings(PastMappings* past) { past_ = past; }
  std::optional<std::string> user_name(uint64_t uid) override;
  std::optional<std::string> cgroup_path(uint64_t id, const std::string& hierarchies) override;
  int64_t boot_to_wall_ns() override;
  // Times are the script's own (tseries with a map for a clock): shown as they are.
  void set_clock_offset(int64_t boot_to_wall_ns) { clock_offset_ = boot_to_wall_ns; }

 private:
  // An address in an image.
  struct Spot {
    const symbols::ImageSymbols* image = nullptr;
    std::string path;
    ImageAddr address;
  };

  // A process as it was at the last look.
  struct Process {
    process::Maps maps;
    uint64_t batch = 0;  // of the last look
    std::chrono::steady_clock::time_point next_look;
    bool is_gone = false;  // at the last look; the maps are older
  };

  void look_at(uint32_t pid, Process& process) const;
  const process::Mapping* mapping_of(uint32_t pid, uint64_t address);
  struct Image {
    std::unique_ptr<symbols::ImageSymbols> symbols;  // null: no image
    std::string path;
    std::optional<FileVersion> version;
    uint64_t batch = 0;  // in which it was looked at last
  };

  const symbols::ImageSymbols* image_of(uint32_t pid, const process::Mapping& mapping);
  const symbols::ImageSymbols* vdso();
  const std::string& name_of(const symbols::ImageSymbols& image, const symbols::FunctionSymbol& function);
  std::optional<Spot> spot_of(uint32_t pid, uint64_t address);
  std::optional<Spot> past_spot(uint32_t pid, uint64_t address);
  void set_line(const Spot& spot, ImageAddr inside, bool has_inlined, event::Frame& frame) const;
  void add_inlined(const Spot& spot, ImageAddr inside, std::vector<event::Frame>& frames) const;

  NameOptions options_;
  PastMappings* past_ = nullptr;
  std::function<std::vector<std::string>()> find_probe_functions_;
  std::optional<std::vector<std::string>> probe_functions_;
  KernelSymbols kernel_symbols_;
  std::optional<int64_t> clock_offset_;
  std::map<std::pair<uint64_t, std::string>, std::optional<std::string>> cgroup_paths_;
  uint64_t batch_ = 0;
  std::unordered_map<uint32_t, Process> processes_;
  std::map<std::pair<dev_t, ino_t>, Image> images_;
  // Written anew since. function_names_ goes by the addresses of what is in them.
  std::vector<std::unique_ptr<symbols::ImageSymbols>> old_images_;
  std::optional<std::unique_ptr<symbols::ImageSymbols>> vdso_;
  std::unordered_map<const symbols::FunctionSymbol*, std::string> function_names_;
  JitNames jit_names_;
};

}  // namespace uscope::session
