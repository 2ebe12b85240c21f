// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The memory of the mediator that a device's objects take. The device's budget counts all of it,
// and a guest that exceeds the budget gets an error.
#include "mediator/device/tests/device_test.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/hca/soft/transport/roce/tests/cable.h"
#include "mediator/tests/guest/heap.h"
#include "mediator/verbs/tests/in_steps.h"

namespace vrdma {
namespace {

hca::soft::Config without_threads() {
    hca::soft::Config config;
    config.threads = false;
    return config;
}

class WideDeviceTest : public DeviceTest {
  protected:
    static constexpr int many = 200;

    WideDeviceTest() {
        type.limits.max_blocks *= 2;
        type.limits.max_eq = type.limits.max_pd = 2 * many;
    }
};

// A set of objects on a slice of the soft HCA. It has an uplink, so that a QP has a connection, and
// is one of two functions, so that it can listen.
class MemoryTest : public WideDeviceTest {
  protected:
    struct Host final : hca::SliceHost {
        void raise(unsigned) noexcept override {}
        void fatal(std::string_view) noexcept override {}
    };

    // Compares what make() took from the heap with what it took from the budget.
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

    template <typename Make>
    void expect_each_counted(Make&& make) {
        expect_all_counted([&] {
            for (int i = 0; i < many; ++i) {
                ASSERT_TRUE(test::in_steps(make));
            }
        });
    }

    static std::unique_ptr<hca::soft::SoftHca> make_soft() {
        auto soft = hca::soft::SoftHca::create(without_threads()).value();
        EXPECT_TRUE(soft->add_uplink("cable", test::Cable::lay().first));
        return soft;
    }

    std::unique_ptr<hca::soft::SoftHca> soft_ = make_soft();
    Host host_;
    verbs::GidRegistry registry_;
    std::unique_ptr<hca::Slice> slice_ = soft_
                                             ->carve({.name = "test",
                                                      .memory = &port.memory(),
                                                      .doorbells = port.doorbells(),
                                                      .kick_fd = port.kick_fd(),
                                                      .uplink = "cable"},
                                                     host_)
                                             .value();
    verbs::FunctionId function_id_{
        std::make_shared<verbs::Endport>(verbs::Identity{mac, {}, true}, 2), 0};
    verbs::Objects objects_{type.limits,   function_id_,     registry_,
                            port.memory(), port.doorbells(), *slice_};
    PdId pd_ = objects_.pds.alloc(verbs::kernel).value();
    EqId eq_ = test::in_steps([&, cmd = eq_command().create_eq] {
                   return objects_.eqs.create(cmd);
               }).value();
    Cqn cq_ = test::in_steps([&, cmd = cq_command(eq_.value).create_cq] {
                  return objects_.cqs.create(cmd);
              }).value();
};

// Register a million blocks. Expect the verbs objects and the engine to hold them once.
TEST_F(MemoryTest, BlocksAreHeldOnce) {
    const auto cmd = large_mr_command(pd_.value).reg_mr;
    const std::size_t before = test::heap_in_use();
    ASSERT_TRUE(test::in_steps([&] { return objects_.mrs.reg(cmd); }));
    EXPECT_LT(test::heap_in_use() - before, cmd.pages.count * sizeof(Iova) * 9 / 8);
}

// Make many objects of each kind. Expect the budget to be charged no less than they take.
TEST_F(MemoryTest, TheBudgetKnowsWhatObjectsTake) {
    const auto eq = eq_command().create_eq;
    expect_each_counted([&] { return objects_.eqs.create(eq); });
    expect_each_counted([&] { return objects_.pds.alloc(verbs::kernel); });
    const auto cq = cq_command(eq_.value).create_cq;
    expect_each_counted([&] { return objects_.cqs.create(cq); });
    const auto mr = mr_command(pd_.value).reg_mr;
    expect_each_counted([&] { return objects_.mrs.reg(mr); });
    expect_each_counted([&] { return objects_.mrs.alloc({pd_.value, VRDMA_MAX_FAST_PAGES}); });
    expect_each_counted([&] { return objects_.mws.alloc({pd_.value, IBV_MW_TYPE_1}); });
    const auto qp = qp_command(pd_.value, cq_.value).create_qp;
    expect_each_counted([&] { return objects_.qps.create(qp); });
    const auto srq = srq_command(pd_.value).create_srq;
    expect_each_counted([&] { return objects_.srqs.create(srq); });
    vrdma_cmd_create_ah ah{};
    ah.pd = pd_.value;
    ah.av.dgid[0] = 0xfd;
    ah.av.port_num = 1;
    ASSERT_TRUE(objects_.gids.set(gid_command(0).set_gid));
    expect_each_counted([&] { return objects_.ahs.create(ah); });
    expect_each_counted([&] { return objects_.xrcds.alloc(); });
    expect_each_counted([&] { return objects_.counter_sets.alloc(); });
}

// The same for objects that grow by commands: groups, services, and pages on demand, each page in a
// leaf of its own.
TEST_F(MemoryTest, TheBudgetKnowsWhatObjectsGrowTo) {
    auto qp = qp_command(pd_.value, cq_.value).create_qp;
    qp.qp_type = static_cast<std::uint8_t>(hca::QpType::ud);
    vrdma_cmd_multicast member{};
    member.qpn = test::in_steps([&] { return objects_.qps.create(qp); }).value().qpn.value;
    member.gid[0] = 0xff;
    member.gid[1] = 0x0e;
    expect_each_counted([&] {
        ++member.gid[15];
        return objects_.multicast.attach(member);
    });

    std::uint64_t service = 0;
    expect_each_counted([&] { return objects_.listeners.listen(++service); });

    vrdma_cmd_reg_mr on_demand{};
    on_demand.pd = pd_.value;
    on_demand.length = 1ull << 40;
    on_demand.access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
    vrdma_cmd_map_pages page{};
    page.key = objects_.mrs.reg(on_demand).value().value;
    page.flags = VRDMA_MAP_WRITABLE;
    page.pages = allocator.page_list(allocator.allocate(VRDMA_PAGE_SIZE), VRDMA_PAGE_SIZE);
    expect_each_counted([&] {
        page.first += hca::on_demand_leaf_pages;
        return objects_.mrs.map_pages(page);
    });
}

class BoundedDeviceTest : public DeviceTest {
  protected:
    BoundedDeviceTest() { type.limits.max_memory = 64 << 10; }
};

// Make QPs in 64 KiB. Expect ENOMEM in a completion before the type's number of QPs is reached.
// Expect the same number again after one is destroyed, after a reset, and in a restored device.
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

// Restore the image of a larger device, which has more than the type allows. Expect it to be
// refused.
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
