// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Two guests with a device each on the soft HCA: control path through registers and admin queue,
// data path through the queues that it set up.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "mediator/device/device.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/admin_client.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma {
namespace {

using test::Buffer;
using test::GuestCq;
using test::GuestQp;

class Vm {
  public:
    Vm(hca::Hca& hca, verbs::GidRegistry& gids, std::uint8_t number)
        : hca_{hca}, gids_{gids}, gid{test::ipv4_gid(number)}, mac_{2, 0, 0, 0, 0, number} {
        plug_in();
    }

    void plug_in() {
        device.emplace("vm", type_, verbs::Identity{mac_, {}, true}, port, hca_, gids_);
    }

    // Pages of the guest's memory, and the list that tells the device of them.
    Buffer allocate(std::uint64_t size) {
        const Iova begin = allocator.allocate(size);
        hca::Translation pages{{}, VRDMA_PAGE_SHIFT, 0, size};
        for (std::uint64_t at = 0; at < size; at += VRDMA_PAGE_SIZE) {
            pages.blocks.push_back(begin + at);
        }
        return {port.memory(), std::move(pages)};
    }
    vrdma_page_list list(const Buffer& buffer) {
        return allocator.page_list(buffer.pages().blocks.front(), buffer.size());
    }

    void set_up(test::AdminClient& admin) {
        vrdma_admin_cmd cmd{};
        cmd.set_gid = {0, VRDMA_GID_ROCE_V2, 1, 0, {}};
        std::copy(gid.begin(), gid.end(), cmd.set_gid.gid);
        ASSERT_EQ(admin.run(VRDMA_ADMIN_SET_GID, cmd), 0);

        cmd = {};
        cmd.create_eq = {list(allocate(sizeof(vrdma_eq_control) + 64 * sizeof(vrdma_eqe))), 64, 1};
        ASSERT_EQ(admin.create(VRDMA_ADMIN_CREATE_EQ, cmd), 1);
        ASSERT_EQ(admin.create(VRDMA_ADMIN_ALLOC_PD), 1);

        const Buffer cqes = allocate(VRDMA_QUEUE_CONTROL_SIZE + 64 * sizeof(vrdma_cqe));
        cmd = {};
        cmd.create_cq = {list(cqes), 0, 64, 1, 0, 0, 0};
        const auto cqn = admin.create(VRDMA_ADMIN_CREATE_CQ, cmd);
        ASSERT_GT(cqn, 0);
        cq.emplace(Cqn{static_cast<std::uint32_t>(cqn)}, cqes, 64);
        set_up_qp(admin);

        data = allocate(std::size_t{3} * VRDMA_PAGE_SIZE);
        cmd = {};
        cmd.reg_mr = {list(data), start, data.size(), 1, test::all_access, 0, 0};
        const auto made = admin.create(VRDMA_ADMIN_REG_MR, cmd);
        ASSERT_GT(made, 0);
        key = Key{static_cast<std::uint32_t>(made)};
    }

    void connect(test::AdminClient& admin, const Vm& peer) const {
        for (const auto& attr :
             {test::init_attr(), test::rtr_attr(peer.gid, peer.qp->id()), test::rts_attr()}) {
            vrdma_admin_cmd cmd{};
            cmd.modify_qp = {qp->id().value, 0, attr};
            ASSERT_EQ(admin.run(VRDMA_ADMIN_MODIFY_QP, cmd), 0);
        }
    }

    vrdma_sge sge(std::uint32_t length) const { return {start, length, key.value}; }

