// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class MwTest : public VerbsTest {
  protected:
    PdId pd = make_pd();
};

TEST_F(MwTest, TheSliceGetsWhatTheGuestAskedFor) {
    for (const std::uint32_t type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
        const Key key = objects.mws.alloc({pd.value, type}).value();
        EXPECT_EQ(side->slice.mws.at(key).pd, pd);
        EXPECT_EQ(side->slice.mws.at(key).type, type);
    }
}

TEST_F(MwTest, ArgumentsHaveRanges) {
    EXPECT_EQ(error_of(objects.mws.alloc({9, IBV_MW_TYPE_1})), std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.mws.alloc({pd.value, 0})), std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.mws.alloc({pd.value, 3})), std::errc::invalid_argument);
}

TEST_F(MwTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_mr; ++i) {
        ASSERT_TRUE(objects.mws.alloc({pd.value, IBV_MW_TYPE_1}));
    }
    EXPECT_EQ(error_of(objects.mws.alloc({pd.value, IBV_MW_TYPE_1})), std::errc::not_enough_memory);
}

TEST_F(MwTest, TheyUseTheirPd) {
    const Key key = objects.mws.alloc({pd.value, IBV_MW_TYPE_2}).value();
    EXPECT_EQ(error_of(objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
    EXPECT_TRUE(objects.mws.dealloc(key));
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(MwTest, OnlyTheirKeyFreesThem) {
    const Key key = objects.mws.alloc({pd.value, IBV_MW_TYPE_2}).value();
    const Key region = objects.mrs.reg(mr_command(pd)).value();
    EXPECT_EQ(error_of(objects.mws.dealloc(Key{key.value ^ 1})), std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.mws.dealloc(region)), std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.mrs.dereg(key)), std::errc::invalid_argument);
    EXPECT_TRUE(objects.mws.dealloc(key));
    EXPECT_EQ(error_of(objects.mws.dealloc(key)), std::errc::invalid_argument);
}

TEST_F(MwTest, AFailureOfTheSliceLeavesNothingBehind) {
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(error_of(objects.mws.alloc({pd.value, IBV_MW_TYPE_1})), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(MwTest, RoundTrip) {
    const Key key = objects.mws.alloc({pd.value, IBV_MW_TYPE_2}).value();
    side->slice.mw_states.at(key) = {.key = key.value ^ 0x55, .bound = 1, .length = 7};
    expect_round_trip();
    EXPECT_EQ(moved->slice.mw_states.at(key).length, 7u);
}

TEST_F(MwTest, RestoreValidates) {
    const auto restore_error = [&](const MwState& state) {
        StateWriter writer;
        writer.begin(Section::mws, MwState::version, 1);
        writer.put(state);
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        EXPECT_TRUE(fresh.objects.pds.alloc(kernel));
        StateReader reader{image};
        return error_of(fresh.objects.mws.restore(reader));
    };
    EXPECT_EQ(restore_error({0x700, 1, IBV_MW_TYPE_1, 0, {}}), std::errc{});
    EXPECT_EQ(restore_error({0xff, 1, IBV_MW_TYPE_1, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 2, IBV_MW_TYPE_1, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 1, 3, 0, {}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({0x700, 1, IBV_MW_TYPE_1, 1, {}}), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::verbs
