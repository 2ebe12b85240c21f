// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/xsk_queue.h"

#include <sys/socket.h>

#include <cassert>

#include "mediator/base/errno.h"
#include "mediator/wire/uplink/socket_option.h"

namespace vrdma::wire {
namespace {

// The bytes of ours that the interface's queue may hold, if the kernel copies. The limit is that of
// a packet socket.
constexpr int max_under_way = 4 << 20;

// A frame may come back before the kernel has reported that it took the frame's previous entry. It
// hands out received frames first, and counts frames that it took to send now and then. So these
// rings have room for each frame twice.
constexpr std::uint32_t fill_entries = 2 * XskQueue::receive_frames;
constexpr std::uint32_t sent_entries = 2 * XskQueue::send_frames;

constexpr std::uint64_t frames_in_all = XskQueue::receive_frames + XskQueue::send_frames;

bool set_ring(int socket, int option, std::uint32_t size) {
    return set_option(socket, SOL_XDP, option, size);
}

Result<> bind_to(int socket, int link_index, std::uint32_t queue, bool zero_copy) {
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags =
        static_cast<std::uint16_t>((zero_copy ? XDP_ZEROCOPY : XDP_COPY) | XDP_USE_NEED_WAKEUP);
    address.sxdp_ifindex = static_cast<std::uint32_t>(link_index);
    address.sxdp_queue_id = queue;
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return fail_errno();
    }
    return {};
}

} // namespace

Result<XskQueue> XskQueue::create(int link_index, std::uint32_t queue, bool zero_copy) {
    UniqueFd socket{::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)};
    if (!socket || !set_option(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, max_under_way)) {
        return fail_errno();
    }
    auto memory = make_frames(socket.get());
    if (!memory) {
        return tl::unexpected{memory.error()};
    }
    auto rings = make_rings(socket.get());
    if (!rings) {
        return tl::unexpected{rings.error()};
    }
    XskQueue made{std::move(socket), std::move(*memory), std::move(*rings)};
    if (auto bound = bind_to(made.fd(), link_index, queue, zero_copy); !bound) {
        return tl::unexpected{bound.error()};
    }
    return made;
}

Result<Mapping> XskQueue::make_frames(int socket) {
    auto memory = Mapping::anonymous(frames_in_all * frame_size);
    if (!memory) {
        return memory;
    }
    xdp_umem_reg registration{};
    registration.addr = reinterpret_cast<std::uint64_t>(memory->data());
    registration.len = memory->size();
    registration.chunk_size = frame_size;
    if (!set_option(socket, SOL_XDP, XDP_UMEM_REG, registration)) {
        return fail_errno();
    }
    return memory;
}

Result<XskQueue::Rings> XskQueue::make_rings(int socket) {
    xdp_mmap_offsets at{};
    socklen_t size = sizeof(at);
    if (!set_ring(socket, XDP_UMEM_FILL_RING, fill_entries) ||
        !set_ring(socket, XDP_UMEM_COMPLETION_RING, send_frames) ||
        !set_ring(socket, XDP_RX_RING, receive_frames) ||
        !set_ring(socket, XDP_TX_RING, sent_entries) ||
        ::getsockopt(socket, SOL_XDP, XDP_MMAP_OFFSETS, &at, &size) != 0) {
        return fail_errno();
    }
    auto fill = XskRing<std::uint64_t>::map(socket, XDP_UMEM_PGOFF_FILL_RING, at.fr, fill_entries);
    auto completed =
        XskRing<std::uint64_t>::map(socket, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, send_frames);
    auto received = XskRing<xdp_desc>::map(socket, XDP_PGOFF_RX_RING, at.rx, receive_frames);
    auto sent = XskRing<xdp_desc>::map(socket, XDP_PGOFF_TX_RING, at.tx, sent_entries);
    if (!fill || !completed || !received || !sent) {
        return fail_errno();
    }
    return Rings{std::move(*fill), std::move(*completed), std::move(*received), std::move(*sent)};
}

// The first frames are for receiving, the others for sending.
XskQueue::XskQueue(UniqueFd socket, Mapping memory, Rings rings)
    : frames_{std::move(memory)}, socket_{std::move(socket)}, rings_{std::move(rings)} {
    for (std::uint64_t frame = 0; frame < receive_frames; ++frame) {
        rings_.fill.put(frame * frame_size);
    }
    rings_.fill.publish();
    for (std::uint64_t frame = receive_frames; frame < frames_in_all; ++frame) {
        free_[free_count_++] = frame * frame_size;
    }
}

// A driver may run out of frames, although it was given more, if nobody wakes it.
std::span<const std::byte> XskQueue::receive() noexcept {
    const xdp_desc* const frame = rings_.received.front();
    if (frame == nullptr) {
        if (rings_.fill.needs_wakeup()) {
            ::recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
        }
        return {};
    }
    return {frames_.data() + frame->addr, frame->len};
}

void XskQueue::release() noexcept {
    rings_.fill.put(rings_.received.front()->addr);
    rings_.fill.publish();
    rings_.received.pop();
}

void XskQueue::reclaim() noexcept {
    while (const std::uint64_t* const frame = rings_.completed.front()) {
        free_[free_count_++] = *frame;
        rings_.completed.pop();
    }
}

std::span<std::byte> XskQueue::prepare() noexcept {
    if (free_count_ == 0) {
        reclaim();
    }
    if (free_count_ == 0) {
        return {};
    }
    return {frames_.data() + free_[free_count_ - 1], frame_size};
}

void XskQueue::commit(std::size_t bytes) noexcept {
    assert(free_count_ != 0 && bytes <= frame_size);
    rings_.sent.put({free_[--free_count_], static_cast<std::uint32_t>(bytes), 0});
}

std::uint32_t XskQueue::take_back() noexcept {
    std::uint32_t count = 0;
    for (; rings_.sent.any_unpublished(); ++count) {
        free_[free_count_++] = rings_.sent.take_back().addr;
    }
    return count;
}

// Returns 0, or the error.
int XskQueue::send() const noexcept {
    return ::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0 ? 0 : errno;
}

std::uint32_t XskQueue::flush() noexcept {
    if (!up_) {
        const int error = send();
        up_ = error == 0 || error == EAGAIN || error == EBUSY;
        if (!up_) {
            return take_back();
        }
    }
    rings_.sent.publish();
    return send_all();
}

// EAGAIN: a batch was sent, or there is no room. EBUSY: a frame was taken, and lost.
std::uint32_t XskQueue::send_all() noexcept {
    std::uint32_t lost = 0;
    const std::uint32_t pending = rings_.sent.pending();
    std::uint32_t batches = pending / batch + 1;
    while (rings_.sent.needs_wakeup() && batches > 0 && lost < pending) {
        const int error = send();
        if (error == EAGAIN) {
            --batches;
        } else if (error == EBUSY) {
            ++lost;
        } else {
            up_ = error == 0 || error == ENOBUFS;
            break;
        }
    }
    return lost;
}

std::uint64_t XskQueue::overrun() const noexcept {
    xdp_statistics now{};
    socklen_t size = sizeof(now);
    (void)::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &now, &size);
    return now.rx_dropped + now.rx_ring_full;
}

} // namespace vrdma::wire
