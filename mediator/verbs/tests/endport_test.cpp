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
