// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/receiver.h"

#include <linux/if_packet.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "mediator/base/at_once.h"
#include "mediator/wire/uplink/packet_socket.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t all_slots = [] {
    std::size_t sum = 0;
    for (const ReceiveRing::Shape& shape : Receiver::shapes) {
        sum += shape.slots;
    }
    return sum;
}();

FrameLengths lengths_of(std::size_t lane) {
    const auto& shapes = Receiver::shapes;
    return {.least = lane == 0 ? 0 : shapes[lane - 1].longest_frame() + 1,
            .most = lane + 1 == shapes.size() ? SIZE_MAX : shapes[lane].longest_frame()};
}

} // namespace

Result<Receiver::Lane> Receiver::open(std::size_t number) {
    auto socket = open_packet_socket(lengths_of(number));
    if (!socket) {
        return fail(socket.error());
    }
    auto ring = ReceiveRing::create(socket->get(), shapes[number]);
    if (!ring) {
        return fail(ring.error());
    }
    return Lane{std::move(*socket), std::move(*ring)};
}

Result<Receiver> Receiver::create(int link_index) {
    std::array<std::optional<Result<Lane>>, shapes.size()> opened;
    at_once(opened.size(), [&](std::size_t number) { opened[number] = open(number); });
    Lanes lanes;
    UniqueFd events{::epoll_create1(EPOLL_CLOEXEC)};
    for (auto& result : opened) {
        Result<Lane>& lane = *result;
        if (!lane) {
            return fail(lane.error());
        }
        epoll_event event{};
        event.events = EPOLLIN;
        if (::epoll_ctl(events.get(), EPOLL_CTL_ADD, lane->socket.get(), &event) != 0) {
            return fail_errno();
        }
        if (auto bound = bind_packet_socket(lane->socket.get(), link_index); !bound) {
            return fail(bound.error());
        }
        lanes.push_back(std::move(*lane));
    }
    return Receiver{std::move(lanes), std::move(events)};
}

// The lane with the oldest frame.
std::size_t Receiver::look() const noexcept {
    std::size_t found = none;
    std::uint64_t earliest = UINT64_MAX;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        const auto arrival = lanes_[i].ring.arrival();
        if (arrival && *arrival < earliest) {
            earliest = *arrival;
            found = i;
        }
    }
    return found;
}

// The kernel shows a flow's frames in their order. So if a frame of the flow is there that is older
// than one that was found, the second look sees it. A frame that has arrived stays the oldest of
// its lane, so each further look finds another lane.
std::size_t Receiver::oldest() const noexcept {
    std::size_t found = look();
    for (std::size_t looks = 0; found != none && looks < lanes_.size(); ++looks) {
        const std::size_t again = look();
        if (again == found) {
            break;
        }
        found = again;
    }
    return found;
}

std::span<const std::byte> Receiver::receive() noexcept {
    for (std::size_t opened = 0; ring().frame().empty() && opened < all_slots; ++opened) {
        const std::size_t next = oldest();
        if (next == none) {
            break;
        }
        current_ = next;
        ring().open();
    }
    return ring().frame();
}

bool Receiver::take_error() noexcept {
    bool any = false;
    for (const Lane& lane : lanes_) {
        int error = 0;
        socklen_t size = sizeof(error);
        ::getsockopt(lane.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        any = any || error != 0;
    }
    return any;
}

std::uint64_t Receiver::truncated() const noexcept {
    std::uint64_t sum = 0;
    for (const Lane& lane : lanes_) {
        sum += lane.ring.truncated();
    }
    return sum;
}

std::uint64_t Receiver::take_overrun() noexcept {
    std::uint64_t sum = 0;
    for (const Lane& lane : lanes_) {
        tpacket_stats now{};
        socklen_t size = sizeof(now);
        if (::getsockopt(lane.socket.get(), SOL_PACKET, PACKET_STATISTICS, &now, &size) == 0) {
            sum += now.tp_drops;
        }
    }
    return sum;
}

Receiver::Sockets Receiver::unmap() noexcept {
    Sockets sockets;
    std::ranges::transform(lanes_, sockets.begin(), [](Lane& lane) {
        const ReceiveRing unmapped = std::move(lane.ring);
        return std::move(lane.socket);
    });
    return sockets;
}

} // namespace vrdma::wire
