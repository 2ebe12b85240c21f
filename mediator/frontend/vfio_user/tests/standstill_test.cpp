// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client whose memory has made other devices wait.
#include "mediator/frontend/vfio_user/tests/driver.h"

namespace vrdma::vfio_user::test {
namespace {

using Clock = EventLoop::Clock;

class StandstillTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
        ASSERT_EQ(other_.enable(), VRDMA_STATUS_ENABLED);
    }

    // Acts as a poller that had to wait for the memory.
    void blame(std::chrono::microseconds time) {
        FaultGuard::blame(driver_.function().client_memory().at(Iova{0}, 1), time);
        run_until([] { return true; });
    }

    // Runs the control thread's loop, and checks the condition once per millisecond.
    template <typename Condition>
    void run_until(Condition&& condition) {
        EventLoop::Timer next;
        const std::function<void()> look = [&] {
            if (condition()) {
                bench_.loop.stop();
            } else {
                next = bench_.loop.after(std::chrono::milliseconds{1}, look);
            }
        };
        next = bench_.loop.after(std::chrono::milliseconds{0}, look);
        ASSERT_TRUE(bench_.loop.run());
    }

    // Whether the status page asks for kicks, as that of a frozen slice does.
    bool stands_still() const {
        return load_relaxed(
                   reinterpret_cast<vrdma_status_page*>(driver_.status_page())->need_kick) != 0;
    }

    static bool done(const vrdma_admin_cpl& completion) {
        return (completion.header & VRDMA_ADMIN_PHASE) != 0;
    }

    static constexpr std::chrono::microseconds wait{8000};
    static constexpr std::chrono::microseconds penalty = 100 * wait;

    Bench bench_;
    Driver driver_{bench_.make_function()};
    Driver other_{std::move(bench_.make_functions("other").front())};
    const Clock::time_point start_ = Clock::now();
};

// Make others wait for a little less than is allowed; expect nothing to change.
TEST_F(StandstillTest, ALittleIsAllowed) {
    blame(std::chrono::microseconds{1900});
    EXPECT_TRUE(done(driver_.create_eq()));
}

// Make others wait; expect this device's commands, and no other's, to be executed only after a
// hundred times as long.
TEST_F(StandstillTest, ADeviceStandsStillForWhatItCostOthers) {
    blame(wait);
    EXPECT_FALSE(done(driver_.create_eq()));
    EXPECT_TRUE(done(other_.create_eq()));
    run_until([&] { return done(driver_.completion(0)); });
    EXPECT_GE(Clock::now() - start_, penalty);
    EXPECT_EQ(driver_.completion(0).status, 0u);
}

// Make others wait again while the device stands still; expect both waits to be paid.
TEST_F(StandstillTest, DebtsAddUp) {
    blame(wait);
    EXPECT_FALSE(done(driver_.create_eq()));
    blame(wait);
    run_until([&] { return done(driver_.completion(0)); });
    EXPECT_GE(Clock::now() - start_, 2 * penalty);
}

// Owe more than the longest standstill pays for; expect that one to end, a command to be done, and
// another to pay the rest.
TEST_F(StandstillTest, ALongDebtIsPaidInParts) {
    constexpr std::chrono::milliseconds rest{1000};
    blame((WaitDebt::longest + rest) / WaitDebt::factor);
    EXPECT_FALSE(done(driver_.create_eq()));
    EXPECT_TRUE(stands_still());
    run_until([&] { return done(driver_.completion(0)); });
    EXPECT_GE(Clock::now() - start_, WaitDebt::longest);
    run_until([&] { return stands_still(); });
    run_until([&] { return !stands_still(); });
    EXPECT_GE(Clock::now() - start_, WaitDebt::longest + rest);
}

TEST(WaitDebtTest, NothingThatIsOwedIsForgotten) {
    const Clock::time_point now = Clock::now();
    constexpr std::chrono::milliseconds waited{50};
    WaitDebt debt;
    debt.add(waited, now);
    debt.add(waited, now);
    EXPECT_TRUE(debt.due(now + 2 * WaitDebt::factor * waited - std::chrono::seconds{1}));
    EXPECT_FALSE(debt.due(now + 2 * WaitDebt::factor * waited));
}

TEST(WaitDebtTest, AStandstillHasABound) {
    const Clock::time_point now = Clock::now();
    WaitDebt debt;
    debt.add(std::chrono::milliseconds{10}, now);
    EXPECT_EQ(debt.end(now), now + std::chrono::seconds{1});
    debt.add(std::chrono::hours{1}, now);
    EXPECT_EQ(debt.end(now), now + WaitDebt::longest);
    EXPECT_FALSE(debt.due(now + WaitDebt::most));
}

// Miss more pages than there are scratch pages while the device stands still; expect it to be FATAL
// at once.
TEST_F(StandstillTest, AFailureIsNotPutOff) {
    blame(wait);
    for (std::uint64_t i = 0; i < 2 * ScratchPages::room; ++i) {
        const Iova missing{Driver::shared + 2 * i * VRDMA_PAGE_SIZE};
        static_cast<void>(*reinterpret_cast<volatile std::byte*>(
            driver_.function().client_memory().at(missing, 1)));
    }
    run_until([] { return true; });
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
}

// Reset the device, and enable it; expect it to become enabled only when all is paid.
TEST_F(StandstillTest, AResetDoesNotPay) {
    blame(wait);
    driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_READY);
    run_until([&] { return driver_.read(VRDMA_REG_STATUS) != VRDMA_STATUS_READY; });
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    EXPECT_GE(Clock::now() - start_, penalty);
    EXPECT_TRUE(done(driver_.create_eq()));
}

} // namespace
} // namespace vrdma::vfio_user::test
