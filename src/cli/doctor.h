// `uscope doctor [--json] [PID]`: prints what session/doctor found.
#pragma once

#include <span>
#include <string>

#include "session/doctor.h"

namespace uscope::cli {

// The arguments behind the word `doctor`. Exit code 0 when at least one engine works, 1 when none does, 2 for
// a wrong command line or a process that is not there.
int doctor_command(std::span<const char* const> args);

std::string doctor_text(const session::DoctorReport& report, bool colour);
std::string doctor_json(const session::DoctorReport& report);

}  // namespace uscope::cli
