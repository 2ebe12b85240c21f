// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/show.h"

#include <gtest/gtest.h>

namespace vrdma::ctl {
namespace {

using nlohmann::json;

const json device = {{"name", "disk"},
                     {"kind", "virtual"},
                     {"driver", "vrdma"},
                     {"state", "active"},
                     {"mtu", 4096},
                     {"speed_mbps", 100000},
                     {"uplink", nullptr},
                     {"mac", "02:00:00:00:00:01"},
                     {"type", "small"},
                     {"front_end", "mdev"},
                     {"description", "a device"},
                     {"weight", 100},
                     {"max_bytes_per_second", 0},
                     {"max_operations_per_second", 5},
                     {"resources", {{"qp", {{"used", 1}, {"max", 256}}}}}};

TEST(Show, Devices) {
    json unused = device;
    unused.update({{"state", "unused"}, {"mtu", 0}, {"speed_mbps", 2500}, {"uplink", "eth0"}});
    EXPECT_EQ(show_devices({{"devices", {device, unused}}}, 0),
              "Name  Driver  State   MTU   Speed      Paired Uplink  Kind     Description\n"
              "disk  vrdma   Active  4096  100 Gbps   -              Virtual  a device\n"
              "disk  vrdma   Unused  -     2500 Mbps  eth0           Virtual  a device\n");
}

// Answers that vrdmad does not give: expect an error for what is missing, and nothing that a
// terminal interprets.
TEST(Show, AnswersOfStrangers) {
    EXPECT_THROW(show_devices({{"disks", {device}}}, 0), json::exception);
    EXPECT_THROW(show_device({{"name", "disk"}}, 0), json::exception);
    EXPECT_EQ(show_log_level({{"level", "\x1b[2J"}}, 0), "?[2J\n");
}

TEST(Show, Protocols) {
    const json none = {
        {"name", "disk"}, {"roce_v1", nullptr}, {"roce_v2", nullptr}, {"uplink", nullptr}};
    const json some = {{"name", "lan"}, {"roce_v1", false}, {"roce_v2", true}, {"uplink", "eth0"}};
    EXPECT_EQ(show_protocols({{"devices", {none, some}}}, 0),
              "Name  RoCE v1  RoCE v2  Paired Uplink\n"
              "disk  -        -        -\n"
              "lan   false    true     eth0\n");
    EXPECT_EQ(show_protocols_of_one(some, 0),
              "Name  RoCE v1  RoCE v2  Paired Uplink\n"
              "lan   false    true     eth0\n");
}

TEST(Show, Limits) {
    EXPECT_EQ(show_limits(device, 0),
              "Weight:                     100\n"
              "Max bytes per second:       unlimited\n"
              "Max operations per second:  5\n"
              "\n"
              "Resource  Used  Max\n"
              "qp        1     256\n");
    json none = device;
    none["resources"] = {{"ah", {{"used", 0}, {"max", 0}}}, {"memory", {{"used", 0}, {"max", 0}}}};
    EXPECT_NE(show_limits(none, 0).find("ah        0     0\nmemory    0     -\n"),
              std::string::npos);
}

TEST(Show, UplinksOfBothKinds) {
    const json uplinks = {{{"name", "eth0"},
                           {"kind", "ethernet"},
                           {"interface", "enp1"},
                           {"state", "down"},
                           {"speed_mbps", 0},
                           {"mac", "a"},
                           {"peers", 0}},
                          {{"name", "fab"},
                           {"kind", "fabric"},
                           {"provider", "tcp"},
                           {"state", "up"},
                           {"speed_mbps", 0},
                           {"mac", "b"},
                           {"peers", 2}}};
    EXPECT_EQ(show_uplinks({{"uplinks", uplinks}}, 0),
              "Name  Kind      State  Speed  MAC Address  Peers  Interface/Provider\n"
              "eth0  Ethernet  Down   -      a            -      enp1\n"
              "fab   Fabric    Up     -      b            2      tcp\n");
}

TEST(Show, ReloadSaysWhatHasChanged) {
    EXPECT_EQ(show_reload({{"changed", {"types.small: weight 3"}}, {"restart", {"name"}}}, 0),
              "changed: types.small: weight 3\ntakes a restart: name\n");
    EXPECT_EQ(show_reload({{"changed", json::array()}, {"restart", json::array()}}, 0),
              "nothing has changed\n");
}

} // namespace
} // namespace vrdma::ctl
