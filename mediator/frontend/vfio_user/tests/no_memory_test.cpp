// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/tests/front_door.h"
#include "mediator/tests/guest/heap.h"

namespace vrdma::vfio_user::test {
namespace {

// Begin a message for which there is no memory; expect its client to be dropped, and the next one
// to be served.
TEST(NoMemoryTest, AMessageWithoutMemoryEndsItsClientOnly) {
    FrontDoor door{{}};
    const UniqueFd client = door.connect();
    ASSERT_TRUE(door.ask(client, version_command()));
    Message large = command(VFIO_USER_REGION_WRITE);
    large.header.size = max_message_size;
    {
        const vrdma::test::NoMemory no_memory{max_message_size / 2};
        FrontDoor::send_bytes(client, std::as_bytes(std::span{&large.header, 1}));
        EXPECT_FALSE(door.receive(client));
    }
    const UniqueFd next = door.connect();
    EXPECT_TRUE(door.ask(next, version_command()));
}

} // namespace
} // namespace vrdma::vfio_user::test
