// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/queue_pair.h"

#include <algorithm>

namespace vrdma::test {
namespace {

void write_bytes(std::byte* to, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), to);
}

bool is_atomic(vrdma_sq_opcode opcode) {
    return opcode == VRDMA_SQ_ATOMIC_CMP_AND_SWP || opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
}

} // namespace

GuestQp::GuestQp(Qpn id, const QpShape& shape, Buffer buffer, Doorbell doorbell)
    : id_{id},
      shape_{shape},
      buffer_{std::move(buffer)},
      doorbell_{std::move(doorbell)},
      control_{buffer_.at<vrdma_qp_control>(0)} {}

std::byte* GuestQp::sq_entry() const {
    const std::uint64_t index = sq_head_ & (shape_.sq_depth - 1);
    return buffer_.at(vrdma_sq_offset(shape_.sq_stride_shift) + (index << shape_.sq_stride_shift));
}

std::byte* GuestQp::rq_entry() const {
    const std::uint64_t index = rq_head_ & (shape_.rq_depth - 1);
    const std::uint64_t ring =
        vrdma_rq_offset(shape_.sq_depth, shape_.sq_stride_shift, shape_.rq_stride_shift);
    return buffer_.at(ring + (index << shape_.rq_stride_shift));
}

void GuestQp::publish_send(std::byte* entry, std::uint32_t ctrl) {
    const std::uint32_t phase = (sq_head_ & shape_.sq_depth) == 0 ? VRDMA_WQE_PHASE : 0;
    store_release(*reinterpret_cast<std::uint32_t*>(entry), (ctrl & ~VRDMA_WQE_PHASE) | phase);
    ++sq_head_;
}

void GuestQp::publish_recv(std::byte* entry, std::uint32_t ctrl) {
    const std::uint32_t phase = (rq_head_ & shape_.rq_depth) == 0 ? VRDMA_WQE_PHASE : 0;
    store_release(*reinterpret_cast<std::uint32_t*>(entry), (ctrl & ~VRDMA_WQE_PHASE) | phase);
    ++rq_head_;
}

void GuestQp::write_send(const SendWr& wr) {
    std::byte* const entry = sq_entry();
    auto& wqe = *reinterpret_cast<vrdma_sq_wqe*>(entry);
    wqe.length = static_cast<std::uint32_t>(wr.inline_data.size());
    wqe.imm = wr.imm;
    if (shape_.type == hca::QpType::ud) {
        wqe.qkey = wr.qkey;
        wqe.ud.ah = wr.ah.value;
        wqe.ud.dest_qpn = wr.dest_qpn.value;
    } else {
        wqe.rkey = wr.rkey.value;
        wqe.raddr = wr.raddr;
    }
    std::byte* payload = entry + VRDMA_SQ_PAYLOAD_OFFSET;
    if (shape_.type == hca::QpType::xrc_send) {
        const vrdma_sq_xrc xrc{wr.srq.value, 0};
        std::memcpy(payload, &xrc, sizeof(xrc));
        payload += sizeof(xrc);
    }
    write_bytes(payload, wr.inline_data);
    if (is_atomic(wr.opcode)) {
        const vrdma_sq_atomic operands{wr.compare_add, wr.swap};
        std::memcpy(payload, &operands, sizeof(operands));
        payload += sizeof(operands);
    }
    if (wr.opcode == VRDMA_SQ_BIND_MW) {
        std::memcpy(payload, wr.bind, sizeof(*wr.bind));
    } else if (wr.opcode == VRDMA_SQ_REG_MR) {
        std::memcpy(payload, wr.reg, sizeof(*wr.reg));
    }
    write_bytes(payload, std::as_bytes(wr.sges));
    const auto num_sge = static_cast<std::uint32_t>(wr.sges.size());
    publish_send(entry, wr.opcode | wr.flags | VRDMA_SET(VRDMA_WQE_NUM_SGE, num_sge));
}

void GuestQp::post_send(const SendWr& wr) {
    write_send(wr);
    announce_sends();
}

void GuestQp::post_recv(std::span<const vrdma_sge> sges) {
    std::byte* const entry = rq_entry();
    write_bytes(entry + VRDMA_RQ_PAYLOAD_OFFSET, std::as_bytes(sges));
    publish_recv(entry, VRDMA_SET(VRDMA_WQE_NUM_SGE, static_cast<std::uint32_t>(sges.size())));
    doorbell_.announce_receives(*control_);
}

void GuestQp::post_raw_send(std::uint32_t ctrl, std::span<const std::byte> rest) {
    std::byte* const entry = sq_entry();
    const std::size_t room = (std::size_t{1} << shape_.sq_stride_shift) - sizeof(ctrl);
    write_bytes(entry + sizeof(ctrl), rest.first(std::min(rest.size(), room)));
    publish_send(entry, ctrl);
    announce_sends();
}

void GuestQp::post_raw_recv(std::uint32_t ctrl, std::span<const std::byte> rest) {
    std::byte* const entry = rq_entry();
    const std::size_t room = (std::size_t{1} << shape_.rq_stride_shift) - sizeof(ctrl);
    write_bytes(entry + sizeof(ctrl), rest.first(std::min(rest.size(), room)));
    publish_recv(entry, ctrl);
    doorbell_.announce_receives(*control_);
}

void GuestQp::reset() {
    sq_head_ = 0;
    rq_head_ = 0;
    buffer_.write(VRDMA_QUEUE_CONTROL_SIZE,
                  std::vector<std::byte>(buffer_.size() - VRDMA_QUEUE_CONTROL_SIZE));
}

} // namespace vrdma::test
