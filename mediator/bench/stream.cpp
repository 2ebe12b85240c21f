// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/bench/stream.h"

namespace vrdma::bench {

void Stream::post_batch(const test::SendWr& wr) {
    while (in_flight_ == window_) {
        take();
    }
    test::SendWr unsignaled = wr;
    unsignaled.flags &= ~VRDMA_SQ_SIGNALED;
    for (std::uint32_t i = 1; i < batch_; ++i) {
        pair_.a_qp().write_send(unsignaled);
    }
    pair_.a_qp().write_send(wr);
    pair_.a_qp().announce_sends();
    ++in_flight_;
}

void Stream::finish() {
    while (in_flight_ != 0) {
        take();
    }
}

void Stream::take() {
    while (!pair_.a_cq().ready()) {
    }
    pair_.a_cq().take();
    --in_flight_;
}

test::SendWr word_write(Pair& pair, const std::uint64_t& value) {
    return {.opcode = VRDMA_SQ_RDMA_WRITE,
            .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
            .inline_data = std::as_bytes(std::span{&value, 1}),
            .rkey = pair.b_mr().key,
            .raddr = pair.b_mr().start};
}

} // namespace vrdma::bench
