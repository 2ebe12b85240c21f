// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mediator/control/config.h"
#include "vrdma/mdev.h"

namespace vrdma::control {
namespace {

constexpr char credentials[] =
    "certificate_file = \"/a\"\nprivate_key_file = \"/b\"\nca_file = \"/c\"\n";

std::string error_of(std::string_view text) {
    const auto config = parse_config(text);
    return config ? "" : config.error();
}

TEST(Config, DefaultsHoldWithoutAnything) {
    const auto config = parse_config("");
    ASSERT_TRUE(config);
    EXPECT_EQ(config->name, "vrdma");
    EXPECT_EQ(config->log_level, spdlog::level::info);
    ASSERT_EQ(config->types.size(), 3u);
    EXPECT_EQ(config->types[2].name, "large");
    EXPECT_EQ(config->types[2].limits.max_qp, 65536u);
    EXPECT_EQ(config->types[2].limits.max_mr, 262144u);
}

TEST(Config, KeysReplaceDefaults) {
    const auto config = parse_config(R"(
        name = "rack-7"
        log_level = "debug"
        [soft]
        pollers = 3
        spin_min_us = 10
        spin_max_us = 1000
        [types.small]
        max_qp = 10
        max_srq = 5
        vectors = 8
        max_pinned_mib = 5
        max_holes_mib = 6
        max_memory_mib = 7
    )");
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->name, "rack-7");
    EXPECT_EQ(config->log_level, spdlog::level::debug);
    EXPECT_EQ(config->soft.pollers, 3u);
    EXPECT_EQ(config->soft.poll.spin_max, std::chrono::milliseconds{1});
    const DeviceType& small = config->types[0];
    EXPECT_EQ(small.limits.max_qp, 10u);
    EXPECT_EQ(small.limits.max_srq, 5u);
    EXPECT_EQ(small.limits.vectors, 8u);
    EXPECT_EQ(small.limits.max_eq, 8u);
    EXPECT_EQ(small.max_pinned, 5u << 20);
    EXPECT_EQ(small.max_holes, 6u << 20);
    EXPECT_EQ(small.limits.max_memory, 7u << 20);
    EXPECT_EQ(small.limits.max_mr, default_types()[0].limits.max_mr);
}

TEST(Config, ANewTypeBeginsAsACopyOfSmall) {
    const auto config = parse_config("[types.tiny]\nmax_qp = 4\n");
    ASSERT_TRUE(config);
    ASSERT_EQ(config->types.size(), 4u);
    EXPECT_EQ(config->types[3].name, "tiny");
    EXPECT_EQ(config->types[3].limits.max_qp, 4u);
    EXPECT_EQ(config->types[3].limits.max_cq, default_types()[0].limits.max_cq);
}

TEST(Config, ErrorsNameTheKey) {
    EXPECT_EQ(error_of("colour = 1"), "colour: unknown");
    EXPECT_EQ(error_of("[soft]\nspin = 1"), "soft.spin: unknown");
    EXPECT_EQ(error_of("[types.small]\nmax_qps = 1"), "types.small.max_qps: unknown");
    EXPECT_EQ(error_of("[soft]\npollers = 0"), "soft.pollers: a number from 1 to 256 is wanted");
    EXPECT_EQ(error_of("[soft]\npollers = \"1\""),
              "soft.pollers: a number from 1 to 256 is wanted");
    EXPECT_EQ(error_of("[soft]\nspin_min_us = 500"), "soft.spin_min_us: more than spin_max_us");
    EXPECT_EQ(error_of("[types.small]\ndoorbell_pages = 24"),
              "types.small.doorbell_pages: a power of two is wanted");
    EXPECT_EQ(error_of("name = 1"), "name: a string is wanted");
    EXPECT_EQ(error_of("soft = 1"), "soft: a table is wanted");
    EXPECT_EQ(error_of("[types.Big]"), "types.Big: a name of a-z, 0-9 and - is wanted");
    EXPECT_EQ(error_of("name = \"a-name-much-too-long\""),
              "name: a name of a-z, 0-9 and - is wanted");
    EXPECT_NE(error_of("log_level = \"loud\"").find("log_level: 'loud' is none of"),
              std::string::npos);
}

TEST(Config, DevicesBehindSockets) {
    const auto config = parse_config(R"(
        mdev = false
        [[vfio_user]]
        name = "a"
        [[vfio_user]]
        name = "b"
        socket = "/tmp/b"
        type = "large"
        owner = "root"
        group = "root"
        mode = "0660"
        mac = "02:00:00:00:00:0b"
        addresses = "10.0.0.5,fd00::/64"
        clients = 16
        window_gib = 16
    )");
    ASSERT_TRUE(config) << config.error();
    EXPECT_FALSE(config->mdev);
    ASSERT_EQ(config->vfio_user.size(), 2u);
    const VfioUserDevice& a = config->vfio_user[0];
    EXPECT_EQ(a.socket.path, "/run/vrdma/a.sock");
    EXPECT_EQ(a.socket.mode, 0600u);
    EXPECT_EQ(a.type, "small");
    EXPECT_EQ(a.identity.mac[0], 0x02);
    EXPECT_TRUE(a.identity.prefixes.empty());
    const VfioUserDevice& b = config->vfio_user[1];
    EXPECT_EQ(b.socket.path, "/tmp/b");
    EXPECT_EQ(b.socket.mode, 0660u);
    EXPECT_EQ(b.identity.mac, (verbs::Mac{2, 0, 0, 0, 0, 0x0b}));
    EXPECT_EQ(b.identity.prefixes.size(), 2u);
    EXPECT_EQ(a.clients, 1u);
    EXPECT_EQ(b.clients, 16u);
    EXPECT_EQ(b.window, 16ull << 30);
}

TEST(Config, ErrorsOfDevicesBehindSocketsNameTheKey) {
    const auto error = [](const std::string& line) {
        return error_of("[[vfio_user]]\nname = \"a\"\n" + line);
    };
    EXPECT_EQ(error_of("[[vfio_user]]"), "vfio_user[0].name: a name of a-z, 0-9 and - is wanted");
    EXPECT_EQ(error_of("vfio_user = 1"), "vfio_user: tables, [[vfio_user]], are wanted");
    EXPECT_EQ(error("type = \"huge\""), "vfio_user[0].type: no such type");
    EXPECT_EQ(error("mode = \"999\"").substr(0, 18), "vfio_user[0].mode:");
    EXPECT_EQ(error("mode = \"1777\"").substr(0, 18), "vfio_user[0].mode:");
    EXPECT_EQ(error("mac = \"02:00\"").substr(0, 17), "vfio_user[0].mac:");
    EXPECT_EQ(error("mac = \"01:00:00:00:00:01\"").substr(0, 17), "vfio_user[0].mac:");
    EXPECT_EQ(error("addresses = \"x\"").substr(0, 23), "vfio_user[0].addresses:");
    EXPECT_EQ(error("owner = \"nobody-at-all\""),
              "vfio_user[0].owner: 'nobody-at-all' does not exist here");
    EXPECT_EQ(error("window_gib = 0"),
              "vfio_user[0].window_gib: a number from 1 to 16384 is wanted");
    EXPECT_EQ(error("clients = 17"), "vfio_user[0].clients: a number from 1 to 16 is wanted");
    EXPECT_EQ(error("unknown = 1"), "vfio_user[0].unknown: unknown");
    EXPECT_EQ(error("[[vfio_user]]\nname = \"a\""), "vfio_user: two devices are named 'a'");
    EXPECT_EQ(error_of("mdev = 1"), "mdev: true or false is wanted");
}

TEST(Config, SharesAreTheTypesOrADevicesOwn) {
    const auto config = parse_config(R"(
        [types.small]
        weight = 300
        max_bytes_per_second = 1000000
        [[vfio_user]]
        name = "a"
        [[vfio_user]]
        name = "b"
        max_bytes_per_second = 0
        max_operations_per_second = 7
        [[vfio_user]]
        name = "c"
        type = "large"
    )");
    ASSERT_TRUE(config) << config.error();
    const hca::Share small{.weight = 300, .bytes_per_second = 1000000};
    const hca::Share own{.weight = 300, .operations_per_second = 7};
    EXPECT_EQ(config->types[0].share, small);
    EXPECT_EQ(config->vfio_user[0].share, small);
    EXPECT_EQ(config->vfio_user[1].share, own);
    EXPECT_EQ(config->vfio_user[2].share, hca::Share{});
}

TEST(Config, ErrorsOfSharesNameTheKey) {
    EXPECT_EQ(error_of("[types.small]\nweight = 0"),
              "types.small.weight: a number from 1 to 10000 is wanted");
    EXPECT_EQ(error_of("[types.small]\nweight = 10001"),
              "types.small.weight: a number from 1 to 10000 is wanted");
    EXPECT_EQ(error_of("[[vfio_user]]\nname = \"a\"\nmax_bytes_per_second = -1").substr(0, 34),
              "vfio_user[0].max_bytes_per_second:");
    EXPECT_EQ(
        error_of("[[vfio_user]]\nname = \"a\"\nmax_operations_per_second = \"1\"").substr(0, 39),
        "vfio_user[0].max_operations_per_second:");
}

TEST(Config, ErrorsOfSyntaxNameTheLine) {
    EXPECT_EQ(error_of("name = \"x\"\n[soft\n").substr(0, 7), "line 2:");
}

// toml++ has assertions for such tables, and takes it that there are no such letters.
TEST(Config, ErrorsOfWhatTheParserLacksNameTheLine) {
    for (const std::string& text :
         {std::string{"\n[="}, std::string{"\n[[=]]"}, std::string{"\n[[\x01"},
          std::string{"\n[a.=]"}, std::string{"\n\u00e4 = 1"}, std::string{"\nname = \u00e4"}}) {
        EXPECT_EQ(error_of(text).find("line 2: "), 0u) << error_of(text);
    }
}

TEST(Config, EightTypesAtMost) {
    std::string text;
    for (int i = 0; i < 5; ++i) {
        text += fmt::format("[types.t{}]\n", i);
    }
    EXPECT_EQ(error_of(text), "");
    EXPECT_EQ(error_of(text + "[types.t5]\n"), "types: at most 8");
}

TEST(Config, Uplinks) {
    const auto config = parse_config(R"(
        [[uplink]]
        interface = "eth0.5"
        [[uplink]]
        name = "wan"
        interface = "eth1"
        transport = "af_xdp"
        vlans = ["7", "100-102", "4094"]
        [types.small]
        uplink = "eth0.5"
        [[vfio_user]]
        name = "a"
        addresses = ""
        [[vfio_user]]
        name = "b"
        uplink = "wan"
        addresses = "10.0.0.5"
        mac = "02:00:00:00:00:0b"
        [[vfio_user]]
        name = "c"
        uplink = ""
    )");
    ASSERT_TRUE(config) << config.error();
    ASSERT_EQ(config->uplinks.size(), 2u);
    EXPECT_EQ(config->uplinks[0].name, "eth0.5");
    EXPECT_EQ(config->uplinks[0].interface, "eth0.5");
    EXPECT_EQ(config->uplinks[1].name, "wan");
    EXPECT_EQ(config->uplinks[1].interface, "eth1");
    EXPECT_EQ(config->uplinks[0].transport, wire::Transport::automatic);
    EXPECT_EQ(config->uplinks[1].transport, wire::Transport::af_xdp);
    EXPECT_TRUE(config->uplinks[0].vlans.none());
    EXPECT_EQ(config->uplinks[1].vlans.count(), 5u);
    for (const unsigned vlan : {7u, 100u, 102u, 4094u}) {
        EXPECT_TRUE(config->uplinks[1].vlans.test(vlan)) << vlan;
    }
    EXPECT_EQ(config->types[0].uplink, "eth0.5");
    EXPECT_EQ(config->types[1].uplink, "");
    ASSERT_EQ(config->vfio_user.size(), 3u);
    const verbs::Identity& a = config->vfio_user[0].identity;
    EXPECT_EQ(a.uplink, "eth0.5") << "its type's";
    EXPECT_EQ(a.mac, verbs::Mac{}) << "the interface's";
    const verbs::Identity& b = config->vfio_user[1].identity;
    EXPECT_EQ(b.uplink, "wan");
    EXPECT_EQ(b.mac, (verbs::Mac{2, 0, 0, 0, 0, 0x0b}));
    const verbs::Identity& c = config->vfio_user[2].identity;
    EXPECT_EQ(c.uplink, "");
    EXPECT_NE(c.mac, verbs::Mac{});
}

// On an uplink others may have what a device takes.
TEST(Config, OnAnUplinkADeviceIsGivenItsAddresses) {
    const std::string uplink = "[[uplink]]\ninterface = \"eth0\"\n";
    const std::string device = "[[vfio_user]]\nname = \"a\"\nuplink = \"eth0\"\n";
    EXPECT_EQ(error_of(uplink + device),
              "vfio_user[0].addresses: those that it may have on uplink 'eth0' are wanted");
    EXPECT_EQ(error_of(uplink + device + "addresses = \"10.0.0.5\""), "");
    EXPECT_EQ(error_of(uplink + device + "addresses = \"\""), "") << "only the link-local one";
}

TEST(Config, VlansAreADevices) {
    const auto config = parse_config(R"(
        [[uplink]]
        interface = "eth0"
        vlans = ["7", "100-102"]
        [types.small]
        uplink = "eth0"
        vlans = ["7"]
        [[vfio_user]]
        name = "a"
        addresses = ""
        [[vfio_user]]
        name = "b"
        addresses = ""
        vlans = ["100-101"]
    )");
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->types[0].vlans, Vlans{}.set(7));
    const verbs::Identity& a = config->vfio_user[0].identity;
    EXPECT_EQ(a.vlans, Vlans{}.set(7)) << "its type's";
    const verbs::Identity& b = config->vfio_user[1].identity;
    EXPECT_EQ(b.vlans, Vlans{}.set(100).set(101));
}

