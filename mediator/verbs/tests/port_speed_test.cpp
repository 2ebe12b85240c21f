// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/port_speed.h"

#include <gtest/gtest.h>

#include <map>

namespace vrdma::verbs {
namespace {

// The speed in Gb/s, as tools compute it (ibstat, perftest, NCCL).
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

TEST(PortSpeed, HasTheRateOfTheInterface) {
    for (const unsigned gbps : {5, 10, 20, 25, 40, 50, 100, 200, 400, 800}) {
        EXPECT_EQ(nominal_mbps(port_speed(gbps * 1000)), gbps * 1000);
    }
    EXPECT_EQ(nominal_mbps({0, 0}), 0u);
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
    constexpr PortSpeed given{128, 4};
    EXPECT_EQ(port_speed(0, given), given);
    EXPECT_EQ(port_speed(10'000, given), port_speed(10'000));
}

TEST(PortSpeed, IsNamedByLanesAndTheirSpeed) {
    const std::map<std::string_view, double> names{
        {"1x SDR", 2.5},  {"4x DDR", 20},     {"12x QDR", 120},  {"4x FDR10", 41.25},
        {"1x FDR", 14.1}, {"4x EDR", 103.12}, {"2x HDR", 106.2}, {"8x NDR", 850.4}};
    for (const auto& [name, gbps] : names) {
        const auto speed = parse_port_speed(name);
        ASSERT_TRUE(speed) << name;
        EXPECT_NEAR(product(*speed), gbps, 0.01) << name;
    }
    EXPECT_EQ(parse_port_speed("4x EDR"), as_memory);
    for (const char* const name : {"", " ", "4x", "EDR", "4x ", " EDR", "4xEDR", "4x  EDR",
                                   "4x EDR ", "3x EDR", "4X EDR", "4x edr", "4x XDR", "EDR 4x"}) {
        EXPECT_FALSE(parse_port_speed(name)) << name;
    }
}

} // namespace
} // namespace vrdma::verbs
