// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A whole device is saved as an image and restored from it. A hostile image does no harm.
#include <cstring>
#include <random>

#include "mediator/device/tests/device_test.h"

namespace vrdma {
namespace {

class DeviceStateTest : public DeviceTest {
  protected:
    // A device with one object of each kind.
    void populate() {
        ASSERT_TRUE(guest.enable());
        ASSERT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), 0);
        populate_domain();
        populate_queues();
    }

    void populate_domain() {
        ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_UCONTEXT), 1);
        ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
        ASSERT_GT(guest.create(VRDMA_ADMIN_REG_MR, mr_command(1)), 0);
        vrdma_admin_cmd ah{};
        ah.create_ah.pd = 1;
        ah.create_ah.av.dgid[0] = 0xfd;
        ah.create_ah.av.port_num = 1;
        ASSERT_EQ(guest.create(VRDMA_ADMIN_CREATE_AH, ah), 1);
    }

    void populate_queues() {
        ASSERT_EQ(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 1);
        ASSERT_EQ(guest.create(VRDMA_ADMIN_CREATE_CQ, cq_command(1)), 1);
        ASSERT_GT(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(1, 1)), 0);
    }

    std::vector<std::byte> save() {
        device.freeze();
        auto image = device.save();
        device.thaw();
        return image;
    }
};

// Restore an AH of RoCE v2 in a device that may not use it; expect an error, and none without the
// AH.
TEST_F(DeviceStateTest, AProtocolThatTheDeviceMayNotUse) {
    populate();
    const auto image = save();
    ASSERT_EQ(guest.destroy(VRDMA_ADMIN_DESTROY_AH, 1), 0);
    const auto without = save();
    device.freeze();
    EXPECT_EQ(device.set_protocols({}).error(), std::errc::resource_unavailable_try_again);
    device.thaw();
    ASSERT_TRUE(device.set_protocols({1u << VRDMA_GID_ROCE_V1}));
    EXPECT_EQ(device.restore(image).error(), std::errc::protocol_not_supported);
    EXPECT_TRUE(device.restore(without));
}

// The same device stands for the one on another host, because a restore begins with a reset.
TEST_F(DeviceStateTest, RoundTrip) {
    populate();
    const auto image = save();
    const auto qps = hca.slice->qps;
    ASSERT_TRUE(device.restore(image));
    EXPECT_EQ(hca.carved, 2u);
    EXPECT_EQ(guest.status(), VRDMA_STATUS_ENABLED);
    EXPECT_EQ(hca.spec.kick_fd, port.kick_fd());
    EXPECT_EQ(hca.slice->status_page, guest.status_page());
    ASSERT_EQ(hca.slice->qps.size(), 1u);
    EXPECT_EQ(hca.slice->qps.begin()->first, qps.begin()->first);
    EXPECT_EQ(hca.slice->mrs.size(), 1u);
    EXPECT_EQ(hca.slice->gids.size(), 1u);
    EXPECT_TRUE(hca.slice->frozen);
    EXPECT_EQ(device.save(), image);
    device.thaw();
    EXPECT_FALSE(hca.slice->frozen);
}

TEST_F(DeviceStateTest, TheAdminQueueGoesOnWhereItWas) {
    populate();
    ASSERT_TRUE(device.restore(save()));
    device.thaw();
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 2);
    EXPECT_EQ(guest.destroy(VRDMA_ADMIN_DEALLOC_PD, 1), EBUSY);
}

TEST_F(DeviceStateTest, CommandsThatWaitedAreServedAfterwards) {
    populate();
    device.freeze();
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    guest.ring();
    EXPECT_FALSE(guest.poll());
    ASSERT_TRUE(device.restore(device.save()));
    EXPECT_FALSE(guest.poll());
    device.thaw();
    guest.run_device();
    const auto cpl = guest.poll();
    ASSERT_TRUE(cpl);
    EXPECT_EQ(cpl->handle.handle, 2u);
}

// Freeze a device after the first step of a command. Expect the command to be done once, by the
// device that continues, whether that is the same or another one.
TEST_F(DeviceStateTest, ACommandThatIsUnderWayIsTakenAgain) {
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    for (const bool moves : {false, true}) {
        guest.post(VRDMA_ADMIN_REG_MR, large_mr_command(1));
        guest.ring();
        device.freeze();
        const auto image = device.save();
        EXPECT_TRUE(!moves || device.restore(image));
        device.thaw();
        guest.run_device();
        const auto made = guest.poll();
        ASSERT_TRUE(made);
        EXPECT_EQ(made->status, 0u);
        EXPECT_FALSE(guest.poll());
        ASSERT_EQ(hca.slice->mrs.size(), 1u);
        ASSERT_EQ(guest.destroy(VRDMA_ADMIN_DEREG_MR, made->handle.handle), 0);
    }
}

// Enable a device that is suspended, and save it. Expect an image of an enabled device.
TEST_F(DeviceStateTest, OneThatIsToBeEnabledIsSavedEnabled) {
    device.suspend();
    EXPECT_FALSE(guest.enable());
    device.freeze();
    ASSERT_EQ(hca.carved, 1u);
    EXPECT_TRUE(hca.slice->frozen);
    const auto image = device.save();
    device.resume();
    EXPECT_TRUE(hca.slice->frozen);
    device.thaw();
    EXPECT_FALSE(hca.slice->frozen);
    ASSERT_TRUE(device.restore(image));
    EXPECT_EQ(guest.status(), VRDMA_STATUS_ENABLED);
}

