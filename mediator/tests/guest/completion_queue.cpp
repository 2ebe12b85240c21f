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

vrdma_cqe* GuestCq::place(Buffer& buffer, std::uint32_t index, std::uint32_t depth) {
    return buffer.at<vrdma_cqe>(VRDMA_QUEUE_CONTROL_SIZE +
                                std::uint64_t{index & (depth - 1)} * sizeof(vrdma_cqe));
}

void GuestCq::seek() {
    next_ = place(buffer_, consumer_, depth_);
}

void GuestCq::prepare(Buffer& buffer, std::uint32_t depth) const {
    auto& control = *buffer.at<vrdma_cq_control>(0);
    control.consumer = consumer_;
    control.arm = control_->arm;
    for (std::uint32_t i = consumer_; i != consumer_ + depth; ++i) {
        place(buffer, i, depth)->ctrl = (i & depth) == 0 ? 0 : VRDMA_CQE_PHASE;
    }
}

void GuestCq::adopt(Buffer buffer, std::uint32_t depth) {
    for (std::uint32_t i = consumer_; i != consumer_ + depth_; ++i) {
        const vrdma_cqe& from = *place(buffer_, i, depth_);
        const std::uint32_t phase = (i & depth_) == 0 ? VRDMA_CQE_PHASE : 0;
        if ((load_acquire(from.ctrl) & VRDMA_CQE_PHASE) != phase) {
            break;
        }
        vrdma_cqe& to = *place(buffer, i, depth);
        to = from;
        to.ctrl = (from.ctrl & ~VRDMA_CQE_PHASE) | ((i & depth) == 0 ? VRDMA_CQE_PHASE : 0);
    }
    buffer_ = std::move(buffer);
    depth_ = depth;
    control_ = buffer_.at<vrdma_cq_control>(0);
    seek();
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
        .with_inv = (entry.ctrl & VRDMA_CQE_WITH_INV) != 0,
        .with_grh = (entry.ctrl & VRDMA_CQE_GRH) != 0,
        .qpn = entry.qpn,
        .index = entry.wqe_index,
        .byte_len = entry.byte_len,
        .imm = entry.imm,
        .src_qpn = entry.src_qpn,
        .srqn = entry.srqn,
        .vendor_err = entry.vendor_err,
        .header = entry.header,
        .vlan = entry.vlan,
        .timestamp = entry.timestamp};
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
