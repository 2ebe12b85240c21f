// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/slot_locks.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace vrdma::wire {
namespace {

class SlotLocksTest : public testing::Test {
  protected:
    SlotLocksTest() {
        std::filesystem::create_directory(directory_);
        ::chmod(directory_.c_str(), 0755);
    }
    SlotLocksTest(const SlotLocksTest&) = delete;
    SlotLocksTest& operator=(const SlotLocksTest&) = delete;
    ~SlotLocksTest() override { std::filesystem::remove_all(directory_); }

    const std::string directory_ = testing::TempDir() + "vrdma-slots-" + std::to_string(::getpid());
};

// Two daemons take slots of two interfaces; expect each slot to have one owner until that ends.
TEST_F(SlotLocksTest, ASlotHasOneOwner) {
    const auto first = SlotLocks::open_in(directory_, 7);
    const auto second = SlotLocks::open_in(directory_, 7);
    const auto elsewhere = SlotLocks::open_in(directory_, 8);
    ASSERT_TRUE(first && second && elsewhere);
    UniqueFd owned = first->take(0);
    EXPECT_TRUE(owned);
    EXPECT_FALSE(second->take(0));
    EXPECT_TRUE(second->take(1));
    EXPECT_TRUE(elsewhere->take(0));
    owned = {};
    EXPECT_TRUE(second->take(0));
}

// Bind the abstract socket by whose name any process could once take a slot; expect no effect.
TEST_F(SlotLocksTest, ANameThatAnybodyCanTakeIsNoLock) {
    const UniqueFd other{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    constexpr char name[] = "vrdma-steering-7-0";
    std::memcpy(address.sun_path + 1, name, sizeof(name) - 1);
    ASSERT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address),
                     offsetof(sockaddr_un, sun_path) + sizeof(name)),
              0);
    EXPECT_TRUE(SlotLocks::open_in(directory_, 7)->take(0));
}

// Others can write to the directory, or it is a link; expect a refusal.
TEST_F(SlotLocksTest, TheDirectoryIsNobodyElses) {
    const std::string link = directory_ + "/link";
    const std::string target = directory_ + "/target";
    std::filesystem::create_directory(target);
    std::filesystem::create_directory_symlink(target, link);
    EXPECT_FALSE(SlotLocks::open_in(link, 7));
    for (const mode_t mode : {0775u, 0757u, 01777u}) {
        ASSERT_EQ(::chmod(directory_.c_str(), mode), 0);
        EXPECT_EQ(SlotLocks::open_in(directory_, 7).error(), std::errc::permission_denied);
    }
}

} // namespace
} // namespace vrdma::wire
