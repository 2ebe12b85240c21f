// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/send_batch.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace vrdma::wire {

SendBatch::SendBatch() : frames_{std::make_unique_for_overwrite<std::array<Frame, capacity>>()} {}

std::span<std::byte> SendBatch::prepare() noexcept {
    return full() ? std::span<std::byte>{} : (*frames_)[committed_].bytes;
}

void SendBatch::commit(std::size_t bytes) noexcept {
    assert(!full() && bytes <= max_frame_size);
    sizes_[committed_] = bytes;
    ++committed_;
}

// The number of frames from `first` on that are the segments of one frame.
std::size_t SendBatch::count_segments(std::size_t first, const SegmentHeaders& headers) noexcept {
    const std::size_t whole = frame(first).size() - headers.size();
    std::size_t size = headers.size() + whole;
    std::size_t last = whole;
    std::size_t next = first + 1;
    for (; next < committed_ && last == whole; ++next) {
        const auto bytes = frame(next);
        last = bytes.size() - headers.size();
        size += last;
        if (bytes.size() > frame(first).size() || size > max_segmented_size ||
            !headers.begin(bytes, next - first)) {
            break;
        }
    }
    return next - first;
}

void SendBatch::write_front(Front& front, std::size_t first, std::size_t frames,
                            SegmentHeaders& headers) noexcept {
    const std::size_t size = frame(first).size() - headers.size();
    const std::size_t last = frame(first + frames - 1).size() - headers.size();
    std::ranges::copy(headers.whole((frames - 1) * size + last), front.headers.begin());
    front.offload.flags = Offload::needs_checksum;
    front.offload.kind = Offload::udp_segmentation;
    front.offload.headers_size = static_cast<std::uint16_t>(headers.size());
    front.offload.segment_size = static_cast<std::uint16_t>(size);
    front.offload.checksum_start = static_cast<std::uint16_t>(headers.udp_at());
    front.offload.checksum_offset = offsetof(vrdma_udp, checksum);
}

// Returns the number of frames in the message.
std::size_t SendBatch::add_message(std::size_t first, std::size_t longest) noexcept {
    Front& front = fronts_[gathered_];
    front.offload = {};
    const bool may_join = joining_ && first + 1 < committed_ && frame(first).size() <= longest;
    auto headers = may_join ? SegmentHeaders::of(frame(first)) : std::nullopt;
    const std::size_t frames = headers ? count_segments(first, *headers) : 1;
    std::size_t in_front = 0;
    if (frames > 1) {
        write_front(front, first, frames, *headers);
        in_front = headers->size();
    }
    msghdr& message = messages_[gathered_].msg_hdr;
    message.msg_iov = &spans_[first + gathered_];
    message.msg_iovlen = frames + 1;
    message.msg_iov[0] = {&front, sizeof(front.offload) + in_front};
    for (std::size_t i = 0; i < frames; ++i) {
        const auto bytes = frame(first + i).subspan(in_front);
        message.msg_iov[i + 1] = {bytes.data(), bytes.size()};
    }
    return frames;
}

void SendBatch::gather(std::size_t longest) noexcept {
    gathered_ = 0;
    for (std::size_t first = sent_; first < committed_; ++gathered_) {
        first += add_message(first, longest);
    }
}

// A kernel or an interface that does not segment.
bool SendBatch::stops_joining(int error) noexcept {
    if (error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP || error == ENOMEM) {
        joining_ = false;
    }
    return !joining_;
}

// sendmmsg() stops at a message that is refused. It returns the error only if that message is the
// first. If it has several frames, they are tried one by one.
std::size_t SendBatch::flush(int socket, std::size_t longest) noexcept {
    std::size_t refused = 0;
    gather(longest);
    for (std::size_t next = 0; next < gathered_;) {
        const int taken = ::sendmmsg(socket, &messages_[next],
                                     static_cast<unsigned>(gathered_ - next), MSG_DONTWAIT);
        const std::size_t frames = messages_[next].msg_hdr.msg_iovlen - 1;
        if (taken > 0) {
            for (int i = 0; i < taken; ++i, ++next) {
                sent_ += messages_[next].msg_hdr.msg_iovlen - 1;
            }
        } else if (errno == EAGAIN) {
            return refused;
        } else if (frames > 1 && stops_joining(errno)) {
            gather(longest);
            next = 0;
        } else {
            sent_ += frames;
            refused += frames;
            ++next;
        }
    }
    sent_ = committed_ = 0;
    return refused;
}

} // namespace vrdma::wire
