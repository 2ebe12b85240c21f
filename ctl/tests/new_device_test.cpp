// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/new_device.h"

#include <gtest/gtest.h>

namespace vrdma::ctl {
namespace {

// Parses the words as those after `device create`. Returns CLI11's error, or nothing.
std::string parse(std::vector<std::string> words) {
    NewDevice device;
    CLI::App app;
    device.add_options(&app);
    std::ranges::reverse(words); // CLI11 wants the last one first
    try {
        app.parse(words);
    } catch (const CLI::ParseError& error) {
        return error.get_name();
    }
    return "";
}

TEST(NewDevice, OptionsOfASocketNeedAName) {
    EXPECT_EQ(parse({"small"}), "");
    EXPECT_EQ(parse({"small", "--name", "disk", "--clients", "2", "--group", "0"}), "");
    EXPECT_EQ(parse({"small", "--clients", "2"}), "RequiresError");
    EXPECT_EQ(parse({"small", "--group", "0"}), "RequiresError");
}

TEST(NewDevice, MayHaveLessThanItsType) {
    EXPECT_EQ(parse({"small", "--name", "disk", "--qp", "7", "--memory", "100000"}), "");
    EXPECT_EQ(parse({"small", "--name", "disk", "--protocol", "roce-v2"}), "");
    EXPECT_EQ(parse({"small", "--name", "disk", "--protocol", "iwarp"}), "ValidationError");
    EXPECT_EQ(parse({"small", "--qp", "7"}), "RequiresError");
}

TEST(NewDevice, IsMadeForAKnownDriver) {
    EXPECT_EQ(parse({"small", "--name", "disk", "--personality", "pvrdma"}), "");
    EXPECT_EQ(parse({"small", "--name", "disk", "--personality", "rxe"}), "ValidationError");
    EXPECT_EQ(parse({"small", "--personality", "pvrdma"}), "RequiresError");
    EXPECT_EQ(parse({"small", "--name", "disk", "--personality", "pvrdma", "--cdi"}),
              "ExcludesError");
}

TEST(NewDevice, OfContainersHasItsOwnPath) {
    EXPECT_EQ(parse({"small", "--name", "web", "--cdi", "--driver", ""}), "");
    EXPECT_EQ(parse({"small", "--cdi"}), "RequiresError");
    EXPECT_EQ(parse({"small", "--name", "web", "--driver", "/usr/lib"}), "RequiresError");
    EXPECT_EQ(parse({"small", "--name", "web", "--cdi", "--path", "/run/web"}), "ExcludesError");
}

TEST(NewDevice, IsEitherMediatedOrBehindASocket) {
    EXPECT_EQ(parse({"small", "--name", "disk", "--uuid", "x"}), "ExcludesError");
    EXPECT_EQ(parse({"small", "--name", "disk", "--parent", "vrdma"}), "ExcludesError");
}

TEST(NewDevice, HasAGroupOfThisHost) {
    EXPECT_EQ(parse({"small", "--name", "disk", "--group", "root"}), "");
    EXPECT_EQ(parse({"small", "--name", "disk", "--group", "no-such-group"}), "ValidationError");
}

TEST(NewDevice, IsShownByWhatItsUserNeeds) {
    EXPECT_EQ(show_created({{"name", "disk"}, {"socket", "/run/disk.sock"}}, 0),
              "/run/disk.sock\n");
    EXPECT_EQ(show_created({{"name", "uuid"}, {"parent", "vrdma"}}, 0), "uuid\n");
    EXPECT_EQ(show_created({{"name", "web"}, {"socket", "/run/web.sock"}, {"cdi", "x/y=web"}}, 0),
              "x/y=web\n");
}

// vrdmad's socket is not there, and neither is any mediated device.
TEST(NewDevice, IsDestroyedByVrdmadUnlessItHasAUuid) {
    const Client client{"/nonexistent"};
    const auto behind_socket = OldDevice{"disk", false, {}}.destroy(client);
    ASSERT_FALSE(behind_socket);
    EXPECT_TRUE(behind_socket.error().unreachable);
    const auto mediated =
        OldDevice{"00000000-0000-0000-0000-000000000000", false, {}}.destroy(client);
    ASSERT_FALSE(mediated);
    EXPECT_FALSE(mediated.error().unreachable);
}

} // namespace
} // namespace vrdma::ctl
