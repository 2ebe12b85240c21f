// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <set>

#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class QpTest : public VerbsTest {
  protected:
    void SetUp() override { make_gid(); }

    template <typename Change>
    std::errc create_error(Change change) {
        auto cmd = qp_command(pd, cq);
        change(cmd);
        return error_of(objects.qps.create(cmd));
    }

    Qpn make_qp(hca::QpType type = hca::QpType::rc) {
        return objects.qps.create(qp_command(pd, cq, kernel, type)).value().qpn;
    }

    std::errc modify(Qpn qp, const vrdma_qp_attr& attr) {
        return error_of(objects.qps.modify({qp.value, 0, attr}));
    }

    static vrdma_qp_attr to_init() {
        vrdma_qp_attr attr{};
        attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        attr.state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.access_flags = IBV_ACCESS_REMOTE_WRITE;
        return attr;
    }

    static vrdma_qp_attr to_rtr() {
        vrdma_qp_attr attr{};
        attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        attr.state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qpn = 77;
        attr.rq_psn = 5;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        attr.av = av();
        return attr;
    }

    static vrdma_qp_attr to_rts() {
        vrdma_qp_attr attr{};
        attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        attr.state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        return attr;
    }

    static vrdma_qp_attr to_state(std::uint8_t state) {
        vrdma_qp_attr attr{};
        attr.attr_mask = IBV_QP_STATE;
        attr.state = state;
        return attr;
    }

    // Tries a legal transition in which `change` has set an attribute.
    template <typename Change>
    std::errc rtr_error(Change change) {
        const Qpn qp = make_qp();
        EXPECT_EQ(modify(qp, to_init()), std::errc{});
        auto attr = to_rtr();
        change(attr);
        return modify(qp, attr);
    }

    PdId pd = make_pd();
    EqId eq = make_eq();
    Cqn cq = make_cq(eq);
};

TEST_F(QpTest, TheSliceGetsWhatTheGuestAskedFor) {
    const auto made = objects.qps.create(qp_command(pd, cq)).value();
    const hca::QpSpec& spec = side->slice.qps.at(made.qpn);
    EXPECT_EQ(spec.type, hca::QpType::rc);
    EXPECT_EQ(spec.pd, pd);
    EXPECT_EQ(spec.send_cq, cq);
    EXPECT_EQ(spec.sq_depth, 64u);
    EXPECT_EQ(spec.max_send_sge, 2u);
    EXPECT_EQ(made.doorbell_slot, side->slice.qp_states.at(made.qpn).doorbell_slot);
}

TEST_F(QpTest, NumbersAreRandomAndNotUsedAgainSoon) {
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 200; ++i) {
        const Qpn qp = make_qp();
        EXPECT_GT(qp.value, 1u);
        EXPECT_LT(qp.value, 0xffffffu);
        EXPECT_TRUE(seen.insert(qp.value).second);
        ASSERT_TRUE(objects.qps.destroy(qp));
    }
    EXPECT_GT(*seen.rbegin() - *seen.begin(), 0x100000u);
}

TEST_F(QpTest, EverythingBelongsToItsUserContext) {
    const UcontextId user = objects.ucontexts.alloc().value();
    const PdId user_pd = make_pd(user);
    const Cqn user_cq = make_cq(eq, user);
    EXPECT_EQ(error_of(objects.qps.create(qp_command(pd, cq, user))), invalid);
    EXPECT_EQ(error_of(objects.qps.create(qp_command(user_pd, cq, user))), invalid);
    EXPECT_EQ(error_of(objects.qps.create(qp_command(pd, user_cq, user))), invalid);
    EXPECT_EQ(error_of(objects.qps.create(qp_command(user_pd, user_cq, kernel))), invalid);
    EXPECT_TRUE(objects.qps.create(qp_command(user_pd, user_cq, user)));
}

TEST_F(QpTest, WhatItUsesExists) {
    EXPECT_EQ(create_error([](auto& cmd) { cmd.ucontext = 9; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.pd = 9; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.send_cq = 9; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.recv_cq = 9; }), invalid);
}

TEST_F(QpTest, TypesAreRcUcUd) {
    for (const int type : {0, 5, 255}) {
        EXPECT_EQ(create_error([&](auto& cmd) { cmd.qp_type = static_cast<std::uint8_t>(type); }),
                  std::errc::operation_not_supported);
    }
}

