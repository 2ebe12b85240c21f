// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Two guests, each with a device on the soft HCA. Their control path uses registers and the admin
// queue, and their data path uses the queues that the control path has set up.
#include <gtest/gtest.h>

#include <memory>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/vm.h"

namespace vrdma {
namespace {

using test::GuestCq;
using test::Vm;

class SoftDeviceTest : public testing::Test {
  protected:
    void SetUp() override {
        left.set_up();
        right.set_up();
        left.connect(right);
        right.connect(left);
    }

    static hca::soft::Config without_threads() {
        hca::soft::Config config;
        config.threads = false;
        return config;
    }

    // Runs the engine until there is a completion, and returns it.
    test::Completion wait(GuestCq& cq) {
        for (int round = 0; round < 1'000'000; ++round) {
            if (const auto completion = cq.poll()) {
                return *completion;
            }
            hca->poll();
        }
        ADD_FAILURE() << "no completion";
        return {};
    }

    // A message from left to right arrives as it was sent.
    void expect_message(std::uint8_t seed) {
        constexpr std::uint32_t length = 5000;
        left.data.fill(seed);
        const vrdma_sge to = right.sge(length);
        const vrdma_sge from = left.sge(length);
        right.qp->post_recv({&to, 1});
        left.qp->post_send({.sges = {&from, 1}});
        EXPECT_EQ(wait(*left.cq).status, IBV_WC_SUCCESS);
        const auto received = wait(*right.cq);
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.byte_len, length);
        EXPECT_EQ(right.data.read(0, length), left.data.read(0, length));
    }

    std::unique_ptr<hca::soft::SoftHca> hca = hca::soft::SoftHca::create(without_threads()).value();
    verbs::GidRegistry gids;
    static constexpr std::uint64_t memory_size = 1 << 26;
    Vm left{*hca, gids, 1, ArenaMemory::create(memory_size).value()};
    Vm right{*hca, gids, 2, ArenaMemory::create(memory_size).value()};
};

TEST_F(SoftDeviceTest, AMessageCrosses) {
    expect_message(1);
    expect_message(2);
}

TEST_F(SoftDeviceTest, AfterDeregistrationTheKeyIsVoid) {
    right.deregister(right.key);
    const vrdma_sge from = left.sge(8);
    left.qp->post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .sges = {&from, 1},
                        .rkey = right.key,
                        .raddr = right.sge(8).addr});
    EXPECT_EQ(wait(*left.cq).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(SoftDeviceTest, APeerThatResetsIsAPeerThatIsGone) {
    right.admin->reset();
    const vrdma_sge from = left.sge(8);
    left.qp->post_send({.sges = {&from, 1}});
    EXPECT_EQ(wait(*left.cq).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(left.admin->status(), VRDMA_STATUS_ENABLED);
}

TEST_F(SoftDeviceTest, TheStateOfAQpThatFailedIsSeen) {
    right.admin->reset();
    const vrdma_sge from = left.sge(8);
    left.qp->post_send({.sges = {&from, 1}});
    wait(*left.cq);
    vrdma_admin_cmd cmd{};
    cmd.handle.handle = left.qp->id().value;
    EXPECT_EQ(left.admin->execute(VRDMA_ADMIN_QUERY_QP, cmd).query_qp.state, IBV_QPS_ERR);
}

// Freeze the device, and replace it by an equal one. The queues are guest memory and stay the same.
// Expect the peer to notice nothing.
TEST_F(SoftDeviceTest, AConnectionSurvivesAMove) {
    expect_message(1);
    left.device->freeze();
    const auto image = left.device->save();
    left.plug_in();
    ASSERT_TRUE(left.device->restore(image));
    left.device->thaw();
    expect_message(2);
    EXPECT_EQ(left.admin->create(VRDMA_ADMIN_ALLOC_PD), 2);
}

TEST_F(SoftDeviceTest, WorkThatWasPostedIsDoneAfterAMove) {
    left.device->freeze();
    left.data.fill(7);
    const vrdma_sge to = right.sge(100);
    const vrdma_sge from = left.sge(100);
    right.qp->post_recv({&to, 1});
    left.qp->post_send({.sges = {&from, 1}});
    const auto image = left.device->save();
    left.plug_in();
    ASSERT_TRUE(left.device->restore(image));
    left.device->thaw();
    EXPECT_EQ(wait(*left.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(right.data.read(0, 100), left.data.read(0, 100));
}

} // namespace
} // namespace vrdma
