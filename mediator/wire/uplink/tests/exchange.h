// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Sends frames by uplinks and by other sockets, and waits for them.
#pragma once

#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <span>
#include <string>

#include "frames.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/uplink.h"
#include "mediator/wire/uplink/link.h"

namespace vrdma::wire {

inline void commit(Uplink& uplink, const Frame& frame, std::uint8_t priority = 0) {
    const auto room = uplink.prepare({}, priority);
    ASSERT_GE(room.size(), frame.size());
    std::memcpy(room.data(), frame.data(), frame.size());
    uplink.commit(frame.size());
}

inline void send(Uplink& uplink, const Frame& frame, std::uint8_t priority = 0) {
    commit(uplink, frame, priority);
    uplink.flush();
}

// Sends frames of any length by a socket that knows no RoCE. Closing a socket takes the kernel
// longer than sending.
inline void send_raw(const std::string& interface, std::span<const Frame> frames) {
    const UniqueFd socket{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = read_link(interface).value().index;
    for (const Frame& frame : frames) {
        ASSERT_EQ(::sendto(socket.get(), frame.data(), frame.size(), 0,
                           reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
                  static_cast<ssize_t>(frame.size()));
    }
}

inline void send_raw(const std::string& interface, const Frame& frame) {
    send_raw(interface, std::span{&frame, 1});
}

inline bool readable(int fd, int milliseconds = 0) {
    pollfd poll{fd, POLLIN, 0};
    return ::poll(&poll, 1, milliseconds) == 1;
}
inline bool readable(const Uplink& uplink, int milliseconds = 0) {
    return readable(uplink.fd(), milliseconds);
}

// Returns the next frame, which may be a moment away; empty if nothing comes.
inline Frame receive(Uplink& uplink) {
    if (!readable(uplink, 2000)) {
        return {};
    }
    const auto frame = uplink.receive();
    Frame copy{frame.begin(), frame.end()};
    if (!frame.empty()) {
        uplink.release();
    }
    return copy;
}

} // namespace vrdma::wire