// Ask for GSI QPs; expect the guest's kernel to get one at a time, with number 1 and of type UD,
// and nobody else to get one.
TEST_F(QpTest, TheGuestKernelHasOneGsiQp) {
    auto cmd = qp_command(pd, cq);
    cmd.qp_type = 1;
    for (int i = 0; i < 2; ++i) {
        const auto made = objects.qps.create(cmd).value();
        EXPECT_EQ(made.qpn, Qpn{1});
        EXPECT_EQ(side->slice.qps.at(made.qpn).type, hca::QpType::ud);
        EXPECT_EQ(error_of(objects.qps.create(cmd)), std::errc::device_or_resource_busy);
        ASSERT_TRUE(objects.qps.destroy(made.qpn));
    }
    const UcontextId user = objects.ucontexts.alloc().value();
    auto forged = qp_command(make_pd(user), make_cq(eq, user), user);
    forged.qp_type = 1;
    EXPECT_EQ(error_of(objects.qps.create(forged)), std::errc::operation_not_supported);
}

TEST_F(QpTest, SizesHaveRanges) {
    EXPECT_EQ(create_error([](auto& cmd) { cmd.flags = 4; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.flags = VRDMA_QP_BLOCK_SELF_MULTICAST; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.sq_depth = 63; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.rq_depth = 1u << 31; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.sq_depth = VRDMA_MAX_QUEUE_DEPTH * 2; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.sq_stride_shift = 5; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.sq_stride_shift = 13; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.sq_stride_shift = 255; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.rq_stride_shift = 4; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.rq_stride_shift = 255; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.max_inline = 41; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.max_inline = 0xffffffff; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.max_send_sge = 3; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.max_recv_sge = 2; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.max_send_sge = VRDMA_MAX_SGE + 1; }), invalid);
    EXPECT_EQ(create_error([](auto& cmd) { cmd.pages.count += 1; }), invalid);
}

TEST_F(QpTest, QueuesMayBeMissing) {
    EXPECT_EQ(create_error([&](auto& cmd) {
                  cmd.sq_depth = cmd.rq_depth = 0;
                  cmd.pages = pages(vrdma_qp_buffer_size(0, sq_stride_shift, 0, rq_stride_shift));
              }),
              std::errc{});
}

TEST_F(QpTest, NoWqeCrossesAPage) {
    auto cmd = qp_command(pd, cq);
    cmd.sq_stride_shift = 8;
    const auto size = vrdma_qp_buffer_size(64, 8, 64, rq_stride_shift);
    cmd.pages = pages(size + 256);
    cmd.first_offset = 64;
    EXPECT_EQ(error_of(objects.qps.create(cmd)), invalid);
    cmd.first_offset = 256;
    EXPECT_TRUE(objects.qps.create(cmd));
}

TEST_F(QpTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_qp; ++i) {
        make_qp();
    }
    EXPECT_EQ(create_error([](auto&) {}), std::errc::not_enough_memory);
}

