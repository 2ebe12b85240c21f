// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "vrdma/mdev.h"

namespace vrdma::control {
namespace {

constexpr char credentials[] =
    "certificate_file = \"/a\"\nprivate_key_file = \"/b\"\nca_file = \"/c\"\n";

std::string error_of(std::string_view text) {
    const auto config = parse_config(text);
    return config ? "" : config.error();
}

// Without the names of the keys that are allowed.
std::string beginning_of(const std::string& text) {
    const std::string error = error_of(text);
    return error.substr(0, error.find(": must be one of "));
}

TEST(Config, DefaultsHoldWithoutAnything) {
    const auto config = parse_config("");
    ASSERT_TRUE(config);
    EXPECT_EQ(config->name, "vrdma");
    EXPECT_EQ(config->log_level, spdlog::level::info);
    ASSERT_EQ(config->types.size(), 6u);
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

TEST(Config, ADeviceMayHaveLessThanItsType) {
    const auto config = parse_config(R"(
        [types.tiny]
        max_qp = 16
        max_memory_mib = 1
        [[vfio_user]]
        name = "a"
        type = "tiny"
        max_qp = 16
        max_xrcd = 0
        max_memory = 1048576
    )");
    ASSERT_TRUE(config) << config.error();
    const verbs::Quotas& quotas = config->vfio_user[0].quotas;
    EXPECT_EQ(quotas.qps, 16u);
    EXPECT_EQ(quotas.xrcds, 0u);
    EXPECT_EQ(quotas.memory, 1048576u);
    EXPECT_EQ(quotas.ahs, verbs::Quotas::none);
    EXPECT_EQ(error_of("[types.tiny]\nmax_memory_mib = 1\n[[vfio_user]]\nname = \"a\"\n"
                       "type = \"tiny\"\nmax_memory = 1048577"),
              "vfio_user[0].max_memory = 1048577: must be a number from 0 to 1048576");
}

TEST(Config, ADeviceOnAnUplinkMayHaveOneProtocol) {
    const std::string device =
        "[[uplink]]\ninterface = \"eth0\"\n[[vfio_user]]\nname = \"a\"\naddresses = \"\"\n"
        "uplink = \"eth0\"\nprotocol = ";
    const auto allowed = [&](const std::string& protocol) {
        const auto config = parse_config(device + protocol);
        EXPECT_TRUE(config) << config.error();
        return config ? config->vfio_user[0].protocols : verbs::Protocols{};
    };
    EXPECT_EQ(allowed("\"roce-v1\""), verbs::Protocols{1u << VRDMA_GID_ROCE_V1});
    EXPECT_EQ(allowed("\"roce-v2\""), verbs::Protocols{1u << VRDMA_GID_ROCE_V2});
    EXPECT_TRUE(allowed("\"both\"").all());
    EXPECT_EQ(error_of(device + "\"iwarp\""),
              "vfio_user[0].protocol = \"iwarp\": must be \"roce-v1\", \"roce-v2\" or \"both\"");
}

TEST(Config, ANewTypeBeginsAsACopyOfSmall) {
    const auto config = parse_config("[types.tiny]\nmax_qp = 4\n");
    ASSERT_TRUE(config);
    ASSERT_EQ(config->types.size(), default_types().size() + 1);
    const DeviceType& tiny = config->types.back();
    EXPECT_EQ(tiny.name, "tiny");
    EXPECT_EQ(tiny.limits.max_qp, 4u);
    EXPECT_EQ(tiny.limits.max_cq, default_types()[0].limits.max_cq);
    EXPECT_EQ(tiny.personality, PersonalityKind::vrdma);
}

TEST(Config, ErrorsNameTheKey) {
    EXPECT_EQ(error_of("colour = 1"),
              "colour: unknown key: must be one of control, fabric, log_level, mdev, metrics, "
              "name, soft, types, uplink, vfio_user");
    EXPECT_EQ(error_of("[soft]\nspin = 1"),
              "soft.spin: unknown key: must be one of hot_idle_us, hot_queues, pollers, "
              "realtime_priority, shared_turn_bytes, spin_max_us, spin_min_us, turn_bytes, "
              "turn_wqes");
    EXPECT_EQ(beginning_of("[types.small]\nmax_qps = 1"), "types.small.max_qps: unknown key");
    EXPECT_EQ(error_of("[soft]\npollers = 0"), "soft.pollers = 0: must be a number from 1 to 256");
    EXPECT_EQ(error_of("[soft]\npollers = \"1\""),
              "soft.pollers = \"1\": must be a number from 1 to 256");
    EXPECT_EQ(error_of("[soft]\nspin_min_us = 500"),
              "soft.spin_min_us = 500: must be at most spin_max_us, which is 50");
    EXPECT_EQ(error_of("[types.small]\ndoorbell_pages = 24"),
              "types.small.doorbell_pages = 24: must be a power of two from 2 to 4096");
    EXPECT_EQ(error_of("name = 1"), "name = 1: must be a string");
    EXPECT_EQ(error_of("soft = 1"), "soft = 1: must be a table that begins with [soft]");
    EXPECT_EQ(error_of("[[soft]]\npollers = 1"),
              "[[soft]]: must be a table that begins with [soft]");
    EXPECT_EQ(error_of("[uplink]\ninterface = \"eth0\""),
              "[uplink]: must be tables that begin with [[uplink]]");
    EXPECT_EQ(error_of("[[fabric.peer]]\nname = \"a\""),
              "[fabric]: must be tables that begin with [[fabric]]");
    EXPECT_EQ(error_of("[types.Big]"),
              "types.Big: the type must have a name of at most 15 characters a-z, 0-9 and -");
    EXPECT_EQ(
        error_of("name = \"a-name-much-too-long\""),
        "name = \"a-name-much-too-long\": must be a name of at most 15 characters a-z, 0-9 and -");
    EXPECT_EQ(error_of("log_level = \"loud\""),
              "log_level = \"loud\": must be trace, debug, info, warning, error, critical or off");
    EXPECT_EQ(error_of("log_level = \"\""),
              "log_level = \"\": must be trace, debug, info, warning, error, critical or off");
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
    EXPECT_EQ(a.personality, PersonalityKind::vrdma);
}

// A device can be one for a guest with VMware's driver, if its type has what that needs.
TEST(Config, Personalities) {
    const std::string head = "[[vfio_user]]\nname = \"a\"\npersonality = ";
    const auto config = parse_config(head + "\"pvrdma\"");
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->vfio_user[0].personality, PersonalityKind::pvrdma);
    EXPECT_EQ(error_of(head + "\"rxe\""),
              "vfio_user[0].personality = \"rxe\": must be \"vrdma\" or \"pvrdma\"");
    EXPECT_EQ(error_of(head + "\"pvrdma\"\nclients = 2"),
              "vfio_user[0].personality = \"pvrdma\": must be \"vrdma\", as the device has several "
              "clients");
    for (const std::string limit : {"vectors = 2", "max_qp = 65535"}) {
        EXPECT_EQ(
            error_of(fmt::format("[types.odd]\n{}\n{}\"pvrdma\"\ntype = \"odd\"", limit, head)),
            "vfio_user[0].personality = \"pvrdma\": must be \"vrdma\", as the type 'odd' has "
            "fewer than 3 vectors, or 65535 QPs or more")
            << limit;
        EXPECT_EQ(error_of(fmt::format("[types.odd]\n{}\npersonality = \"pvrdma\"", limit)),
                  "types.odd.personality = \"pvrdma\": must be \"vrdma\", as it has fewer than 3 "
                  "vectors, or 65535 QPs or more");
    }
}

// There is a type for VMware's driver beside each other one. A device behind a socket is what its
// type says, or what it says itself.
TEST(Config, TypesHavePersonalities) {
    const auto types = default_types();
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(types[i + 3].name, "pvrdma-" + types[i].name);
        EXPECT_EQ(types[i].personality, PersonalityKind::vrdma);
        EXPECT_EQ(types[i + 3].personality, PersonalityKind::pvrdma);
        EXPECT_LT(types[i + 3].limits.max_qp, 65535u);
    }
    const auto config = parse_config(
        "[[vfio_user]]\nname = \"a\"\ntype = \"pvrdma-small\"\n"
        "[[vfio_user]]\nname = \"b\"\ntype = \"pvrdma-small\"\npersonality = \"vrdma\"\n");
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->vfio_user[0].personality, PersonalityKind::pvrdma);
    EXPECT_EQ(config->vfio_user[1].personality, PersonalityKind::vrdma);
}

