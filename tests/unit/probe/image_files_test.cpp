#include "probe/image_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace uscope::probe {
namespace {

class ImageFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/uscope-image-files-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    for (const char* file : {"/one.so", "/two.so", "/other", "/.hidden.so"})
      std::ofstream(directory_ + file) << "x";
    ::mkdir((directory_ + "/deep").c_str(), 0755);
    std::ofstream(directory_ + "/deep/one.so") << "x";
  }
  void TearDown() override { (void)!::system(("rm -r " + directory_).c_str()); }

  std::vector<std::string> found(const std::string& pattern) {
    auto files = find_image_files(directory_ + pattern, std::nullopt);
    std::vector<std::string> names;
    if (!files) return {"error: " + files.error().message()};
    for (const ImageFile& file : *files) names.push_back(file.shown.substr(directory_.size()));
    return names;
  }

  std::string directory_;
};

TEST_F(ImageFiles, AGlobInTheLastPart) {
  EXPECT_EQ(found("/*.so"), (std::vector<std::string>{"/one.so", "/two.so"}))
      << "hidden files and directories are left out";
}

TEST_F(ImageFiles, AGlobInADirectory) {
  EXPECT_EQ(found("/d*/one.s?"), (std::vector<std::string>{"/deep/one.so"}));
}

TEST_F(ImageFiles, NothingMatches) { EXPECT_TRUE(found("/nope*").empty()); }

TEST_F(ImageFiles, AMissingFileIsAnErrorThatNamesIt) {
  EXPECT_NE(found("/nope")[0].find("nope: No such file"), std::string::npos);
  EXPECT_NE(found("/deep")[0].find("is not a regular file"), std::string::npos);
}

TEST_F(ImageFiles, ABareNameIsLookedForWhereProgramsAndLibrariesAre) {
  auto files = find_image_files("libc", std::nullopt);
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_NE((*files)[0].shown.find("/libc.so."), std::string::npos);
  auto missing = find_image_files("no-such-program-anywhere", std::nullopt);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("./no-such-program-anywhere"), std::string::npos)
      << "says the way out";
}

TEST_F(ImageFiles, AProcessStartsWithItsExecutable) {
  auto files = images_of_process(::getpid());
  ASSERT_TRUE(files) << files.error().message();
  ASSERT_GE(files->size(), 2u);
  EXPECT_NE((*files)[0].shown.find("unit_probe"), std::string::npos);
}

}  // namespace
}  // namespace uscope::probe
