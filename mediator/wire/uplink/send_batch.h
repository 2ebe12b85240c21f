// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Frames on their way out, copied by the kernel in one sendmmsg(). Frames that follow each other as
// the segments of one frame do, go as that one frame. The kernel, or the interface, makes the same
// frames of it again, or passes it on to where they are made.
//
// There is a mapped ring for sending, too (PACKET_TX_RING). By a virtual cable, it takes a tenth to
// a quarter longer for frames of 64 bytes to 1 KiB, and as long for 4 KiB, because the kernel
// copies its frames where others on the host get them. And a slot is held until its frame has been
// read.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mediator/wire/packet.h"
#include "mediator/wire/segments.h"
#include "mediator/wire/uplink/offload.h"

namespace vrdma::wire {

class SendBatch {
  public:
    static constexpr std::size_t capacity = 64;

    SendBatch();

    // Empty while the batch is full.
    std::span<std::byte> prepare() noexcept;
    void commit(std::size_t bytes) noexcept;
    bool full() const noexcept { return committed_ == capacity; }
    // The number of frames for flush().
    std::size_t waiting() const noexcept { return committed_ - sent_; }
    // Whether flush() may send several frames as one.
    bool may_join() const noexcept { return joining_ && waiting() > 1; }
    // Returns the number of frames that the socket refused, which are lost. Frames for which it has
    // no room now stay. Frames longer than `longest` go alone, so that an interface whose MTU has
    // become smaller refuses them.
    std::size_t flush(int socket, std::size_t longest) noexcept;

  private:
    struct alignas(64) Frame {
        std::array<std::byte, max_frame_size> bytes;
    };
    // The kernel gets this before the bytes of the frames. It has headers if there are several
    // frames.
    struct Front {
        Offload offload;
        std::array<std::byte, SegmentHeaders::max_size> headers;
    };
    static_assert(offsetof(Front, headers) == sizeof(Offload));

    std::span<std::byte> frame(std::size_t index) noexcept {
        return std::span{(*frames_)[index].bytes}.first(sizes_[index]);
    }
    void gather(std::size_t longest) noexcept;
    std::size_t add_message(std::size_t first, std::size_t longest) noexcept;
    std::size_t count_segments(std::size_t first, const SegmentHeaders& headers) noexcept;
    void write_front(Front& front, std::size_t first, std::size_t frames,
                     SegmentHeaders& headers) noexcept;
    bool stops_joining(int error) noexcept;

    std::unique_ptr<std::array<Frame, capacity>> frames_;
    std::array<std::size_t, capacity> sizes_{};
    std::size_t committed_ = 0;
    std::size_t sent_ = 0; // of those committed
    bool joining_ = true;

    // Messages of the frames that are committed and not sent.
    std::array<Front, capacity> fronts_{};
    std::array<iovec, 2 * capacity> spans_{}; // a front and its frames, and the next
    std::array<mmsghdr, capacity> messages_{};
    std::size_t gathered_ = 0;
};

} // namespace vrdma::wire
