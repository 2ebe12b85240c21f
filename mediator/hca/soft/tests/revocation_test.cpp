// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory that the guest registered and then gave up: every access is noticed, reported, and
// harmless.
#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/tests/guest/revocable_memory.h"

namespace vrdma::test {
namespace {

// A guest whose pages can go, and an ordinary guest as its peer.
class Revocation : public ::testing::Test {
  protected:
    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.threads = false;
        config.pollers = pollers();
        return std::move(*hca::soft::SoftHca::create(config));
    }

    Revocation() {
        connect_both(bad_, bad_qp_, good_, good_qp_);
        good_mr_.buffer.fill(1);
    }

    void revoke(const Buffer& buffer) {
        for (const Iova page : buffer.pages().blocks) {
            memory_->revoke(page, VRDMA_PAGE_SIZE);
        }
    }

    Completion wait(GuestCq& cq) {
        for (int i = 0; i < 100000; ++i) {
            if (const auto completion = cq.poll()) {
                return *completion;
            }
            hca_->poll();
        }
        ADD_FAILURE() << "no completion";
        return {};
    }

    static constexpr std::uint64_t page = VRDMA_PAGE_SIZE;

    std::unique_ptr<hca::soft::SoftHca> hca_ = make_hca();
    RevocableMemory* memory_ = new RevocableMemory{16 << 20};
    Guest bad_{*hca_, "bad", ipv4_gid(1), std::unique_ptr<GuestMemory>{memory_}};
    Guest good_{*hca_, "good", ipv4_gid(2)};
    GuestCq bad_cq_ = bad_.create_cq();
    GuestCq good_cq_ = good_.create_cq();
    GuestQp bad_qp_ = bad_.create_qp(bad_cq_, bad_cq_);
    GuestQp good_qp_ = good_.create_qp(good_cq_, good_cq_);
    MemoryRegion bad_mr_ = bad_.register_mr(3 * page);
    MemoryRegion good_mr_ = good_.register_mr(3 * page);
};

// Send from memory that is gone; expect LOC_PROT_ERR, revoked, no completion at the receiver, and
// the pages to be released.
TEST_F(Revocation, OfTheSendersBuffer) {
    revoke(bad_mr_.buffer);
    const vrdma_sge from = bad_mr_.sge();
    const vrdma_sge to = good_mr_.sge();
    good_qp_.post_recv({&to, 1});
    bad_qp_.post_send({.sges = {&from, 1}});
    const Completion failed = wait(bad_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_REVOKED);
    EXPECT_FALSE(good_cq_.poll());
    EXPECT_EQ(state_of(good_, good_qp_), IBV_QPS_RTS);
    EXPECT_GE(memory_->releases(), 1u);
}

// Send into receive buffers that are gone; expect LOC_PROT_ERR at the receiver and REM_OP_ERR at
// the sender.
TEST_F(Revocation, OfTheReceiversBuffer) {
    revoke(bad_mr_.buffer);
    const vrdma_sge from = good_mr_.sge();
    const vrdma_sge to = bad_mr_.sge();
    bad_qp_.post_recv({&to, 1});
    good_qp_.post_send({.sges = {&from, 1}});
    const Completion received = wait(bad_cq_);
    EXPECT_EQ(received.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(received.vendor_err, VRDMA_VERR_REVOKED);
    EXPECT_EQ(wait(good_cq_).status, IBV_WC_REM_OP_ERR);
}

// Write to, read from and add to remote memory that is gone; expect REM_ACCESS_ERR.
TEST_F(Revocation, OfTheTarget) {
    for (const auto opcode :
         {VRDMA_SQ_RDMA_WRITE, VRDMA_SQ_RDMA_READ, VRDMA_SQ_ATOMIC_FETCH_AND_ADD}) {
        GuestQp from = good_.create_qp(good_cq_, good_cq_);
        GuestQp to = bad_.create_qp(bad_cq_, bad_cq_);
        connect_both(good_, from, bad_, to);
        revoke(bad_mr_.buffer);
        const vrdma_sge local = good_mr_.sge(0, 8);
        from.post_send(
            {.opcode = opcode, .sges = {&local, 1}, .rkey = bad_mr_.key, .raddr = bad_mr_.start});
        EXPECT_EQ(wait(good_cq_).status, IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(state_of(bad_, to), IBV_QPS_ERR);
        memory_->release(Iova{0}, memory_->size());
    }
}

// The guest takes its pages back after a failure; expect the next message to reach them, and the
// bytes written to the scratch page to be lost.
TEST_F(Revocation, EndsWhenTheGuestHasThePagesAgain) {
    revoke(bad_mr_.buffer);
    const vrdma_sge from = good_mr_.sge();
    const test::SendWr write{.opcode = VRDMA_SQ_RDMA_WRITE,
                             .sges = {&from, 1},
                             .rkey = bad_mr_.key,
                             .raddr = bad_mr_.start};
    good_qp_.post_send(write);
    EXPECT_EQ(wait(good_cq_).status, IBV_WC_REM_ACCESS_ERR);
    memory_->restore(Iova{0}, memory_->size());
    memory_->release(Iova{0}, memory_->size());
    EXPECT_EQ(bad_mr_.buffer.read(0, 8), std::vector<std::byte>(8));

    GuestQp again = good_.create_qp(good_cq_, good_cq_);
    GuestQp target = bad_.create_qp(bad_cq_, bad_cq_);
    connect_both(good_, again, bad_, target);
    again.post_send(write);
    EXPECT_EQ(wait(good_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(bad_mr_.buffer.read(0, bad_mr_.buffer.size()),
              good_mr_.buffer.read(0, good_mr_.buffer.size()));
}

// Create queues on pages that are gone; expect EFAULT.
TEST_F(Revocation, OfRingsIsFoundAtCreation) {
    const Buffer ring = bad_.pages().allocate(4 * page);
    revoke(ring);
    EXPECT_EQ(bad_.slice().create_cq({Cqn{0x900}, ring.pages(), 64, bad_.eq().id()}).error(),
              std::errc::bad_address);
    EXPECT_EQ(bad_.slice().create_eq({EqId{0x900}, ring.pages(), 64, 1}).error(),
              std::errc::bad_address);
    memory_->restore(Iova{0}, memory_->size());
    EXPECT_TRUE(bad_.slice().create_cq({Cqn{0x900}, ring.pages(), 64, bad_.eq().id()}));
}

// Take every page away, as a reset does, and let the engine run; expect no crash, and the peer to
// work with other devices.
TEST_F(Revocation, OfEverything) {
    GuestQp other_a = good_.create_qp(good_cq_, good_cq_);
    GuestQp other_b = good_.create_qp(good_cq_, good_cq_);
    connect_both(good_, other_a, good_, other_b);
    bad_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE, .flags = 0});
    memory_->revoke(Iova{0}, memory_->size());
    for (int i = 0; i < 1000; ++i) {
        hca_->poll();
    }
    other_a.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(good_cq_).status, IBV_WC_SUCCESS);
}

} // namespace
} // namespace vrdma::test