TEST(Config, ErrorsOfDevicesBehindSocketsNameTheKey) {
    const auto error = [](const std::string& line) {
        return error_of("[[vfio_user]]\nname = \"a\"\n" + line);
    };
    EXPECT_EQ(
        error_of("[[vfio_user]]"),
        "vfio_user[0].name is not set: it must be a name of at most 15 characters a-z, 0-9 and -");
    EXPECT_EQ(error_of("vfio_user = 1"),
              "vfio_user = 1: must be tables that begin with [[vfio_user]]");
    EXPECT_EQ(error("type = \"huge\""),
              "vfio_user[0].type = \"huge\": must be one of the types small, medium, large, "
              "pvrdma-small, pvrdma-medium, pvrdma-large");
    EXPECT_EQ(error("mode = \"999\""),
              "vfio_user[0].mode = \"999\": must be an octal mode such as \"0660\", at most 0777");
    EXPECT_EQ(error("mode = \"1777\""),
              "vfio_user[0].mode = \"1777\": must be an octal mode such as \"0660\", at most 0777");
    EXPECT_EQ(error("mode = \"\""),
              "vfio_user[0].mode = \"\": must be an octal mode such as \"0660\", at most 0777");
    EXPECT_EQ(error("socket = \"\""),
              "vfio_user[0].socket = \"\": must be a path of at most 107 characters");
    EXPECT_EQ(error("socket = \"/" + std::string(106, 'x') + "\""), "");
    EXPECT_NE(error("socket = \"/" + std::string(107, 'x') + "\""), "");
    EXPECT_EQ(error("socket = \"/b\"\n[[vfio_user]]\nname = \"b\"\nsocket = \"/b\""),
              "vfio_user[1].socket = \"/b\": must be the path of no other device's socket");
    EXPECT_EQ(error("mac = \"00:00:00:00:00:00\""),
              "vfio_user[0].mac = \"00:00:00:00:00:00\": must be a unicast MAC address such as "
              "02:00:00:00:00:01");
    EXPECT_EQ(
        error("mac = \"02:00\""),
        "vfio_user[0].mac = \"02:00\": must be a unicast MAC address such as 02:00:00:00:00:01");
    EXPECT_EQ(error("mac = \"01:00:00:00:00:01\""),
              "vfio_user[0].mac = \"01:00:00:00:00:01\": must be a unicast MAC address such as "
              "02:00:00:00:00:01");
    EXPECT_EQ(
        error("addresses = \"x\""),
        "vfio_user[0].addresses = \"x\": must be addresses or prefixes such as 10.0.0.5,fd00::/64");
    EXPECT_EQ(error("owner = \"nobody-at-all\""),
              "vfio_user[0].owner = \"nobody-at-all\": must be the name or the number of a user of "
              "this host");
    EXPECT_EQ(error("window_gib = 0"),
              "vfio_user[0].window_gib = 0: must be a number from 1 to 16384");
    EXPECT_EQ(error("type = \"small\"\nmax_qp = 257"),
              "vfio_user[0].max_qp = 257: must be a number from 0 to 256");
    EXPECT_EQ(error("max_memory = -1"),
              "vfio_user[0].max_memory = -1: must be a number from 0 to 1099511627776");
    EXPECT_EQ(
        error("protocol = \"roce-v1\""),
        "vfio_user[0].protocol = \"roce-v1\": must be \"both\", as the device has no Ethernet "
        "uplink");
    EXPECT_EQ(error("clients = 17"), "vfio_user[0].clients = 17: must be a number from 1 to 16");
    EXPECT_EQ(error("unknown = 1").substr(0, 33), "vfio_user[0].unknown: unknown key");
    EXPECT_EQ(error("[[vfio_user]]\nname = \"a\""),
              "vfio_user[1].name = \"a\": must be the name of no other device");
    EXPECT_EQ(error_of("mdev = 1"), "mdev = 1: must be true or false");
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
              "types.small.weight = 0: must be a number from 1 to 10000");
    EXPECT_EQ(error_of("[types.small]\nweight = 10001"),
              "types.small.weight = 10001: must be a number from 1 to 10000");
    EXPECT_EQ(
        error_of("[[vfio_user]]\nname = \"a\"\nmax_bytes_per_second = -1"),
        "vfio_user[0].max_bytes_per_second = -1: must be a number from 0 to 1000000000000000");
    EXPECT_EQ(error_of("[[vfio_user]]\nname = \"a\"\nmax_operations_per_second = \"1\""),
              "vfio_user[0].max_operations_per_second = \"1\": must be a number from 0 to "
              "1000000000000000");
}

