// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages over a stream socket, which may deliver them in any pieces. Never blocks.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "mediator/frontend/vfio_user/message.h"

namespace vrdma::vfio_user {

// As send(2), with descriptors (at most 253). Never blocks.
ssize_t send_with_fds(int socket, std::span<const std::byte> bytes,
                      std::span<const int> fds) noexcept;

class Channel {
  public:
    explicit Channel(UniqueFd socket) : socket_{std::move(socket)} {}

    int fd() const noexcept { return socket_.get(); }

    // The next whole message, or nothing until more arrives. After an error (which also the other
    // side's end is) the channel is of no more use.
    Result<std::optional<Message>> receive();

    // Part of a message has come.
    bool in_message() const noexcept { return received_ != 0; }

    // Takes the message; what the socket does not is kept, and flush() goes on with it.
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
    std::vector<int> unsent_fds_; // go with the first of the bytes
};

} // namespace vrdma::vfio_user