TEST(Config, TrafficClassesAreADevices) {
    const auto config = parse_config(R"(
        [[uplink]]
        interface = "eth0"
        [[uplink]]
        interface = "eth1"
        [types.small]
        uplink = "eth0"
        traffic_classes = ["26", "46-48"]
        [[vfio_user]]
        name = "a"
        addresses = ""
        [[vfio_user]]
        name = "b"
        addresses = ""
        traffic_classes = []
        [[vfio_user]]
        name = "c"
        addresses = ""
        uplink = "eth1"
        [[vfio_user]]
        name = "d"
        type = "medium"
        traffic_classes = ["0-63"]
    )");
    ASSERT_TRUE(config) << config.error();
    const hca::TrafficClasses some = hca::TrafficClasses{}.set(26).set(46).set(47).set(48);
    const auto classes = [&](std::size_t device) {
        return config->vfio_user[device].identity.traffic_classes;
    };
    EXPECT_EQ(config->types[0].traffic_classes, some);
    EXPECT_TRUE(config->types[1].traffic_classes.none()) << "the default";
    EXPECT_EQ(classes(0), some) << "its type's";
    EXPECT_TRUE(classes(1).none());
    EXPECT_TRUE(classes(2).none()) << "another network's are others";
    EXPECT_TRUE(classes(3).all());
}