TEST(Config, ErrorsOfSyntaxNameTheLine) {
    EXPECT_EQ(error_of("name = \"x\"\n[soft\n").substr(0, 7), "line 2:");
}

// Texts that violate assertions of toml++, or that have letters which it takes to be impossible.
TEST(Config, ErrorsOfWhatTheParserLacksNameTheLine) {
    for (const std::string& text :
         {std::string{"\n[="}, std::string{"\n[[=]]"}, std::string{"\n[[\x01"},
          std::string{"\n[a.=]"}, std::string{"\n\u00e4 = 1"}, std::string{"\nname = \u00e4"}}) {
        EXPECT_EQ(error_of(text).find("line 2: "), 0u) << error_of(text);
    }
}

TEST(Config, SixteenTypesAtMost) {
    std::string text;
    for (int i = 0; i < 10; ++i) {
        text += fmt::format("[types.t{}]\n", i);
    }
    EXPECT_EQ(error_of(text), "");
    EXPECT_EQ(error_of(text + "[types.t10]\n"), "types: there are 17, and at most 16 are allowed");
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

// On an uplink, an address that a device takes may belong to another host.
TEST(Config, OnAnUplinkADeviceIsGivenItsAddresses) {
    const std::string uplink = "[[uplink]]\ninterface = \"eth0\"\n";
    const std::string device = "[[vfio_user]]\nname = \"a\"\nuplink = \"eth0\"\n";
    EXPECT_EQ(error_of(uplink + device),
              "vfio_user[0].addresses is not set: it must be the addresses that the device may "
              "have on uplink 'eth0'");
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
        EXPECT_EQ(
            error_of(fmt::format("[types.small]\ntraffic_classes = [\"{}\"]", classes)),
            fmt::format("types.small.traffic_classes = [ \"{}\" ]: must be numbers from 0 to 63 "
                        "such as \"5\" or \"3-5\"",
                        classes))
            << classes;
    }
    EXPECT_EQ(error_of("[[vfio_user]]\nname = \"a\"\ntraffic_classes = [26]"),
              "vfio_user[0].traffic_classes = [ 26 ]: must be an array of strings");
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
              "types.small.service_levels = [ \"8\" ]: must be numbers from 0 to 7 such as \"5\" "
              "or \"3-5\"");
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
    expected.of_dscp[26] = 4; // a later entry overrides an earlier one
    expected.of_service_level[3] = expected.of_service_level[4] = 0;
    expected.of_service_level[7] = 2;
    EXPECT_EQ(config->uplinks[0].priorities, expected);
}

