// The images of an installed .NET runtime: real compilers' output, every table in use.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/mapped_file.h"
#include "image/pe/native_image.h"
#include "image/pe/ready_to_run.h"

namespace uscope::image {
namespace {

namespace fs = std::filesystem;

// The newest Microsoft.NETCore.App folder; empty without .NET.
fs::path framework_folder() {
  fs::path newest;
  for (const char* root :
       {"/usr/share/dotnet", "/usr/lib/dotnet", "/usr/local/share/dotnet", "/opt/dotnet"}) {
    std::error_code error;
    for (const auto& folder :
         fs::directory_iterator(fs::path(root) / "shared/Microsoft.NETCore.App", error)) {
      if (fs::exists(folder.path() / "System.Private.CoreLib.dll")) newest = std::max(newest, folder.path());
    }
  }
  return newest;
}

class FrameworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = framework_folder();
    if (folder_.empty()) GTEST_SKIP() << "no .NET runtime is installed";
  }
  fs::path folder_;
};

TEST_F(FrameworkTest, EveryImageReadsCompletely) {
  size_t images = 0, methods = 0;
  for (const auto& item : fs::directory_iterator(folder_)) {
    if (item.path().extension() != ".dll") continue;
    auto file = MappedFile::open(item.path());
    ASSERT_TRUE(file);
    auto image = read_native_image(file->bytes(), item.path());
    ASSERT_TRUE(image) << item.path() << ": " << image.error().message();
    EXPECT_EQ(image->assembly, item.path().stem()) << item.path();
    EXPECT_TRUE(image->notes.empty()) << item.path() << ": " << image->notes[0];
    EXPECT_EQ(image->methods.empty(), !image->explanation().empty()) << item.path();
    for (const NativeMethod& method : image->methods) {
      ASSERT_EQ(method.name.find("(?)"), std::string::npos) << method.name;
      ASSERT_GT(method.body_size, 0u) << method.name;
    }
    images += image->kind == NativeImageKind::kReadyToRun;
    methods += image->methods.size();
  }
  EXPECT_GT(images, 50u);
  EXPECT_GT(methods, 80'000u);
}

TEST_F(FrameworkTest, EveryRuntimeFunctionBelongsToOneMethod) {
  fs::path path = folder_ / "System.Private.CoreLib.dll";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  auto pe = PeFile::parse(file->bytes());
  ASSERT_TRUE(pe);
  auto code = ReadyToRun::read(*pe);
  ASSERT_TRUE(code);
  ASSERT_TRUE(*code);
  auto image = read_native_image(file->bytes(), path);
  ASSERT_TRUE(image);
  std::set<uint64_t> entries;
  for (const NativeMethod& method : image->methods) entries.insert(method.rva.value);
  size_t covered = 0;
  for (const RuntimeFunction& function : (*code)->functions()) {
    const NativeMethod* method = image->find(function.begin);
    ASSERT_NE(method, nullptr) << std::hex << function.begin.value;
    // It is a method's body or lies wholly within its method, behind the body.
    bool is_body = entries.contains(function.begin.value);
    EXPECT_EQ(is_body, function.begin == method->rva);
    EXPECT_LE(function.end - method->rva, method->size) << method->name;
    ++covered;
  }
  EXPECT_GT(covered, 40'000u);
}

TEST_F(FrameworkTest, WellKnownMethodsAreWhereTheirNamesSay) {
  fs::path path = folder_ / "System.Private.CoreLib.dll";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  auto image = read_native_image(file->bytes(), path);
  ASSERT_TRUE(image);
  for (std::string_view name :
       {"string [System.Private.CoreLib] System.String::Concat(string,string)",
        "instance void [System.Private.CoreLib] System.Collections.Generic.List`1[System.__Canon]::Add(!0)",
        "instance !0 [System.Private.CoreLib] System.Threading.Tasks.Task`1[System.Int32]::get_Result()",
        "void [System.Private.CoreLib] System.Threading.Monitor::Exit(object)"}) {
    auto found = image->match(name);
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_EQ(image->find(found[0]->rva), found[0]);
    EXPECT_EQ(image->find(found[0]->offset), found[0]);
  }
  EXPECT_EQ(image->map_signature.size(), 32u);
  // One generic method, several instances, told apart by their arguments.
  auto instances = image->match("System.Array::Empty");
  EXPECT_GT(instances.size(), 1u);
  std::set<std::string> names;
  for (const NativeMethod* method : instances) names.insert(method->full_name());
  EXPECT_EQ(names.size(), instances.size());
}

}  // namespace
}  // namespace uscope::image