TEST(Config, ErrorsOfTrafficClassesNameTheKey) {
    for (const char* const classes : {"", "-1", "64", "9-7", "0-64", "any"}) {
        EXPECT_EQ(error_of(fmt::format("[types.small]\ntraffic_classes = [\"{}\"]", classes)),
                  "types.small.traffic_classes: numbers from 0 to 63 are wanted, such as \"5\" or "
                  "\"3-5\"")
            << classes;
    }
    EXPECT_EQ(error_of("[[vfio_user]]\nname = \"a\"\ntraffic_classes = [26]"),
              "vfio_user[0].traffic_classes: an array of strings is wanted");
}

TEST(Config, ServiceLevelsAreADevices) {
    const auto config = parse_config(R"(
        [[uplink]]
        interface = "eth0"
        [types.small]
        uplink = "eth0"
        service_levels = ["3", "5-6"]
        [[vfio_user]]
        name = "a"
        addresses = ""
        [[vfio_user]]
        name = "b"
        addresses = ""
        service_levels = []
        [[vfio_user]]
        name = "c"
        uplink = ""
    )");
    ASSERT_TRUE(config) << config.error();
    const hca::ServiceLevels some = hca::ServiceLevels{}.set(3).set(5).set(6);
    EXPECT_EQ(config->types[0].service_levels, some);
    EXPECT_TRUE(config->types[1].service_levels.none()) << "the default";
    EXPECT_EQ(config->vfio_user[0].identity.service_levels, some) << "its type's";
    EXPECT_TRUE(config->vfio_user[1].identity.service_levels.none());
    EXPECT_TRUE(config->vfio_user[2].identity.service_levels.none()) << "of another network";
    EXPECT_EQ(error_of("[types.small]\nservice_levels = [\"8\"]"),
              "types.small.service_levels: numbers from 0 to 7 are wanted, such as \"5\" or "
              "\"3-5\"");
}

