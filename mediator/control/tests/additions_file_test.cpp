// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/additions_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace vrdma::control {
namespace {

namespace fs = std::filesystem;

class AdditionsFileTest : public testing::Test {
  protected:
    void TearDown() override { fs::remove_all(directory); }

    static fs::path make_directory() {
        std::string name = testing::TempDir() + "additions-XXXXXX";
        return ::mkdtemp(name.data());
    }

    const fs::path directory = make_directory();
    AdditionsFile file{(directory / "control.sock").string()};
};

TEST_F(AdditionsFileTest, IsBesideTheSocket) {
    EXPECT_EQ(file.path(), (directory / "control.sock.added").string());
}

TEST_F(AdditionsFileTest, HasWhatWasWrittenLast) {
    EXPECT_EQ(file.read(), "");
    const std::string text(100'000, 'x');
    for (const std::string& each : {std::string{"before"}, text}) {
        ASSERT_TRUE(file.write(each));
        EXPECT_EQ(file.read(), each);
    }
    EXPECT_EQ(fs::status(file.path()).permissions(),
              fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_EQ(std::distance(fs::directory_iterator{directory}, {}), 1);
}

TEST_F(AdditionsFileTest, GoesWithItsText) {
    ASSERT_TRUE(file.write("text"));
    ASSERT_TRUE(file.write(""));
    EXPECT_FALSE(fs::exists(file.path()));
    EXPECT_TRUE(file.write(""));
}

TEST_F(AdditionsFileTest, ThatOthersCanWriteIsNotRead) {
    ASSERT_TRUE(file.write("text"));
    for (const mode_t mode : {0620, 0602}) {
        ASSERT_EQ(::chmod(file.path().c_str(), mode), 0);
        EXPECT_EQ(file.read().error(), std::errc::permission_denied);
    }
}

TEST_F(AdditionsFileTest, ThatIsAnotherUsersIsNotRead) {
    ASSERT_TRUE(file.write("text"));
    if (::chown(file.path().c_str(), 65534, 65534) != 0) {
        GTEST_SKIP() << "takes the right to change owners";
    }
    EXPECT_EQ(file.read().error(), std::errc::permission_denied);
}

// Puts links where the file and its next version are; expects them to be replaced, and the file
// that they lead to not to change.
TEST_F(AdditionsFileTest, FollowsNoLinks) {
    const fs::path target = directory / "target";
    std::ofstream{target} << "target";
    fs::create_symlink(target, file.path());
    fs::create_symlink(target, file.path() + ".new");
    EXPECT_EQ(file.read().error(), std::errc::too_many_symbolic_link_levels);
    ASSERT_TRUE(file.write("text"));
    EXPECT_EQ(file.read(), "text");
    std::string kept;
    std::ifstream{target} >> kept;
    EXPECT_EQ(kept, "target");
}

TEST_F(AdditionsFileTest, DoesNotWaitForAFifo) {
    ASSERT_EQ(::mkfifo(file.path().c_str(), 0600), 0);
    EXPECT_EQ(file.read().error(), std::errc::permission_denied);
}

TEST_F(AdditionsFileTest, IsNoneWithoutASocket) {
    EXPECT_EQ(AdditionsFile{""}.read(), "");
}

TEST_F(AdditionsFileTest, StaysIfTheNextOneCannotBeWritten) {
    const AdditionsFile nowhere{(directory / "none" / "control.sock").string()};
    EXPECT_EQ(nowhere.write("text").error(), std::errc::no_such_file_or_directory);
    ASSERT_TRUE(file.write("text"));
    fs::create_directory(file.path() + ".new");
    EXPECT_FALSE(file.write("other"));
    EXPECT_EQ(file.read(), "text");
}

} // namespace
} // namespace vrdma::control
