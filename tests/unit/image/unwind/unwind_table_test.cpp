// Whole tables, of programs that compilers made.
#include "image/unwind/unwind_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "image/elf/symbols.h"
#include "image/unwind/table_builder.h"

namespace uscope::image {
namespace {

UnwindRule rsp(int32_t offset) {
  UnwindRule rule;
  rule.kind = UnwindKind::Register;
  rule.offset = offset;
  return rule;
}

TEST(TableBuilder, SortsFillsGapsAndSharesRules) {
  TableBuilder builder;
  ASSERT_TRUE(builder.begin_function(0x400, 0x500));
  builder.add_row(0x400, rsp(8));
  builder.add_row(0x410, rsp(16));
  ASSERT_TRUE(builder.begin_function(0x100, 0x200));
  builder.add_row(0x100, rsp(8));
  UnwindTable table = builder.finish();
  EXPECT_EQ(table.rules.size(), 3u);  // Unknown, 8, 16
  EXPECT_EQ(table.at(0).kind, UnwindKind::Unknown);
  EXPECT_EQ(table.at(0x1ff).offset, 8);
  EXPECT_EQ(table.at(0x200).kind, UnwindKind::Unknown);
  EXPECT_EQ(table.at(0x40f).offset, 8);
  EXPECT_EQ(table.at(0x4ff).offset, 16);
  EXPECT_EQ(table.at(0x500).kind, UnwindKind::Unknown);
}

TEST(TableBuilder, PaddingBetweenFunctionsTakesNoRow) {
  TableBuilder builder;
  builder.begin_function(0x100, 0x105);
  builder.add_row(0x100, rsp(8));
  builder.begin_function(0x110, 0x120);
  builder.add_row(0x110, rsp(8));
  EXPECT_EQ(builder.finish().rows.size(), 3u);  // from 0, from 0x100, from 0x120
}

TEST(TableBuilder, TheLaterOfTwoOverlappingFunctionsIsBelieved) {
  TableBuilder builder;
  builder.begin_function(0x100, 0x300);
  builder.add_row(0x100, rsp(8));
  builder.add_row(0x280, rsp(24));
  builder.begin_function(0x200, 0x220);
  builder.add_row(0x200, rsp(16));
  UnwindTable table = builder.finish();
  EXPECT_EQ(table.at(0x1ff).offset, 8);
  EXPECT_EQ(table.at(0x200).offset, 16);
  EXPECT_EQ(table.at(0x280).kind, UnwindKind::Unknown);
}

std::string target(const std::string& name) { return std::string(USCOPE_TARGETS) + "/" + name; }

class OfTarget : public testing::TestWithParam<const char*> {};

TEST_P(OfTarget, EveryFunctionBeginsWithItsReturnAddressOnTop) {
  std::string path = target(GetParam());
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " was not built";
  auto file = ElfFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  UnwindTable table = read_unwind_table(*file);
  EXPECT_FALSE(table.is_partial);
  ASSERT_GT(table.rows.size(), 10u);
  EXPECT_TRUE(std::is_sorted(table.rows.begin(), table.rows.end(),
                             [](const UnwindRow& a, const UnwindRow& b) { return a.offset < b.offset; }));
  int looked = 0;
  for (const Symbol& symbol : read_function_symbols(*file).symbols) {
    std::string_view name = symbol.name;
    if (!name.starts_with("mark_") && !name.starts_with("plain_") && !name.starts_with("with_")) continue;
    auto offset = file->to_file_offset(symbol.address);
    ASSERT_TRUE(offset) << name;
    const UnwindRule& rule = table.at(offset->value);
    EXPECT_EQ(rule.kind, UnwindKind::Register) << name;
    EXPECT_EQ(rule.base, kStackPointer) << name;
    EXPECT_EQ(rule.offset, 8) << name;
    ++looked;
  }
  EXPECT_GT(looked, 8);
}

INSTANTIATE_TEST_SUITE_P(Compilers, OfTarget,
                         testing::Values("c_stacks", "c_stacks-O0", "c_stacks-clang", "c_stacks-static",
                                         "c_stacks-musl"));

TEST(UnwindTable, MuslsSignalReturnIsFoundByItsCode) {
  std::string path = target("c_stacks-musl");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " was not built";
  auto file = ElfFile::open(path);
  ASSERT_TRUE(file);
  UnwindTable table = read_unwind_table(*file);
  EXPECT_TRUE(std::any_of(table.rules.begin(), table.rules.end(), [](const UnwindRule& rule) {
    return (rule.flags & UnwindRule::kSignalFrame) != 0 && rule.return_address == 168;
  }));
}

TEST(UnwindTable, GoFunctionsByTheirOwnTable) {
  std::string path = target("go_dns-stripped");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " was not built";
  auto file = ElfFile::open(path);
  ASSERT_TRUE(file);
  auto go = Pclntab::find(*file);
  ASSERT_TRUE(go && *go);
  UnwindTable table = read_unwind_table(*file, nullptr, &**go);
  int looked = 0, with_frame = 0;
  for (const GoFunction& function : (*go)->functions()) {
    if (!function.name.starts_with("main.")) continue;
    auto begin = file->to_file_offset(function.entry);
    ASSERT_TRUE(begin);
    EXPECT_EQ(table.at(begin->value).offset, 8) << function.name;
    if (table.at(begin->value + function.size / 2).offset > 8) ++with_frame;
    ++looked;
  }
  EXPECT_GT(looked, 3);
  EXPECT_GT(with_frame, 0);
}

TEST(UnwindTable, TheHeadersOfAnImageMayBeGone) {
  std::string whole = target("c_basic"), bare = target("c_basic-noheaders");
  if (!std::filesystem::exists(bare)) GTEST_SKIP() << bare << " was not built";
  auto with = ElfFile::open(whole), without = ElfFile::open(bare);
  ASSERT_TRUE(with && without);
  UnwindTable a = read_unwind_table(*with), b = read_unwind_table(*without);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i)
    EXPECT_TRUE(a.rows[i].offset == b.rows[i].offset && a.rules[a.rows[i].rule] == b.rules[b.rows[i].rule]);
}

}  // namespace
}  // namespace uscope::image
