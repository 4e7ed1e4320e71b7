#include "cli/doctor.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace uscope::cli {
namespace {

using session::Answer;
using session::DoctorReport;
using session::Readiness;

DoctorReport sample() {
  DoctorReport report;
  report.sections = {
      {"kernel",
       {{"kernel", "Linux", Answer::Ok, "6.18.0", "", ""},
        {"tracefs", "tracefs", Answer::No, "not mounted", "probes live there", "run: mount it"}}},
      {"rights", {{"user", "user", Answer::Unknown, "na\xffme", "", ""}}}};
  report.kernel_engine = {Readiness::No, "BPF: forbidden", "run: sudo uscope ..."};
  report.inproc_engine = {Readiness::Ready, "", ""};
  return report;
}

TEST(DoctorText, IsAlignedAndEndsInAVerdictPerEngine) {
  EXPECT_EQ(doctor_text(sample(), false),
            "kernel\n"
            "  ok  Linux    6.18.0\n"
            "  no  tracefs  not mounted — probes live there; run: mount it\n"
            "rights\n"
            "  ?   user     na\xffme\n"
            "\n"
            "kernel engine:     no: BPF: forbidden; run: sudo uscope ...\n"
            "in-process engine: ready\n");
}

TEST(DoctorText, ColoursOnlyWhenAsked) {
  EXPECT_EQ(doctor_text(sample(), false).find('\033'), std::string::npos);
  EXPECT_NE(doctor_text(sample(), true).find("\033[31mno "), std::string::npos);
}

TEST(DoctorJson, HasEveryFindingAndVerdict) {
  auto json = nlohmann::json::parse(doctor_json(sample()));
  EXPECT_EQ(json["findings"]["tracefs"]["answer"], "no");
  EXPECT_EQ(json["findings"]["tracefs"]["section"], "kernel");
  EXPECT_EQ(json["findings"]["tracefs"]["remedy"], "run: mount it");
  EXPECT_EQ(json["engines"]["kernel"]["readiness"], "no");
  EXPECT_EQ(json["engines"]["inproc"]["readiness"], "ready");
}

TEST(DoctorCommand, RefusesWhatItDoesNotKnow) {
  const char* unknown[] = {"--nope"};
  EXPECT_EQ(doctor_command(unknown), 2);
  const char* nobody[] = {"1073741823"};
  EXPECT_EQ(doctor_command(nobody), 2);
}

}  // namespace
}  // namespace uscope::cli