TEST(Config, ErrorsOfPrioritiesNameTheKey) {
    for (const char* const text : {"", "26", "26:", ":3", "26:8", "26:-1", "64:3", "-1:3", "9-7:3",
                                   "26:3-4", "26:3:4", "26=3", "26: 3"}) {
        EXPECT_EQ(
            error_of(
                fmt::format("[[uplink]]\ninterface = \"a\"\ndscp_priorities = [\"{}\"]", text)),
            fmt::format("uplink[0].dscp_priorities = [ \"{}\" ]: must be numbers from 0 to 63 with "
                        "a priority from 0 to 7 such as \"5:3\" or \"3-5:3\"",
                        text))
            << text;
    }
    // A service level of 0 asks for no priority.
    for (const char* const text : {"0:3", "8:3", "0-7:1"}) {
        EXPECT_EQ(
            error_of(fmt::format("[[uplink]]\ninterface = \"a\"\nsl_priorities = [\"{}\"]", text)),
            fmt::format("uplink[0].sl_priorities = [ \"{}\" ]: must be numbers from 1 to 7 with a "
                        "priority from 0 to 7 such as \"5:3\" or \"3-5:3\"",
                        text))
            << text;
    }
    EXPECT_EQ(error_of("[[uplink]]\ninterface = \"a\"\ndscp_priorities = \"26:3\""),
              "uplink[0].dscp_priorities = \"26:3\": must be an array of strings");
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
        EXPECT_EQ(
            error_of(fmt::format("[types.small]\nport_speed = \"{}\"", text)),
            fmt::format("types.small.port_speed = \"{}\": must be 1x, 2x, 4x, 8x or 12x with SDR, "
                        "DDR, QDR, FDR10, FDR, EDR, HDR or NDR, such as \"4x EDR\"",
                        text))
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
                  fmt::format(
                      "types.small.pkeys = [ {} ]: must be P_Keys of different partitions such as "
                      "\"0xffff\" and \"0x8001\"",
                      pkeys))
            << pkeys;
    }
    std::string many;
    for (int i = 1; i <= VRDMA_MAX_PKEYS + 1; ++i) {
        many += fmt::format("\"{:#x}\",", i);
    }
    for (const std::string& pkeys : {std::string{}, many}) {
        const std::string error = error_of(fmt::format("[types.small]\npkeys = [{}]", pkeys));
        EXPECT_TRUE(error.ends_with(": must be 1 to 32 P_Keys")) << error;
    }
    EXPECT_EQ(error_of("[types.small]\npkeys = [65535]"),
              "types.small.pkeys = [ 65535 ]: must be an array of strings");
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
              "vfio_user[0].vlans = [ \"7-8\" ]: must be VLANs that uplink 'eth0' has, too");
}

