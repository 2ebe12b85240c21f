// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/address.h"

#include <gtest/gtest.h>

namespace vrdma::wire::fabric {
namespace {

TEST(Address, HasAHostAndAPort) {
    EXPECT_EQ(parse_address("10.0.0.1:7471"), (Address{"10.0.0.1", "7471"}));
    EXPECT_EQ(parse_address("[fd00::1]:65535"), (Address{"fd00::1", "65535"}));
    EXPECT_EQ(parse_address("0.0.0.0:1"), (Address{"0.0.0.0", "1"}));
    for (const char* const text : {"", ":", "10.0.0.1", ":7471", "host-1:7471", "fd00::1:7471",
                                   "[fd00::1]", "[]:7471", "10.0.0.256:7471"}) {
        EXPECT_FALSE(parse_address(text)) << text;
    }
}

TEST(Address, HasAPortOfSixteenBits) {
    for (const char* const port :
         {"0", "65536", "99999", "-1", "+1", " 1", "1 ", "x", "0x50", ""}) {
        EXPECT_FALSE(parse_address(std::string{"10.0.0.1:"} + port)) << port;
    }
}

} // namespace
} // namespace vrdma::wire::fabric
