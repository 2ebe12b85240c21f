// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The admin queue as a mechanism: order, phases, bounds.
#include "mediator/device/tests/device_test.h"
#include "mediator/tests/guest/revocable_memory.h"

namespace vrdma {
namespace {

class AdminQueueTest : public DeviceTest {
  protected:
    static constexpr auto depth = test::AdminClient::depth;
    static constexpr auto vector = test::AdminClient::vector;

    void SetUp() override { ASSERT_TRUE(guest.enable()); }
};

TEST_F(AdminQueueTest, ManyPassesOverTheRing) {
    for (std::uint32_t i = 0; i < 5 * depth + 3; ++i) {
        const auto cpl = guest.execute(VRDMA_ADMIN_QUERY_PORT);
        EXPECT_EQ(cpl.status, 0u);
        EXPECT_EQ(VRDMA_GET(VRDMA_ADMIN_OPCODE, cpl.header), VRDMA_ADMIN_QUERY_PORT);
        EXPECT_EQ(VRDMA_GET(VRDMA_ADMIN_ID, cpl.header), i);
    }
    EXPECT_EQ(port.raised(vector), 5 * depth + 3);
}

// Post commands and ring once. Expect all to be executed, and no more interrupts than the device
// took turns.
TEST_F(AdminQueueTest, OneDoorbellForManyCommands) {
    for (std::uint32_t i = 0; i < depth; ++i) {
        guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    }
    guest.ring();
    unsigned turns = 1; // more on a slow machine
    for (; port.take_wake(); ++turns) {
        device.service();
    }
    for (std::uint32_t i = 0; i < depth; ++i) {
        const auto cpl = guest.poll();
        ASSERT_TRUE(cpl);
        EXPECT_EQ(VRDMA_GET(VRDMA_ADMIN_ID, cpl->header), i);
        EXPECT_EQ(cpl->handle.handle, i + 1);
    }
    EXPECT_FALSE(guest.poll());
    EXPECT_GE(port.raised(vector), 1u);
    EXPECT_LE(port.raised(vector), turns);
}

TEST_F(AdminQueueTest, WithoutADoorbellNothingIsTaken) {
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    EXPECT_FALSE(guest.poll());
    EXPECT_EQ(port.raised(vector), 0u);
}

TEST_F(AdminQueueTest, ADoorbellWithoutCommandsIsNothing) {
    guest.ring();
    guest.run_device();
    EXPECT_FALSE(guest.poll());
    EXPECT_EQ(port.raised(vector), 0u);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
}

// A guest flips the phase of its whole ring without waiting. Expect the device to take a bounded
// number of commands per turn, and to ask for another turn.
TEST_F(AdminQueueTest, AFloodIsServedInTurns) {
    guest.reset();
    const Iova large = allocator.allocate(VRDMA_AQ_MAX_DEPTH * sizeof(vrdma_admin_cmd));
    const Iova answers = allocator.allocate(VRDMA_AQ_MAX_DEPTH * sizeof(vrdma_admin_cpl));
    guest.set_queue_registers();
    guest.write(VRDMA_REG_ASQ_LOW, static_cast<std::uint32_t>(raw(large)));
    guest.write(VRDMA_REG_ACQ_LOW, static_cast<std::uint32_t>(raw(answers)));
    guest.write(VRDMA_REG_AQ_DEPTH, VRDMA_AQ_MAX_DEPTH);
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    ASSERT_EQ(guest.status(), VRDMA_STATUS_ENABLED);
    for (std::uint32_t i = 0; i < VRDMA_AQ_MAX_DEPTH; ++i) {
        allocator.at<vrdma_admin_cmd>(large + i * sizeof(vrdma_admin_cmd))->header =
            VRDMA_ADMIN_PHASE | VRDMA_SET(VRDMA_ADMIN_OPCODE, VRDMA_ADMIN_QUERY_PORT);
    }
    guest.ring();
    const auto answered = [&] {
        std::uint32_t count = 0;
        while (count < VRDMA_AQ_MAX_DEPTH &&
               allocator.at<vrdma_admin_cpl>(answers + count * sizeof(vrdma_admin_cpl))->header !=
                   0) {
            ++count;
        }
        return count;
    };
    EXPECT_LT(answered(), VRDMA_AQ_MAX_DEPTH);
    unsigned turns = 0;
    while (port.take_wake()) {
        const auto before = answered();
        device.service();
        EXPECT_LE(answered() - before, 64u);
        ++turns;
    }
    EXPECT_GT(turns, 2u);
    EXPECT_EQ(answered(), VRDMA_AQ_MAX_DEPTH);
}

TEST_F(AdminQueueTest, AQueueThatIsNotThereIsFatal) {
    auto owned = std::make_unique<test::RevocableMemory>(1 << 20);
    test::RevocableMemory& memory = *owned;
    test::GuestPort vanishing_port{std::move(owned), type};
    test::GuestAllocator vanishing_allocator{memory};
    Device other{"other",        type, verbs::Identity{{2, 0, 0, 0, 0, 9}, {}, true},
                 vanishing_port, hca,  gids};
    test::AdminClient driver{other, vanishing_port, vanishing_allocator};
    ASSERT_TRUE(driver.enable());
    driver.post(VRDMA_ADMIN_ALLOC_PD, {});
    memory.revoke(Iova{0}, memory.size());
    driver.ring();
    EXPECT_EQ(driver.status(), VRDMA_STATUS_FATAL);
    EXPECT_EQ(vanishing_port.raised(0), 1u);
    memory.restore(Iova{0}, memory.size());
    memory.release(Iova{0}, memory.size());
    driver.reset();
    EXPECT_TRUE(driver.enable());
}

TEST_F(AdminQueueTest, AResetDropsWhatIsPending) {
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    guest.reset();
    guest.ring();
    EXPECT_FALSE(guest.poll());
}

} // namespace
} // namespace vrdma
