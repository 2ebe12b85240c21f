// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device's objects take of the mediator's memory: its budget knows all of it, and a guest
// that goes over it is told so.
#include "mediator/device/tests/device_test.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/heap.h"

namespace vrdma {
namespace {

hca::soft::Config without_threads() {
    hca::soft::Config config;
    config.threads = false;
    return config;
}

class WideDeviceTest : public DeviceTest {
  protected:
    WideDeviceTest() { type.limits.max_blocks *= 2; }
};

// A set of objects on a slice of the soft HCA.
class MemoryTest : public WideDeviceTest {
  protected:
    struct Host final : hca::SliceHost {
        void raise(unsigned) noexcept override {}
        void fatal(std::string_view) noexcept override {}
    };

    // What the heap has lost by make(), against what the budget has.
    template <typename Make>
    void expect_all_counted(Make&& make) {
        const std::size_t heap = test::heap_in_use();
        const std::uint64_t budget = objects_.resources.budget.bytes_left();
        make();
        const std::uint64_t used = test::heap_in_use() - heap;
        const std::uint64_t counted = budget - objects_.resources.budget.bytes_left();
        EXPECT_LE(used, counted);
        EXPECT_GT(used, counted / 4) << "of " << counted;
    }

    std::unique_ptr<hca::soft::SoftHca> soft_ =
        hca::soft::SoftHca::create(without_threads()).value();
    Host host_;
    verbs::GidRegistry registry_;
    std::unique_ptr<hca::Slice> slice_ = soft_
                                             ->carve({.name = "test",
                                                      .memory = &port.memory(),
                                                      .doorbells = port.doorbells(),
                                                      .kick_fd = port.kick_fd()},
                                                     host_)
                                             .value();
    verbs::Objects objects_{type.limits,      verbs::Identity{mac, {}, true},
                            registry_,        port.memory(),
                            port.doorbells(), *slice_};
    PdId pd_ = objects_.pds.alloc(verbs::kernel).value();
    EqId eq_ = objects_.eqs.create(eq_command().create_eq).value();
    Cqn cq_ = objects_.cqs.create(cq_command(eq_.value).create_cq).value();
};

// A million blocks; expect the verbs objects and the engine to hold them once.
TEST_F(MemoryTest, BlocksAreHeldOnce) {
    const auto cmd = large_mr_command(pd_.value).reg_mr;
    const std::size_t before = test::heap_in_use();
    auto key = objects_.mrs.reg(cmd);
    while (!key && key.error() == std::errc::operation_in_progress) {
        key = objects_.mrs.reg(cmd);
    }
    ASSERT_TRUE(key);
    EXPECT_LT(test::heap_in_use() - before, cmd.pages.count * sizeof(Iova) * 9 / 8);
}

// Many objects of each kind; expect the budget to be charged for no less than they take.
TEST_F(MemoryTest, TheBudgetKnowsWhatObjectsTake) {
    constexpr int many = 200;
    const auto repeat = [&](auto&& make) {
        expect_all_counted([&] {
            for (int i = 0; i < many; ++i) {
                ASSERT_TRUE(make());
            }
        });
    };
    const auto cq = cq_command(eq_.value).create_cq;
    repeat([&] { return objects_.cqs.create(cq); });
    const auto mr = mr_command(pd_.value).reg_mr;
    repeat([&] { return objects_.mrs.reg(mr); });
    repeat([&] { return objects_.mrs.alloc({pd_.value, VRDMA_MAX_FAST_PAGES}); });
    repeat([&] { return objects_.mws.alloc({pd_.value, IBV_MW_TYPE_1}); });
    const auto qp = qp_command(pd_.value, cq_.value).create_qp;
    repeat([&] { return objects_.qps.create(qp); });
    const auto srq = srq_command(pd_.value).create_srq;
    repeat([&] { return objects_.srqs.create(srq); });
    vrdma_cmd_create_ah ah{};
    ah.pd = pd_.value;
    ah.av.dgid[0] = 0xfd;
    ah.av.port_num = 1;
    ASSERT_TRUE(objects_.gids.set(gid_command(0).set_gid));
    repeat([&] { return objects_.ahs.create(ah); });
    repeat([&] { return objects_.xrcds.alloc(); });
    repeat([&] { return objects_.counter_sets.alloc(); });
}

class BoundedDeviceTest : public DeviceTest {
  protected:
    BoundedDeviceTest() { type.limits.max_memory = 64 << 10; }
};

// Make QPs in 64 KiB; expect ENOMEM before the type's number of them, in the completion; and as
// many again after one is destroyed, after a reset, and in a device that is restored.
TEST_F(BoundedDeviceTest, WhatExceedsItsMemoryIsRefused) {
    const auto fill = [&] {
        EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
        EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 1);
        EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_CQ, cq_command(1)), 1);
        const auto cmd = qp_command(1, 1);
        unsigned made = 0;
        std::int64_t last = 0;
        for (; (last = guest.create(VRDMA_ADMIN_CREATE_QP, cmd)) > 0; ++made) {
        }
        EXPECT_EQ(last, -ENOMEM);
        return made;
    };
    ASSERT_TRUE(guest.enable());
    const unsigned made = fill();
    EXPECT_GT(made, 10u);
    EXPECT_LT(made, type.limits.max_qp);
    EXPECT_EQ(hca.slice->qps.size(), made);

    const auto some = hca.slice->qps.begin()->first;
    ASSERT_EQ(guest.destroy(VRDMA_ADMIN_DESTROY_QP, some.value), 0);
    EXPECT_GT(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(1, 1)), 0);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(1, 1)), -ENOMEM);

    device.freeze();
    const auto image = device.save();
    ASSERT_TRUE(device.restore(image));
    device.thaw();
    EXPECT_EQ(hca.slice->qps.size(), made);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(1, 1)), -ENOMEM);

    guest.reset();
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(fill(), made);
}

// An image with more than the type allows, as a larger device's is; expect it to be refused.
TEST_F(BoundedDeviceTest, AnImageThatExceedsItsMemoryIsRefused) {
    DeviceType larger = type;
    larger.limits.max_memory = 0;
    verbs::GidRegistry others;
    hca::FakeHca other_hca;
    Device other{"other", larger, verbs::Identity{mac, {}, true}, port, other_hca, others};
    test::AdminClient client{other, port, allocator};
    ASSERT_TRUE(client.enable());
    ASSERT_EQ(client.create(VRDMA_ADMIN_ALLOC_PD), 1);
    for (int i = 0; i < 1000; ++i) {
        ASSERT_GT(client.create(VRDMA_ADMIN_REG_MR, mr_command(1, 1)), 0);
    }
    other.freeze();
    const auto image = other.save();
    const auto restored = device.restore(image);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error(), std::errc::not_enough_memory);
    EXPECT_EQ(port.read(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
    EXPECT_TRUE(guest.enable());
}

} // namespace
} // namespace vrdma
