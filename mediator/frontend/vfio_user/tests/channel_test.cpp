// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/channel.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>

namespace vrdma::vfio_user {
namespace {

class ChannelTest : public ::testing::Test {
  protected:
    ChannelTest() { connect(); }

    void connect() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        channel_ = Channel{UniqueFd{ends[0]}};
        other_ = UniqueFd{ends[1]};
    }

    void send(std::span<const std::byte> bytes, std::span<const int> fds = {}) {
        ASSERT_EQ(send_with_fds(other_.get(), bytes, fds), static_cast<ssize_t>(bytes.size()));
    }

    static std::vector<std::byte> bytes_of(std::uint32_t size, std::size_t payload) {
        const vfio_user_header header{1, VFIO_USER_DEVICE_RESET, size, 0, 0};
        std::vector<std::byte> bytes(sizeof(header) + payload, std::byte{0x5a});
        std::memcpy(bytes.data(), &header, sizeof(header));
        return bytes;
    }

    Channel channel_{UniqueFd{}};
    UniqueFd other_;
    UniqueFd eventfd_{::eventfd(0, EFD_CLOEXEC)};
};

// Send a message byte by byte; expect nothing before the last, and then the whole.
TEST_F(ChannelTest, MessagesComeInPieces) {
    const auto bytes = bytes_of(20, 4);
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
        send(std::span{bytes}.subspan(i, 1));
        const auto message = channel_.receive();
        ASSERT_TRUE(message);
        EXPECT_FALSE(*message);
    }
    send(std::span{bytes}.last(1));
    // The header and the payload are read one after the other.
    auto message = channel_.receive();
    ASSERT_TRUE(message && *message);
    EXPECT_EQ((*message)->header.size, 20u);
    EXPECT_EQ((*message)->payload, std::vector(4, std::byte{0x5a}));
}

// Send two messages at once, the second with a descriptor; expect it with the second.
TEST_F(ChannelTest, DescriptorsBelongToTheirMessage) {
    send(bytes_of(16, 0));
    send(bytes_of(18, 2), std::array{eventfd_.get()});
    const auto first = channel_.receive();
    ASSERT_TRUE(first && *first);
    EXPECT_TRUE((*first)->fds.empty());
    const auto second = channel_.receive();
    ASSERT_TRUE(second && *second);
    EXPECT_EQ((*second)->fds.size(), 1u);
}

// Claim sizes below a header's and above the maximum; expect an error.
TEST_F(ChannelTest, RefusesImpossibleSizes) {
    for (const std::uint32_t size :
         {0u, 15u, static_cast<std::uint32_t>(max_message_size) + 1, ~0u}) {
        connect();
        send(bytes_of(size, 0));
        EXPECT_EQ(channel_.receive().error(), std::errc::bad_message);
    }
}

// Send more descriptors than are accepted; expect an error.
TEST_F(ChannelTest, RefusesTooManyDescriptors) {
    send(bytes_of(16, 0), std::vector<int>(max_fds + 1, eventfd_.get()));
    EXPECT_EQ(channel_.receive().error(), std::errc::bad_message);
}

// Close the other end in the middle of a message; expect an error.
TEST_F(ChannelTest, TellsTheEnd) {
    const auto bytes = bytes_of(20, 4);
    send(std::span{bytes}.first(10));
    other_ = UniqueFd{};
    EXPECT_FALSE(*channel_.receive());
    EXPECT_EQ(channel_.receive().error(), std::errc::connection_reset);
}

// Send a reply with a descriptor; expect both at the other end.
TEST_F(ChannelTest, SendsRepliesWithDescriptors) {
    Answer answer;
    answer.add(std::uint32_t{42}).fds.push_back(eventfd_.get());
    ASSERT_TRUE(channel_.send({3, VFIO_USER_VERSION, 20, 1, 0}, std::move(answer)));
    EXPECT_FALSE(channel_.blocked());
    Channel reader{std::move(other_)};
    const auto message = reader.receive();
    ASSERT_TRUE(message && *message);
    EXPECT_EQ((*message)->header.id, 3u);
    EXPECT_EQ((*message)->read<std::uint32_t>(), 42u);
    EXPECT_EQ((*message)->fds.size(), 1u);
}

// Send until the socket is full, while the other side does not read; expect the rest to be kept,
// and sent once there is room.
TEST_F(ChannelTest, KeepsWhatTheSocketDoesNotTake) {
    std::size_t sent = 0;
    while (!channel_.blocked()) {
        Answer answer;
        answer.payload.resize(max_transfer);
        ASSERT_TRUE(
            channel_.send({1, VFIO_USER_REGION_READ, sizeof(vfio_user_header) + max_transfer, 1, 0},
                          std::move(answer)));
        ++sent;
    }
    Channel reader{std::move(other_)};
    std::size_t received = 0;
    while (received < sent) {
        ASSERT_TRUE(channel_.flush());
        const auto message = reader.receive();
        ASSERT_TRUE(message);
        received += *message ? 1 : 0;
    }
    EXPECT_FALSE(channel_.blocked());
}

} // namespace
} // namespace vrdma::vfio_user
