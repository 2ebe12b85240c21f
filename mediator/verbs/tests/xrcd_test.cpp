// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// XRC domains, and the SRQs and QPs that have one.
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

constexpr auto busy = std::errc::device_or_resource_busy;

class XrcdTest : public VerbsTest {
  protected:
    vrdma_cmd_create_srq xrc_srq_command() {
        vrdma_cmd_create_srq cmd = srq_command(pd);
        cmd.xrcd = xrcd.value;
        cmd.cq = cq.value;
        return cmd;
    }

    vrdma_cmd_create_qp send_command() {
        vrdma_cmd_create_qp cmd = qp_command(pd, cq, kernel, hca::QpType::xrc_send);
        cmd.recv_cq = 0;
        cmd.rq_depth = 0;
        cmd.max_recv_sge = 0;
        cmd.max_inline = 32;
        cmd.pages = pages(vrdma_qp_buffer_size(cmd.sq_depth, sq_stride_shift, 0, rq_stride_shift));
        return cmd;
    }

    vrdma_cmd_create_qp recv_command() const {
        vrdma_cmd_create_qp cmd{};
        cmd.qp_type = static_cast<std::uint8_t>(hca::QpType::xrc_recv);
        cmd.xrcd = xrcd.value;
        return cmd;
    }

    template <typename Command, typename Change>
    std::errc srq_error(Command cmd, Change change) {
        change(cmd);
        return error_of(objects.srqs.create(cmd));
    }
    template <typename Change>
    std::errc qp_error(vrdma_cmd_create_qp cmd, Change change) {
        change(cmd);
        return error_of(objects.qps.create(cmd));
    }

    PdId pd = make_pd();
    Cqn cq = make_cq(make_eq());
    XrcdId xrcd = objects.xrcds.alloc().value();
};

TEST_F(XrcdTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 1; i < limits.max_xrcd; ++i) {
        ASSERT_TRUE(objects.xrcds.alloc());
    }
    EXPECT_EQ(error_of(objects.xrcds.alloc()), std::errc::not_enough_memory);
    ASSERT_TRUE(objects.xrcds.dealloc(xrcd));
    EXPECT_EQ(objects.xrcds.alloc().value(), xrcd);
}

TEST_F(XrcdTest, UnknownOneCannotBeFreed) {
    EXPECT_EQ(error_of(objects.xrcds.dealloc(XrcdId{})), invalid);
    EXPECT_EQ(error_of(objects.xrcds.dealloc(XrcdId{99})), invalid);
}

TEST_F(XrcdTest, BusyWhileAnSrqOrAQpUsesIt) {
    const Srqn srq = objects.srqs.create(xrc_srq_command()).value();
    const Qpn qp = objects.qps.create(recv_command()).value().qpn;
    EXPECT_EQ(error_of(objects.xrcds.dealloc(xrcd)), busy);
    EXPECT_EQ(error_of(objects.cqs.destroy(cq)), busy);
    ASSERT_TRUE(objects.srqs.destroy(srq));
    EXPECT_TRUE(objects.cqs.destroy(cq));
    EXPECT_EQ(error_of(objects.xrcds.dealloc(xrcd)), busy);
    ASSERT_TRUE(objects.qps.destroy(qp));
    EXPECT_TRUE(objects.xrcds.dealloc(xrcd));
}

TEST_F(XrcdTest, AnSrqHasBothADomainAndACqOfItsUserContext) {
    const UcontextId other = objects.ucontexts.alloc().value();
    const Cqn others_cq = make_cq(EqId{1}, other);
    const auto error = [&](auto change) { return srq_error(xrc_srq_command(), change); };
    EXPECT_EQ(error([](auto&) {}), std::errc{});
    EXPECT_EQ(error([](auto& cmd) { cmd.xrcd = 0; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.xrcd = 99; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.cq = 0; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.cq = 99; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.cq = others_cq.value; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.reserved1 = 1; }), invalid);
}

TEST_F(XrcdTest, ItsSrqIsNoOtherQps) {
    const Srqn srq = objects.srqs.create(xrc_srq_command()).value();
    EXPECT_EQ(error_of(objects.qps.create(srq_qp_command(pd, cq, srq))), invalid);
}

TEST_F(XrcdTest, ASendQpReceivesNothing) {
    const auto error = [&](auto change) { return qp_error(send_command(), change); };
    EXPECT_EQ(error([](auto&) {}), std::errc{});
    EXPECT_EQ(error([&](auto& cmd) { cmd.recv_cq = cq.value; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.send_cq = 0; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.rq_depth = 64; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.max_recv_sge = 1; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.xrcd = xrcd.value; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.srq = make_srq(pd).value; }), invalid);
    // 24 bytes of WQE, 8 of the SRQ's number, and 33 of data are more than 64.
    EXPECT_EQ(error([](auto& cmd) { cmd.max_inline = 33; }), invalid);
}

TEST_F(XrcdTest, AReceiveQpHasNothingButItsDomain) {
    const auto error = [&](auto change) { return qp_error(recv_command(), change); };
    EXPECT_EQ(error([](auto&) {}), std::errc{});
    EXPECT_EQ(error([](auto& cmd) { cmd.xrcd = 0; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.xrcd = 99; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.pd = pd.value; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.send_cq = cq.value; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.recv_cq = cq.value; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.srq = make_srq(pd).value; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.ucontext = objects.ucontexts.alloc().value().value; }),
              invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.sq_depth = 64; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.rq_depth = 64; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.sq_stride_shift = 6; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.max_inline = 1; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.flags = VRDMA_QP_SQ_SIGNAL_ALL; }), invalid);
    EXPECT_EQ(error([](auto& cmd) { cmd.first_offset = 64; }), invalid);
    EXPECT_EQ(error([&](auto& cmd) { cmd.pages = pages(4096); }), invalid);
}

TEST_F(XrcdTest, OtherQpsHaveNoDomain) {
    EXPECT_EQ(qp_error(qp_command(pd, cq), [&](auto& cmd) { cmd.xrcd = xrcd.value; }), invalid);
}

TEST_F(XrcdTest, RoundTrip) {
    const XrcdId second = objects.xrcds.alloc().value();
    const Srqn srq = objects.srqs.create(xrc_srq_command()).value();
    const Qpn recv = objects.qps.create(recv_command()).value().qpn;
    const Qpn send_qp = objects.qps.create(send_command()).value().qpn;
    ASSERT_TRUE(objects.xrcds.dealloc(second));
    expect_round_trip();
    EXPECT_EQ(moved->slice.srqs.at(srq).xrcd, xrcd);
    EXPECT_EQ(moved->slice.srqs.at(srq).cq, cq);
    EXPECT_EQ(moved->slice.qps.at(recv).xrcd, xrcd);
    EXPECT_EQ(moved->slice.qps.at(send_qp).type, hca::QpType::xrc_send);
    EXPECT_EQ(moved->objects.xrcds.find(second), nullptr);
    EXPECT_EQ(error_of(moved->objects.xrcds.dealloc(xrcd)), busy);
}

TEST_F(XrcdTest, RestoreValidates) {
    for (const std::uint32_t id : {0u, limits.max_xrcd + 1}) {
        StateWriter writer;
        writer.begin(Section::xrcds, XrcdState::version, 1);
        writer.put(XrcdState{id});
        const auto image = writer.take();
        StateReader reader{image};
        Side other{limits, function_id, other_registry, *memory};
        XrcdTable& fresh = other.objects.xrcds;
        EXPECT_EQ(error_of(fresh.restore(reader)), invalid) << id;
    }
}

} // namespace
} // namespace vrdma::verbs
