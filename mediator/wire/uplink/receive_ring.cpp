// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/receive_ring.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cassert>
#include <cstring>

#include "mediator/wire/uplink/offload.h"
#include "mediator/wire/uplink/socket_option.h"

namespace vrdma::wire {
namespace {

// The kernel takes the tag out of a frame and reports it separately. It is put back where it was.
constexpr std::size_t tag_size = 4;
constexpr std::size_t macs_size = std::size_t{2} * ETH_ALEN;
// Room for the tag before each frame. With virtio's header there, what follows the Ethernet
// header stays aligned.
constexpr unsigned room_for_tag = 2U * TPACKET_ALIGNMENT - unsigned{sizeof(Offload)};

constexpr std::size_t block_size = std::size_t{64} << 10; // slots follow each other in blocks, too

std::atomic_ref<std::uint32_t> status_of(tpacket2_hdr& slot) {
    return std::atomic_ref<std::uint32_t>{slot.tp_status};
}

Offload offload_of(const tpacket2_hdr& slot) {
    Offload offload;
    std::memcpy(&offload, reinterpret_cast<const std::byte*>(&slot) + slot.tp_mac - sizeof(offload),
                sizeof(offload));
    return offload;
}

// Writes the tag over virtio's header.
std::span<std::byte> frame_of(tpacket2_hdr& slot, std::uint32_t status) {
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

Result<ReceiveRing> ReceiveRing::create(int socket, Shape shape) {
    const std::size_t size = shape.slots * shape.slot_size;
    tpacket_req request{};
    request.tp_block_size = block_size;
    request.tp_block_nr = static_cast<unsigned>(size / block_size);
    request.tp_frame_size = static_cast<unsigned>(shape.slot_size);
    request.tp_frame_nr = static_cast<unsigned>(shape.slots);
    if (!set_option(socket, SOL_PACKET, PACKET_VERSION, static_cast<int>(TPACKET_V2)) ||
        !set_option(socket, SOL_PACKET, PACKET_RESERVE, room_for_tag) ||
        !set_option(socket, SOL_PACKET, PACKET_RX_RING, request)) {
        return fail_errno();
    }
    auto ring = Mapping::map(socket, 0, size, PROT_READ | PROT_WRITE);
    if (!ring) {
        return tl::unexpected{ring.error()};
    }
    return ReceiveRing{std::move(*ring), shape};
}

tpacket2_hdr& ReceiveRing::next_slot() const noexcept {
    return *ring_.as<tpacket2_hdr>(next_ * shape_.slot_size);
}

std::optional<std::uint64_t> ReceiveRing::arrival() const noexcept {
    constexpr std::uint64_t second = 1'000'000'000;
    tpacket2_hdr& slot = next_slot();
    if ((status_of(slot).load(std::memory_order_acquire) & TP_STATUS_USER) == 0) {
        return {};
    }
    return slot.tp_sec * second + slot.tp_nsec;
}

void ReceiveRing::open() noexcept {
    tpacket2_hdr& slot = next_slot();
    const Offload offload = offload_of(slot);
    const auto frame = frame_of(slot, status_of(slot).load(std::memory_order_relaxed));
    if (offload.kind == Offload::udp_segmentation) {
        segments_ = Segments{frame, offload.segment_size};
        current_ = segments_.next();
    }
    const bool whole = current_.empty(); // the port counts what is wrong with it
    truncated_ += slot.tp_snaplen < slot.tp_len || (whole && frame.size() > max_frame_size);
    if (whole && frame.size() <= max_frame_size) {
        current_ = frame;
    }
    if (current_.empty()) {
        free_slot();
    }
}

void ReceiveRing::release() noexcept {
    assert(!current_.empty());
    current_ = segments_.next();
    if (current_.empty()) {
        free_slot();
    }
}

void ReceiveRing::free_slot() noexcept {
    segments_ = {};
    status_of(next_slot()).store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = (next_ + 1) % shape_.slots;
}

} // namespace vrdma::wire
