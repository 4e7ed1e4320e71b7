#include "cli/script_options.h"

#include <gtest/gtest.h>

#include <vector>

namespace uscope::cli {
namespace {

std::expected<ScriptOptions, int> read(std::vector<const char*> words, Persona persona = Persona::Uscope) {
  return read_script_options(words, persona);
}

TEST(ScriptOptions, FlagsMayStandAnywhere) {
  auto options = read({"script.bt", "12", "-q", "tea", "--no-warnings", "-p", "1"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->file, "script.bt");
  EXPECT_TRUE(options->quiet);
  EXPECT_FALSE(options->warnings);
  EXPECT_EQ(options->pid, 1);
  EXPECT_EQ(options->parameters.positional, (std::vector<std::string>{"12", "tea"}));
}

TEST(ScriptOptions, BehindTwoDashesTheyAreTheScripts) {
  auto options = read({"-e", "BEGIN { }", "x", "--", "-q", "--name=val=ue", "--bare"});
  ASSERT_TRUE(options);
  EXPECT_FALSE(options->quiet);
  EXPECT_EQ(options->parameters.positional, (std::vector<std::string>{"x", "-q"}));
  EXPECT_EQ(options->parameters.named.at("name"), "val=ue");
  EXPECT_EQ(options->parameters.named.at("bare"), std::nullopt);
}

TEST(ScriptOptions, ListWithArgumentsInOneWord) {
  auto options = read({"-lv", "uprobe:./a:*"});
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->list && options->verbose);
  EXPECT_EQ(options->file, "uprobe:./a:*");
}

TEST(ScriptOptions, ModesAndStages) {
  EXPECT_EQ(read({"--mode", "bench", "-e", ""})->mode, Mode::Bench);
  EXPECT_EQ(read({"--test", "-e", ""})->mode, Mode::Test);
  EXPECT_EQ(read({"-d", "ast", "-d", "bytecode", "-e", ""})->debug_stages.size(), 2u);
  EXPECT_EQ(read({"--debuginfo=a:b", "-e", ""})->debug_folders, (std::vector<std::string>{"a", "b"}));
}

TEST(ScriptOptions, SeveralProgramsAreOne) {
  EXPECT_EQ(read({"-e", "BEGIN { }", "-e", "END { }"})->program, "BEGIN { }\nEND { }");
}

TEST(ScriptOptions, WhatIsWrongIsRefused) {
  EXPECT_EQ(read({"--frobnicate"}).error(), 2);
  EXPECT_EQ(read({"--frobnicate"}, Persona::Bpftrace).error(), 1);
  EXPECT_EQ(read({"-e"}).error(), 2);
  EXPECT_EQ(read({"-p", "x"}).error(), 1);
  EXPECT_EQ(read({"-p", "0"}).error(), 1);
  EXPECT_EQ(read({"-p", "99999999999999999999"}).error(), 1);
  EXPECT_EQ(read({"-p", "1", "-c", "true"}).error(), 1);
}

}  // namespace
}  // namespace uscope::cli