  private:
    void set_up_qp(test::AdminClient& admin) {
        const test::QpShape shape;
        const Buffer queues = allocate(shape.buffer_size());
        vrdma_admin_cmd cmd{};
        cmd.create_qp = {.pages = list(queues),
                         .first_offset = 0,
                         .ucontext = 0,
                         .pd = 1,
                         .send_cq = cq->id().value,
                         .recv_cq = cq->id().value,
                         .sq_depth = shape.sq_depth,
                         .rq_depth = shape.rq_depth,
                         .sq_stride_shift = shape.sq_stride_shift,
                         .rq_stride_shift = shape.rq_stride_shift,
                         .qp_type = static_cast<std::uint8_t>(shape.type),
                         .flags = 0,
                         .max_inline = shape.max_inline,
                         .max_send_sge = shape.max_send_sge,
                         .max_recv_sge = shape.max_recv_sge,
                         .srq = 0,
                         .xrcd = 0};
        const auto made = admin.execute(VRDMA_ADMIN_CREATE_QP, cmd);
        ASSERT_EQ(made.status, 0u);
        qp.emplace(Qpn{made.create_qp.qpn}, shape, queues,
                   test::Doorbell{&port.doorbells()[0], made.create_qp.doorbell_slot,
                                  allocator.at<vrdma_status_page>(admin.status_page()), [] {}});
    }

    static constexpr std::uint64_t start = 0x7f0000000000;

    hca::Hca& hca_;
    verbs::GidRegistry& gids_;
    DeviceType type_{"test", 1, 1 << 20, {}};

  public:
    hca::Gid gid;
    test::GuestPort port{ArenaMemory::create(1 << 26).value(), type_};
    test::GuestAllocator allocator{port.memory()};
    std::optional<Device> device;
    std::optional<GuestCq> cq;
    std::optional<GuestQp> qp;
    Buffer data;
    Key key;

  private:
    verbs::Mac mac_;
};

class SoftDeviceTest : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(left_admin.enable());
        ASSERT_TRUE(right_admin.enable());
        left.set_up(left_admin);
        right.set_up(right_admin);
        left.connect(left_admin, right);
        right.connect(right_admin, left);
    }

    static hca::soft::Config without_threads() {
        hca::soft::Config config;
        config.threads = false;
        return config;
    }

    // The next completion; the engine runs until it is there.
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
    Vm left{*hca, gids, 1};
    Vm right{*hca, gids, 2};
    test::AdminClient left_admin{*left.device, left.port, left.allocator};
    test::AdminClient right_admin{*right.device, right.port, right.allocator};
};

TEST_F(SoftDeviceTest, AMessageCrosses) {
    expect_message(1);
    expect_message(2);
}

TEST_F(SoftDeviceTest, AfterDeregistrationTheKeyIsVoid) {
    ASSERT_EQ(right_admin.destroy(VRDMA_ADMIN_DEREG_MR, right.key.value), 0);
    const vrdma_sge from = left.sge(8);
    left.qp->post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .sges = {&from, 1},
                        .rkey = right.key,
                        .raddr = right.sge(8).addr});
    EXPECT_EQ(wait(*left.cq).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(SoftDeviceTest, APeerThatResetsIsAPeerThatIsGone) {
    right_admin.reset();
    const vrdma_sge from = left.sge(8);
    left.qp->post_send({.sges = {&from, 1}});
    EXPECT_EQ(wait(*left.cq).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(left_admin.status(), VRDMA_STATUS_ENABLED);
}

TEST_F(SoftDeviceTest, TheStateOfAQpThatFailedIsSeen) {
    right_admin.reset();
    const vrdma_sge from = left.sge(8);
    left.qp->post_send({.sges = {&from, 1}});
    wait(*left.cq);
    vrdma_admin_cmd cmd{};
    cmd.handle.handle = left.qp->id().value;
    EXPECT_EQ(left_admin.execute(VRDMA_ADMIN_QUERY_QP, cmd).query_qp.state, IBV_QPS_ERR);
}

// The guest is frozen, its device taken away, and an equal one put in its place. The queues, which
// are guest memory, are the same; the peer has noticed nothing.
TEST_F(SoftDeviceTest, AConnectionSurvivesAMove) {
    expect_message(1);
    left.device->freeze();
    const auto image = left.device->save();
    left.plug_in();
    ASSERT_TRUE(left.device->restore(image));
    left.device->thaw();
    expect_message(2);
    EXPECT_EQ(left_admin.create(VRDMA_ADMIN_ALLOC_PD), 2);
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
