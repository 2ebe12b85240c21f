// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The time after which a peer's answer is overdue (RFC 6298).
#include "mediator/hca/soft/transport/roce/round_trip.h"

#include <gtest/gtest.h>

namespace vrdma::test {
namespace {

using hca::soft::Clock;
using hca::soft::roce::RoundTrip;
using namespace std::chrono_literals;

class RoundTripTest : public ::testing::Test {
  protected:
    void answer_after(Clock::duration time) {
        trip_.sent(psn_, now_);
        now_ += time;
        trip_.arrived_before(++psn_, now_);
    }

    RoundTrip trip_;
    hca::soft::roce::Psn psn_ = 7;
    Clock::time_point now_{1h};
};

// No answer has arrived yet; expect no value.
TEST_F(RoundTripTest, IsNotKnownBeforeAnAnswer) {
    trip_.sent(7, now_);
    EXPECT_EQ(trip_.rto(1ms), std::nullopt);
    trip_.arrived_before(7, now_ + 5ms); // acknowledges only packets before it
    EXPECT_EQ(trip_.rto(1ms), std::nullopt);
}

// One answer after 10 ms; expect an RTO of three times as long. Then many equal answers; expect
// little more than 10 ms.
TEST_F(RoundTripTest, FollowsTheAnswers) {
    answer_after(10ms);
    EXPECT_EQ(trip_.rto(1ms), 30ms);
    for (int i = 0; i < 50; ++i) {
        answer_after(10ms);
    }
    EXPECT_GE(trip_.rto(1ms), 10ms);
    EXPECT_LT(trip_.rto(1ms), 11ms);
}

// Answers at once; expect the minimum RTO.
TEST_F(RoundTripTest, HasALeast) {
    answer_after(0ns);
    EXPECT_EQ(trip_.rto(1ms), 1ms);
    EXPECT_EQ(trip_.rto(1h), 1h);
}

// The RTO expires repeatedly; expect it to double each time, up to a bound. An answer that cannot
// be timed does not change it. The next answer that can be timed does.
TEST_F(RoundTripTest, DoublesInVain) {
    answer_after(10ms);
    trip_.back_off();
    EXPECT_EQ(trip_.rto(1ms), 60ms);
    trip_.back_off();
    EXPECT_EQ(trip_.rto(1ms), 120ms);
    for (int i = 0; i < 100; ++i) {
        trip_.back_off();
    }
    EXPECT_LT(trip_.rto(1ms), 1min);
    const auto most = trip_.rto(1ms);
    trip_.arrived_before(psn_, now_);
    EXPECT_EQ(trip_.rto(1ms), most);
    answer_after(10ms);
    EXPECT_LT(trip_.rto(1ms), 30ms);
}

// A packet was sent again before the answer; expect the answer not to be measured.
TEST_F(RoundTripTest, DoesNotTimeWhatWasSentAgain) {
    answer_after(10ms);
    trip_.sent(psn_, now_);
    trip_.sent_again();
    trip_.arrived_before(psn_ + 1, now_ + 1h);
    EXPECT_EQ(trip_.rto(1ms), 30ms);
}

} // namespace
} // namespace vrdma::test
