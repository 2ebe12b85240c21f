// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/config/additions.h"

#include <gtest/gtest.h>

#include "mediator/control/reload.h"
#include "vrdma/mdev.h"

namespace vrdma::control {
namespace {

constexpr char file[] = R"(
    [[uplink]]
    interface = "eth0"
    [[vfio_user]]
    name = "fixed"
    weight = 50
)";

toml::table disk(const std::string& uplink = "lan") {
    return toml::table{{"name", "disk"},
                       {"uplink", uplink},
                       {"addresses", "10.0.0.5"},
                       {"group", 7},
                       {"pkeys", toml::array{"0xffff", "0x8001"}},
                       {"weight", 3}};
}

toml::table lan() {
    return toml::table{{"interface", "eth1"}, {"name", "lan"}};
}

Config config_with_additions() {
    Config config = parse_config(file).value();
    EXPECT_TRUE(add_uplink(lan(), config));
    EXPECT_TRUE(add_device(disk(), config));
    return config;
}

void expect_disk(const VfioUserDevice& device) {
    EXPECT_EQ(device.name, "disk");
    EXPECT_EQ(device.identity.uplink, "lan");
    EXPECT_EQ(device.identity.pkeys, (PKeys{0xffff, 0x8001}));
    EXPECT_EQ(device.socket.group, 7u);
    EXPECT_EQ(device.share.weight, 3u);
}

void expect_additions(const Config& config) {
    ASSERT_EQ(config.uplinks.size(), 2u);
    EXPECT_EQ(config.uplinks[1].interface, "eth1");
    ASSERT_EQ(config.vfio_user.size(), 2u);
    expect_disk(config.vfio_user[1]);
    EXPECT_EQ(count_of_file(config.uplinks), 1u);
    EXPECT_EQ(count_of_file(config.vfio_user), 1u);
}

TEST(Additions, HaveTheKeysOfTheirSections) {
    expect_additions(config_with_additions());
}

TEST(Additions, AreWrittenForTheNextOne) {
    const std::string text = additions_of(config_with_additions());
    Config next = parse_config(file).value();
    EXPECT_EQ(add_all(text, next), std::vector<std::string>{});
    expect_additions(next);
    EXPECT_EQ(additions_of(next), text);
}

TEST(Additions, OfAFileAloneAreNone) {
    EXPECT_EQ(additions_of(parse_config(file).value()), "");
}

// A text with characters that TOML writes in another way.
TEST(Additions, KeepTheirTexts) {
    const std::string path = "/run/\"\\' =[].sock";
    Config config;
    ASSERT_TRUE(add_device(toml::table{{"name", "disk"}, {"socket", path}}, config));
    Config next;
    EXPECT_EQ(add_all(additions_of(config), next), std::vector<std::string>{});
    ASSERT_EQ(next.vfio_user.size(), 1u);
    EXPECT_EQ(next.vfio_user[0].socket.path, path);
}

TEST(Additions, ThatAreWrongAddNothing) {
    Config config = parse_config(file).value();
    const auto wrong = add_device(disk("wan"), config);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error(), "uplink = \"wan\": must be one of the uplinks and fabrics eth0");
    EXPECT_FALSE(add_device(toml::table{{"name", "fixed"}}, config));
    EXPECT_FALSE(add_device(toml::table{{"name", "disk"}, {"colour", "red"}}, config));
    EXPECT_FALSE(add_uplink(toml::table{{"interface", "eth0"}, {"name", "lan"}}, config));
    EXPECT_FALSE(add_uplink(toml::table{{"interface", "eth1"}, {"name", "eth0"}}, config));
    EXPECT_EQ(config.vfio_user.size(), 1u);
    EXPECT_EQ(config.uplinks.size(), 1u);
}

TEST(Additions, AreNoMoreThanTheModuleHasRoomFor) {
    Config config;
    for (unsigned i = 0; i < VRDMA_MDEV_MAX_UPLINKS; ++i) {
        ASSERT_TRUE(add_uplink(toml::table{{"interface", "eth" + std::to_string(i)}}, config));
    }
    EXPECT_FALSE(add_uplink(lan(), config));
    EXPECT_EQ(config.uplinks.size(), std::size_t{VRDMA_MDEV_MAX_UPLINKS});
}

// The next configuration has no such uplink, and a device with the name of another one that was
// added.
TEST(Additions, ThatDoNotFitAnyMoreAreLeftOut) {
    Config before = config_with_additions();
    ASSERT_TRUE(add_device(toml::table{{"name", "red"}}, before));
    std::string text = additions_of(before);
    text = text.substr(text.find("[[vfio_user]]"));
    Config next = parse_config("[[vfio_user]]\nname = \"red\"").value();
    EXPECT_EQ(add_all(text, next),
              (std::vector<std::string>{
                  "vfio_user disk.uplink = \"lan\": must be the name of an [[uplink]] or a "
                  "[[fabric]], and there is none",
                  "vfio_user red.name = \"red\": must be the name of no other device"}));
    EXPECT_EQ(next.vfio_user.size(), 1u);
}

TEST(Additions, OfATextThatIsNoTomlAreNone) {
    Config config;
    EXPECT_EQ(add_all("[[[", config).size(), 1u);
    EXPECT_EQ(add_all("uplink = 7\nvfio_user = [1, 2]", config).size(), 0u);
    EXPECT_TRUE(config.vfio_user.empty());
}

// The file gets a device with the name of one that was added. Expect its share not to be that
// one's.
TEST(Additions, AreNotReloaded) {
    Running running{"", file, std::nullopt, config_with_additions()};
    const auto changes =
        compare(running, std::string{file} + "[[vfio_user]]\nname = \"disk\"\nweight = 9");
    ASSERT_TRUE(changes);
    EXPECT_EQ(changes->devices, (std::map<std::size_t, hca::Share>{{0, {.weight = 50}}}));
    EXPECT_EQ(changes->wait, std::vector<std::string>{"vfio_user.disk"});
}

} // namespace
} // namespace vrdma::control
