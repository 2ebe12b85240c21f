// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/receive_ring.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cassert>
#include <cstring>

#include "mediator/wire/uplink/socket_option.h"

namespace vrdma::wire {
namespace {

// The kernel takes the tag out of a frame and reports it separately. It is put back where it was.
constexpr std::size_t tag_size = 4;
constexpr std::size_t macs_size = std::size_t{2} * ETH_ALEN;
// Room for the tag before each frame; what follows its Ethernet header stays aligned.
constexpr unsigned room_for_tag = TPACKET_ALIGNMENT;

constexpr std::size_t block_size = 64 << 10;
static_assert(block_size % ReceiveRing::slot_size == 0, "so that slots follow each other");

std::atomic_ref<std::uint32_t> status_of(tpacket2_hdr& slot) {
    return std::atomic_ref<std::uint32_t>{slot.tp_status};
}

std::span<const std::byte> frame_of(tpacket2_hdr& slot, std::uint32_t status) {
    auto* frame = reinterpret_cast<std::byte*>(&slot) + slot.tp_mac;
    if ((status & TP_STATUS_VLAN_VALID) == 0) {
        return {frame, slot.tp_snaplen};
    }
    const bool has_type = (status & TP_STATUS_VLAN_TPID_VALID) != 0;
    const std::uint16_t tag[] = {htons(has_type ? slot.tp_vlan_tpid : std::uint16_t{ETH_P_8021Q}),
                                 htons(slot.tp_vlan_tci)};
    static_assert(sizeof(tag) == tag_size);
    std::memmove(frame - tag_size, frame, macs_size);
    std::memcpy(frame - tag_size + macs_size, tag, sizeof(tag));
    return {frame - tag_size, slot.tp_snaplen + tag_size};
}

} // namespace

Result<ReceiveRing> ReceiveRing::create(int socket) {
    tpacket_req request{};
    request.tp_block_size = block_size;
    request.tp_block_nr = slots * slot_size / block_size;
    request.tp_frame_size = slot_size;
    request.tp_frame_nr = slots;
    if (!set_option(socket, SOL_PACKET, PACKET_VERSION, static_cast<int>(TPACKET_V2)) ||
        !set_option(socket, SOL_PACKET, PACKET_RESERVE, room_for_tag) ||
        !set_option(socket, SOL_PACKET, PACKET_RX_RING, request)) {
        return fail_errno();
    }
    auto ring = Mapping::map(socket, 0, slots * slot_size, PROT_READ | PROT_WRITE);
    if (!ring) {
        return tl::unexpected{ring.error()};
    }
    return ReceiveRing{std::move(*ring)};
}

std::span<const std::byte> ReceiveRing::receive() noexcept {
    for (std::size_t looked_at = 0; current_.empty() && looked_at < slots; ++looked_at) {
        auto& slot = *ring_.as<tpacket2_hdr>(next_ * slot_size);
        const std::uint32_t status = status_of(slot).load(std::memory_order_acquire);
        if ((status & TP_STATUS_USER) == 0) {
            break;
        }
        current_ = frame_of(slot, status);
        if (slot.tp_snaplen < slot.tp_len) {
            ++truncated_;
            release();
        }
    }
    return current_;
}

void ReceiveRing::release() noexcept {
    assert(!current_.empty());
    current_ = {};
    auto& slot = *ring_.as<tpacket2_hdr>(next_ * slot_size);
    status_of(slot).store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = (next_ + 1) % slots;
}

} // namespace vrdma::wire