TEST(Config, PrioritiesAreAnUplinks) {
    const auto config = parse_config(R"(
        [[uplink]]
        interface = "eth0"
        dscp_priorities = ["0:1", "24-31:3", "26:4"]
        sl_priorities = ["3-4:0", "7:2"]
        [[uplink]]
        interface = "eth1"
    )");
    ASSERT_TRUE(config) << config.error();
    wire::Priorities expected;
    EXPECT_EQ(config->uplinks[1].priorities, expected) << "the default";
    EXPECT_EQ(expected.of_dscp[46], 5);
    EXPECT_EQ(expected.of_service_level[6], 6);
    expected.of_dscp[0] = 1;
    std::fill_n(expected.of_dscp.begin() + 24, 8, std::uint8_t{3});
    expected.of_dscp[26] = 4; // what comes later holds
    expected.of_service_level[3] = expected.of_service_level[4] = 0;
    expected.of_service_level[7] = 2;
    EXPECT_EQ(config->uplinks[0].priorities, expected);
}

TEST(Config, ErrorsOfPrioritiesNameTheKey) {
    for (const char* const text : {"", "26", "26:", ":3", "26:8", "26:-1", "64:3", "-1:3", "9-7:3",
                                   "26:3-4", "26:3:4", "26=3", "26: 3"}) {
        EXPECT_EQ(error_of(fmt::format("[[uplink]]\ninterface = \"a\"\ndscp_priorities = [\"{}\"]",
                                       text)),
                  "uplink[0].dscp_priorities: numbers from 0 to 63 with a priority from 0 to 7 are "
                  "wanted, such as \"5:3\" or \"3-5:3\"")
            << text;
    }
    for (const char* const text : {"0:3", "8:3", "0-7:1"}) { // 0 asks for nothing
        EXPECT_EQ(
            error_of(fmt::format("[[uplink]]\ninterface = \"a\"\nsl_priorities = [\"{}\"]", text)),
            "uplink[0].sl_priorities: numbers from 1 to 7 with a priority from 0 to 7 are "
            "wanted, such as \"5:3\" or \"3-5:3\"")
            << text;
    }
    EXPECT_EQ(error_of("[[uplink]]\ninterface = \"a\"\ndscp_priorities = \"26:3\""),
              "uplink[0].dscp_priorities: an array of strings is wanted");
}

