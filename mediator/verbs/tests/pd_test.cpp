// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

using PdTest = VerbsTest;

TEST_F(PdTest, UnknownUserContextIsRefused) {
    EXPECT_EQ(error_of(objects.pds.alloc(UcontextId{5})), std::errc::invalid_argument);
}

TEST_F(PdTest, UnknownPdCannotBeFreed) {
    EXPECT_EQ(error_of(objects.pds.dealloc(PdId{1})), std::errc::invalid_argument);
}

TEST_F(PdTest, TheTypeLimitsTheirNumber) {
    for (std::uint32_t i = 0; i < limits.max_pd; ++i) {
        ASSERT_TRUE(objects.pds.alloc(kernel));
    }
    EXPECT_EQ(error_of(objects.pds.alloc(kernel)), std::errc::not_enough_memory);
    ASSERT_TRUE(objects.pds.dealloc(PdId{3}));
    EXPECT_EQ(objects.pds.alloc(kernel).value(), PdId{3});
}

TEST_F(PdTest, BusyWhileAnMrUsesIt) {
    const PdId pd = make_pd();
    const Key key = objects.mrs.reg(mr_command(pd)).value();
    EXPECT_EQ(error_of(objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.mrs.dereg(key));
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(PdTest, BusyWhileAnAhUsesIt) {
    make_gid();
    const PdId pd = make_pd();
    const AhId ah = objects.ahs.create({pd.value, 0, av()}).value();
    EXPECT_EQ(error_of(objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.ahs.destroy(ah));
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(PdTest, BusyWhileAQpUsesIt) {
    const PdId pd = make_pd();
    const auto qp = objects.qps.create(qp_command(pd, make_cq(make_eq()))).value();
    EXPECT_EQ(error_of(objects.pds.dealloc(pd)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.qps.destroy(qp.qpn));
    EXPECT_TRUE(objects.pds.dealloc(pd));
}

TEST_F(PdTest, RoundTrip) {
    const UcontextId owner = objects.ucontexts.alloc().value();
    make_pd();
    const PdId pd = make_pd(owner);
    ASSERT_TRUE(objects.pds.dealloc(PdId{1}));
    expect_round_trip();
    EXPECT_EQ(moved->objects.pds.find(pd)->ucontext, owner);
    EXPECT_EQ(moved->objects.pds.find(PdId{1}), nullptr);
    EXPECT_EQ(error_of(moved->objects.ucontexts.dealloc(owner)),
              std::errc::device_or_resource_busy);
}

TEST_F(PdTest, RestoreRefusesAnUnknownOwner) {
    StateWriter writer;
    writer.begin(Section::pds, PdState::version, 1);
    writer.put(PdState{1, 9});
    const auto image = writer.take();
    StateReader reader{image};
    EXPECT_EQ(error_of(objects.pds.restore(reader)), std::errc::invalid_argument);
}

TEST_F(PdTest, RestoreRefusesAnIdTwice) {
    StateWriter writer;
    writer.begin(Section::pds, PdState::version, 2);
    writer.put(PdState{1, 0});
    writer.put(PdState{1, 0});
    const auto image = writer.take();
    StateReader reader{image};
    EXPECT_EQ(error_of(objects.pds.restore(reader)), std::errc::invalid_argument);
}

TEST_F(PdTest, RestoreRefusesAnIdBeyondTheLimit) {
    StateWriter writer;
    writer.begin(Section::pds, PdState::version, 1);
    writer.put(PdState{limits.max_pd + 1, 0});
    const auto image = writer.take();
    StateReader reader{image};
    EXPECT_EQ(error_of(objects.pds.restore(reader)), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma::verbs
