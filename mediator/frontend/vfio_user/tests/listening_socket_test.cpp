// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/listening_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

namespace vrdma::vfio_user::test {
namespace {

class ListeningSocketTest : public ::testing::Test {
  protected:
    ListeningSocketTest() { std::filesystem::create_directory(directory_); }
    ListeningSocketTest(const ListeningSocketTest&) = delete;
    ListeningSocketTest& operator=(const ListeningSocketTest&) = delete;
    ~ListeningSocketTest() override { std::filesystem::remove_all(directory_); }

    // Binds a socket. Once its descriptor is closed, it lies there as a killed mediator's does.
    UniqueFd leave_behind() const {
        UniqueFd dead{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
        EXPECT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
        return dead;
    }

    SocketOptions options(mode_t mode) const { return {path_, ::getuid(), ::getgid(), mode}; }

    const std::string directory_ =
        ::testing::TempDir() + "vrdma-listening-" + std::to_string(::getpid());
    const std::string path_ = directory_ + "/socket";
};

// Open sockets of several modes under several umasks; expect exactly those modes, and an unchanged
// umask.
TEST_F(ListeningSocketTest, HasTheModeThatWasAskedFor) {
    for (const mode_t mask : {0u, 022u, 0777u}) {
        for (const mode_t mode : {0600u, 0660u, 0666u}) {
            const mode_t usual = ::umask(mask);
            const auto socket = ListeningSocket::open(options(mode));
            EXPECT_EQ(::umask(usual), mask);
            ASSERT_TRUE(socket);
            struct stat status {};
            ASSERT_EQ(::stat(path_.c_str(), &status), 0);
            EXPECT_EQ(status.st_mode & 07777, mode);
        }
    }
}

// Listen at a dead mediator's socket, at a socket on which somebody listens, and at a file; expect
// only the first to work, and its destructor to remove the socket.
TEST_F(ListeningSocketTest, ReplacesWhatNobodyListensOn) {
    leave_behind();
    {
        const auto first = ListeningSocket::open({path_});
        EXPECT_TRUE(first);
        EXPECT_EQ(ListeningSocket::open({path_}).error(), std::errc::address_in_use);
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
    const UniqueFd file{::creat(path_.c_str(), 0600)};
    EXPECT_EQ(ListeningSocket::open({path_}).error(), std::errc::address_in_use);
}

// Put a symbolic link in the socket's place, to nothing and to a file; expect a refusal, and the
// targets unchanged.
TEST_F(ListeningSocketTest, FollowsNoLink) {
    const std::string target = directory_ + "/target";
    ::symlink(target.c_str(), path_.c_str());
    EXPECT_EQ(ListeningSocket::open(options(0666)).error(), std::errc::address_in_use);
    EXPECT_FALSE(std::filesystem::exists(target));
    const UniqueFd file{::creat(target.c_str(), 0600)};
    EXPECT_EQ(ListeningSocket::open(options(0666)).error(), std::errc::address_in_use);
    struct stat status {};
    ASSERT_EQ(::stat(target.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    EXPECT_TRUE(std::filesystem::is_symlink(path_));
}

// Ask for another owner; expect the socket to belong to it, if this process may give files away.
TEST_F(ListeningSocketTest, HasItsOwner) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs CAP_CHOWN";
    }
    const auto socket = ListeningSocket::open({path_, 12345, 23456, 0660});
    ASSERT_TRUE(socket);
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 12345u);
    EXPECT_EQ(status.st_gid, 23456u);
    EXPECT_EQ(status.st_mode & 07777, 0660u);
}

// A killed mediator without privileges has left a socket that belongs to its client. Expect it to
// be replaced, but not while somebody listens on it.
TEST_F(ListeningSocketTest, ReplacesASocketThatItMayNotConnectTo) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs CAP_CHOWN";
    }
    constexpr uid_t service = 65534;
    constexpr uid_t client = 12345;
    ASSERT_EQ(::chown(directory_.c_str(), service, service), 0);
    UniqueFd listener = leave_behind();
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_TRUE(::chown(path_.c_str(), client, client) == 0 && ::chmod(path_.c_str(), 0600) == 0);
    ASSERT_EQ(::seteuid(service), 0);
    EXPECT_EQ(ListeningSocket::open({path_}).error(), std::errc::address_in_use);
    listener = {};
    EXPECT_TRUE(ListeningSocket::open({path_}));
    ASSERT_EQ(::seteuid(0), 0);
}

} // namespace
} // namespace vrdma::vfio_user::test