// Restore without memory. Expect an error, and a device that was reset.
TEST_F(DeviceStateTest, WithoutMemoryARestoreFailsAndNothingElse) {
    populate();
    const auto image = save();
    hca.out_of_memory = true;
    const auto restored = device.restore(image);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error(), std::errc::not_enough_memory);
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    EXPECT_TRUE(device.restore(image));
}

TEST_F(DeviceStateTest, AnIdleDeviceIsAnImageToo) {
    guest.set_queue_registers();
    const auto image = save();
    guest.reset();
    ASSERT_TRUE(device.restore(image));
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    EXPECT_EQ(port.read(VRDMA_REG_ASQ_LOW), raw(guest.submissions()));
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    EXPECT_EQ(guest.status(), VRDMA_STATUS_ENABLED);
}

TEST_F(DeviceStateTest, FatalStaysFatal) {
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    const auto image = save();
    guest.reset();
    ASSERT_TRUE(device.restore(image));
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    guest.reset();
    EXPECT_TRUE(guest.enable());
}

TEST_F(DeviceStateTest, AnotherMacOrSizeIsRefused) {
    populate();
    const auto image = save();
    device.reset();
    device.set_identity({{2, 0, 0, 0, 0, 7}, {}, true});
    EXPECT_FALSE(device.restore(image));

    DeviceType larger = type;
    larger.limits.doorbell_pages *= 2;
    test::GuestPort other_port{ArenaMemory::create(1 << 28).value(), larger};
    verbs::GidRegistry other_gids;
    Device other{"other", larger, verbs::Identity{mac, {}, true}, other_port, hca, other_gids};
    EXPECT_FALSE(other.restore(image));
    EXPECT_EQ(other_port.read(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
}

// The guest has read its P_Keys, and its QPs name them by their index.
TEST_F(DeviceStateTest, OtherPKeysAreRefused) {
    populate();
    const auto image = save();
    for (const PKeys& pkeys : {PKeys{0x7fff}, PKeys{0xffff, 0x8001}}) {
        device.reset();
        verbs::Identity identity{mac, {}, true};
        identity.pkeys = pkeys;
        device.set_identity(identity);
        EXPECT_FALSE(device.restore(image));
    }
    device.set_identity({mac, {}, true});
    EXPECT_TRUE(device.restore(image));
}

// Restore the third of three functions as another device; expect it to have its own number again,
// unless another function has that number. A device with more functions cannot become it.
TEST_F(DeviceStateTest, AFunctionKeepsItsNumber) {
    const verbs::Identity identity{{2, 0, 0, 0, 0, 9}, {}, true};
    const auto endport = std::make_shared<verbs::Endport>(identity, 3);
    test::GuestPort one_port{ArenaMemory::create(1 << 28).value(), type};
    test::GuestAllocator one_allocator{one_port.memory()};
    Device one{"one", type, {endport, 2}, one_port, hca, gids};
    test::AdminClient one_guest{one, one_port, one_allocator};
    ASSERT_TRUE(one_guest.enable());
    EXPECT_EQ(hca.spec.qpns.first, endport->qpns(2).first);
    one.freeze();
    const auto image = one.save();

    Device two{"two", type, {endport, 0}, one_port, hca, gids};
    EXPECT_EQ(two.restore(image).error(), std::errc::device_or_resource_busy);
    one.reset();
    ASSERT_TRUE(two.restore(image));
    EXPECT_EQ(hca.spec.qpns.first, endport->qpns(2).first);
    const auto larger = std::make_shared<verbs::Endport>(identity, 5);
    Device three{"three", type, {larger, 2}, one_port, hca, gids};
    EXPECT_EQ(three.restore(image).error(), std::errc::invalid_argument);
}

TEST_F(DeviceStateTest, EveryTruncationIsRefused) {
    populate();
    const auto image = save();
    for (std::size_t size = 0; size < image.size(); ++size) {
        ASSERT_FALSE(device.restore(std::span{image}.first(size))) << size;
        ASSERT_EQ(guest.status(), VRDMA_STATUS_READY);
    }
    auto longer = image;
    longer.push_back({});
    EXPECT_FALSE(device.restore(longer));
    EXPECT_TRUE(device.restore(image));
}

// Change one byte of an image. Expect the device to be either restored or reset.
TEST_F(DeviceStateTest, NoCorruptedByteHarms) {
    populate();
    const auto image = save();
    std::minstd_rand random{1}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must repeat
    for (std::size_t at = 0; at < image.size(); ++at) {
        auto bad = image;
        bad[at] ^= static_cast<std::byte>(1 + random() % 255);
        const bool restored = device.restore(bad).has_value();
        if (!restored) {
            ASSERT_EQ(guest.status(), VRDMA_STATUS_READY);
        }
    }
    guest.reset();
    EXPECT_TRUE(guest.enable());
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
}

} // namespace
} // namespace vrdma
