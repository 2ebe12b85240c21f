// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "mediator/base/sanitized.h"
#include "mediator/base/tests/captured_log.h"
#include "mediator/frontend/vfio_user/tests/front_door.h"

namespace vrdma::vfio_user::test {
namespace {

using namespace std::chrono_literals;

// While this object exists, the process can open nothing.
class NoDescriptorsLeft {
  public:
    NoDescriptorsLeft() {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &usual_), 0);
        const UniqueFd lowest{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
        const rlimit none{static_cast<rlim_t>(lowest.get()), usual_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
    NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;
    ~NoDescriptorsLeft() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual_), 0); }

  private:
    rlimit usual_{};
};

class DescriptorsTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if constexpr (sanitized) {
            GTEST_SKIP() << "UBSan looks at memory through a pipe, which takes descriptors";
        }
    }

    static Message map_command() {
        Message message = command(
            VFIO_USER_DMA_MAP, vfio_user_dma_map{sizeof(vfio_user_dma_map), VFIO_USER_DMA_READ, 0,
                                                 0, VRDMA_PAGE_SIZE});
        message.fds.push_back(shared_file(VRDMA_PAGE_SIZE));
        return message;
    }

    CapturedLog log;
};

// Connect when there is no descriptor for the client; expect one attempt to accept it, and not one
// per round of the loop.
TEST_F(DescriptorsTest, WhoCannotBeAcceptedIsNotTriedWithoutEnd) {
    FrontDoor door{{.pause = 1h}};
    const UniqueFd client = door.connect();
    const auto before = log.lines();
    const NoDescriptorsLeft none;
    door.run_for(20ms);
    EXPECT_EQ(log.lines() - before, 1);
}

// The same, until there are descriptors again; expect the client to be served then.
TEST_F(DescriptorsTest, WhoWaitedIsAccepted) {
    FrontDoor door{{.pause = 1ms}};
    const UniqueFd client = door.connect();
    FrontDoor::send(client, version_command());
    {
        const NoDescriptorsLeft none;
        door.run_for(20ms);
    }
    EXPECT_TRUE(door.receive(client));
}

// Share memory when there is no descriptor for it; expect EMFILE, and the client to stay connected.
TEST_F(DescriptorsTest, AClientOutlivesADescriptorThatWasLost) {
    FrontDoor door{{}};
    const UniqueFd client = door.connect();
    ASSERT_TRUE(door.ask(client, version_command()));
    FrontDoor::send(client, map_command());
    const auto mapped = door.receive(client);
    ASSERT_TRUE(mapped);
    EXPECT_EQ(mapped->header.error, 0u);
    const Message again = map_command();
    const NoDescriptorsLeft none;
    const auto refused = door.ask(client, again);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->header.error, static_cast<std::uint32_t>(EMFILE));
    EXPECT_TRUE(door.ask(client, command(VFIO_USER_DEVICE_RESET)));
}

// Let a client go while there is no descriptor for the next client's new files; expect a later
// client to be served.
TEST_F(DescriptorsTest, ASeatIsMadeReadyLater) {
    FrontDoor door{{.pause = 1ms}};
    const UniqueFd client = door.connect();
    ASSERT_TRUE(door.ask(client, version_command()));
    {
        const NoDescriptorsLeft none;
        ::shutdown(client.get(), SHUT_RDWR);
        door.run_for(20ms);
    }
    const UniqueFd next = door.connect();
    EXPECT_TRUE(door.ask(next, version_command()));
}

} // namespace
} // namespace vrdma::vfio_user::test