TEST(Config, APortsSpeedIsADevices) {
    const auto config = parse_config(R"(
        [types.small]
        port_speed = "4x HDR"
        [[vfio_user]]
        name = "a"
        [[vfio_user]]
        name = "b"
        port_speed = "12x FDR10"
        [[vfio_user]]
        name = "c"
        type = "medium"
    )");
    ASSERT_TRUE(config) << config.error();
    const auto speed = [&](std::size_t device) {
        return config->vfio_user[device].identity.port_speed;
    };
    EXPECT_EQ(config->types[0].port_speed, (verbs::PortSpeed{.speed = 64, .width = 2}));
    EXPECT_EQ(speed(0), config->types[0].port_speed) << "its type's";
    EXPECT_EQ(speed(1), (verbs::PortSpeed{.speed = 8, .width = 8}));
    EXPECT_EQ(speed(2), verbs::as_memory) << "the default";
    for (const char* const text : {"", "EDR", "4x", "3x EDR", "4x XDR", "100"}) {
        EXPECT_EQ(error_of(fmt::format("[types.small]\nport_speed = \"{}\"", text)),
                  "types.small.port_speed: 1x, 2x, 4x, 8x or 12x with SDR, DDR, QDR, FDR10, FDR, "
                  "EDR, HDR or NDR is wanted, such as \"4x EDR\"")
            << text;
    }
}

