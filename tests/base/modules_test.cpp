// Where programs and modules are looked for: modules.cpp is compiled for this test, for an
// installation in a folder of the test.
#include "base/modules/modules.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace cfck::detail {
namespace {

namespace fs = std::filesystem;

class InstalledPrograms : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    std::ofstream(program_) << "#!/bin/sh\n";
  }
  void TearDown() override { fs::remove_all(folder_); }
  void allow(fs::perms permissions) { fs::permissions(program_, permissions); }

  const fs::path folder_ = CFCK_ADAPTER_FOLDER;
  const fs::path program_ = folder_ / "cfck-example-program";
};

TEST_F(InstalledPrograms, AreFoundFromElsewhere) {
  allow(fs::perms::owner_read | fs::perms::owner_exec);
  const auto found = find_program("cfck-example-program");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, program_.string());
}

TEST_F(InstalledPrograms, ThatNobodyMayExecuteAreErrors) {
  allow(fs::perms::owner_read);
  const auto found = find_program("cfck-example-program");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kIo);
}

TEST_F(InstalledPrograms, ThatAreMissingNameTheFolders) {
  const auto found = find_program("cfck-no-such-program");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_NE(found.error().message.find(folder_.string()), std::string::npos);
  const auto module = open_module("cfck_no_such_module.so");
  ASSERT_FALSE(module);
  EXPECT_NE(module.error().message.find(folder_.string()), std::string::npos);
}

}  // namespace
}  // namespace cfck::detail
