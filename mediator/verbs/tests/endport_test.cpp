// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/endport.h"

#include <gtest/gtest.h>

namespace vrdma::verbs {
namespace {

// A device is alone at its endport; expect it to have all QPNs, except the one for multicast.
TEST(EndportTest, OneFunctionHasAllNumbers) {
    const Endport endport{Identity{}};
    EXPECT_EQ(endport.function_bits(), 0u);
    EXPECT_TRUE(endport.qpns(0).contains(Qpn{2}));
    EXPECT_TRUE(endport.qpns(0).contains(Qpn{0xfffffe}));
    EXPECT_FALSE(endport.qpns(0).contains(Qpn{VRDMA_MULTICAST_QPN}));
}

// Five functions; expect their number in the upper bits of their QPNs, and QP1 with each.
TEST(EndportTest, FunctionsShareTheNumbers) {
    const Endport endport{Identity{}, 5};
    EXPECT_EQ(endport.function_bits(), 3u);
    for (unsigned i = 0; i < 8; ++i) {
        const hca::QpnRange qpns = endport.qpns(i);
        EXPECT_EQ(qpns.first >> 21, i);
        EXPECT_EQ(qpns.last >> 21, i);
        EXPECT_TRUE(qpns.contains(hca::gsi_qpn));
        EXPECT_FALSE(qpns.contains(Qpn{(i ^ 1) << 21 | 2}));
    }
    EXPECT_EQ(endport.qpns(7).last, VRDMA_MULTICAST_QPN - 1);
}

// Take numbers of three functions; expect each to be taken once, the next free one to stand in, and
// a number to be free again when its owner is gone.
TEST(EndportTest, AFunctionHasANumberOfItsOwn) {
    const auto endport = std::make_shared<Endport>(Identity{}, 3);
    {
        const auto one = FunctionNumber::take({endport, 1});
        ASSERT_TRUE(one);
        EXPECT_EQ(one->id().function, 1u);
        EXPECT_EQ(FunctionNumber::take({endport, 1}).error(), std::errc::device_or_resource_busy);
        EXPECT_EQ(FunctionNumber::take({endport, 4}).error(), std::errc::invalid_argument);
        const auto two = FunctionNumber::take_some({endport, 1});
        const auto three = FunctionNumber::take_some({endport, 3});
        const auto four = FunctionNumber::take_some({endport, 3});
        ASSERT_TRUE(two && three && four);
        EXPECT_EQ(two->id().function, 2u);
        EXPECT_EQ(three->id().function, 3u);
        EXPECT_EQ(four->id().function, 0u);
        EXPECT_FALSE(FunctionNumber::take_some({endport, 0}));
    }
    EXPECT_TRUE(FunctionNumber::take({endport, 1}));
}

// Listen to a service twice; expect the second to be refused until the first stops.
TEST(EndportTest, OneListensToAService) {
    Endport endport{Identity{}, 2};
    EXPECT_TRUE(endport.listen(7));
    EXPECT_EQ(endport.listen(7).error(), std::errc::address_in_use);
    EXPECT_TRUE(endport.listen(8));
    endport.unlisten(7);
    EXPECT_TRUE(endport.listen(7));
}

} // namespace
} // namespace vrdma::verbs
