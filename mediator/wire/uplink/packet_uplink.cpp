// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/packet_uplink.h"

#include <linux/if_packet.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>

#include "mediator/wire/uplink/packet_socket.h"

namespace vrdma::wire {
namespace {

std::size_t frame_size_of(std::uint32_t mtu) {
    return std::min(max_frame_size, mtu + ethernet_and_tag);
}

} // namespace

Result<std::unique_ptr<PacketUplink>> PacketUplink::create(const std::string& interface) {
    const auto link = read_link(interface);
    if (!link) {
        return fail(link.error());
    }
    auto receiver = Receiver::create(link->index);
    if (!receiver) {
        return fail(receiver.error());
    }
    auto senders = std::make_unique<Senders>();
    for (std::size_t priority = 0; priority < senders->size(); ++priority) {
        auto sending = open_sending_socket(link->index, static_cast<int>(priority));
        if (!sending) {
            return fail(sending.error());
        }
        (*senders)[priority].socket = std::move(*sending);
    }
    return std::unique_ptr<PacketUplink>{
        new PacketUplink{interface, *link, std::move(*receiver), std::move(senders)}};
}

PacketUplink::PacketUplink(std::string interface, const Link& link, Receiver receiver,
                           std::unique_ptr<Senders> senders)
    : interface_{std::move(interface)},
      receiver_{std::move(receiver)},
      senders_{std::move(senders)},
      first_mtu_{link.mtu},
      frame_size_{frame_size_of(link.mtu)} {}

PacketUplink::~PacketUplink() {
    auto receiving = receiver_.unmap();
    std::array<UniqueFd, receiving.size() + Priorities::count> sockets;
    const auto sending = std::ranges::move(receiving, sockets.begin()).out;
    std::ranges::transform(*senders_, sending,
                           [](Sender& sender) { return std::move(sender.socket); });
    close_packet_sockets(sockets);
}

// Pollers call this, and they cannot open anything.
std::size_t PacketUplink::frame_size() const noexcept {
    const auto size = frame_size_of(read_mtu(receiver_.socket(), interface_).value_or(first_mtu_));
    frame_size_.store(size, std::memory_order_relaxed);
    return size;
}

std::span<std::byte> PacketUplink::prepare(const Mac& /*target*/, std::uint8_t priority) noexcept {
    prepared_ = &(*senders_)[priority];
    if (prepared_->batch.full()) {
        flush(*prepared_);
    }
    return prepared_->batch.prepare();
}

void PacketUplink::flush() noexcept {
    for (Sender& sender : *senders_) {
        flush(sender);
    }
}

void PacketUplink::flush(Sender& sender) noexcept {
    const std::size_t longest = doubt_.any() ? 0 : frame_size_.load(std::memory_order_relaxed);
    doubt_.sent(sender.batch.waiting());
    const std::size_t refused = sender.batch.flush(sender.socket.get(), longest);
    if (refused != 0) {
        losses_.refused += refused;
        check_gone();
    }
}

// An interface that goes down or away causes one error of each socket. When the interface comes
// up again, the sockets continue by themselves.
void PacketUplink::woken() noexcept {
    if (receiver_.take_error()) {
        check_gone();
    }
}

// An interface that went away has left the socket. If it comes back under the same name, it is
// another one.
void PacketUplink::check_gone() noexcept {
    sockaddr_ll address{};
    socklen_t size = sizeof(address);
    ::getsockname(receiver_.socket(), reinterpret_cast<sockaddr*>(&address), &size);
    if (!gone_ && address.sll_ifindex <= 0) {
        gone_ = true;
        spdlog::warn("uplink {} is gone: nothing is sent or received by it any more", interface_);
    }
}

PacketUplink::Losses PacketUplink::losses() noexcept {
    losses_.overrun += receiver_.take_overrun();
    losses_.truncated = receiver_.truncated();
    return losses_;
}

} // namespace vrdma::wire