TEST(Config, PKeysAreADevices) {
    const auto config = parse_config(R"(
        [types.small]
        pkeys = ["0xffff", "0x1"]
        [[vfio_user]]
        name = "a"
        [[vfio_user]]
        name = "b"
        pkeys = ["0x8Ab0"]
        [[vfio_user]]
        name = "c"
        type = "medium"
    )");
    ASSERT_TRUE(config) << config.error();
    const auto pkeys = [&](std::size_t device) { return config->vfio_user[device].identity.pkeys; };
    EXPECT_EQ(config->types[0].pkeys, (PKeys{0xffff, 1}));
    EXPECT_EQ(pkeys(0), config->types[0].pkeys) << "its type's";
    EXPECT_EQ(pkeys(1), PKeys{0x8ab0});
    EXPECT_EQ(pkeys(2), PKeys{default_pkey}) << "the default";
}

TEST(Config, ErrorsOfPKeysNameTheKey) {
    for (const char* const pkeys :
         {R"("")", R"("ffff")", R"("0x")", R"("0x10000")", R"("0x0")", R"("0x8000")", R"("0x1 ")",
          R"("-0x1")", R"("0x-1")", R"("0x8001", "0x1")", R"("0x1", "0x1")"}) {
        EXPECT_EQ(error_of(fmt::format("[types.small]\npkeys = [{}]", pkeys)),
                  "types.small.pkeys: P_Keys of different partitions such as \"0xffff\" and "
                  "\"0x8001\" are wanted")
            << pkeys;
    }
    std::string many;
    for (int i = 1; i <= VRDMA_MAX_PKEYS + 1; ++i) {
        many += fmt::format("\"{:#x}\",", i);
    }
    for (const std::string& pkeys : {std::string{}, many}) {
        EXPECT_EQ(error_of(fmt::format("[types.small]\npkeys = [{}]", pkeys)),
                  "types.small.pkeys: 1 to 32 are wanted");
    }
    EXPECT_EQ(error_of("[types.small]\npkeys = [65535]"),
              "types.small.pkeys: an array of strings is wanted");
}

TEST(Config, ErrorsOfADevicesVlansNameTheKey) {
    const auto error = [](const std::string& line) {
        return error_of(
            "[[uplink]]\ninterface = \"eth0\"\nvlans = [\"7\"]\n[[vfio_user]]\n"
            "name = \"a\"\nuplink = \"eth0\"\naddresses = \"\"\n" +
            line);
    };
    EXPECT_EQ(error("vlans = [\"7\"]"), "");
    EXPECT_EQ(error("vlans = [\"7-8\"]"),
              "vfio_user[0].vlans: uplink 'eth0' is not open to all of them");
}

TEST(Config, ErrorsOfUplinksNameTheKey) {
    const auto error = [](const std::string& line) {
        return error_of("[[uplink]]\ninterface = \"eth0\"\n" + line);
    };
    EXPECT_EQ(error_of("[[uplink]]"), "uplink[0].interface: a name such as eth0 is wanted");
    EXPECT_EQ(error_of("[[uplink]]\ninterface = \"of-sixteen-chars\""),
              "uplink[0].interface: a name such as eth0 is wanted");
    EXPECT_EQ(error("name = \"to the net\""), "uplink[0].name: a name such as eth0 is wanted");
    EXPECT_EQ(error("transport = \"auto\""), "");
    EXPECT_EQ(error("transport = \"af_packet\""), "");
    EXPECT_EQ(error("transport = \"xdp\""),
              "uplink[0].transport: auto, af_xdp or af_packet is wanted");
    EXPECT_EQ(error("speed = 1"), "uplink[0].speed: unknown");
    EXPECT_EQ(error("vlans = [7]"), "uplink[0].vlans: an array of strings is wanted");
    for (const char* const vlans : {"", "0", "4095", "9-7", "7-", "-7", "7-9x", "1-4095", "all"}) {
        EXPECT_EQ(error(fmt::format("vlans = [\"{}\"]", vlans)),
                  "uplink[0].vlans: numbers from 1 to 4094 are wanted, such as \"5\" or \"3-5\"")
            << vlans;
    }
    EXPECT_EQ(error("[[uplink]]\ninterface = \"eth1\"\nname = \"eth0\""),
              "uplink: two are named 'eth0'");
    EXPECT_EQ(error("[[uplink]]\ninterface = \"eth0\"\nname = \"wan\""),
              "uplink: two are by 'eth0'");
    EXPECT_EQ(error("[types.large]\nuplink = \"wan\""),
              "types.large.uplink: there is no [[uplink]] or [[fabric]] of the name 'wan'");
    EXPECT_EQ(error("[[vfio_user]]\nname = \"a\"\nuplink = \"wan\""),
              "vfio_user[0].uplink: there is no [[uplink]] or [[fabric]] of the name 'wan'");
}

