// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/writable.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>

#include <filesystem>

#include "mediator/base/unique_fd.h"
#include "mediator/jail/tests/child.h"

namespace vrdma::jail::test {
namespace {

class WritableTest : public testing::Test {
  protected:
    WritableTest() {
        for (const auto& directory : {inside_, outside_}) {
            std::filesystem::create_directories(directory);
        }
    }
    WritableTest(const WritableTest&) = delete;
    WritableTest& operator=(const WritableTest&) = delete;
    ~WritableTest() override { std::filesystem::remove_all(all_); }

    void SetUp() override {
        if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) <
            1) {
            GTEST_SKIP() << "this kernel has no Landlock";
        }
    }

    static bool creates(const std::string& directory) {
        return static_cast<bool>(UniqueFd{::creat((directory + "/file").c_str(), 0600)});
    }

    const std::string all_ = testing::TempDir() + "vrdma-writable-" + std::to_string(::getpid());
    const std::string inside_ = all_ + "/inside";
    const std::string outside_ = all_ + "/outside";
};

// Name a directory and a device, and a path that does not exist; expect the first two to be
// writable and nothing else, and all to be readable.
TEST_F(WritableTest, OnlyWhatIsNamed) {
    EXPECT_EQ(exit_status_of_child([this] {
                  const auto confined = write_only_to({{inside_, all_ + "/none"}, {"/dev/null"}});
                  if (!confined || !*confined) {
                      return 1;
                  }
                  const UniqueFd device{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
                  const UniqueFd other{::open("/dev/zero", O_WRONLY | O_CLOEXEC)};
                  const UniqueFd read{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
                  return creates(inside_) && !creates(outside_) && device && !other && read ? 0 : 2;
              }),
              0);
}

// Execute a program; expect a refusal.
TEST_F(WritableTest, NothingIsExecuted) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!write_only_to({})) {
                      return 1;
                  }
                  ::execl("/bin/true", "true", nullptr);
                  return errno == EACCES ? 0 : 2;
              }),
              0);
}

} // namespace
} // namespace vrdma::jail::test
