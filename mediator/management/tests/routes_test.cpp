// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/routes.h"

#include <array>
#include <nlohmann/json.hpp>

#include "fake_mediator.h"

namespace vrdma::management {
namespace {

using nlohmann::json;

class RoutesTest : public testing::Test {
  protected:
    // Expects this status, and returns the body.
    json ask(unsigned status, const std::string& method, const std::string& path,
             const std::string& body = {}, bool may_change = true) {
        const Response response = answer({method, path, body, may_change}, asker);
        EXPECT_EQ(response.status, status) << path << ": " << response.body;
        return json::parse(response.body);
    }
    std::string error(unsigned status, const std::string& method, const std::string& path,
                      const std::string& body = {}, bool may_change = true) {
        return ask(status, method, path, body, may_change)["error"];
    }

    FakeMediator mediator{3};
    helper::SocketPair ends = std::move(*helper::open_socket_pair());
    ControlThread thread{std::move(ends.ours), {ends.its.get()}, Task{}, mediator};
    Asker asker{ends.its.get()};
};

TEST_F(RoutesTest, Devices) {
    EXPECT_EQ(ask(200, "GET", "/v1/devices")["devices"].size(), 3u);
    EXPECT_EQ(ask(200, "GET", "/v1/devices/disk-0001%2F0")["name"], "disk-0001/0");
    const json limits = ask(200, "GET", "/v1/devices/disk-0001%2f0/limits");
    EXPECT_EQ(limits["resources"]["qp"]["used"], 1);
    EXPECT_EQ(ask(200, "GET", "/v1/devices/disk-0001%2F0/counters")["counters"]["tx_bytes"], 7);
    EXPECT_EQ(ask(200, "GET", "/v1/counters")["devices"].size(), 2u);
}

TEST_F(RoutesTest, NetdevsAreThoseOfEthernetUplinks) {
    Uplink uplink{};
    helper::write(uplink.name, "blue");
    helper::write(uplink.detail, "eth0");
    uplink.up = 1;
    mediator.uplinks_of = {uplink};
    const json devices = ask(200, "GET", "/v1/netdevs")["devices"];
    ASSERT_EQ(devices.size(), 3u);
    EXPECT_EQ(devices[0]["netdev"], nullptr);
    EXPECT_EQ(devices[1]["netdev"], "eth0");
    EXPECT_EQ(devices[1]["state"], "up");
    mediator.uplinks_of.front().kind = Uplink::Kind::fabric;
    EXPECT_EQ(ask(200, "GET", "/v1/netdevs")["devices"][1]["netdev"], nullptr);
}

TEST_F(RoutesTest, LimitsAreSet) {
    const std::string path = "/v1/devices/disk-0001%2F0/limits";
    json limits = ask(200, "PUT", path, R"({"weight": 7, "max_bytes_per_second": 1000})");
    EXPECT_EQ(limits["weight"], 7);
    limits = ask(200, "PUT", path, R"({"max_operations_per_second": 5})");
    EXPECT_EQ(limits["weight"], 7);
    EXPECT_EQ(limits["max_bytes_per_second"], 1000);
    EXPECT_EQ(limits["max_operations_per_second"], 5);
    const json before = limits["resources"];
    limits = ask(200, "PUT", path, R"({"resources": {"qp": 100, "memory": 0}})");
    EXPECT_EQ(limits["resources"]["qp"]["max"], 100);
    EXPECT_EQ(limits["resources"]["memory"]["max"], 0);
    EXPECT_EQ(limits["resources"]["cq"], before["cq"]);
    EXPECT_EQ(limits["weight"], 7);
    for (const char* body :
         {"", "{", "[]", "{}", R"({"resources": 7})", R"({"resources": {"qp": -1}})",
          R"({"resources": {"qp": "7"}})", R"({"resources": {"queue": 7}})",
          R"({"weight": 8, "resources": {"qp": 18446744073709551615}})", R"({"weight": 0})",
          R"({"weight": 10001})", R"({"weight": "7"})", R"({"weight": -1})", R"({"weight": 1.5})",
          R"({"max_qp": 5})", "\xff",
          R"({"weight": 8, "max_bytes_per_second": 18446744073709551615})"}) {
        EXPECT_EQ(error(400, "PUT", path, body), "EINVAL") << body;
    }
    EXPECT_EQ(ask(400, "PUT", path, R"({"resources": {"qps": 7}})")["message"],
              "'qps' is no resource, but these: pd, mr, cq, qp, srq, xrcd, ah, blocks, memory");
    EXPECT_EQ(ask(400, "PUT", path, R"({"resources": {"qp": -1}})")["message"],
              "qp must be a number from 0 to 18446744073709551614");
    EXPECT_EQ(ask(400, "PUT", path, R"({"qp": 7})")["message"],
              "'qp' is no limit that can be set, but these: weight, max_bytes_per_second, "
              "max_operations_per_second, resources");
    EXPECT_EQ(ask(200, "GET", path)["weight"], 7);
    EXPECT_EQ(error(404, "PUT", "/v1/devices/x/limits", R"({"weight": 7})"), "ENOENT");
    EXPECT_EQ(error(403, "PUT", path, R"({"weight": 9})", false), "EACCES");
}

TEST_F(RoutesTest, ADeviceIsCreatedWithTheKeysOfItsSection) {
    const json made = ask(200, "POST", "/v1/devices",
                          R"({"name": "disk", "clients": 4, "flag": true, "pkeys": ["1", "2"]})");
    EXPECT_EQ(made, (json{{"name", "disk"}, {"socket", "/run/disk.sock"}}));
    std::string seen;
    for (const Setting& setting : mediator.created) { // in the order of their keys
        seen += fmt::format("{} {} {} {}\n", *helper::read(setting.key),
                            static_cast<unsigned>(setting.kind), setting.number,
                            *helper::read(setting.text));
    }
    EXPECT_EQ(seen, "clients 1 4 \nflag 2 1 \nname 0 0 disk\npkeys 3 0 1\npkeys 3 0 2\n");
    EXPECT_EQ(error(409, "POST", "/v1/devices", R"({"type": "small"})"), "EEXIST");
    EXPECT_EQ(error(403, "POST", "/v1/devices", R"({"name": "disk"})", false), "EACCES");
}

TEST_F(RoutesTest, ADeviceIsNotCreatedWithOtherValues) {
    const std::string long_key(32, 'k');
    json many{{"name", json::array()}};
    many["name"] = std::vector<std::string>(max_settings + 1, "x");
    for (const std::string& body :
         {std::string{}, std::string{"{}"}, std::string{"[1]"}, std::string{R"({"name": null})"},
          std::string{R"({"name": {}})"}, std::string{R"({"name": []})"},
          std::string{R"({"name": [1]})"}, std::string{R"({"name": [["a"]]})"},
          std::string{R"({"name": 1.5})"}, std::string{R"({"name": 9223372036854775808})"},
          std::string{R"({"name": "a\nb"})"}, std::string{R"({"": "a"})"},
          json{{long_key, 1}}.dump(), json{{"name", std::string(512, 'x')}}.dump(), many.dump()}) {
        EXPECT_EQ(error(400, "POST", "/v1/devices", body), "EINVAL") << body;
    }
    EXPECT_TRUE(mediator.created.empty());
}

TEST_F(RoutesTest, ADeviceInUseIsDestroyedByForce) {
    EXPECT_EQ(error(409, "DELETE", "/v1/devices/disk-0001%2F0"), "EBUSY");
    const Response done = answer({.method = "DELETE",
                                  .path = "/v1/devices/disk-0001%2F0",
                                  .body = {},
                                  .may_change = true,
                                  .force = true},
                                 asker);
    EXPECT_EQ(json::parse(done.body), (json{{"name", "disk-0001/0"}}));
    EXPECT_EQ(error(404, "GET", "/v1/devices/disk-0001%2F0"), "ENOENT");
    EXPECT_EQ(error(403, "DELETE", "/v1/devices/disk-0000%2F0", {}, false), "EACCES");
}

TEST_F(RoutesTest, UplinksComeAndGo) {
    EXPECT_EQ(ask(200, "POST", "/v1/uplinks", R"({"interface": "eth0"})")["name"], "lan");
    EXPECT_EQ(ask(200, "DELETE", "/v1/uplinks/lan")["name"], "lan");
    EXPECT_EQ(error(409, "DELETE", "/v1/uplinks/wan"), "EBUSY");
    for (const bool add : {true, false}) {
        EXPECT_EQ(error(403, add ? "POST" : "DELETE", add ? "/v1/uplinks" : "/v1/uplinks/lan",
                        R"({"interface": "eth0"})", false),
                  "EACCES");
    }
}

TEST_F(RoutesTest, Protocols) {
    const json devices = ask(200, "GET", "/v1/protocols")["devices"];
    ASSERT_EQ(devices.size(), 3u);
    EXPECT_EQ(devices[0]["roce_v1"], nullptr);
    EXPECT_EQ(devices[1]["uplink"], "blue");
    EXPECT_EQ(devices[1]["roce_v1"], true);
    const std::string path = "/v1/devices/disk-0001%2F0/protocols";
    const json set = ask(200, "PUT", path, R"({"protocol": "roce-v2"})");
    EXPECT_EQ(set["roce_v1"], false);
    EXPECT_EQ(set["roce_v2"], true);
    EXPECT_EQ(ask(200, "GET", path), set);
    for (const char* body : {"", "{", "[]", "{}", R"({"protocol": "iwarp"})", R"({"protocol": 1})",
                             R"({"protocol": "both", "more": 1})", R"({"weight": 1})"}) {
        EXPECT_EQ(error(400, "PUT", path, body), "EINVAL") << body;
    }
    EXPECT_EQ(error(403, "PUT", path, R"({"protocol": "both"})", false), "EACCES");
    EXPECT_EQ(ask(200, "GET", path), set);
    const json busy =
        ask(409, "PUT", "/v1/devices/disk-0000%2F0/protocols", R"({"protocol": "both"})");
    EXPECT_EQ(busy["message"], "a QP uses RoCE v1");
}

TEST_F(RoutesTest, AnUnknownDeviceIsNotFound) {
    for (const char* path : {"/v1/devices/x", "/v1/devices/x/limits", "/v1/devices/x/counters",
                             "/v1/devices/x/protocols", "/v1/devices/", "/v1/devices/%",
                             "/v1/devices/%2", "/v1/devices/%zz", "/v1/devices/disk-0001/0"}) {
        EXPECT_EQ(error(404, "GET", path), "ENOENT");
    }
    EXPECT_EQ(error(404, "GET", "/v1/devices/" + std::string(1000, 'x')), "ENOENT");
    EXPECT_EQ(ask(404, "GET", "/v1/devices/%ff")["message"], "there is no device '\xef\xbf\xbd'");
    EXPECT_EQ(ask(404, "GET", "/v1/devices/disk-0001")["message"],
              "there is no device 'disk-0001', but one for each client: 'disk-0001/0' and so on");
}

TEST_F(RoutesTest, ADeviceThatIsNotInUseCountsNothing) {
    EXPECT_EQ(error(409, "GET", "/v1/devices/disk-0000%2F0/counters"), "EBUSY");
}

TEST_F(RoutesTest, WhatIsNotThere) {
    for (const char* path : {"", "/", "//", "v1/devices", "/v2/devices", "*", "/v1/*"}) {
        EXPECT_EQ(error(404, "GET", path), "ENOENT");
    }
    EXPECT_EQ(error(405, "DELETE", "/v1/devices"), "EOPNOTSUPP");
}

TEST_F(RoutesTest, TheLogLevel) {
    EXPECT_EQ(ask(200, "GET", "/v1/log-level")["level"], "info");
    EXPECT_EQ(ask(200, "PUT", "/v1/log-level", R"({"level": "debug"})")["level"], "debug");
    for (const char* body : {"", "{", "[]", "{}", R"({"level": 1})", R"({"level": "loud"})",
                             R"({"level": "debug", "x": 1})", "\xff"}) {
        EXPECT_EQ(error(400, "PUT", "/v1/log-level", body), "EINVAL");
    }
    EXPECT_EQ(error(400, "PUT", "/v1/log-level", json{{"level", std::string(1000, 'x')}}.dump()),
              "EINVAL");
}

TEST_F(RoutesTest, AReloadSaysWhatHasChanged) {
    const json outcome = ask(200, "POST", "/v1/reload");
    EXPECT_EQ(outcome["changed"], json{"types.small: weight 3"});
    EXPECT_EQ(outcome["restart"], json{"name"});
    mediator.reloaded = {"line 3: unknown key", {}, {}};
    EXPECT_EQ(ask(400, "POST", "/v1/reload")["message"], "line 3: unknown key");
}

TEST_F(RoutesTest, SomeMayOnlyLook) {
    ask(200, "GET", "/v1/devices", "", false);
    EXPECT_EQ(error(403, "POST", "/v1/reload", "", false), "EACCES");
    EXPECT_EQ(error(403, "PUT", "/v1/log-level", R"({"level": "debug"})", false), "EACCES");
    EXPECT_EQ(ask(200, "GET", "/v1/log-level")["level"], "info");
}

// Start the sniffer of the one device that has one, with bodies that are wrong, without the right,
// twice, and of another device. Expect a stream, and reasons.
TEST_F(RoutesTest, ASnifferIsAStream) {
    const std::string path = "/v1/devices/disk-0000%2F0/sniffer";
    for (const char* const body : {"{", "[]", "{}", R"({"payload": -1})", R"({"payload": 4097})",
                                   R"({"payload": 1, "file": "/etc/passwd"})"}) {
        EXPECT_EQ(error(400, "POST", path, body), "EINVAL") << body;
    }
    EXPECT_EQ(error(403, "POST", path, "", false), "EACCES");
    EXPECT_EQ(error(404, "POST", "/v1/devices/disk-0001%2F0/sniffer"), "ENOENT");
    EXPECT_EQ(error(404, "DELETE", path), "ENOENT");
    Response response = answer({"POST", path, R"({"payload": 64})", true}, asker);
    ASSERT_TRUE(response.stream);
    EXPECT_EQ(error(409, "POST", path), "EBUSY");
    std::array<char, 1000> room{};
    EXPECT_GT(response.stream->read(room), 0u) << "the beginning of a file";
    EXPECT_EQ(error(403, "DELETE", path, "", false), "EACCES");
    ask(200, "DELETE", path);
    response = {};
    EXPECT_TRUE(answer({"POST", path, "", true}, asker).stream);
    EXPECT_EQ(error(404, "DELETE", path), "ENOENT") << "it ended with its stream";
}

} // namespace
} // namespace vrdma::management