TEST_F(QpTest, AFailureOfTheSliceLeavesNothingBehind) {
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(create_error([](auto&) {}), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.cqs.destroy(cq));
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

// Expect a QP to use the protocol of its GID from RTR to ERR, and UD QPs to use none: their AHs do.
TEST_F(QpTest, UsesTheProtocolOfItsGidWhileItIsConnected) {
    const Protocols v2{1u << VRDMA_GID_ROCE_V2};
    make_qp(hca::QpType::ud);
    const Qpn qp = make_qp();
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    EXPECT_EQ(objects.qps.users_of(v2), 0u);
    ASSERT_EQ(modify(qp, to_rtr()), std::errc{});
    EXPECT_EQ(objects.qps.users_of(v2), 1u);
    EXPECT_EQ(objects.qps.users_of(~v2), 0u);
    ASSERT_EQ(modify(qp, to_state(IBV_QPS_ERR)), std::errc{});
    EXPECT_EQ(objects.qps.users_of(v2), 0u);
    ASSERT_TRUE(objects.gids.allow(~v2));
    EXPECT_EQ(rtr_error([](auto&) {}), std::errc::protocol_not_supported);
}

TEST_F(QpTest, ConnectsInThreeSteps) {
    const Qpn qp = make_qp();
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    ASSERT_EQ(modify(qp, to_rtr()), std::errc{});
    ASSERT_EQ(modify(qp, to_rts()), std::errc{});
    const auto attr = objects.qps.query(qp).value();
    EXPECT_EQ(attr.state, IBV_QPS_RTS);
    EXPECT_EQ(attr.dest_qpn, 77u);
    EXPECT_EQ(attr.timeout, 14);
}

TEST_F(QpTest, PsnsHave24Bits) {
    EXPECT_EQ(rtr_error([](auto& attr) { attr.rq_psn = 0xab123456; }), std::errc{});
    EXPECT_EQ(side->slice.qp_states.begin()->second.attr.rq_psn, 0x123456u);
}

TEST_F(QpTest, AttributesHaveRanges) {
    EXPECT_EQ(rtr_error([](auto& attr) { attr.path_mtu = 0; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.path_mtu = 6; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.dest_qpn = 1 << 24; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.max_dest_rd_atomic = 17; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.min_rnr_timer = 32; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.reserved = 1; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.sq_draining = 1; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.av.sgid_index = 3; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.av.port_num = 0; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.av.dgid[0] = 0xff; }), invalid);
    EXPECT_EQ(rtr_error([](auto& attr) { attr.state = 7; }), invalid);

    const Qpn qp = make_qp();
    const auto init_error = [&](auto change) {
        auto attr = to_init();
        change(attr);
        return modify(qp, attr);
    };
    EXPECT_EQ(init_error([](auto& attr) { attr.port_num = 2; }), invalid);
    EXPECT_EQ(init_error([](auto& attr) { attr.pkey_index = 1; }), invalid);
    EXPECT_EQ(init_error([](auto& attr) { attr.access_flags = 1u << 19; }), invalid);
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    ASSERT_EQ(modify(qp, to_rtr()), std::errc{});
    const auto rts_error = [&](auto change) {
        auto attr = to_rts();
        change(attr);
        return modify(qp, attr);
    };
    EXPECT_EQ(rts_error([](auto& attr) { attr.timeout = 32; }), invalid);
    EXPECT_EQ(rts_error([](auto& attr) { attr.retry_cnt = 8; }), invalid);
    EXPECT_EQ(rts_error([](auto& attr) { attr.rnr_retry = 8; }), invalid);
    EXPECT_EQ(rts_error([](auto& attr) { attr.max_rd_atomic = 17; }), invalid);
}

TEST_F(QpTest, PKeysAreOfTheTable) {
    Identity member = identity;
    member.pkeys = {0xffff, 0x8001, 0x0002};
    Side fresh{limits, member, other_registry, *memory};
    const PdId domain = fresh.objects.pds.alloc(kernel).value();
    const EqId eq = fresh.objects.eqs.create(eq_command()).value();
    const Cqn queue = fresh.objects.cqs.create(cq_command(eq)).value();
    const Qpn qp = fresh.objects.qps.create(qp_command(domain, queue)).value().qpn;
    for (const std::uint16_t index : {0, 1, 2, 3, 0xffff}) {
        auto attr = to_init();
        attr.pkey_index = index;
        EXPECT_EQ(error_of(fresh.objects.qps.modify({qp.value, 0, attr})),
                  index < 3 ? std::errc{} : invalid)
            << index;
    }
}

// Give a QP all flags of a region, as programs do; expect those that mean nothing for a QP to be
// ignored.
TEST_F(QpTest, FlagsOfRegionsAreIgnored) {
    constexpr std::uint32_t flushes = 1u << 8 | 1u << 9; // IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT
    auto attr = to_init();
    attr.access_flags |= IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
                         IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING | flushes;
    EXPECT_EQ(modify(make_qp(), attr), std::errc{});
}

TEST_F(QpTest, ThePathsMtuIsAtMostThePorts) {
    side->slice.mtu = IBV_MTU_1024;
    const Qpn qp = make_qp();
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    auto attr = to_rtr();
    attr.path_mtu = IBV_MTU_2048;
    EXPECT_EQ(modify(qp, attr), invalid);
    attr.path_mtu = IBV_MTU_1024;
    EXPECT_EQ(modify(qp, attr), std::errc{});
}

TEST_F(QpTest, TheCurrentStateMustBeThat) {
    const Qpn qp = make_qp();
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    ASSERT_EQ(modify(qp, to_rtr()), std::errc{});
    auto attr = to_rts();
    attr.attr_mask |= IBV_QP_CUR_STATE;
    attr.cur_state = IBV_QPS_RTS;
    EXPECT_EQ(modify(qp, attr), invalid);
    attr.cur_state = IBV_QPS_RTR;
    EXPECT_EQ(modify(qp, attr), std::errc{});
}

TEST_F(QpTest, WithoutAStateItStaysInItsOwn) {
    const Qpn qp = make_qp();
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    vrdma_qp_attr attr{};
    attr.attr_mask = IBV_QP_ACCESS_FLAGS;
    EXPECT_EQ(modify(qp, attr), std::errc{});
    attr.attr_mask = IBV_QP_TIMEOUT;
    EXPECT_EQ(modify(qp, attr), invalid);
}

TEST_F(QpTest, AStateThatTheSliceMovedCounts) {
    const Qpn qp = make_qp();
    side->slice.qp_states.at(qp).attr.state = IBV_QPS_ERR;
    EXPECT_EQ(modify(qp, to_rts()), invalid);
    EXPECT_EQ(modify(qp, to_state(IBV_QPS_RESET)), std::errc{});
}

TEST_F(QpTest, UnknownOnesAreRefused) {
    EXPECT_EQ(modify(Qpn{5}, to_init()), invalid);
    EXPECT_EQ(error_of(objects.qps.query(Qpn{5})), invalid);
    EXPECT_EQ(error_of(objects.qps.destroy(Qpn{5})), invalid);
    const Qpn qp = make_qp();
    EXPECT_EQ(error_of(objects.qps.modify({qp.value, 1, to_init()})), invalid);
}

TEST_F(QpTest, RoundTrip) {
    const Qpn qp = make_qp();
    ASSERT_EQ(modify(qp, to_init()), std::errc{});
    side->slice.qp_states.at(qp).sq_head = 99;
    make_qp(hca::QpType::ud);
    auto gsi = qp_command(pd, cq);
    gsi.qp_type = 1;
    ASSERT_TRUE(objects.qps.create(gsi));
    expect_round_trip();
    EXPECT_EQ(error_of(moved->objects.qps.create(gsi)), std::errc::device_or_resource_busy);
    EXPECT_EQ(moved->slice.qp_states.at(qp).sq_head, 99u);
    EXPECT_EQ(moved->slice.qp_states.at(qp).attr.state, IBV_QPS_INIT);
    EXPECT_EQ(moved->slice.qps.at(qp).pages.blocks, side->slice.qps.at(qp).pages.blocks);
    EXPECT_EQ(error_of(moved->objects.cqs.destroy(cq)), std::errc::device_or_resource_busy);
}

// The QP has a message under way to a peer on the network, and data that the peer has asked for.
TEST_F(QpTest, ConnectionRoundTrip) {
    const Qpn qp = make_qp();
    side->slice.qp_states.at(qp).connected = 1;
    const std::vector<std::byte> saved(100, std::byte{7});
    side->slice.connections[qp] = saved;
    make_qp();
    expect_round_trip();
    EXPECT_EQ(moved->slice.connections.at(qp), saved);
    EXPECT_EQ(moved->slice.connections.size(), 1u);
}

// A connection's state that is longer than any engine's; expect EINVAL.
TEST_F(QpTest, AConnectionsStateIsBounded) {
    const Qpn qp = make_qp();
    side->slice.qp_states.at(qp).connected = 1;
    side->slice.connections[qp].resize(hca::max_connection_state + 1);
    EXPECT_EQ(error_of(move(save())), std::errc::invalid_argument);
}

TEST_F(QpTest, AStateOfAQpIsSmall) {
    EXPECT_LE(sizeof(QpState), 256u);
}

TEST_F(QpTest, RestoreValidates) {
    const auto spec = side->slice.qps.at(make_qp());
    const auto restore_error = [&](auto change) {
        QpState state{.qpn = 1000,
                      .ucontext = 0,
                      .pd = 1,
                      .send_cq = 1,
                      .recv_cq = 1,
                      .srq = 0,
                      .xrcd = 0,
                      .counter_set = 0,
                      .sq_depth = 64,
                      .rq_depth = 64,
                      .max_inline = 40,
                      .max_send_sge = 2,
                      .max_recv_sge = 1,
                      .sq_stride_shift = sq_stride_shift,
                      .rq_stride_shift = rq_stride_shift,
                      .qp_type = 2,
                      .flags = 0,
                      .slice = {}};
        change(state);
        StateWriter writer;
        writer.begin(Section::qps, QpState::version, 1);
        writer.put(state);
        save_pages(writer, spec.pages);
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        EXPECT_TRUE(fresh.objects.pds.alloc(kernel));
        EXPECT_TRUE(fresh.objects.eqs.create(eq_command()));
        EXPECT_TRUE(fresh.objects.cqs.create(cq_command(EqId{1})));
        StateReader reader{image};
        return error_of(fresh.objects.qps.restore(reader));
    };
    EXPECT_EQ(restore_error([](auto&) {}), std::errc{});
    EXPECT_EQ(restore_error([](auto& state) { state.qpn = 1; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.qp_type = 1; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.qpn = state.qp_type = 1; }), std::errc{});
    EXPECT_EQ(restore_error([](auto& state) { state.qpn = 0xffffff; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.pd = 2; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.send_cq = 0; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.srq = 1; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.ucontext = 1; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.sq_depth = 65; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.sq_depth = 16384; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.sq_stride_shift = 70; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.qp_type = 0; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.flags = 4; }), invalid);
    EXPECT_EQ(restore_error([](auto& state) { state.counter_set = 1; }), invalid);
}

} // namespace
} // namespace vrdma::verbs