TEST(Config, SixtyFourUplinksAtMost) {
    std::string text;
    for (int i = 0; i < VRDMA_MDEV_MAX_UPLINKS - 1; ++i) {
        text += fmt::format("[[uplink]]\ninterface = \"eth{}\"\n", i);
    }
    const std::string fabric =
        "[[fabric]]\nname = \"wan\"\nlisten = \"10.0.0.1:1\"\n" + std::string{credentials};
    EXPECT_EQ(error_of(text + fabric), "");
    EXPECT_EQ(error_of(text + "[[uplink]]\ninterface = \"lan\"\n" + fabric),
              "uplink: at most 64, and each fabric is one of them");
}

constexpr char fabric_of_two[] = R"(
    [[fabric]]
    name = "wan"
    host = "alpha"
    listen = "10.0.0.1:7471"
    certificate_file = "/etc/vrdma/alpha.crt"
    private_key_file = "/etc/vrdma/alpha.key"
    ca_file = "/etc/vrdma/ca.crt"
    [[fabric.peer]]
    name = "beta"
    address = "[fd00::2]:7471"
    gids = ["10.0.0.2", "fd00::2"]
    [[fabric.peer]]
    name = "gamma"
    address = "10.0.0.3:7471"
)";

TEST(Config, Fabrics) {
    const auto config =
        parse_config(std::string{fabric_of_two} + "[types.small]\nuplink = \"wan\"\n");
    ASSERT_TRUE(config) << config.error();
    ASSERT_EQ(config->fabrics.size(), 1u);
    const Fabric& fabric = config->fabrics[0];
    EXPECT_EQ(fabric.host, "alpha");
    EXPECT_EQ(fabric.provider, "tcp");
    EXPECT_EQ(fabric.listen.service, "7471");
    ASSERT_EQ(fabric.peers.size(), 2u);
    EXPECT_EQ(fabric.peers[0].address.host, "fd00::2");
    EXPECT_EQ(fabric.credentials.certificate, "/etc/vrdma/alpha.crt");
    EXPECT_EQ(fabric.credentials.private_key, "/etc/vrdma/alpha.key");
    EXPECT_EQ(fabric.credentials.ca, "/etc/vrdma/ca.crt");
    ASSERT_EQ(fabric.peers[0].gids.size(), 2u);
    EXPECT_EQ(fabric.peers[0].gids[0][15], 2) << "IPv4-mapped";
    EXPECT_EQ(config->types[0].uplink, "wan");
}

TEST(Config, ErrorsOfFabricsNameTheKey) {
    const auto error = [](const std::string& lines) { return error_of(fabric_of_two + lines); };
    const std::string no_address =
        ": an address and a port such as 10.0.0.1:7471 or [fd00::1]:7471 are wanted";
    EXPECT_EQ(error_of("[[fabric]]"), "fabric[0].name: a name such as wan is wanted");
    EXPECT_EQ(error_of("[[fabric]]\nname = \"wan\""), "fabric[0].listen" + no_address);
    for (const char* const address :
         {"10.0.0.1", "10.0.0.1:", "example.net:1", "fd00::1:7471", "10.0.0.1:http", ":1"}) {
        EXPECT_EQ(error_of(std::string{"[[fabric]]\nname = \"wan\"\nlisten = \""} + address + "\""),
                  "fabric[0].listen" + no_address)
            << address;
    }
    EXPECT_EQ(error("gids = [1]"), "fabric[0].peer[1].gids: an array of strings is wanted");
    EXPECT_EQ(error("gids = [\"10.0.0.0/8\"]"),
              "fabric[0].peer[1].gids: addresses such as 10.0.0.5 are wanted");
    EXPECT_EQ(error("gids = [\"10.0.0.2\"]"),
              "fabric[0].peer: 'gamma' has an address that another has");
    const std::string peer = "[[fabric.peer]]\naddress = \"10.0.0.4:1\"\n";
    EXPECT_EQ(error(peer), "fabric[0].peer[2].name: a name such as host-1.example.net is wanted");
    EXPECT_EQ(error(peer + "name = \"alpha\""), "fabric[0].peer: two hosts are named 'alpha'");
    const std::string wan = "[[fabric]]\nname = \"wan\"\nlisten = \"10.0.0.1:1\"\n";
    EXPECT_EQ(error(wan + credentials), "fabric: two uplinks are named 'wan'");
    EXPECT_EQ(error_of(wan), "fabric[0].certificate_file: a file is wanted");
    EXPECT_EQ(error_of(wan + "certificate_file = \"/a\""),
              "fabric[0].private_key_file: a file is wanted");
    EXPECT_EQ(error_of(wan + "certificate_file = \"/a\"\nprivate_key_file = \"/b\""),
              "fabric[0].ca_file: a file is wanted");
}

