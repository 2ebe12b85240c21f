// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/section_of.h"

#include <gtest/gtest.h>

namespace vrdma::control {
namespace {

using management::Setting;

Setting setting(const std::string& key, Setting::Kind kind, std::int64_t number,
                const std::string& text = "") {
    Setting setting{};
    helper::write(setting.key, key);
    setting.kind = kind;
    setting.number = number;
    helper::write(setting.text, text);
    return setting;
}

TEST(SectionOf, HasEachSettingAsTomlHasIt) {
    const auto section = section_of({setting("name", Setting::Kind::text, 0, "disk"),
                                     setting("clients", Setting::Kind::number, 4),
                                     setting("quick", Setting::Kind::flag, 1),
                                     setting("pkeys", Setting::Kind::item, 0, "0xffff"),
                                     setting("pkeys", Setting::Kind::item, 0, "0x8001")});
    ASSERT_TRUE(section);
    EXPECT_EQ(*section, (toml::table{{"name", "disk"},
                                     {"clients", 4},
                                     {"quick", true},
                                     {"pkeys", toml::array{"0xffff", "0x8001"}}}));
}

TEST(SectionOf, LooksForNoUsers) {
    EXPECT_TRUE(section_of({setting("group", Setting::Kind::number, 4)}));
    for (const char* key : {"group", "owner"}) {
        const auto section = section_of({setting(key, Setting::Kind::text, 0, "root")});
        ASSERT_FALSE(section);
        EXPECT_EQ(section.error().error, std::errc::invalid_argument);
        EXPECT_EQ(section.error().reason, std::string{key} + " must be a number");
    }
}

// The same key as a text, and then as an item of an array. Expect one of them.
TEST(SectionOf, HasAKeyOnce) {
    const auto section = section_of({setting("name", Setting::Kind::text, 0, "disk"),
                                     setting("name", Setting::Kind::item, 0, "x")});
    ASSERT_TRUE(section);
    EXPECT_EQ(*section, (toml::table{{"name", "disk"}}));
}

} // namespace
} // namespace vrdma::control
