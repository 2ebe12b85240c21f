// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages over a stream socket, which may deliver them in pieces of any size. Never blocks.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "mediator/frontend/vfio_user/message.h"

namespace vrdma::vfio_user {

// Like send(2), with descriptors (at most 253). Never blocks.
ssize_t send_with_fds(int socket, std::span<const std::byte> bytes,
                      std::span<const int> fds) noexcept;

class Channel {
  public:
    explicit Channel(UniqueFd socket) : socket_{std::move(socket)} {}

    int fd() const noexcept { return socket_.get(); }

    // Returns the next whole message, or nothing until more arrives. After an error the channel is
    // unusable. It is also an error if the other side closes the socket.
    Result<std::optional<Message>> receive();

    // Whether part of a message has arrived.
    bool in_message() const noexcept { return received_ != 0; }

    // Sends the message. Keeps the bytes for which the socket has no room, and flush() sends those.
    Result<> send(const vfio_user_header& header, Answer answer);
    Result<> flush();
    bool blocked() const noexcept { return !unsent_.empty(); }

  private:
    Result<bool> fill(std::span<std::byte> target);
    Result<> take_fds(const ::msghdr& message);

    UniqueFd socket_;
    Message incoming_;
    std::size_t received_ = 0; // bytes of incoming_, header and payload
    std::vector<std::byte> unsent_;
    std::vector<int> unsent_fds_; // go with the first unsent byte
};

} // namespace vrdma::vfio_user
