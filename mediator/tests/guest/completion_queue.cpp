// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/completion_queue.h"

#include "mediator/memory/shared_words.h"

namespace vrdma::test {

GuestCq::GuestCq(Cqn id, Buffer buffer, std::uint32_t depth)
    : id_{id},
      buffer_{std::move(buffer)},
      depth_{depth},
      control_{buffer_.at<vrdma_cq_control>(0)} {
    seek();
}

bool GuestCq::valid(const vrdma_cqe& entry) const {
    const std::uint32_t phase = (consumer_ & depth_) == 0 ? VRDMA_CQE_PHASE : 0;
    return (load_acquire(entry.ctrl) & VRDMA_CQE_PHASE) == phase;
}

void GuestCq::seek() {
    const std::uint64_t index = consumer_ & (depth_ - 1);
    next_ = buffer_.at<vrdma_cqe>(VRDMA_QUEUE_CONTROL_SIZE + index * sizeof(vrdma_cqe));
}

void GuestCq::take() {
    ++consumer_;
    seek();
    store_release(control_->consumer, consumer_);
}

std::optional<Completion> GuestCq::poll() {
    if (!ready()) {
        return std::nullopt;
    }
    const vrdma_cqe& entry = *next_;
    const Completion completion{
        .status = static_cast<ibv_wc_status>(VRDMA_GET(VRDMA_CQE_STATUS, entry.ctrl)),
        .opcode = static_cast<ibv_wc_opcode>(VRDMA_GET(VRDMA_CQE_OPCODE, entry.ctrl)),
        .receive = (entry.ctrl & VRDMA_CQE_RECV) != 0,
        .with_imm = (entry.ctrl & VRDMA_CQE_WITH_IMM) != 0,
        .with_grh = (entry.ctrl & VRDMA_CQE_GRH) != 0,
        .qpn = entry.qpn,
        .index = entry.wqe_index,
        .byte_len = entry.byte_len,
        .imm = entry.imm,
        .src_qpn = entry.src_qpn,
        .vendor_err = entry.vendor_err,
        .header = entry.header};
    take();
    return completion;
}

void GuestCq::arm(bool solicited_only) {
    ++sequence_;
    store_release(control_->arm, VRDMA_SET(VRDMA_CQ_ARM_SEQUENCE, sequence_) |
                                     (solicited_only ? VRDMA_CQ_ARM_SOLICITED : 0));
    full_fence();
}

} // namespace vrdma::test
