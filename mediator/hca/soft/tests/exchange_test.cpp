// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guests on pollers of their own: what one takes away the other no longer touches. (All other tests
// run on two pollers as well.)
#include <thread>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

using namespace std::chrono_literals;

class Exchange : public ::testing::Test {
  protected:
    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.pollers = 2;
        return std::move(*hca::soft::SoftHca::create(config));
    }

    Exchange() {
        connect(a_, a_qp_, b_.gid(), b_qp_.id());
        connect(b_, b_qp_, a_.gid(), a_qp_.id());
    }

    Completion wait(GuestCq& cq) {
        const auto limit = std::chrono::steady_clock::now() + 20s;
        while (std::chrono::steady_clock::now() < limit) {
            if (const auto completion = cq.poll()) {
                return *completion;
            }
            std::this_thread::yield();
        }
        ADD_FAILURE() << "no completion";
        return {};
    }

    static constexpr std::uint32_t length = 1 << 20;
    std::unique_ptr<hca::soft::SoftHca> hca_ = make_hca();
    Guest a_{*hca_, "a", ipv4_gid(1)};
    Guest b_{*hca_, "b", ipv4_gid(2)};
    GuestCq a_cq_ = a_.create_cq();
    GuestCq b_cq_ = b_.create_cq();
    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_);
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_);
    MemoryRegion target_ = b_.register_mr(length);
};

// Deregister a region while a write from it is under way, then change its memory; expect none of
// the new bytes on the other side.
TEST_F(Exchange, DeregistrationWaitsForTheOtherPoller) {
    const Buffer memory = a_.pages().allocate(length);
    for (int round = 0; round < 30; ++round) {
        memory.write(0, std::vector<std::byte>(length, std::byte{1}));
        const MemoryRegion region = a_.register_mr(memory);
        const vrdma_sge source = region.sge();
        const unsigned index = a_qp_.posted_sends();
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .sges = {&source, 1},
                         .rkey = target_.key,
                         .raddr = target_.start});
        std::this_thread::sleep_for(std::chrono::microseconds{round * 5});
        a_.slice().deregister_mr(region.key);
        memory.write(0, std::vector<std::byte>(length, std::byte{2}));
        const Completion done = wait(a_cq_);
        EXPECT_EQ(done.index, index);
        for (const std::byte byte : target_.buffer.read(0, length)) {
            ASSERT_NE(byte, std::byte{2}) << round;
        }
        if (done.status != IBV_WC_SUCCESS) {
            EXPECT_EQ(done.status, IBV_WC_LOC_PROT_ERR);
            ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RESET)));
            a_qp_.reset();
            connect(a_, a_qp_, b_.gid(), b_qp_.id());
        }
    }
}

// Destroy the target's device, freeze the sender's and reset its QP while messages are under way;
// expect all calls to return and the sender to learn that nobody answers.
TEST_F(Exchange, DevicesGoWhileMessagesAreUnderWay) {
    const MemoryRegion source = a_.register_mr(length);
    const vrdma_sge sge = source.sge();
    for (int round = 0; round < 20; ++round) {
        auto guest = std::make_unique<Guest>(*hca_, "c", ipv4_gid(3));
        GuestCq cq = guest->create_cq();
        GuestQp to = guest->create_qp(cq, cq);
        const MemoryRegion target = guest->register_mr(length);
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        connect(a_, from, guest->gid(), to.id());
        connect(*guest, to, a_.gid(), from.id());
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .sges = {&sge, 1},
                        .rkey = target.key,
                        .raddr = target.start});
        std::this_thread::sleep_for(std::chrono::microseconds{round * 3});
        a_.slice().freeze();
        a_.slice().thaw();
        guest.reset();
        const ibv_wc_status status = wait(a_cq_).status;
        EXPECT_TRUE(status == IBV_WC_SUCCESS || status == IBV_WC_RETRY_EXC_ERR) << status;
        a_.slice().destroy_qp(from.id());
    }
}

} // namespace
} // namespace vrdma::test
