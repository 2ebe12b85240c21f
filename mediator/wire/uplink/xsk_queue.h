// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An AF_XDP socket on one of an interface's queues. It receives into memory of its own, and sends
// from it. The kernel copies frames to and from there, or, with a driver that can, the NIC reads
// and writes them in place (zero copy).
#pragma once

#include <linux/bpf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/base/mapping.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/uplink/xsk_ring.h"

namespace vrdma::wire {

class XskQueue {
  public:
    static constexpr std::uint32_t receive_frames = 1024;
    static constexpr std::uint32_t send_frames = 512;
    // The number of frames that the kernel sends per call, if it copies.
    static constexpr std::uint32_t batch = 32;
    // No frame may be larger than a page, and a received one has the kernel's room before it.
    static constexpr std::size_t frame_size = 4096;
    static constexpr std::size_t max_received = frame_size - XDP_PACKET_HEADROOM;

    // invalid_argument: the interface has no such queue. not_supported: it has no zero copy.
    static Result<XskQueue> create(int link_index, std::uint32_t queue, bool zero_copy);

    int fd() const noexcept { return socket_.get(); }

    // Returns the oldest frame until it is released; nothing if there is none.
    std::span<const std::byte> receive() noexcept;
    void release() noexcept;

    // Room for the next frame, or nothing while all frames are under way.
    std::span<std::byte> prepare() noexcept;
    void commit(std::size_t bytes) noexcept;

    // Sends the committed frames. Frames that are not taken now stay for the next time. While the
    // interface is down, those stay that were committed when that was found. Frames that are
    // committed later are lost. Returns how many were lost.
    std::uint32_t flush() noexcept;

    // The number of frames that came when the ring was full, or were too long.
    std::uint64_t overrun() const noexcept;

  private:
    struct Rings {
        XskRing<std::uint64_t> fill;
        XskRing<std::uint64_t> completed;
        XskRing<xdp_desc> received;
        XskRing<xdp_desc> sent;
    };

    XskQueue(UniqueFd socket, Mapping frames, Rings rings);

    static Result<Mapping> make_frames(int socket);
    static Result<Rings> make_rings(int socket);
    void reclaim() noexcept;
    std::uint32_t take_back() noexcept;
    int send() const noexcept;
    std::uint32_t send_all() noexcept;

    Mapping frames_; // outlives the socket, by which the kernel may write to it
    UniqueFd socket_;
    Rings rings_;
    std::array<std::uint64_t, send_frames> free_{}; // frames to send, by offset
    std::size_t free_count_ = 0;
    bool up_ = true;
};

} // namespace vrdma::wire
