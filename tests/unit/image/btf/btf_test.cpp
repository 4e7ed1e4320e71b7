#include "image/btf/btf.h"

#include <gtest/gtest.h>
#include <linux/btf.h>

#include <cstring>
#include <string>

namespace uscope::image {
namespace {

// Writes BTF as a compiler does: types get ids 1, 2, ... in the order of the calls.
class BtfWriter {
 public:
  uint32_t name(const std::string& text) {
    auto at = uint32_t(strings_.size());
    strings_ += text + '\0';
    return at;
  }
  BtfWriter& type(const std::string& text, uint32_t kind, uint32_t count, uint32_t other, bool flag = false) {
    return word(text.empty() ? 0 : name(text)).word(uint32_t(flag) << 31 | kind << 24 | count).word(other);
  }
  BtfWriter& member(const std::string& text, uint32_t type, uint32_t offset) {
    return word(text.empty() ? 0 : name(text)).word(type).word(offset);
  }
  BtfWriter& word(uint32_t value) {
    types_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::vector<uint8_t> bytes() const {
    btf_header header{};
    header.magic = BTF_MAGIC;
    header.version = 1;
    header.hdr_len = sizeof header;
    header.type_len = uint32_t(types_.size());
    header.str_off = header.type_len;
    header.str_len = uint32_t(strings_.size());
    std::string all(reinterpret_cast<const char*>(&header), sizeof header);
    all += types_ + strings_;
    return {all.begin(), all.end()};
  }

 private:
  std::string types_, strings_ = std::string(1, '\0');
};

constexpr uint32_t kSignedInt = BTF_INT_SIGNED << 24 | 32;

// struct task { int pid; union { char name[16]; long; }; unsigned flag:3 at bit 165; struct task *next; };
BtfWriter task() {
  BtfWriter btf;
  btf.type("int", BTF_KIND_INT, 0, 4).word(kSignedInt);         // 1
  btf.type("char", BTF_KIND_INT, 0, 1).word(8);                 // 2
  btf.type("", BTF_KIND_ARRAY, 0, 0).word(2).word(1).word(16);  // 3
  btf.type("", BTF_KIND_UNION, 1, 16).member("name", 3, 0);     // 4
  btf.type("", BTF_KIND_PTR, 0, 6);                             // 5
  btf.type("task", BTF_KIND_STRUCT, 4, 32, true)                // 6
      .member("pid", 1, 0)
      .member("", 4, 32)
      .member("flag", 1, 3u << 24 | 165)
      .member("next", 5, 192);
  btf.type("color", BTF_KIND_ENUM, 2, 4, true);  // 7
  btf.word(btf.name("RED")).word(uint32_t(-1)).word(btf.name("BLUE")).word(4);
  btf.type("task_t", BTF_KIND_TYPEDEF, 0, 6);  // 8
  btf.type("hidden", BTF_KIND_FWD, 0, 0);      // 9
  return btf;
}

TEST(Btf, StructsWithAnonymousPartsAndBitfields) {
  auto btf = Btf::parse(task().bytes());
  ASSERT_TRUE(btf);
  auto found = btf->find_types("task", 10);
  ASSERT_EQ(found.size(), 1u);
  const Type& type = btf->type(found[0]);
  EXPECT_EQ(type.kind, Type::Kind::Struct);
  EXPECT_EQ(type.size, 32u);
  ASSERT_EQ(type.members.size(), 4u);
  EXPECT_EQ(type.members[2].bit_size, 3u);
  EXPECT_EQ(type.members[2].bit_offset, 165u);
  EXPECT_EQ(type.members[3].offset, 24u);
  EXPECT_EQ(btf->type(btf->type(type.members[3].type).target).name, "task");
  EXPECT_EQ(btf->offset_of("task", "name"), 4u);
  EXPECT_EQ(btf->offset_of("task", "next"), 24u);
  EXPECT_FALSE(btf->offset_of("task", "flag"));
  EXPECT_FALSE(btf->offset_of("task", "none"));
  EXPECT_FALSE(btf->offset_of("task_t", "pid"));
}

TEST(Btf, OtherKinds) {
  auto btf = Btf::parse(task().bytes());
  ASSERT_TRUE(btf);
  EXPECT_TRUE(btf->type(TypeId{1}).is_signed);
  EXPECT_EQ(btf->type(TypeId{2}).kind, Type::Kind::Character);
  EXPECT_EQ(btf->type(TypeId{3}).dimensions.at(0), 16u);
  const Type& color = btf->type(TypeId{7});
  ASSERT_EQ(color.enumerators.size(), 2u);
  EXPECT_EQ(color.enumerators[0].value, -1);
  EXPECT_EQ(color.enumerators[1].name, "BLUE");
  EXPECT_EQ(btf->type(TypeId{8}).target, TypeId{6});
  EXPECT_TRUE(btf->type(TypeId{9}).is_declaration);
  EXPECT_EQ(btf->type(TypeId{10}).kind, Type::Kind::Void);
  EXPECT_TRUE(btf->find_types("", 10).empty());
}

TEST(Btf, AnonymousPartsThatHoldEachOtherEnd) {
  BtfWriter btf;
  btf.type("loop", BTF_KIND_STRUCT, 60, 8);
  for (int i = 0; i < 60; i++) btf.member("", 1, 0);
  auto parsed = Btf::parse(btf.bytes());
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->offset_of("loop", "none"));
}

TEST(Btf, CutAndChangedBytesAreSurvived) {
  const std::vector<uint8_t> whole = task().bytes();
  auto use = [](std::vector<uint8_t> bytes) {
    auto btf = Btf::parse(std::move(bytes));
    if (!btf) return false;
    for (uint64_t id = 0; id < 12; id++) btf->type(TypeId{id});
    btf->offset_of("task", "none");
    return true;
  };
  for (size_t size = 0; size < whole.size(); size++)
    EXPECT_FALSE(use({whole.begin(), whole.begin() + long(size)})) << size;
  for (size_t at = 0; at < whole.size(); at++) {
    for (uint8_t value : {0x00, 0x7f, 0xff}) {
      auto changed = whole;
      changed[at] = value;
      use(std::move(changed));
    }
  }
  EXPECT_TRUE(use(whole));
}

TEST(Btf, AKindOfANewerKernelEndsTheTypes) {
  BtfWriter btf = task();
  btf.type("new", 31, 0, 0);
  btf.type("behind", BTF_KIND_STRUCT, 0, 8);
  auto parsed = Btf::parse(btf.bytes());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->find_types("task", 10).size(), 1u);
  EXPECT_TRUE(parsed->find_types("behind", 10).empty());
}

}  // namespace
}  // namespace uscope::image
