// The parts of `uscope doctor`, one function a section. Not for use outside session/doctor*.
#pragma once

#include <cstdint>

#include "session/doctor.h"

namespace uscope::session {

// What the checks of several sections depend on.
struct Rights {
  uint64_t capabilities = 0;  // the effective set
  bool in_user_namespace = false;
  bool is_root = false;
  bool in_container = false;
  bool under_seccomp = false;
  bool has_proc = false;

  bool has(unsigned capability) const { return capabilities >> capability & 1; }
};
Rights read_rights();

Section check_kernel(const Rights& rights);
Section check_rights(const Rights& rights);
Section check_machine();
Section check_inproc(const Rights& rights);
Section check_target(const process::ProcessInfo& target, const Rights& rights);

// The report with both engines judged by its findings.
DoctorReport with_verdicts(DoctorReport report);

// How to get a right that we lack: as root, by sudo, or by another container.
std::string how_to_get(std::string_view capabilities, const Rights& rights);

// The running kernel is at least this one.
bool kernel_is_at_least(unsigned major, unsigned minor);

// The value of a one-line file of /proc or /sys, without its newline; empty when it cannot be read.
std::string one_line(const std::string& path);

}  // namespace uscope::session
