// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client whose driver names memory that it does not share.
#include "mediator/frontend/vfio_user/tests/driver.h"
#include "mediator/memory/tests/mappings.h"

namespace vrdma::vfio_user::test {
namespace {

constexpr std::uint64_t page = VRDMA_PAGE_SIZE;
constexpr std::uint64_t shared = Driver::shared; // the rest of the window is missing

class MissingMemoryTest : public ::testing::Test {
  protected:
    // Runs the control thread's pending events.
    void turn() {
        EventFd end = *EventFd::create();
        end.signal();
        const auto watch = bench_.loop.watch(end.fd(), [&](std::uint32_t) { bench_.loop.stop(); });
        ASSERT_TRUE(bench_.loop.run());
    }

    // Touches every other missing page, as the device does when it is told to use it.
    void touch(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            auto* const at = driver_.function().client_memory().at(Iova{shared + 2 * i * page}, 1);
            static_cast<void>(*reinterpret_cast<volatile char*>(at));
        }
    }

    // Returns how many mappings the window has.
    std::size_t mappings() {
        const auto& memory = driver_.function().client_memory();
        return vrdma::test::mappings(memory.at(Iova{0}, 1), memory.size());
    }

    Bench bench_;
    Driver driver_{bench_.make_function()};
};

// Create a CQ of the largest size, whose ring lies in missing pages that are not adjacent; expect
// EFAULT, no more mappings than before, and a device that continues.
TEST_F(MissingMemoryTest, ARingThatIsNotThereIsRefused) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    const auto eq = driver_.create_eq();
    ASSERT_EQ(eq.status, 0u);
    constexpr std::uint32_t cqes = VRDMA_MAX_CQ_DEPTH;
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 0; i < 1 + cqes * sizeof(vrdma_cqe) / page; ++i) {
        blocks.push_back(shared + 2 * i * page);
    }
    vrdma_admin_cmd cmd{};
    cmd.create_cq.pages = driver_.list(blocks);
    cmd.create_cq.depth = cqes;
    cmd.create_cq.eq = eq.handle.handle;
    const std::size_t before = mappings();
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_CREATE_CQ, cmd).status, static_cast<unsigned>(EFAULT));
    EXPECT_LE(mappings(), before);
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_QUERY_DEVICE).status, 0u);
}

// Enable and reset many times, each time with a status page at another missing page; expect no more
// mappings than before.
TEST_F(MissingMemoryTest, AResetLeavesNoScratchPage) {
    const std::size_t before = mappings();
    for (std::uint64_t i = 0; i < 4 * ScratchPages::room; ++i) {
        ASSERT_EQ(driver_.enable(shared + 2 * i * page), VRDMA_STATUS_ENABLED) << i;
        driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    }
    EXPECT_LE(mappings(), before);
}

// Miss more pages than there are scratch pages; expect only that device to be FATAL, and its memory
// to be there again after a reset.
TEST_F(MissingMemoryTest, TooMuchEndsTheDeviceOnly) {
    Driver other{std::move(bench_.make_functions("other").front())};
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_EQ(other.enable(), VRDMA_STATUS_ENABLED);
    touch(ScratchPages::room);
    turn();
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    touch(ScratchPages::room + 1);
    turn();
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    EXPECT_EQ(other.create_eq().status, 0u);
    driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    EXPECT_EQ(driver_.create_eq().status, 0u);
    turn();
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
}

} // namespace
} // namespace vrdma::vfio_user::test
