// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

constexpr Gid ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}

const Protocols only_v2{1u << VRDMA_GID_ROCE_V2};

class GidTest : public VerbsTest {
  protected:
    std::errc set_error(const Gid& value, std::uint32_t index = 0, std::uint16_t vlan = 0) {
        auto cmd = gid_command(index, value);
        cmd.vlan = vlan;
        return error_of(objects.gids.set(cmd));
    }

    std::errc clear_error(std::uint32_t index) {
        auto cmd = gid_command(index, {});
        cmd.valid = 0;
        return error_of(objects.gids.set(cmd));
    }

    void allow(const char* addresses) { identity.prefixes = parse_prefixes(addresses).value(); }
};

TEST_F(GidTest, TheSliceGetsWhatTheGuestSets) {
    EXPECT_EQ(set_error(gid, 3), std::errc{});
    EXPECT_EQ(side->slice.gids.at(3), gid);
    EXPECT_TRUE(objects.gids.check(3));
    EXPECT_EQ(clear_error(3), std::errc{});
    EXPECT_FALSE(side->slice.gids.contains(3));
    EXPECT_EQ(error_of(objects.gids.check(3)), invalid);
    EXPECT_EQ(clear_error(3), std::errc{}); // ib_core may clear an entry twice
}

TEST_F(GidTest, CommandsHaveRules) {
    const auto error_with = [&](auto change) {
        auto cmd = gid_command(0, gid);
        change(cmd);
        return error_of(objects.gids.set(cmd));
    };
    const std::uint32_t beyond = limits.gid_table_len;
    EXPECT_EQ(error_with([&](auto& cmd) { cmd.index = beyond; }), invalid);
    EXPECT_EQ(error_with([](auto& cmd) { cmd.type = 2; }), invalid);
    EXPECT_EQ(error_with([](auto& cmd) { cmd.valid = 2; }), invalid);
    EXPECT_EQ(error_with([](auto& cmd) { cmd.vlan = 4095; }), invalid);
    EXPECT_EQ(error_with([](auto& cmd) { cmd.vlan = 4094; }), std::errc{});
}

TEST_F(GidTest, SomeAddressesAreNobodys) {
    EXPECT_EQ(set_error({}), std::errc::invalid_argument);
    EXPECT_EQ(set_error({0xff, 2}), std::errc::invalid_argument);
    Gid loopback{};
    loopback[15] = 1;
    EXPECT_EQ(set_error(loopback), std::errc::invalid_argument);
}

// A device may use the loopback address if its prefixes name exactly this address, and if it has no
// uplink.
TEST_F(GidTest, TheLoopbackAddressMayBeNamed) {
    Gid loopback{};
    loopback[15] = 1;
    allow("::/0");
    EXPECT_EQ(set_error(loopback), std::errc::invalid_argument);
    allow("10.0.0.5,::1");
    EXPECT_EQ(set_error(loopback), std::errc{});
    identity.uplink = "wan";
    EXPECT_EQ(set_error(loopback), std::errc::invalid_argument);
}

TEST_F(GidTest, LinkLocalFollowsFromTheMac) {
    const Gid expected{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 1, 2, 3};
    EXPECT_EQ(link_local(identity.mac), expected);
}

TEST_F(GidTest, WithPrefixesOnlyThoseAndLinkLocal) {
    allow("10.0.0.5/32,10.1.0.0/16,fd00::/64");
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 5)), std::errc{});
    EXPECT_EQ(set_error(ipv4(10, 1, 200, 7)), std::errc{});
    EXPECT_EQ(set_error({0xfd, 0, 0, 0, 0, 0, 0, 0, 1}), std::errc{});
    EXPECT_EQ(set_error(link_local(identity.mac)), std::errc{});
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 6)), std::errc::permission_denied);
    EXPECT_EQ(set_error(ipv4(10, 2, 0, 0)), std::errc::permission_denied);
    EXPECT_EQ(set_error({0xfd, 0, 0, 0, 0, 0, 0, 1}), std::errc::permission_denied);
    EXPECT_EQ(set_error(link_local({0x52, 0x54, 0, 9, 9, 9})), std::errc::permission_denied);
}

TEST_F(GidTest, WithBadPrefixesOnlyLinkLocal) {
    identity.prefixes_valid = false;
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 5)), std::errc::permission_denied);
    EXPECT_EQ(set_error(link_local(identity.mac)), std::errc{});
}

// On an uplink, other hosts have addresses, too.
TEST_F(GidTest, OnAnUplinkNoAddressIsTheGuestsChoice) {
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 5)), std::errc{});
    identity.uplink = "wan";
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 6)), std::errc::permission_denied);
    EXPECT_EQ(set_error(gid), std::errc::permission_denied);
    EXPECT_EQ(set_error(link_local({0x52, 0x54, 0, 9, 9, 9})), std::errc::permission_denied);
    EXPECT_EQ(set_error(link_local(identity.mac)), std::errc{});
    allow("10.0.0.6");
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 6)), std::errc{});
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 5)), std::errc::permission_denied);
}

