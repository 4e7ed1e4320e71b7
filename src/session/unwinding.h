// Keeps the unwinder inside a script's probes supplied with tables: of the files that its probes are in and
// the libraries those need, of what a target has mapped, and of every other file once a stack has led through
// it. Also knows which mapping an address of a process belonged to when a stack went through it, which
// outlasts the process. One thread; used beside one engine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/generate.h"
#include "engine/engine.h"
#include "image/unwind/unwind_table.h"
#include "session/live_names.h"

namespace uscope::session {

class Unwinding final : public PastMappings {
 public:
  // `names` asks this for processes that are gone, for as long as it lives.
  explicit Unwinding(LiveNames& names) : names_(names) { names_.set_past_mappings(this); }
  ~Unwinding() override { names_.set_past_mappings(nullptr); }
  Unwinding(const Unwinding&) = delete;

  // The images that stacks will lead through, as far as they are known beforehand. Opened by these paths.
  void add_program(const std::string& path);  // with the libraries it needs
  void add_process(pid_t pid);                // with what it has mapped

  // Of an engine that unwinds by itself, inside this process: its list of code is kept in step with what the
  // process has mapped. To be called instead of the above.
  void follow(pid_t pid) { followed_ = inside_ = pid; }

  // Of a process whose stacks nobody asks for: what it has mapped, to name addresses when it is gone.
  void remember(pid_t pid);

  // Makes the compiled program's maps large enough for the images so far, and some to come.
  void size_maps(codegen::Compiled& compiled);
  // Fills them, once the program is loaded.
  Status fill(engine::Engine& engine);

  // A record that a stack led through a file without tables: reads them. False: it is another record.
  bool take(engine::Engine& engine, Bytes record);

  // Every quarter of a second: looks whether the followed process has mapped other code.
  void keep_up(engine::Engine& engine);
  bool is_following() const { return followed_ && maps_; }

  void begin_batch() override { ++batch_; }
  // Asks the engine: for processes that are gone.
  std::optional<PastMapping> find(uint32_t process, uint64_t address) override;

 private:
  struct Image {
    std::string path, root;
    codegen::ImageKey key;
    codegen::ImageEntry entry;
    std::unique_ptr<symbols::ImageSymbols> symbols;  // once names were asked for
    bool is_opened = false;
    std::optional<FileVersion> version = version_of(path);
    uint64_t batch = 0;  // in which it was looked at last
    bool is_written_anew = false;
  };

  void add_file(const std::string& path, const std::string& root, std::optional<codegen::ImageKey> key = {});
  // The image's table, appended to rows_ and rules_; the entry says where.
  codegen::ImageEntry read_tables(const std::string& path, const std::string& root);
  void open(Image& image);
  Status send_tables(engine::Engine& engine, const Image& image);
  const codegen::MappingEntry* past_at(uint64_t process, uint64_t address) const;
  void read_past();
  // unwinding_in_process.cpp
  void add_code_of_process();
  Status list_code(engine::Engine& engine);
  Status write_state(engine::Engine& engine);
  void answer(engine::Engine& engine);
  const codegen::MappingEntry* inherited(uint64_t address) const;
  void clear_past(pid_t pid, const process::Mapping& mapping);
  Status add_to_engine(engine::Engine& engine, const Image& image);

  LiveNames& names_;
  std::vector<Image> images_;
  std::set<codegen::ImageKey> known_;
  std::set<std::string> programs_;
  std::vector<codegen::RowEntry> rows_;
  std::vector<codegen::RuleEntry> rules_;
  uint32_t sent_rows_ = 0, sent_rules_ = 0;  // what the engine has of them
  uint32_t row_room_ = 0, rule_room_ = 0;
  std::optional<codegen::UnwindMaps> maps_;
  engine::Engine* engine_ = nullptr;
  std::map<std::pair<uint64_t, uint64_t>, codegen::MappingEntry> past_;  // by process and start
  uint64_t batch_ = 1, past_batch_ = 0;                                  // now, and when past_ was read

  std::optional<pid_t> followed_,
      inside_;                            // the process that the engine is inside of, whether followed or not
  std::vector<codegen::CodeRange> code_;  // as the engine has it
  codegen::UnwindState state_;
  std::vector<uint64_t> asked_;  // addresses that the engine met outside of it
  size_t answered_ = 0;
  std::chrono::steady_clock::time_point listed_;
};

// How the running kernel lays out its mappings; nothing if it does not say.
std::optional<codegen::VmaLayout> kernel_vma_layout();

}  // namespace uscope::session