TEST(Config, UplinksMayBeByTheHostsHca) {
    const auto error = [](const std::string& line) {
        return error_of("[[uplink]]\ninterface = \"eth0\"\n" + line);
    };
    EXPECT_EQ(error("hca = \"soft\""), "");
    EXPECT_EQ(error("hca = \"verbs\"\ndevice = \"rxe0\""), "");
    EXPECT_EQ(error("hca = \"pci\""), "uplink[0].hca = \"pci\": must be \"soft\" or \"verbs\"");
    EXPECT_EQ(
        error("hca = \"verbs\""),
        "uplink[0].device is not set: it must be the name of a device that ibv_devices lists");
    EXPECT_EQ(error("device = \"rxe0\""),
              "uplink[0].device = \"rxe0\": must be absent unless hca is \"verbs\"");
    EXPECT_EQ(error("hca = \"verbs\"\ndevice = \"rxe0\"\nvlans = [\"7\"]"),
              "uplink[0].vlans = [ \"7\" ]: must be absent, as hca is \"verbs\"");
    EXPECT_EQ(error("hca = \"verbs\"\ndevice = \"rxe0\"\n[[uplink]]\ninterface = \"eth1\"\n"
                    "hca = \"verbs\"\ndevice = \"rxe0\""),
              "uplink[1].device = \"rxe0\": must be the device of no other uplink");
}

