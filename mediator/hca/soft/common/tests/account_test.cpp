// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/common/account.h"

#include <gtest/gtest.h>

namespace vrdma::hca::soft {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t turn = 32 << 10;
const Clock::time_point epoch = Clock::time_point{} + 1h;

// The bytes that an account gets in that many rounds, by pieces of one size.
std::uint64_t take(Account& account, unsigned rounds, std::uint32_t heaviest, std::uint64_t piece) {
    std::uint64_t bytes = 0;
    for (unsigned i = 0; i < rounds; ++i) {
        account.grant(turn, heaviest);
        while (account.in_credit()) {
            account.charge(piece);
            bytes += piece;
        }
        account.settle(epoch);
    }
    return bytes;
}

TEST(Account, PiecesOfAnySizeGetTheSame) {
    Account large;
    Account small;
    const std::uint64_t ops_of_large = take(large, 1000, 100, turn) / turn;
    const std::uint64_t ops_of_small = take(small, 1000, 100, 64) / 64;
    const double cost_of_large =
        static_cast<double>(ops_of_large * (turn + Account::operation_cost));
    const double cost_of_small = static_cast<double>(ops_of_small * (64 + Account::operation_cost));
    EXPECT_NEAR(cost_of_large / cost_of_small, 1.0, 0.01);
}

// The heaviest account has a whole turn in each round, so no weight makes a round longer.
TEST(Account, WeightsDivide) {
    Account one{{.weight = 5}};
    Account three{{.weight = 15}};
    const std::uint64_t less = take(one, 3000, 15, 4096);
    const std::uint64_t more = take(three, 3000, 15, 4096);
    EXPECT_NEAR(static_cast<double>(more) / static_cast<double>(less), 3.0, 0.03);
    EXPECT_LE(more, 3001 * turn);
}

TEST(Account, WhatWasNotUsedIsKeptForOneTurnOnly) {
    Account idle;
    for (int i = 0; i < 1000; ++i) {
        idle.grant(turn, 100);
        idle.settle(epoch);
    }
    EXPECT_LE(take(idle, 1, 100, 1024), 2 * turn + 1024);
}

// However much others send to the account, half of its turns remain its own.
TEST(Account, WhatComesInTakesHalf) {
    Account flooded;
    std::uint64_t bytes = 0;
    for (int i = 0; i < 1000; ++i) {
        flooded.bill(100 * turn, 1000);
        bytes += take(flooded, 1, 100, 1024);
    }
    EXPECT_NEAR(static_cast<double>(bytes), 1000.0 * turn / 2 * 1024 / (1024 + 512), 10.0 * turn);
}

// A limit counts incoming bytes only while it is open, so they cannot close it for long.
TEST(Account, WhatComesInCannotCloseALimitForLong) {
    Account account{{.bytes_per_second = 1'000'000}};
    for (int i = 0; i < 1000; ++i) {
        account.bill(100'000);
        account.settle_billed(epoch);
    }
    EXPECT_GT(account.open(), epoch);
    EXPECT_LE(account.open(), epoch + 100ms);
}

TEST(Account, LimitsBytes) {
    Account account{{.bytes_per_second = 1'000'000'000}};
    std::uint64_t taken = 0;
    for (Clock::time_point now = epoch; now < epoch + 1s; now += 1us) {
        while (account.open() <= now) {
            account.charge(turn);
            account.settle(now);
            taken += turn;
        }
    }
    EXPECT_NEAR(static_cast<double>(taken), 1'010'000'000.0, 2.0 * turn); // with one burst
}

TEST(Account, LimitsOperations) {
    Account account{{.operations_per_second = 3'000'000}};
    std::uint64_t taken = 0;
    for (Clock::time_point now = epoch; now < epoch + 1s; now += 1us) {
        while (account.open() <= now) {
            account.charge(0, 7);
            account.settle(now);
            taken += 7;
        }
    }
    EXPECT_NEAR(static_cast<double>(taken), 3'030'000.0, 20.0);
}

// Each byte takes a third of a nanosecond. Fractions must add up.
TEST(TokenBucket, CountsWhatIsCheaperThanTheClock) {
    TokenBucket bucket;
    bucket.set_rate(3'000'000'000, epoch);
    for (int i = 0; i < 3'000'000; ++i) {
        bucket.take(1, epoch);
    }
    EXPECT_EQ(bucket.open(), epoch + 1ms - TokenBucket::burst);
}

TEST(TokenBucket, IsFullAfterAPause) {
    TokenBucket bucket;
    bucket.set_rate(1000, epoch);
    bucket.take(1000, epoch);
    EXPECT_EQ(bucket.open(), epoch + 1s - TokenBucket::burst);
    bucket.take(1, epoch + 1h);
    EXPECT_LT(bucket.open(), epoch + 1h);
}

TEST(TokenBucket, WithoutARateIsAlwaysOpen) {
    TokenBucket bucket;
    bucket.set_rate(1, epoch);
    bucket.take(1000, epoch);
    bucket.set_rate(0, epoch);
    EXPECT_LT(bucket.open(), epoch);
}

// A debt of an hour is paid at a thousand times the rate. A lower rate does not change a debt.
TEST(TokenBucket, PaysDebtsAtAHigherRate) {
    TokenBucket bucket;
    bucket.set_rate(1000, epoch);
    bucket.take(3'600'000, epoch);
    bucket.set_rate(1'000'000, epoch);
    EXPECT_LE(bucket.open(), epoch + 3600ms);
    EXPECT_GE(bucket.open(), epoch + 3500ms);
    bucket.set_rate(1, epoch);
    EXPECT_LE(bucket.open(), epoch + 3600ms);
}

TEST(TokenBucket, ForgetsDebtsWithTheLimit) {
    TokenBucket bucket;
    bucket.set_rate(1, epoch);
    bucket.take(1000, epoch);
    bucket.set_rate(0, epoch);
    bucket.set_rate(1, epoch);
    EXPECT_LE(bucket.open(), epoch);
}

// Look at many QPs without finding work; expect the looks to be charged to the turn, and not to the
// operations per second.
TEST(Account, LooksTakeTurnsAndNoLimits) {
    constexpr std::uint64_t turn = 64 * Account::look_cost;
    Account account{{.operations_per_second = 1}};
    ASSERT_TRUE(account.grant(turn, Share{}.weight));
    for (int i = 0; i < 64; ++i) {
        EXPECT_TRUE(account.in_credit()) << i;
        account.charge_look();
    }
    EXPECT_FALSE(account.in_credit());
    EXPECT_EQ(account.settle({}), turn);
    EXPECT_LE(account.open(), Clock::time_point{});
}

} // namespace
} // namespace vrdma::hca::soft
