// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <sys/socket.h>

#include "mediator/frontend/vfio_user/tests/front_door.h"

namespace vrdma::vfio_user::test {
namespace {

using namespace std::chrono_literals;

class ClientTimeoutTest : public ::testing::Test {
  protected:
    FrontDoor door{{.timeout = 5ms}};
};

// Connect and send nothing; expect to be dropped, and the next client to be served.
TEST_F(ClientTimeoutTest, ASilentClientLosesItsSlot) {
    const UniqueFd silent = door.connect();
    EXPECT_FALSE(door.receive(silent));
    const UniqueFd next = door.connect();
    EXPECT_TRUE(door.ask(next, version_command()));
}

// Send a message byte by byte; expect that this does not extend the deadline.
TEST_F(ClientTimeoutTest, BytesThatTrickleInAreNoMessage) {
    const UniqueFd slow = door.connect();
    ASSERT_TRUE(door.ask(slow, version_command()));
    EventLoop::Timer next;
    int sent = 0;
    std::function<void()> trickle = [&] {
        Message message = command(VFIO_USER_REGION_WRITE);
        message.header.size = max_message_size;
        const auto bytes = std::as_bytes(std::span{&message.header, 1});
        const std::byte byte = sent < 16 ? bytes[static_cast<std::size_t>(sent)] : std::byte{0};
        ::send(slow.get(), &byte, 1, MSG_NOSIGNAL); // it fails once the mediator has hung up
        ++sent;
        next = door.loop().after(1ms, trickle);
    };
    trickle();
    EXPECT_FALSE(door.receive(slow));
}

// Send messages in pieces, so that each turn of the mediator ends in the middle of a message. Do
// that for longer than one message may take; expect to be served.
TEST_F(ClientTimeoutTest, EachMessageHasItsOwnTime) {
    const UniqueFd busy = door.connect();
    ASSERT_TRUE(door.ask(busy, version_command()));
    const Message reset = command(VFIO_USER_DEVICE_RESET);
    const auto bytes = std::as_bytes(std::span{&reset.header, 1});
    FrontDoor::send_bytes(busy, bytes.first(1));
    const auto end = EventLoop::Clock::now() + 50ms;
    while (EventLoop::Clock::now() < end) {
        FrontDoor::send_bytes(busy, bytes.subspan(1));
        FrontDoor::send_bytes(busy, bytes.first(1));
        ASSERT_TRUE(door.receive(busy));
    }
}

// Negotiate, then send nothing for a long time; expect to be served afterwards.
TEST_F(ClientTimeoutTest, AClientMayHaveNothingToSay) {
    const UniqueFd client = door.connect();
    ASSERT_TRUE(door.ask(client, version_command()));
    door.run_for(50ms);
    EXPECT_TRUE(door.ask(client, command(VFIO_USER_DEVICE_RESET)));
}

} // namespace
} // namespace vrdma::vfio_user::test