TEST_F(GidTest, OnAnUplinkNoVlanIsTheGuestsChoice) {
    EXPECT_EQ(set_error(gid, 0, 7), std::errc{});
    identity.uplink = "wan";
    identity.vlans.set(8);
    allow("::/0");
    EXPECT_EQ(set_error(gid, 0, 7), std::errc::permission_denied);
    EXPECT_EQ(set_error(link_local(identity.mac), 0, 7), std::errc::permission_denied);
    EXPECT_EQ(set_error(gid, 0, 8), std::errc{});
    EXPECT_EQ(set_error(gid), std::errc{});
}

TEST_F(GidTest, NoOtherDeviceCanHaveIt) {
    const Identity other_identity{{2, 0, 0, 0, 0, 9}, {}, true};
    Side other{limits, other_identity, registry, *memory};
    ASSERT_EQ(set_error(gid, 0), std::errc{});
    ASSERT_EQ(set_error(gid, 1), std::errc{}); // RoCE v1 and v2 of one address
    const auto taken = [&] { return error_of(other.objects.gids.set(gid_command(0, gid))); };
    EXPECT_EQ(taken(), std::errc::address_in_use);
    ASSERT_EQ(clear_error(0), std::errc{});
    EXPECT_EQ(taken(), std::errc::address_in_use);
    ASSERT_EQ(clear_error(1), std::errc{});
    EXPECT_EQ(taken(), std::errc{});
}

TEST_F(GidTest, AVlanHasAddressesOfItsOwn) {
    const Identity other_identity{{2, 0, 0, 0, 0, 9}, {}, true};
    Side other{limits, other_identity, registry, *memory};
    const auto others = [&](const Gid& value, std::uint16_t vlan) {
        auto cmd = gid_command(0, value);
        cmd.vlan = vlan;
        return error_of(other.objects.gids.set(cmd));
    };
    ASSERT_EQ(set_error(gid, 0, 7), std::errc{});
    EXPECT_EQ(side->slice.vlans.at(0), 7u);
    EXPECT_EQ(others(gid, 7), std::errc::address_in_use);
    EXPECT_EQ(others(gid, 8), std::errc{});
    EXPECT_EQ(others(gid, 0), std::errc{});
    ASSERT_EQ(set_error(gid, 0, 9), std::errc{}); // replaces the first
    EXPECT_EQ(others(gid, 7), std::errc{});
    ASSERT_EQ(clear_error(0), std::errc{});
    EXPECT_EQ(others(gid, 9), std::errc{});
}

// A link-local address belongs to the device with its MAC, in all VLANs.
TEST_F(GidTest, ALinkLocalAddressIsTheDevicesInAllVlans) {
    const Mac mac{2, 0, 0, 0, 0, 9};
    const Identity neighbour{mac, {}, true};
    ASSERT_TRUE(registry.claim(link_local(mac), &neighbour));
    EXPECT_EQ(set_error(link_local(mac), 0, 7), std::errc::address_in_use);
    EXPECT_EQ(set_error(link_local(identity.mac), 0, 7), std::errc{});
}

TEST_F(GidTest, ADeviceThatEndsGivesItsGidsBack) {
    ASSERT_EQ(set_error(gid), std::errc{});
    side.reset();
    const Identity other_identity{{2, 0, 0, 0, 0, 9}, {}, true};
    Side other{limits, other_identity, registry, *memory};
    EXPECT_TRUE(other.objects.gids.set(gid_command(0, gid)));
}

TEST_F(GidTest, ARefusedGidLeavesTheEntryAsItWas) {
    ASSERT_EQ(set_error(gid), std::errc{});
    EXPECT_EQ(set_error({0xff, 2}), std::errc::invalid_argument);
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(set_error(ipv4(10, 0, 0, 1)), std::errc::not_enough_memory);
    EXPECT_EQ(side->slice.gids.at(0), gid);
    EXPECT_TRUE(registry.claim(ipv4(10, 0, 0, 1), nullptr));
}

// Take RoCE v1 away; expect its GIDs to leave the slice only, also those that the guest sets later,
// and all of them to be there again when it is given back.
TEST_F(GidTest, AProtocolThatIsTakenAway) {
    auto v1 = gid_command(1, gid);
    v1.type = VRDMA_GID_ROCE_V1;
    ASSERT_TRUE(objects.gids.set(v1));
    ASSERT_EQ(set_error(gid, 2), std::errc{});
    ASSERT_TRUE(objects.gids.allow(only_v2));
    EXPECT_FALSE(side->slice.gids.contains(1));
    EXPECT_EQ(error_of(objects.gids.check(1)), std::errc::protocol_not_supported);
    EXPECT_TRUE(objects.gids.check(2));
    v1.index = 3;
    EXPECT_TRUE(objects.gids.set(v1));
    EXPECT_EQ(side->slice.gids.size(), 1u);
    ASSERT_TRUE(objects.gids.allow(Protocols{}.set()));
    EXPECT_EQ(side->slice.gids.size(), 3u);
    EXPECT_TRUE(objects.gids.check(1));
    EXPECT_FALSE(registry.claim(gid, nullptr));
}

