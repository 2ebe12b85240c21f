// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// WQEs that no provider writes. Each ends in an error completion with the reason.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class HostileWqe : public ConnectedPair {
  protected:
    struct Entry {
        vrdma_sq_wqe wqe{};
        std::array<vrdma_sge, 6> sges{};
    };

    void post(GuestQp& qp, const Entry& entry) {
        const auto bytes = std::as_bytes(std::span{&entry, 1});
        qp.post_raw_send(entry.wqe.ctrl, bytes.subspan(sizeof(entry.wqe.ctrl)));
    }

    // Posts the entry to a new QP. Expects one error completion, and an unaffected peer.
    Completion fail(const Entry& entry, hca::QpType type = hca::QpType::rc) {
        GuestQp from = a_.create_qp(a_cq_, a_cq_, {.type = type});
        GuestQp to = b_.create_qp(b_cq_, b_cq_, {.type = type});
        connect_pair(from, to);
        post(from, entry);
        const Completion failed = wait(a_cq_);
        EXPECT_EQ(state_of(b_, to), IBV_QPS_RTS);
        return failed;
    }
};

// Each reserved bit of the first word; expect LOC_QP_OP_ERR, reserved.
TEST_F(HostileWqe, ReservedBits) {
    for (unsigned bit = 0; bit < 31; ++bit) {
        if ((VRDMA_SQ_RESERVED & 1u << bit) != 0) {
            Entry entry;
            entry.wqe.ctrl = VRDMA_SQ_RDMA_WRITE | 1u << bit;
            const Completion failed = fail(entry);
            EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
            EXPECT_EQ(failed.vendor_err, VRDMA_VERR_RESERVED) << bit;
        }
    }
}

// Fields that the opcode does not use; expect LOC_QP_OP_ERR, reserved.
TEST_F(HostileWqe, UnusedFields) {
    const auto expect_reserved = [&](auto&& change) {
        Entry entry;
        entry.wqe.ctrl = VRDMA_SQ_SEND;
        change(entry);
        EXPECT_EQ(fail(entry).vendor_err, VRDMA_VERR_RESERVED);
    };
    expect_reserved([](Entry& entry) { entry.wqe.length = 1; });
    expect_reserved([](Entry& entry) { entry.wqe.imm = 1; });
    expect_reserved([](Entry& entry) { entry.wqe.rkey = 1; });
    expect_reserved([](Entry& entry) { entry.wqe.raddr = 1; });
    expect_reserved(
        [](Entry& entry) { entry.wqe.ctrl |= VRDMA_SQ_INLINE | VRDMA_SET(VRDMA_WQE_NUM_SGE, 1u); });
    expect_reserved([&](Entry& entry) { // swap operand of an operation that does not compare
        entry.wqe.ctrl = VRDMA_SQ_ATOMIC_FETCH_AND_ADD | VRDMA_SET(VRDMA_WQE_NUM_SGE, 1u);
        entry.sges[0].length = 1;
    });
}

// Unknown opcodes, or those that only QPs of the guest kernel have; expect LOC_QP_OP_ERR, opcode.
TEST_F(HostileWqe, UnknownOpcodes) {
    for (const std::uint32_t opcode : {10u, 14u, 16u, 31u, 32u, 33u, 63u, 64u, 71u, 255u}) {
        Entry entry;
        entry.wqe.ctrl = opcode;
        const Completion failed = fail(entry);
        EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
        EXPECT_EQ(failed.vendor_err, VRDMA_VERR_OPCODE) << opcode;
    }
}

// More pieces than the QP's limit, or than the entry has room for; expect LOC_QP_OP_ERR, num_sge.
TEST_F(HostileWqe, TooManyPieces) {
    for (const std::uint32_t count : {5u, 7u, 31u}) {
        Entry entry;
        entry.wqe.ctrl = VRDMA_SQ_SEND | VRDMA_SET(VRDMA_WQE_NUM_SGE, count);
        EXPECT_EQ(fail(entry).vendor_err, VRDMA_VERR_NUM_SGE) << count;
    }
    for (const std::uint32_t count : {0u, 2u}) {
        Entry entry;
        entry.wqe.ctrl = VRDMA_SQ_ATOMIC_CMP_AND_SWP | VRDMA_SET(VRDMA_WQE_NUM_SGE, count);
        EXPECT_EQ(fail(entry).vendor_err, VRDMA_VERR_NUM_SGE) << count;
    }
}

