// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include <map>

#include "mediator/device/port_speed.h"

namespace vrdma {
namespace {

// In Gb/s, as tools reckon it (ibstat, perftest, NCCL).
double product(const PortSpeed& port) {
    const std::map<unsigned, double> lane{{1, 2.5},   {2, 5},      {4, 10},    {8, 10.3125},
                                          {16, 14.1}, {32, 25.78}, {64, 53.1}, {128, 106.3}};
    const std::map<unsigned, unsigned> lanes{{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    return lane.at(port.speed) * lanes.at(port.width);
}

TEST(PortSpeed, IsThatOfTheInterface) {
    for (const unsigned gbps : {5, 10, 20, 25, 40, 50, 100, 200, 400, 800}) {
        EXPECT_NEAR(product(port_speed(gbps * 1000)), gbps, gbps * 0.07) << gbps;
    }
}

TEST(PortSpeed, IsNoFasterThanTheInterface) {
    for (unsigned mbps = 2500; mbps < 1'000'000; mbps += 500) {
        EXPECT_LE(product(port_speed(mbps)), mbps * 1.07 / 1000) << mbps;
    }
}

TEST(PortSpeed, IsALaneAtLeast) {
    for (const unsigned mbps : {1, 10, 100, 1000, 2500}) {
        EXPECT_EQ(product(port_speed(mbps)), 2.5) << mbps;
    }
}

TEST(PortSpeed, IsMemorysWhereNobodyKnows) {
    EXPECT_EQ(port_speed(0), port_speed(100'000));
}

} // namespace
} // namespace vrdma
