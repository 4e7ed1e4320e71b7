#include "probe/spec.h"

#include <gtest/gtest.h>

namespace uscope::probe {
namespace {

TEST(Spec, FileAndFunction) {
  auto spec = parse_spec("uprobe:./server:handle*");
  ASSERT_TRUE(spec) << spec.error().message();
  EXPECT_EQ(spec->kind, ProbeSpec::Kind::Uprobe);
  EXPECT_EQ(spec->file, "./server");
  EXPECT_EQ(spec->function, "handle*");
}

TEST(Spec, ShortNamesAndCase) {
  EXPECT_EQ(parse_spec("u:libc:malloc")->kind, ProbeSpec::Kind::Uprobe);
  EXPECT_EQ(parse_spec("ur:libc:malloc")->kind, ProbeSpec::Kind::Uretprobe);
  EXPECT_EQ(parse_spec("URETPROBE:libc:malloc")->kind, ProbeSpec::Kind::Uretprobe);
  EXPECT_EQ(parse_spec("U:libc:*")->kind, ProbeSpec::Kind::Usdt);
}

TEST(Spec, CppNamesNeedNoQuotes) {
  EXPECT_EQ(parse_spec("uprobe:./a:ns::Class::run(int)")->function, "ns::Class::run(int)");
  auto quoted = parse_spec("uprobe:./a:cpp:\"AddressBook::AddContact\"");
  EXPECT_TRUE(quoted->is_cpp);
  EXPECT_EQ(quoted->function, "AddressBook::AddContact");
}

TEST(Spec, OffsetsAndAddresses) {
  auto spec = parse_spec("uprobe:./a:main+0x1f");
  EXPECT_EQ(spec->function, "main");
  EXPECT_EQ(spec->offset, 0x1fu);
  EXPECT_EQ(parse_spec("uprobe:./a:0x1290")->address, 0x1290u);
  EXPECT_EQ(parse_spec("uprobe:./a:V::operator+")->function, "V::operator+");
  EXPECT_EQ(parse_spec("uprobe:./a:V::operator++4")->function, "V::operator+");
}

TEST(Spec, SourcePlaces) {
  auto spec = parse_spec("uprobe:./a@src/server.c:120:7");
  ASSERT_TRUE(spec) << spec.error().message();
  EXPECT_EQ(spec->file, "./a");
  EXPECT_EQ(spec->source_file, "src/server.c");
  EXPECT_EQ(spec->line, 120u);
  EXPECT_EQ(spec->column, 7u);
  EXPECT_EQ(parse_spec("uprobe:./dir@v2/a:main")->file, "./dir@v2/a") << "an @ in a path is just a character";
}

TEST(Spec, Usdt) {
  auto spec = parse_spec("usdt:./app:prov:event");
  EXPECT_EQ(spec->provider, "prov");
  EXPECT_EQ(spec->name, "event");
  EXPECT_EQ(parse_spec("usdt:./app:event")->name, "event");
  EXPECT_EQ(parse_spec("usdt:./app")->name, "*");
}

TEST(Spec, ErrorsNameTheInputAndTheWayOut) {
  EXPECT_NE(parse_spec("uprobes:./a:main").error().message().find("`uprobes` is not a kind"),
            std::string::npos);
  EXPECT_NE(parse_spec("uprobe:./a").error().message().find("names no function"), std::string::npos);
  EXPECT_NE(parse_spec("uprobe:").error().message().find("names no file"), std::string::npos);
}

}  // namespace
}  // namespace uscope::probe
