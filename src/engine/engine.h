// What an engine does for a session: take a compiled program, attach its code to sites, hand over what the
// code reports, and leave no trace. One interface, two engines (kernel/ and inproc/), which never include
// each other. An Engine is used from one thread. Its destructor detaches everything, whatever happened
// before.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "codegen/program.h"

namespace uscope::engine {

// One instruction in a file.
struct Site {
  FileOffset offset;
  uint64_t cookie = 0;                  // what the code learns of the site (bpf_get_attach_cookie)
  std::optional<FileOffset> semaphore;  // USDT: counted up while attached
  // On a conditional jump: runs only where it will be taken, by x86's number of the condition. For the
  // in-process engine only; the kernel's code sees the flags itself.
  std::optional<uint8_t> only_if = std::nullopt;
  // Of a return probe: all sites of the same cookie that say so, or none of them.
  bool needs_all = false;
};

struct Attachment {
  uint32_t code = 0;  // index into Program::codes

  enum class Kind { UserProbe, UserReturn, Interval, Profile, Software, Hardware, Tracepoint, Watchpoint };
  Kind kind = Kind::UserProbe;
  // UserProbe, UserReturn (the kernel's return trick; exits are UserProbes):
  std::string file;  // as opened by uscope
  std::vector<Site> sites;
  // All but Interval. Nothing: every process, present and future (that maps the file).
  std::optional<pid_t> pid;
  // Interval, Profile: nanoseconds. Software, Hardware: one event in `period`.
  uint64_t period = 0;
  uint64_t perf_event = 0;  // PERF_COUNT_SW_* or PERF_COUNT_HW_*
  // Watchpoint: `length` bytes at an address of the process, and HW_BREAKPOINT_* bits.
  uint64_t watched_address = 0;
  uint32_t watched_length = 0, watched_accesses = 0;
  std::string tracepoint;  // category/name
};

struct AttachFailure {
  size_t attachment = 0;
  size_t site = 0;
  Error error;
};

struct AttachReport {
  size_t attached_sites = 0;
  std::vector<AttachFailure> failures;
  std::vector<std::string> remarks;        // how it went, for who wants to know more; one sentence each
  std::vector<std::string> awaited_files;  // not in the process yet; their sites count as attached
};

// What became of a value read from a map: one copy for each CPU (or thread), or one.
struct MapEntry {
  std::vector<uint8_t> key;
  std::vector<std::vector<uint8_t>> values;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Before load(): what attach() will be given. An engine may prepare for it.
  virtual void expect(const std::vector<Attachment>&) {}
  // Makes the maps and loads the code. The Error of a refused program carries the verifier's last words.
  virtual Status load(const codegen::Program& program) = 0;
  // After load(): what attach() would refuse of what it is expected to get, as far as it can be known now.
  virtual Result<std::vector<AttachFailure>> foresee() { return std::vector<AttachFailure>(); }
  // All sites of an attachment in as few steps as the engine can. Sites that fail are reported, the rest
  // attach.
  virtual Result<AttachReport> attach(const std::vector<Attachment>& attachments) = 0;
  // Runs a RunOnce or Timer code now, on this thread.
  virtual Status run(uint32_t code) = 0;
  // What run() of a code that does nothing takes, in nanoseconds.
  virtual Result<uint64_t> cost_of_run() = 0;

  // Hands over the records that have come, in order, waiting at most `timeout` for the first. Returns how
  // many.
  virtual Result<size_t> poll(std::chrono::milliseconds timeout,
                              const std::function<void(Bytes)>& on_record) = 0;
  // From now on, poll() also comes back when this can be read: a signal, the end of a process. The caller
  // keeps it open.
  virtual Status wake_on(const Fd& source) = 0;
  // Of an engine that works inside a process: called when that has mapped or unmapped libraries, before it
  // goes on. Within poll().
  virtual void when_libraries_change(std::function<void()>) {}
  // No timer runs any more: the script is ending. May be called from within poll's on_record.
  virtual void stop_timers() {}
  // What has happened to the traced process since last asked for, a sentence each: for the user.
  virtual std::vector<std::string> take_news() { return {}; }
  // Whether processes that the traced one has forked are traced too and still run.
  virtual bool has_followed_children() { return false; }
  // Records that found no room, since the start.
  virtual uint64_t lost() = 0;

  virtual Status for_each_entry(uint32_t map, const std::function<void(const MapEntry&)>& visit) = 0;
  virtual Result<std::optional<MapEntry>> find_entry(uint32_t map, Bytes key) = 0;
  // The same value on every CPU.
  virtual Status set_entry(uint32_t map, Bytes key, Bytes value) = 0;
  // Elements of an Array map from index `first` on, as many as `values` holds.
  virtual Status set_elements(uint32_t, uint32_t, Bytes) {
    return fail("this engine does not fill arrays yet");
  }
  virtual Status remove_entry(uint32_t map, Bytes key) = 0;
  virtual Status clear(uint32_t map) = 0;

  // Takes every probe out; records that came until then can still be polled. Idempotent.
  virtual void detach() = 0;
};

}  // namespace uscope::engine
