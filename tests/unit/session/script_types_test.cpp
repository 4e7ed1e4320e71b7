#include "session/script_types.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace uscope::session {
namespace {

class ScriptTypesOf : public ::testing::Test {
 protected:
  void open(const std::string& name) {
    path_ = std::string(USCOPE_TARGETS) + "/" + name;
    if (::access(path_.c_str(), R_OK) != 0) GTEST_SKIP() << name << " is not built";
    auto image = types_.image(path_);
    ASSERT_TRUE(image) << image.error().message();
  }
  lang::AttachSpec at(const std::string& function) {
    lang::AttachSpec probe;
    probe.kind = lang::ProbeKind::kUprobe;
    probe.target = path_;
    probe.function = function;
    return probe;
  }

  ScriptTypes types_;
  std::string path_;
};

TEST_F(ScriptTypesOf, ArgumentsOfACFunction) {
  open("c_basic");
  if (IsSkipped()) return;
  auto arguments = types_.arguments(at("use_record"));
  ASSERT_TRUE(arguments);
  ASSERT_EQ(arguments->size(), 2u);
  EXPECT_EQ((*arguments)[0].name, "r");
  EXPECT_EQ((*arguments)[0].type.spell(), "struct record *");
  EXPECT_EQ((*arguments)[1].type.kind(), lang::TypeKind::kEnum);
  auto colors = types_.enumerators("enum color");
  ASSERT_GE(colors.size(), 2u);
  EXPECT_EQ(colors[1].name, "GREEN");
  EXPECT_EQ(colors[1].value, 5);
  EXPECT_EQ(types_.find_constants("BLUE").at(0).value, 6);
}

TEST_F(ScriptTypesOf, FieldsWithBitsAndArrays) {
  open("c_basic");
  if (IsSkipped()) return;
  auto record = types_.find_struct("struct record");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->size, 48u);
  EXPECT_EQ(record->find("ports")->offset, 16u);
  EXPECT_EQ(record->find("ports")->type.count(), 4u);
  auto flags = types_.find_struct("struct flags");
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->find("mode")->bit_width, 3u);
  EXPECT_EQ(flags->find("mode")->bit_offset, 1u);
  EXPECT_FALSE(types_.find_struct("struct nonesuch"));
}

TEST_F(ScriptTypesOf, ReturnTypesAndClasses) {
  open("cpp_book");
  if (IsSkipped()) return;
  auto arguments = types_.arguments(at("AddressBook::AddContact"));
  ASSERT_TRUE(arguments);
  EXPECT_EQ((*arguments)[0].name, "this");
  auto book = types_.find_struct("AddressBook");
  ASSERT_TRUE(book);
  EXPECT_EQ(book->find("additions_")->offset, 24u);
}

TEST_F(ScriptTypesOf, GoArguments) {
  open("go_dns");
  if (IsSkipped()) return;
  auto arguments = types_.arguments(at("main.(*server).handleRequest"));
  ASSERT_TRUE(arguments);
  ASSERT_EQ(arguments->size(), 3u) << "results are no arguments";
  EXPECT_EQ((*arguments)[2].name, "r");
}

TEST_F(ScriptTypesOf, NothingIsKnownWithoutDebugInfo) {
  open("c_basic-nodebug");
  if (IsSkipped()) return;
  EXPECT_FALSE(types_.arguments(at("use_record")));
  EXPECT_FALSE(types_.return_type(at("use_record")));
}

}  // namespace
}  // namespace uscope::session