TEST(Config, ErrorsOfUplinksNameTheKey) {
    const auto error = [](const std::string& line) {
        return error_of("[[uplink]]\ninterface = \"eth0\"\n" + line);
    };
    const std::string name =
        " a name such as eth0, of at most 15 printable characters without spaces and slashes";
    EXPECT_EQ(error_of("[[uplink]]"), "uplink[0].interface is not set: it must be" + name);
    EXPECT_EQ(error_of("[[uplink]]\ninterface = \"of-sixteen-chars\""),
              "uplink[0].interface = \"of-sixteen-chars\": must be" + name);
    for (const char* const bad : {"to the net", "none"}) {
        EXPECT_EQ(error(fmt::format("name = \"{}\"", bad)),
                  fmt::format("uplink[0].name = \"{}\": must be{}, and not none", bad, name));
    }
    EXPECT_EQ(error("transport = \"auto\""), "");
    EXPECT_EQ(error("transport = \"af_packet\""), "");
    EXPECT_EQ(error("transport = \"xdp\""),
              "uplink[0].transport = \"xdp\": must be \"auto\", \"af_xdp\" or \"af_packet\"");
    EXPECT_EQ(error("speed = 1"),
              "uplink[0].speed: unknown key: must be one of device, dscp_priorities, hca, "
              "interface, name, sl_priorities, transport, vlans");
    EXPECT_EQ(error("vlans = [7]"), "uplink[0].vlans = [ 7 ]: must be an array of strings");
    for (const char* const vlans : {"", "0", "4095", "9-7", "7-", "-7", "7-9x", "1-4095", "all"}) {
        EXPECT_EQ(
            error(fmt::format("vlans = [\"{}\"]", vlans)),
            fmt::format("uplink[0].vlans = [ \"{}\" ]: must be numbers from 1 to 4094 such as "
                        "\"5\" or \"3-5\"",
                        vlans))
            << vlans;
    }
    EXPECT_EQ(error("[[uplink]]\ninterface = \"eth1\"\nname = \"eth0\""),
              "uplink[1].name = \"eth0\": must be the name of no other uplink");
    EXPECT_EQ(error("[[uplink]]\ninterface = \"eth0\"\nname = \"wan\""),
              "uplink[1].interface = \"eth0\": must be the interface of no other uplink");
    EXPECT_EQ(error("[types.large]\nuplink = \"wan\""),
              "types.large.uplink = \"wan\": must be one of the uplinks and fabrics eth0");
    EXPECT_EQ(error("[[vfio_user]]\nname = \"a\"\nuplink = \"wan\""),
              "vfio_user[0].uplink = \"wan\": must be one of the uplinks and fabrics eth0");
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
              "uplink, fabric: there are 65, and at most 64 are allowed");
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
    const FabricOptions& fabric = config->fabrics[0];
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
    const std::string address_is =
        "must be an address and a port such as 10.0.0.1:7471 or [fd00::1]:7471";
    EXPECT_EQ(error_of("[[fabric]]").find("fabric[0].name is not set: it must be a name"), 0u);
    EXPECT_EQ(error_of("[[fabric]]\nname = \"wan\""),
              "fabric[0].listen is not set: it " + address_is);
    for (const char* const address :
         {"10.0.0.1", "10.0.0.1:", "example.net:1", "fd00::1:7471", "10.0.0.1:http", ":1"}) {
        EXPECT_EQ(error_of(std::string{"[[fabric]]\nname = \"wan\"\nlisten = \""} + address + "\""),
                  fmt::format("fabric[0].listen = \"{}\": {}", address, address_is))
            << address;
    }
    EXPECT_EQ(error("gids = [1]"), "fabric[0].peer[1].gids = [ 1 ]: must be an array of strings");
    EXPECT_EQ(
        error("gids = [\"10.0.0.0/8\"]"),
        "fabric[0].peer[1].gids = [ \"10.0.0.0/8\" ]: must be IP addresses such as \"10.0.0.5\"");
    EXPECT_EQ(error("gids = [\"10.0.0.2\"]"),
              "fabric[0].peer[1].gids = [ \"10.0.0.2\" ]: must be addresses that no other host of "
              "the fabric has");
    const std::string peer = "[[fabric.peer]]\naddress = \"10.0.0.4:1\"\n";
    EXPECT_EQ(
        error(peer),
        "fabric[0].peer[2].name is not set: it must be a host name such as host-1.example.net");
    EXPECT_EQ(
        error(peer + "name = \"alpha\""),
        "fabric[0].peer[2].name = \"alpha\": must be the name of no other host of the fabric");
    const std::string wan = "[[fabric]]\nname = \"wan\"\nlisten = \"10.0.0.1:1\"\n";
    EXPECT_EQ(error(wan + credentials),
              "fabric[1].name = \"wan\": must be the name of no other uplink or fabric");
    EXPECT_EQ(error_of(wan),
              "fabric[0].certificate_file is not set: it must be the path of a file");
    EXPECT_EQ(error_of(wan + "certificate_file = \"/a\""),
              "fabric[0].private_key_file is not set: it must be the path of a file");
    EXPECT_EQ(error_of(wan + "certificate_file = \"/a\"\nprivate_key_file = \"/b\""),
              "fabric[0].ca_file is not set: it must be the path of a file");
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
    const std::string endpoints_are = "must be 1 to 16 URLs such as \"http://10.0.0.9:2379\"";
    EXPECT_EQ(error_of(fabric + directory),
              "fabric[0].directory.endpoints is not set: it " + endpoints_are);
    EXPECT_EQ(error_of(fabric + directory + "endpoints = [\"http://a:1\", \"a:1\"]"),
              "fabric[0].directory.endpoints = [ \"http://a:1\", \"a:1\" ]: " + endpoints_are);
    EXPECT_EQ(error_of(fabric + directory + endpoints),
              "fabric[0].directory.address is not set: it must be the address by which the other "
              "hosts reach this one, where `listen` is that of all interfaces");
    EXPECT_EQ(error("prefix = \"/x\""),
              "fabric[0].directory.prefix = \"/x\": must be a string that ends with /");
    EXPECT_EQ(error("certificate_file = \"/b\""),
              "fabric[0].directory.private_key_file is not set: it must be the path of a file, as "
              "certificate_file is set");
    EXPECT_EQ(error("private_key_file = \"/b\""),
              "fabric[0].directory.certificate_file is not set: it must be the path of a file, as "
              "private_key_file is set");
    EXPECT_EQ(error("lease = 1"),
              "fabric[0].directory.lease: unknown key: must be one of address, ca_file, "
              "certificate_file, endpoints, prefix, private_key_file");
}