constexpr char fabric_with_directory[] = R"(
    [[fabric]]
    name = "wan"
    host = "alpha"
    listen = "10.0.0.1:7471"
    certificate_file = "/etc/vrdma/alpha.crt"
    private_key_file = "/etc/vrdma/alpha.key"
    ca_file = "/etc/vrdma/ca.crt"
    [fabric.directory]
    endpoints = ["http://10.0.0.9:2379", "https://etcd:2379"]
)";

TEST(Config, Directories) {
    const auto least = parse_config(fabric_with_directory);
    ASSERT_TRUE(least) << least.error();
    const auto& directory = least->fabrics[0].directory;
    ASSERT_TRUE(directory);
    ASSERT_EQ(directory->etcd.endpoints.size(), 2u);
    EXPECT_EQ(directory->etcd.endpoints[1].host, "etcd");
    EXPECT_EQ(directory->prefix, "/vrdma/");
    EXPECT_EQ(directory->address, least->fabrics[0].listen);
    const auto all = parse_config(std::string{fabric_with_directory} +
                                  "prefix = \"/x/\"\naddress = \"[fd00::1]:1\"\n"
                                  "ca_file = \"/a\"\ncertificate_file = \"/b\"\n"
                                  "private_key_file = \"/c\"\n"
                                  "[[fabric.peer]]\nname = \"beta\"\naddress = \"10.0.0.2:1\"\n");
    ASSERT_TRUE(all) << all.error();
    EXPECT_EQ(all->fabrics[0].directory->prefix, "/x/");
    EXPECT_EQ(all->fabrics[0].directory->address.host, "fd00::1");
    EXPECT_EQ(all->fabrics[0].directory->etcd.private_key_file, "/c");
    EXPECT_EQ(all->fabrics[0].peers.size(), 1u);
    EXPECT_FALSE(parse_config(fabric_of_two)->fabrics[0].directory);
}

TEST(Config, ErrorsOfDirectoriesNameTheKey) {
    const auto error = [](const std::string& lines) {
        return error_of(fabric_with_directory + lines);
    };
    const std::string fabric =
        "[[fabric]]\nname = \"wan\"\nlisten = \"0.0.0.0:1\"\n" + std::string{credentials};
    const std::string directory = "[fabric.directory]\n";
    const std::string endpoints = "endpoints = [\"http://a:1\"]\n";
    const std::string no_endpoints =
        "fabric[0].directory.endpoints: URLs such as http://10.0.0.9:2379 are wanted";
    EXPECT_EQ(error_of(fabric + directory), no_endpoints);
    EXPECT_EQ(error_of(fabric + directory + "endpoints = [\"http://a:1\", \"a:1\"]"), no_endpoints);
    EXPECT_EQ(error_of(fabric + directory + endpoints),
              "fabric[0].directory.address: it has to be said, as listen is no host's");
    EXPECT_EQ(error("prefix = \"/x\""),
              "fabric[0].directory.prefix: one that ends with / is wanted");
    EXPECT_EQ(error("certificate_file = \"/b\""),
              "fabric[0].directory.certificate_file: private_key_file goes with it");
    EXPECT_EQ(error("lease = 1"), "fabric[0].directory.lease: unknown");
}

TEST(Config, TheInstalledFileIsValidAndSaysTheDefaults) {
    const auto config = read_config(VRDMAD_CONF).and_then(parse_config);
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->name, Config{}.name);
}

TEST(Config, AFileMustBeThere) {
    EXPECT_FALSE(read_config("/nonexistent/vrdmad.conf"));
}

} // namespace
} // namespace vrdma::control
