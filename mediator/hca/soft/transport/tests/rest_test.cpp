// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages to a frozen slice on the same host: their senders wait for it, for a while.
#include <optional>

#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/hca/soft/transport/retry.h"

namespace vrdma::test {
namespace {

using hca::QpType;

constexpr std::uint8_t timeout = 8; // 1 ms

class Rest : public ::testing::TestWithParam<QpType>, protected GuestPair {
  protected:
    Rest() : GuestPair{false} { GetParam() == QpType::ud ? activate() : connect(); }

    // Sends 8 bytes for which there is a receive.
    void send() {
        const vrdma_sge to = b_mr_.sge(0, 100);
        b_qp_.post_recv({&to, 1});
        SendWr wr{.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = data_};
        if (GetParam() == QpType::ud) {
            wr.ah = ah_;
            wr.dest_qpn = b_qp_.id();
            wr.qkey = qkey;
        }
        a_qp_.post_send(wr);
    }

  private:
    static constexpr std::uint32_t qkey = 0x11111111;

    void activate() {
        activate_ud(a_, a_qp_, qkey);
        activate_ud(b_, b_qp_, qkey);
        ah_ = a_.create_ah(b_.gid());
    }
    // With one timeout, which must not end.
    void connect() {
        connect_pair(a_qp_, b_qp_);
        vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
        attr.attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT;
        attr.timeout = timeout;
        attr.retry_cnt = 0;
        ASSERT_TRUE(a_.slice().modify_qp(a_qp_.id(), attr));
    }

    GuestQp a_qp_{a_.create_qp(a_cq_, a_cq_, {.type = GetParam()})};
    GuestQp b_qp_{b_.create_qp(b_cq_, b_cq_, {.type = GetParam()})};
    MemoryRegion b_mr_ = b_.register_mr(4096);
    AhId ah_{};
    std::vector<std::byte> data_ = Buffer::pattern(1, 8);
};

// Send to a frozen slice, and wait for many timeouts; expect the message to arrive after the thaw.
TEST_P(Rest, SendersWait) {
    b_.slice().freeze();
    send();
    pass(20 * hca::soft::ack_timeout(timeout));
    EXPECT_FALSE(a_cq_.poll());
    b_.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// Send to a slice that has been frozen for longer; expect only reliable QPs to wait still.
TEST_P(Rest, OthersDoNotWaitForLong) {
    const bool reliable = GetParam() == QpType::rc;
    b_.slice().freeze();
    pass(hca::soft::unreliable_rest);
    send();
    pass(20 * hca::soft::ack_timeout(timeout));
    EXPECT_EQ(a_cq_.poll().has_value(), !reliable);
    b_.thaw();
    if (reliable) {
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    } else {
        settle();
        EXPECT_FALSE(b_cq_.poll());
    }
}

INSTANTIATE_TEST_SUITE_P(, Rest, ::testing::Values(QpType::rc, QpType::uc, QpType::ud));

// Freeze for longer and longer; expect waits that grow with it, up to 20 ms.
TEST(RestTimer, GrowsWithTheTime) {
    using std::chrono::microseconds;
    using std::chrono::milliseconds;
    const auto wait = [](auto frozen) {
        return hca::soft::rnr_delay(hca::soft::rest_timer(frozen));
    };
    EXPECT_EQ(wait(microseconds{0}), microseconds{60});
    EXPECT_EQ(wait(milliseconds{1}), microseconds{160});
    EXPECT_EQ(wait(milliseconds{10}), microseconds{1280});
    EXPECT_EQ(wait(std::chrono::seconds{9}), microseconds{20480});
}

} // namespace
} // namespace vrdma::test