// Replace a GID by one of a type that the device may not use; expect the slice to lose the old one.
TEST_F(GidTest, AGidThatBecomesOneOfAnotherProtocol) {
    ASSERT_EQ(set_error(gid), std::errc{});
    ASSERT_TRUE(objects.gids.allow(only_v2));
    auto v1 = gid_command(0, gid);
    v1.type = VRDMA_GID_ROCE_V1;
    ASSERT_TRUE(objects.gids.set(v1));
    EXPECT_TRUE(side->slice.gids.empty());
    EXPECT_EQ(clear_error(0), std::errc{});
    EXPECT_TRUE(registry.claim(gid, nullptr));
}

TEST_F(GidTest, AFailedChangeOfProtocolsChangesNothing) {
    ASSERT_EQ(set_error(gid), std::errc{});
    auto v1 = gid_command(1, gid);
    v1.type = VRDMA_GID_ROCE_V1;
    ASSERT_TRUE(objects.gids.set(v1));
    ASSERT_TRUE(objects.gids.allow(only_v2));
    side->slice.next_error = std::errc::not_enough_memory;
    EXPECT_EQ(error_of(objects.gids.allow(~only_v2)), std::errc::not_enough_memory);
    EXPECT_TRUE(objects.gids.check(0));
    EXPECT_EQ(error_of(objects.gids.check(1)), std::errc::protocol_not_supported);
    EXPECT_EQ(side->slice.gids.size(), 1u);
}

TEST_F(GidTest, Prefixes) {
    EXPECT_TRUE(parse_prefixes("")->empty());
    EXPECT_EQ(parse_prefixes("10.0.0.5")->at(0).bits, 128u);
    EXPECT_EQ(parse_prefixes("10.0.0.0/8")->at(0).bits, 104u);
    EXPECT_EQ(parse_prefixes("::/0")->at(0).bits, 0u);
    EXPECT_TRUE(parse_prefixes("::/0")->at(0).contains(gid));
    EXPECT_TRUE(parse_prefixes("10.128.0.0/9")->at(0).contains(ipv4(10, 200, 0, 1)));
    EXPECT_FALSE(parse_prefixes("10.128.0.0/9")->at(0).contains(ipv4(10, 100, 0, 1)));
    for (const char* bad : {"10.0.0", "10.0.0.5/33", "fd00::/129", "10.0.0.5/", "10.0.0.5/8x", ",",
                            "10.0.0.5,,fd00::", "x", "10.0.0.5/-1"}) {
        EXPECT_FALSE(parse_prefixes(bad)) << bad;
    }
}

TEST_F(GidTest, RoundTrip) {
    ASSERT_EQ(set_error(gid, 0), std::errc{});
    ASSERT_EQ(set_error(ipv4(10, 0, 0, 5), 100, 7), std::errc{});
    expect_round_trip();
    EXPECT_EQ(moved->slice.vlans.at(100), 7u);
    EXPECT_EQ(moved->slice.gids.at(100), ipv4(10, 0, 0, 5));
}

TEST_F(GidTest, RestoreValidates) {
    allow("fd01::/16");
    const auto restore_error = [&](const std::vector<GidState>& states) {
        StateWriter writer;
        writer.begin(Section::gids, GidState::version, states.size());
        writer.put_all(std::span{states});
        const auto image = writer.take();
        Side fresh{limits, identity, other_registry, *memory};
        StateReader reader{image};
        return error_of(fresh.objects.gids.restore(reader));
    };
    EXPECT_EQ(restore_error({{0, 0, 0, {0xfd, 1}}}), std::errc{});
    EXPECT_EQ(restore_error({{0, 2, 0, {0xfd, 1}}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({{0, 0, 4095, {0xfd, 1}}}), std::errc::invalid_argument);
    EXPECT_EQ(restore_error({{limits.gid_table_len, 0, 0, {0xfd, 1}}}),
              std::errc::invalid_argument);
    EXPECT_EQ(restore_error({{0, 0, 0, {0xfd, 1}}, {0, 1, 0, {0xfd, 1}}}),
              std::errc::invalid_argument);
    EXPECT_EQ(restore_error({{0, 0, 0, {0xfd, 2}}}), std::errc::permission_denied);
}

} // namespace
} // namespace vrdma::verbs
