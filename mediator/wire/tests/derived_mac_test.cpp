// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/derived_mac.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "mediator/wire/tests/gids.h"

namespace vrdma::wire {
namespace {

TEST(DerivedMac, OfMulticastGroups) {
    EXPECT_EQ(derived_mac(gid("224.1.2.3")), (Mac{1, 0, 0x5e, 1, 2, 3}));
    EXPECT_EQ(derived_mac(gid("239.255.0.1")), (Mac{1, 0, 0x5e, 0x7f, 0, 1}));
    EXPECT_EQ(derived_mac(gid("ff0e::1:203")), (Mac{0x33, 0x33, 0, 1, 2, 3}));
}

TEST(DerivedMac, OfLinkLocalAddressesThatWereMadeOfOne) {
    EXPECT_EQ(derived_mac(gid("fe80::5054:ff:fe12:3456")), (Mac{0x52, 0x54, 0, 0x12, 0x34, 0x56}));
    EXPECT_EQ(derived_mac(gid("fe80::ff:fe00:1")), (Mac{2, 0, 0, 0, 0, 1}));
}

TEST(DerivedMac, NotOfOthers) {
    for (const char* address :
         {"10.0.0.1", "223.255.255.255", "240.0.0.1", "fe80::1", "fe80::5054:ff:ff12:3456",
          "fe80:1::5054:ff:fe12:3456", "fd00::5054:ff:fe12:3456",
          "fe80::3100:ff:fe00:1"}) { // a group MAC would follow
        EXPECT_EQ(derived_mac(gid(address)), std::nullopt) << address;
    }
}

} // namespace
} // namespace vrdma::wire
