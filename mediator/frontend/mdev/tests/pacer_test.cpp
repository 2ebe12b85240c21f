// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/pacer.h"

#include <gtest/gtest.h>

namespace vrdma::mdev {
namespace {

constexpr std::uint64_t megabyte = 1'000'000;
constexpr std::chrono::seconds second{1};

// A device that moves 100 MB per second unless it is paced.
class PacerTest : public testing::Test {
  protected:
    // A pass of the migration, in which the device dirties so many pages, ends after the time.
    std::uint64_t pass(std::uint64_t pages, std::chrono::milliseconds length = second) {
        const std::uint64_t rate = pace_ != 0 ? pace_ : 100 * megabyte;
        now_.time += length;
        now_.moved += rate * static_cast<std::uint64_t>(length.count()) / 1000;
        now_.module.pins += pages;
        now_.module.passes += 1;
        return pace_ = pacer_.pace(now_);
    }

    Pacer::Sample now_{};
    Pacer pacer_{now_};
    std::uint64_t pace_ = 0;
};

TEST_F(PacerTest, LeavesADeviceAloneThatDirtiesLessEachTime) {
    for (const std::uint64_t pages : {100'000, 40'000, 10'000, 3'000, 1'000}) {
        EXPECT_EQ(pass(pages), 0u);
    }
}

TEST_F(PacerTest, LeavesADeviceAloneThatUsesFewPages) {
    now_.module.pinned = Pacer::few_pages - 1; // the same ones in each pass
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(pass(0), 0u);
    }
}

TEST_F(PacerTest, HalvesTheRateWhileTheMigrationDoesNotConverge) {
    EXPECT_EQ(pass(20'000), 0u);
    EXPECT_EQ(pass(20'000), 50 * megabyte);
    EXPECT_EQ(pass(12'000), 25 * megabyte);
    EXPECT_EQ(pass(4'000), 25 * megabyte);
    EXPECT_EQ(pass(3'000), 12'500'000u);
}

// A device that is in the middle of long messages moves as many bytes as it touches.
TEST_F(PacerTest, CountsMessagesThatAreUnderWay) {
    pass(50'000);
    now_.moved -= 100 * megabyte; // none has ended in the next pass
    EXPECT_EQ(pass(50'000), 50'000u * VRDMA_PAGE_SIZE / 2);
}

// Pages that stay pinned are dirty in each pass, although no page is pinned anew.
TEST_F(PacerTest, CountsPagesThatStayInUse) {
    now_.module.pinned = 10'000;
    pass(0);
    pass(0);
    EXPECT_NE(pass(0), 0u);
}

// Rings that are polled stay pinned.
TEST_F(PacerTest, LeavesADeviceAloneThatMovesLittle) {
    now_.module.pinned = 100'000;
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(pass(0), 0u);
    }
}

// The counters of a device begin anew when its guest resets it.
TEST_F(PacerTest, SurvivesAReset) {
    pass(20'000);
    now_.moved = 0;
    const auto pace = static_cast<double>(pass(20'000, std::chrono::milliseconds{900}));
    EXPECT_NEAR(pace, 50.0 * megabyte, megabyte);
}

TEST_F(PacerTest, NeverStopsADevice) {
    for (int i = 0; i < 20; ++i) {
        pass(100'000);
    }
    EXPECT_EQ(pace_, Pacer::slowest);
}

// A virtual machine monitor that asks again and again shows nothing by it.
TEST_F(PacerTest, CountsShortPassesTogether) {
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(pass(100'000, std::chrono::milliseconds{9}), 0u);
    }
}

TEST_F(PacerTest, WaitsForTheEndOfAPass) {
    pass(100'000);
    now_.time += second;
    now_.module.pins += 100'000;
    EXPECT_EQ(pacer_.pace(now_), 0u);
}

} // namespace
} // namespace vrdma::mdev