// Let strangers reach the control socket's process; expect that it cannot read messages, unless the
// administrator says so.
TEST(Config, NoSniffersWhereMetricsAreForTheNetwork) {
    const std::string metrics = "[control]\nsocket = \"/x\"\n{}[metrics]\nlisten = \"[::1]:1\"";
    EXPECT_FALSE(parse_config(fmt::format(fmt::runtime(metrics), ""))->control.sniffs());
    EXPECT_TRUE(
        parse_config(fmt::format(fmt::runtime(metrics), "sniffer = true\n"))->control.sniffs());
}

TEST(Config, TheControlSocket) {
    EXPECT_EQ(parse_config("")->control.socket.path, "") << "this is no service";
    const auto config = parse_config("[control]\nsocket = \"/x\"");
    ASSERT_TRUE(config);
    EXPECT_EQ(config->control.socket.path, "/x");
    EXPECT_EQ(config->control.socket.mode, 0600u);
    EXPECT_TRUE(config->control.sniffs());
    EXPECT_FALSE(parse_config("[control]\nsniffer = false")->control.sniffs());
    EXPECT_EQ(parse_config("[control]\ngroup = \"nogroup\"")->control.socket.mode, 0660u);
    EXPECT_EQ(parse_config("[control]\ngroup = 7")->control.socket.group, 7u);
    EXPECT_EQ(config->control.spare_clients, 16u);
    EXPECT_FALSE(config->control.add_uplinks);
    const auto more = parse_config("[control]\nspare_clients = 0\nadd_uplinks = true");
    ASSERT_TRUE(more);
    EXPECT_EQ(more->control.spare_clients, 0u);
    EXPECT_TRUE(more->control.add_uplinks);
    ::setenv("RUNTIME_DIRECTORY", "/run/x", 1);
    EXPECT_EQ(parse_config("")->control.socket.path, "/run/x/control.sock");
    EXPECT_EQ(parse_config("[control]\nsocket = \"\"")->control.socket.path, "");
    ::unsetenv("RUNTIME_DIRECTORY");
}

