// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/tests/front_door.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

namespace vrdma::vfio_user::test {

FrontDoor::FrontDoor(const Pace& pace)
    : path_{::testing::TempDir() + "vrdma-door-" + std::to_string(::getpid())},
      server_{Server::listen(ListeningSocket::open({path_}).value(), "test",
                             bench_.make_functions(), bench_.loop, pace)
                  .value()} {}

UniqueFd FrontDoor::connect() const {
    UniqueFd client{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return client;
}

void FrontDoor::send(const UniqueFd& client, const Message& message) {
    std::vector<std::byte> bytes(sizeof(message.header) + message.payload.size());
    std::memcpy(bytes.data(), &message.header, sizeof(message.header));
    std::ranges::copy(message.payload, bytes.begin() + sizeof(message.header));
    std::vector<int> fds;
    for (const UniqueFd& fd : message.fds) {
        fds.push_back(fd.get());
    }
    EXPECT_EQ(send_with_fds(client.get(), bytes, fds), static_cast<ssize_t>(bytes.size()));
}

void FrontDoor::send_bytes(const UniqueFd& client, std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
}

std::optional<Message> FrontDoor::receive(const UniqueFd& client) {
    std::optional<Message> got;
    const auto watch = bench_.loop.watch(client.get(), [&](std::uint32_t) {
        Message message;
        std::array<std::byte, 4096> bytes{};
        const ssize_t size = ::recv(client.get(), bytes.data(), bytes.size(), 0);
        if (size >= static_cast<ssize_t>(sizeof(message.header))) {
            std::memcpy(&message.header, bytes.data(), sizeof(message.header));
            EXPECT_EQ(message.header.size, size);
            got = std::move(message);
        }
        bench_.loop.stop();
    });
    const auto late = bench_.loop.after(std::chrono::seconds{60}, [&] {
        ADD_FAILURE() << "neither a reply nor the end";
        bench_.loop.stop();
    });
    EXPECT_TRUE(watch && bench_.loop.run());
    return got;
}

std::optional<Message> FrontDoor::ask(const UniqueFd& client, const Message& message) {
    send(client, message);
    return receive(client);
}

void FrontDoor::run_for(std::chrono::milliseconds time) {
    const auto end = bench_.loop.after(time, [&] { bench_.loop.stop(); });
    EXPECT_TRUE(bench_.loop.run());
}

} // namespace vrdma::vfio_user::test
