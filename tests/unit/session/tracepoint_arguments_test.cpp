#include "session/tracepoint_arguments.h"

#include <gtest/gtest.h>

namespace uscope::session {
namespace {

std::string type_of(std::string_view line, bool is_system_call) {
  auto fields = parse_tracepoint_format(line);
  return fields.size() == 1 ? tracepoint_type(fields[0], is_system_call).spell() : "no field";
}

TEST(TracepointTypes, NumbersHaveTheWidthOfTheRecord) {
  EXPECT_EQ(type_of("field:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;", false), "int32");
  EXPECT_EQ(type_of("field:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;", true), "uint64");
  EXPECT_EQ(type_of("field:int dfd;\toffset:16;\tsize:8;\tsigned:0;", true), "int64");
}

TEST(TracepointTypes, TextInTheRecordIsAString) {
  EXPECT_EQ(type_of("field:char comm[16];\toffset:8;\tsize:16;\tsigned:0;", false), "string[16]");
}

TEST(TracepointTypes, PointersOfSystemCallsAreTheProgramsOwn) {
  auto fields = parse_tracepoint_format("field:const char * filename;\toffset:16;\tsize:8;\tsigned:0;");
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_EQ(tracepoint_type(fields[0], true).address_space(), lang::AddressSpace::kUser);
  EXPECT_EQ(tracepoint_type(fields[0], false).address_space(), lang::AddressSpace::kKernel);
}

}  // namespace
}  // namespace uscope::session
