#include "session/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace uscope::session {
namespace {

int status_of(Child& child) {
  for (int i = 0; i < 500; ++i) {
    if (auto status = child.ended()) return *status;
    ::usleep(10000);
  }
  return -1;
}

TEST(Child, WordsOfACommand) {
  EXPECT_EQ(split_command("ls -l  /tmp"), (std::vector<std::string>{"ls", "-l", "/tmp"}));
  EXPECT_EQ(split_command("sh -c 'exit 3' \"a b\" c\\ d"),
            (std::vector<std::string>{"sh", "-c", "exit 3", "a b", "c d"}));
  EXPECT_EQ(split_command("''"), (std::vector<std::string>{""}));
  EXPECT_TRUE(split_command("  ").empty());
}

TEST(Child, WaitsForTheProbesThenRuns) {
  char name[] = "/tmp/uscope-child-XXXXXX";
  ASSERT_GE(::mkstemp(name), 0);
  ::unlink(name);
  auto child = Child::start(std::string("sh -c 'touch ") + name + "; exit 7'");
  ASSERT_TRUE(child) << child.error().message();
  ::usleep(50000);
  EXPECT_NE(::access(name, F_OK), 0) << "it ran before it was let go";
  ASSERT_TRUE(child->release());
  EXPECT_EQ(status_of(*child), 7);
  EXPECT_EQ(::access(name, F_OK), 0);
  ::unlink(name);
}

TEST(Child, ACommandThatIsNotThereIsNamed) {
  auto child = Child::start("/no/such/program");
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().message(),
            "Failed to fork child: Path '/no/such/program' does not exist or is not executable");
}

TEST(Child, QuotesMeanSomethingOnlyWhereTheyShould) {
  EXPECT_EQ(split_command("a 'b c' \"d\""), (std::vector<std::string>{"a", "b c", "d"}));
  EXPECT_EQ(split_command("a 'b c'", false), (std::vector<std::string>{"a", "'b", "c'"}));
}

TEST(Child, EndsWithItsOwner) {
  pid_t pid;
  {
    auto child = Child::start("sleep 100");
    ASSERT_TRUE(child && child->release());
    pid = child->pid();
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

}  // namespace
}  // namespace uscope::session
