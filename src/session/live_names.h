// Names for what a running script shows: functions at addresses of live processes, users, times. Implements
// event's SymbolNames. Keeps the maps of each process and the images it met, so that processes that end
// meanwhile still have names for what was looked up before. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "event/symbol_names.h"
#include "process/maps.h"
#include "symbols/image_symbols.h"

namespace uscope::session {

class LiveNames final : public event::SymbolNames {
 public:
  std::vector<event::Frame> user_frames(uint32_t pid, uint64_t address, bool is_return_address) override;
  std::vector<event::Frame> kernel_frames(uint64_t address) override;
  bool is_user_code(uint32_t pid, uint64_t address) override;
  std::optional<std::string> probe_function(uint32_t probe) override;
  // The functions of the script's probes, by their numbers; empty where a probe is on none.
  void set_probe_functions(std::vector<std::string> functions) { probe_functions_ = std::move(functions); }
  std::optional<std::string> user_name(uint64_t uid) override;
  std::optional<std::string> cgroup_path(uint64_t id) override;
  int64_t boot_to_wall_ns() override;

 private:
  const process::Mapping* mapping_of(uint32_t pid, uint64_t address);
  const symbols::ImageSymbols* image_of(uint32_t pid, const process::Mapping& mapping);

  std::vector<std::string> probe_functions_;
  std::unordered_map<uint32_t, process::Maps> maps_;
  std::map<std::pair<dev_t, ino_t>, std::unique_ptr<symbols::ImageSymbols>> images_;
};

}  // namespace uscope::session
