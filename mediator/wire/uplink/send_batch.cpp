// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/send_batch.h"

#include <cassert>
#include <cerrno>

namespace vrdma::wire {

SendBatch::SendBatch() : frames_{std::make_unique_for_overwrite<std::array<Frame, capacity>>()} {
    for (std::size_t i = 0; i < capacity; ++i) {
        spans_[i].iov_base = (*frames_)[i].bytes.data();
        messages_[i].msg_hdr.msg_iov = &spans_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

std::span<std::byte> SendBatch::prepare() noexcept {
    return full() ? std::span<std::byte>{} : (*frames_)[committed_].bytes;
}

void SendBatch::commit(std::size_t bytes) noexcept {
    assert(!full() && bytes <= max_frame_size);
    spans_[committed_].iov_len = bytes;
    ++committed_;
}

// sendmmsg() stops at a frame that is refused. It returns the error only if that frame is the
// first.
std::size_t SendBatch::flush(int socket) noexcept {
    std::size_t refused = 0;
    while (sent_ < committed_) {
        const int taken = ::sendmmsg(socket, &messages_[sent_],
                                     static_cast<unsigned>(committed_ - sent_), MSG_DONTWAIT);
        if (taken > 0) {
            sent_ += static_cast<std::size_t>(taken);
        } else if (errno == EAGAIN) {
            return refused;
        } else {
            ++sent_;
            ++refused;
        }
    }
    sent_ = committed_ = 0;
    return refused;
}

} // namespace vrdma::wire