TEST(Config, ErrorsOfTheControlSocketNameTheKey) {
    EXPECT_EQ(error_of("[control]\ngroup = \"nobody-here\""),
              "control.group = \"nobody-here\": must be the name or the number of a group of this "
              "host");
    EXPECT_EQ(error_of("[control]\ngroup = 1.5"),
              "control.group = 1.5: must be the name or the number of a group of this host");
    EXPECT_EQ(error_of("[control]\nsocket = \"/" + std::string(107, 'x') + "\"").substr(0, 19),
              "control.socket = \"/");
    EXPECT_EQ(error_of("[control]\ngroup_changes = true"),
              "control.group is not set: it must be the group that group_changes is about");
    EXPECT_EQ(beginning_of("[control]\nmode = 1"), "control.mode: unknown key");
    EXPECT_EQ(error_of("[control]\ngroup = -1"),
              "control.group = -1: must be a number from 0 to 2147483647");
    EXPECT_EQ(error_of("[control]\nspare_clients = -1"),
              "control.spare_clients = -1: must be a number from 0 to 65536");
}

TEST(Config, MetricsForTheNetwork) {
    EXPECT_FALSE(parse_config("[control]\nsocket = \"/x\"")->control.metrics);
    const auto config =
        parse_config("[control]\nsocket = \"/x\"\n[metrics]\nlisten = \"[::1]:9469\"");
    ASSERT_TRUE(config);
    EXPECT_EQ(config->control.metrics, (wire::fabric::Address{"::1", "9469"}));
}

TEST(Config, ErrorsOfMetricsNameTheKey) {
    EXPECT_EQ(error_of("[metrics]\nlisten = \"localhost\""),
              "metrics.listen = \"localhost\": must be an address and a port such as "
              "127.0.0.1:9469 or [fd00::1]:9469");
    EXPECT_EQ(error_of("[metrics]\nlisten = \"127.0.0.1:9469\""),
              "metrics.listen = \"127.0.0.1:9469\": must be left out where there is no control "
              "socket (control.socket)");
    EXPECT_EQ(error_of("[metrics]\nport = 1"), "metrics.port: unknown key: must be one of listen");
}

TEST(Config, TheInstalledFileIsValidAndSaysTheDefaults) {
    const auto config = read_config(VRDMAD_CONF).and_then(parse_config);
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->name, Config{}.name);
}

TEST(Config, AFileMustBeThere) {
    EXPECT_EQ(read_config("/nonexistent/vrdmad.conf").error(),
              "cannot be read: No such file or directory");
    EXPECT_EQ(read_config("/").error(), "cannot be read: Is a directory");
}

} // namespace
} // namespace vrdma::control
