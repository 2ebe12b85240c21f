// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

using UcontextTest = VerbsTest;

TEST_F(UcontextTest, EachHasADoorbellPageButTheKernels) {
    for (std::uint32_t i = 1; i < limits.doorbell_pages; ++i) {
        EXPECT_EQ(objects.ucontexts.alloc().value(), UcontextId{i});
    }
    EXPECT_EQ(error_of(objects.ucontexts.alloc()), std::errc::not_enough_memory);
}

TEST_F(UcontextTest, ANewOneFindsItsDoorbellPageQuiet) {
    side->doorbells[1].slot[100] = 1;
    side->doorbells[1].line[1] = 1;
    ASSERT_TRUE(objects.ucontexts.alloc());
    EXPECT_EQ(side->doorbells[1].slot[100], 0);
    EXPECT_EQ(side->doorbells[1].line[1], 0);
}

TEST_F(UcontextTest, UnknownOnesAndTheKernelsCannotBeFreed) {
    EXPECT_EQ(error_of(objects.ucontexts.dealloc(UcontextId{1})), std::errc::invalid_argument);
    EXPECT_EQ(error_of(objects.ucontexts.dealloc(kernel)), std::errc::invalid_argument);
}

TEST_F(UcontextTest, BusyWhileItOwnsAPd) {
    const UcontextId owner = objects.ucontexts.alloc().value();
    const PdId pd = make_pd(owner);
    EXPECT_EQ(error_of(objects.ucontexts.dealloc(owner)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.pds.dealloc(pd));
    EXPECT_TRUE(objects.ucontexts.dealloc(owner));
}

TEST_F(UcontextTest, BusyWhileItOwnsACq) {
    const UcontextId owner = objects.ucontexts.alloc().value();
    const Cqn cq = make_cq(make_eq(), owner);
    EXPECT_EQ(error_of(objects.ucontexts.dealloc(owner)), std::errc::device_or_resource_busy);
    ASSERT_TRUE(objects.cqs.destroy(cq));
    EXPECT_TRUE(objects.ucontexts.dealloc(owner));
}

TEST_F(UcontextTest, RoundTrip) {
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(objects.ucontexts.alloc());
    }
    ASSERT_TRUE(objects.ucontexts.dealloc(UcontextId{2}));
    expect_round_trip();
    EXPECT_NE(moved->objects.ucontexts.find(UcontextId{3}), nullptr);
    EXPECT_EQ(moved->objects.ucontexts.find(UcontextId{2}), nullptr);
}

TEST_F(UcontextTest, RestoreRefusesBadIds) {
    for (const std::uint32_t bad : {0u, limits.doorbell_pages, 0xffffffffu}) {
        StateWriter writer;
        writer.begin(Section::ucontexts, UcontextState::version, 1);
        writer.put(UcontextState{bad});
        const auto image = writer.take();
        StateReader reader{image};
        EXPECT_EQ(error_of(objects.ucontexts.restore(reader)), std::errc::invalid_argument) << bad;
    }
}

} // namespace
} // namespace vrdma::verbs
