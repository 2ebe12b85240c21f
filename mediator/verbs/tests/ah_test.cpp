// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class AhTest : public VerbsTest {
  protected:
    void SetUp() override { make_gid(); }

    std::errc error_with(const vrdma_av& bad) {
        return error_of(objects.ahs.create({pd.value, 0, bad}));
    }

    PdId pd = make_pd();
};

TEST_F(AhTest, TheSliceGetsWhatTheGuestAskedFor) {
    const AhId ah = objects.ahs.create({pd.value, 0, av()}).value();
    EXPECT_EQ(side->slice.ahs.at(ah).pd, pd);
    EXPECT_EQ(side->slice.ahs.at(ah).av.dgid[0], 0xfd);
}

TEST_F(AhTest, AddressVectorsHaveRules) {
    const auto changed = [](auto change) {
        vrdma_av bad = av();
        change(bad);
        return bad;
    };
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.dgid[0] = 0; })), invalid);
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.port_num = 2; })), invalid);
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.reserved = 1; })), invalid);
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.sl = 16; })), invalid);
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.flow_label = 1 << 20; })), invalid);
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.sgid_index = 1; })), invalid);
    EXPECT_EQ(error_with(changed([](vrdma_av& a) { a.sgid_index = 255; })), invalid);
}

// Use a group's MAC for the GID of one peer, and one peer's MAC for the GID of a group; expect both
// to be refused, in an AH and in a QP's path.
TEST_F(AhTest, AGroupsMacGoesWithAGroupsGid) {
    vrdma_av many = av();
    many.dmac[0] = 0x33;
    EXPECT_EQ(error_with(many), invalid);
    vrdma_av broadcast = av();
    std::ranges::fill(broadcast.dmac, std::uint8_t{0xff});
    EXPECT_EQ(error_with(broadcast), invalid);
    vrdma_av group = av();
    group.dgid[0] = 0xff;
    group.dmac[0] = 2;
    EXPECT_EQ(error_with(group), invalid);
    group.dmac[0] = 0x33;
    EXPECT_EQ(error_with(group), std::errc{});
}

TEST_F(AhTest, UsesTheProtocolOfItsGid) {
    const Protocols v2{1u << VRDMA_GID_ROCE_V2};
    const AhId ah = objects.ahs.create({pd.value, 0, av()}).value();
    EXPECT_EQ(objects.ahs.users_of(v2), 1u);
    EXPECT_EQ(objects.ahs.users_of(~v2), 0u);
    ASSERT_TRUE(objects.ahs.destroy(ah));
    EXPECT_EQ(objects.ahs.users_of(v2), 0u);
    ASSERT_TRUE(objects.gids.allow(~v2));
    EXPECT_EQ(error_with(av()), std::errc::protocol_not_supported);
}

TEST_F(AhTest, MulticastMayBeAddressed) {
    vrdma_av group = av();
    group.dgid[0] = 0xff;
    EXPECT_TRUE(objects.ahs.create({pd.value, 0, group}));
}

TEST_F(AhTest, PdExists) {
    EXPECT_EQ(error_of(objects.ahs.create({9, 0, av()})), std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.ahs.create({pd.value, 1, av()})), std::errc::invalid_argument);
}

TEST_F(AhTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_ah; ++i) {
        ASSERT_TRUE(objects.ahs.create({pd.value, 0, av()}));
    }
    EXPECT_EQ(error_of(objects.ahs.create({pd.value, 0, av()})), std::errc::not_enough_memory);
    ASSERT_TRUE(objects.ahs.destroy(AhId{7}));
    EXPECT_EQ(objects.ahs.create({pd.value, 0, av()}).value(), AhId{7});
}

TEST_F(AhTest, UnknownOnesCannotBeDestroyed) {
    EXPECT_EQ(error_of(objects.ahs.destroy(AhId{1})), std::errc::invalid_argument);
}

TEST_F(AhTest, RoundTripAlsoAfterItsGidIsGone) {
    const AhId ah = objects.ahs.create({pd.value, 0, av()}).value();
    auto clear = gid_command(0, gid);
    clear.valid = 0;
    ASSERT_TRUE(objects.gids.set(clear));
    expect_round_trip();
    EXPECT_EQ(moved->slice.ahs.at(ah).av.hop_limit, 64);
    EXPECT_EQ(error_of(moved->objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
}

TEST_F(AhTest, RestoreValidates) {
    const auto restore_error = [&](const AhState& state) {
        StateWriter writer;
        writer.begin(Section::ahs, AhState::version, 1);
        writer.put(state);
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        EXPECT_TRUE(fresh.objects.pds.alloc(kernel));
        StateReader reader{image};
        return error_of(fresh.objects.ahs.restore(reader));
    };
    vrdma_av bad = av();
    bad.port_num = 0;
    EXPECT_EQ(restore_error({1, 1, av()}), std::errc{});
    EXPECT_EQ(restore_error({0, 1, av()}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({limits.max_ah + 1, 1, av()}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 2, av()}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({1, 1, bad}), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::verbs