// Inline data beyond the QP's limit or the entry, or for a READ; expect LOC_QP_OP_ERR, inline.
TEST_F(HostileWqe, InlineBeyondTheLimit) {
    for (const std::uint32_t length : {65u, 105u, 4096u, ~0u}) {
        Entry entry;
        entry.wqe.ctrl = VRDMA_SQ_SEND | VRDMA_SQ_INLINE;
        entry.wqe.length = length;
        EXPECT_EQ(fail(entry).vendor_err, VRDMA_VERR_INLINE) << length;
    }
    Entry entry;
    entry.wqe.ctrl = VRDMA_SQ_RDMA_READ | VRDMA_SQ_INLINE;
    entry.wqe.length = 8;
    EXPECT_EQ(fail(entry).vendor_err, VRDMA_VERR_INLINE);
}

// Pieces that exceed the maximum length of a message, or have a wrong length for an atomic; expect
// LOC_LEN_ERR.
TEST_F(HostileWqe, Lengths) {
    Entry entry;
    entry.wqe.ctrl = VRDMA_SQ_SEND | VRDMA_SET(VRDMA_WQE_NUM_SGE, 4u);
    for (vrdma_sge& sge : entry.sges) {
        sge.length = ~0u;
    }
    EXPECT_EQ(fail(entry).status, IBV_WC_LOC_LEN_ERR);
    Entry atomic;
    atomic.wqe.ctrl = VRDMA_SQ_ATOMIC_FETCH_AND_ADD | VRDMA_SET(VRDMA_WQE_NUM_SGE, 1u);
    atomic.sges[1].length = 16; // behind the operands, which occupy one entry
    EXPECT_EQ(fail(atomic).status, IBV_WC_LOC_LEN_ERR);
}

// A receive with reserved bits or too many pieces; expect LOC_QP_OP_ERR at the receiver and
// REM_OP_ERR at the sender.
TEST_F(HostileWqe, Receives) {
    struct Bad {
        std::uint32_t ctrl;
        std::uint32_t reserved;
        vrdma_vendor_err reason;
    };
    for (const Bad& bad : {Bad{1, 0, VRDMA_VERR_RESERVED}, Bad{1u << 30, 0, VRDMA_VERR_RESERVED},
                           Bad{0, 1, VRDMA_VERR_RESERVED},
                           Bad{VRDMA_SET(VRDMA_WQE_NUM_SGE, 4u), 0, VRDMA_VERR_NUM_SGE}}) {
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        const std::array<std::uint32_t, 3> rest{0, bad.reserved, 0};
        to.post_raw_recv(bad.ctrl, std::as_bytes(std::span{rest}));
        from.post_send({});
        const Completion received = wait(b_cq_);
        EXPECT_EQ(received.status, IBV_WC_LOC_QP_OP_ERR);
        EXPECT_EQ(received.vendor_err, static_cast<std::uint32_t>(bad.reason));
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_OP_ERR);
    }
}

// Change a WQE while its message is under way; expect an error, and no more bytes than the message
// has.
TEST_F(HostileWqe, ShrinksWhileItIsSent) {
    constexpr std::uint32_t length = 2'000'000;
    const MemoryRegion from = a_.register_mr(length);
    const MemoryRegion to = b_.register_mr(length);
    const vrdma_sge source = from.sge();
    a_qp_.post_send(
        {.opcode = VRDMA_SQ_RDMA_WRITE, .sges = {&source, 1}, .rkey = to.key, .raddr = to.start});
    poll();
    poll();
    a_qp_.buffer().at<vrdma_sge>(vrdma_sq_offset(7) + VRDMA_SQ_PAYLOAD_OFFSET)->length = 10;
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_LEN_ERR);
}

// Ring doorbells of unused slots, and the line without slots; expect no effect.
TEST_F(HostileWqe, StrayDoorbells) {
    for (std::uint32_t slot = 0; slot < VRDMA_DOORBELL_SLOTS; slot += 61) {
        a_.doorbell(1, slot).ring();
        a_.doorbell(3, slot).ring();
    }
    settle();
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

} // namespace
} // namespace vrdma::test
