// What of uscope works on this machine, as this user, and what would make the rest work. Facts are found by
// trying wherever trying is harmless (loading a two-instruction program, probing a function of uscope's own,
// stopping a child of its own), because configuration alone says little inside containers. Plain data comes
// out; cli prints it. Changes nothing on the machine, needs no rights, and bears a missing /proc or /sys.
#pragma once

#include <string>
#include <vector>

#include "process/info.h"

namespace uscope::session {

enum class Answer { Ok, No, Unknown };

struct Finding {
  std::string key;   // stable, for programs: "tracefs"
  std::string item;  // for people: "tracefs"
  Answer answer = Answer::Unknown;
  std::string value;   // what was found: "/sys/kernel/tracing"
  std::string why;     // what it means or why it is so; may be empty
  std::string remedy;  // what would change it: "run: ...", "start the container with ..."; may be empty
};

struct Section {
  std::string title;
  std::vector<Finding> findings;

  const Finding* find(std::string_view key) const;
};

enum class Readiness { Ready, Limited, No };
struct EngineVerdict {
  Readiness readiness = Readiness::No;
  std::string why;     // what is missing or limited; empty when ready
  std::string remedy;  // what would help; may be empty
};

struct DoctorReport {
  std::vector<Section> sections;
  EngineVerdict kernel_engine;
  EngineVerdict inproc_engine;

  const Finding* find(std::string_view key) const;
  bool any_engine_works() const {
    return kernel_engine.readiness != Readiness::No || inproc_engine.readiness != Readiness::No;
  }
};

// Must be called while the process has one thread only: it forks.
DoctorReport examine_machine();
// The same, with what concerns one process; the in-process engine's verdict is then about that process.
DoctorReport examine_process(const process::ProcessInfo& target);

}  // namespace uscope::session
