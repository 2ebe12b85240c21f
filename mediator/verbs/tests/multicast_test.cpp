// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class MulticastTest : public VerbsTest {
  protected:
    Qpn make_qp(hca::QpType type = hca::QpType::ud) {
        return objects.qps.create(qp_command(pd, cq, kernel, type)).value().qpn;
    }

    static vrdma_cmd_multicast command(Qpn qpn, std::uint8_t group = 1) {
        return {qpn.value, 0, {0xff, 0x0e, group}};
    }

    PdId pd = make_pd();
    Cqn cq = make_cq(make_eq());
};

TEST_F(MulticastTest, AttachingTwiceIsAttachingOnce) {
    const Qpn qp = make_qp();
    ASSERT_TRUE(objects.multicast.attach(command(qp)));
    ASSERT_TRUE(objects.multicast.attach(command(qp)));
    EXPECT_EQ(side->slice.groups.size(), 1u);
    ASSERT_TRUE(objects.multicast.detach(command(qp)));
    EXPECT_TRUE(side->slice.groups.begin()->second.empty());
    EXPECT_EQ(error_of(objects.multicast.detach(command(qp))), invalid);
}

TEST_F(MulticastTest, OnlyUdQpsAndMulticastGids) {
    const Qpn qp = make_qp();
    EXPECT_EQ(error_of(objects.multicast.attach(command(make_qp(hca::QpType::rc)))), invalid);
    EXPECT_EQ(error_of(objects.multicast.attach(command(Qpn{99}))), invalid);
    vrdma_cmd_multicast cmd = command(qp);
    cmd.gid[0] = 0xfe;
    EXPECT_EQ(error_of(objects.multicast.attach(cmd)), invalid);
    cmd = command(qp);
    cmd.reserved = 1;
    EXPECT_EQ(error_of(objects.multicast.attach(cmd)), invalid);
    EXPECT_EQ(error_of(objects.multicast.detach(cmd)), invalid);
    cmd = {qp.value, 0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
    EXPECT_TRUE(objects.multicast.attach(cmd));
    cmd.gid[12] = 240;
    EXPECT_EQ(error_of(objects.multicast.attach(cmd)), invalid);
}

TEST_F(MulticastTest, AQpGoesAfterItIsDetached) {
    const Qpn qp = make_qp();
    ASSERT_TRUE(objects.multicast.attach(command(qp, 1)));
    ASSERT_TRUE(objects.multicast.attach(command(qp, 2)));
    ASSERT_TRUE(objects.multicast.detach(command(qp, 1)));
    EXPECT_EQ(error_of(objects.qps.destroy(qp)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.multicast.detach(command(qp, 2)));
    EXPECT_TRUE(objects.qps.destroy(qp));
}

TEST_F(MulticastTest, NumbersAreLimited) {
    Limits& few = objects.resources.limits;
    few.max_mcast_grp = 3;
    few.max_mcast_qp_attach = 2;
    few.max_total_mcast_qp_attach = 4;
    const std::array qps{make_qp(), make_qp(), make_qp()};
    const auto attach = [&](int qp, std::uint8_t group) {
        return error_of(objects.multicast.attach(command(qps.at(qp), group)));
    };
    constexpr auto full = std::errc::not_enough_memory;
    EXPECT_EQ(attach(0, 1), std::errc{});
    EXPECT_EQ(attach(1, 1), std::errc{});
    EXPECT_EQ(attach(2, 1), full);
    EXPECT_EQ(attach(0, 2), std::errc{});
    EXPECT_EQ(attach(0, 3), std::errc{});
    EXPECT_EQ(attach(1, 3), full); // in all groups together
    ASSERT_TRUE(objects.multicast.detach(command(qps[1], 1)));
    EXPECT_EQ(attach(0, 4), full); // too many groups
    EXPECT_EQ(attach(1, 3), std::errc{});
}

TEST_F(MulticastTest, RoundTrip) {
    const Qpn first = make_qp();
    const Qpn second = make_qp();
    ASSERT_TRUE(objects.multicast.attach(command(first, 1)));
    ASSERT_TRUE(objects.multicast.attach(command(second, 1)));
    ASSERT_TRUE(objects.multicast.attach(command(second, 2)));
    expect_round_trip();
    EXPECT_EQ(moved->slice.groups, side->slice.groups);
    EXPECT_EQ(error_of(moved->objects.qps.destroy(first)), std::errc::device_or_resource_busy);
}

TEST_F(MulticastTest, RestoreValidates) {
    const auto restore_error = [&](const MulticastState& state) {
        StateWriter writer;
        writer.begin(Section::multicast, MulticastState::version, 1);
        writer.put(state);
        const auto image = writer.take();
        StateReader reader{image};
        MulticastTable fresh{objects.resources, objects.qps};
        return error_of(fresh.restore(reader));
    };
    const Qpn qp = make_qp();
    EXPECT_EQ(restore_error({qp.value, {0xff}}), std::errc{});
    EXPECT_EQ(restore_error({qp.value, {0xfe}}), invalid);
    EXPECT_EQ(restore_error({99, {0xff}}), invalid);
}

} // namespace
} // namespace vrdma::verbs
