// What must be looked up to show a value: declared here, supplied by the session (from symbols, /proc and the
// clock), faked in tests. Called on the thread that writes output; may be slow once and should cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uscope::event {

struct Frame {
  std::string name;         // demangled, without parameters
  uint64_t offset = 0;      // of the address within it
  std::string module;       // the file it lives in
  bool is_inlined = false;  // shown without an offset, above the function that contains it
  std::string file;         // where it stands in the source; empty: not to be shown
  uint32_t line = 0;
};

// A place in an image, whichever process maps it.
struct ImagePlace {
  std::string build_id;  // in hexadecimal
  uint64_t offset = 0;   // in the file
};

class SymbolNames {
 public:
  virtual ~SymbolNames() = default;

  // The functions at an address of a process, innermost (inlined) first; empty when nothing is known.
  // `is_return_address`: the call before it is meant, not the instruction at it.
  virtual std::vector<Frame> user_frames(uint32_t pid, uint64_t address, bool is_return_address) = 0;
  virtual std::vector<Frame> kernel_frames(uint64_t address) = 0;
  // For stacks of build ids; nothing: the image has none, or is not known.
  virtual std::optional<ImagePlace> image_place(uint32_t, uint64_t) { return std::nullopt; }
  // Whether a stack that ends early says why.
  virtual bool shows_stack_ends() { return false; }
  // Whether code lies there, or did: a stack walked by frame pointers through code that keeps none leads
  // anywhere.
  virtual bool is_user_code(uint32_t, uint64_t) { return true; }
  // The function that a probe of the script is on, by the number that its code reports; nothing if it is on
  // none.
  virtual std::optional<std::string> probe_function(uint32_t) { return std::nullopt; }
  virtual std::optional<std::string> user_name(uint64_t uid) = 0;
  // "unified:/a,cpu:/b": where the cgroup lies in the hierarchies whose names the pattern takes (empty: all).
  virtual std::optional<std::string> cgroup_path(uint64_t id, const std::string& hierarchies) = 0;
  // Nanoseconds to add to a time since boot to get one since 1970.
  virtual int64_t boot_to_wall_ns() = 0;
};

// Knows no names: numbers are shown.
class NoNames final : public SymbolNames {
 public:
  std::vector<Frame> user_frames(uint32_t, uint64_t, bool) override { return {}; }
  std::vector<Frame> kernel_frames(uint64_t) override { return {}; }
  std::optional<std::string> user_name(uint64_t) override { return std::nullopt; }
  std::optional<std::string> cgroup_path(uint64_t, const std::string&) override { return std::nullopt; }
  int64_t boot_to_wall_ns() override { return 0; }
};

}  // namespace uscope::event
