// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The guest's end of a queue pair: posts WQEs as a provider does.
#pragma once

#include <span>

#include "mediator/hca/queue_pair.h"
#include "mediator/tests/guest/buffer.h"
#include "mediator/tests/guest/doorbell.h"

namespace vrdma::test {

struct SendWr {
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    std::uint32_t flags = VRDMA_SQ_SIGNALED;
    std::uint32_t imm = 0;
    std::span<const vrdma_sge> sges{};
    std::span<const std::byte> inline_data{}; // instead of sges, with VRDMA_SQ_INLINE
    Key rkey{};
    std::uint64_t raddr = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    AhId ah{};
    Qpn dest_qpn{};
    std::uint32_t qkey = 0;
    Srqn srq{};                          // XRC
    const vrdma_sq_bind* bind = nullptr; // of BIND_MW
    const vrdma_sq_reg* reg = nullptr;   // of REG_MR
};

// The shape of a QP.
struct QpShape {
    hca::QpType type = hca::QpType::rc;
    std::uint32_t sq_depth = 16;
    std::uint32_t rq_depth = 16;
    std::uint8_t sq_stride_shift = 7;
    std::uint8_t rq_stride_shift = 6;
    std::uint32_t max_inline = 64;
    std::uint16_t max_send_sge = 4;
    std::uint16_t max_recv_sge = 3;
    bool signal_all = false;
    bool blocks_own_multicast = false;
    Srqn srq{};       // instead of an RQ
    bool gsi = false; // QP1, with type ud

    static QpShape sharing(Srqn srq, hca::QpType type = hca::QpType::rc) {
        QpShape shape;
        shape.type = type;
        shape.rq_depth = 0;
        shape.max_recv_sge = 0;
        shape.srq = srq;
        return shape;
    }

    static QpShape xrc_send() {
        QpShape shape;
        shape.type = hca::QpType::xrc_send;
        shape.rq_depth = 0;
        shape.max_recv_sge = 0;
        return shape;
    }

    std::uint64_t buffer_size() const {
        return vrdma_qp_buffer_size(sq_depth, sq_stride_shift, rq_depth, rq_stride_shift);
    }
};

class GuestQp {
  public:
    GuestQp(Qpn id, const QpShape& shape, Buffer buffer, Doorbell doorbell);

    Qpn id() const { return id_; }
    const QpShape& shape() const { return shape_; }
    const Buffer& buffer() const { return buffer_; }
    vrdma_qp_control& control() const { return *control_; }
    const Doorbell& doorbell() const { return doorbell_; }

    void post_send(const SendWr& wr);
    void post_recv(std::span<const vrdma_sge> sges);
    // The same without ringing. One announce_sends() follows for all of them.
    void write_send(const SendWr& wr);
    void announce_sends() const { doorbell_.announce_sends(*control_); }

    // Posts an entry of any content, and makes it valid. No provider does that.
    void post_raw_send(std::uint32_t ctrl, std::span<const std::byte> rest);
    void post_raw_recv(std::uint32_t ctrl, std::span<const std::byte> rest);

    std::uint32_t posted_sends() const { return sq_head_; }

    // Resets the producer's state when the QP moves to RESET.
    void reset();

  private:
    std::byte* sq_entry() const;
    std::byte* rq_entry() const;
    void publish_send(std::byte* entry, std::uint32_t ctrl);
    void publish_recv(std::byte* entry, std::uint32_t ctrl);

    Qpn id_;
    QpShape shape_;
    Buffer buffer_;
    Doorbell doorbell_;
    vrdma_qp_control* control_;
    std::uint32_t sq_head_ = 0;
    std::uint32_t rq_head_ = 0;
};

} // namespace vrdma::test
