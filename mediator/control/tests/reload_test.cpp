// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reload.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

namespace vrdma::control {
namespace {

using Names = std::vector<std::string>;

constexpr char before[] = R"(
    name = "rack-7"
    log_level = "debug"
    [soft]
    pollers = 2
    [types.small]
    max_qp = 16
    [[vfio_user]]
    name = "a"
    [[vfio_user]]
    name = "b"
    weight = 50
)";

Running running_with(std::string_view text) {
    return {"", std::string{text}, std::nullopt, parse_config(text).value()};
}

// Applies the changes, and returns the names of those that wait for a restart.
tl::expected<Names, std::string> take_anew(Running& running, std::string_view text) {
    const auto usual = spdlog::get_level();
    const auto changes = compare(running, text);
    if (!changes) {
        return tl::unexpected{changes.error()};
    }
    apply(*changes, running);
    EXPECT_EQ(spdlog::get_level(), running.config.log_level);
    spdlog::set_level(usual);
    return changes->wait;
}

TEST(Reload, NothingWaitsWithoutAChange) {
    Running running = running_with(before);
    EXPECT_EQ(take_anew(running, before), Names{});
}

TEST(Reload, SharesAndTheLogLevelChange) {
    Running running = running_with(before);
    const auto wait = take_anew(running, R"(
        name = "rack-7"
        log_level = "warning"
        [soft]
        pollers = 2
        [types.small]
        max_qp = 16
        max_bytes_per_second = 5
        [types.large]
        weight = 200
        [[vfio_user]]
        name = "b"
        [[vfio_user]]
        name = "a"
        max_operations_per_second = 9
    )");
    EXPECT_EQ(wait, Names{});
    const Config& config = running.config;
    EXPECT_EQ(config.log_level, spdlog::level::warn);
    EXPECT_EQ(config.types[0].share, hca::Share{.bytes_per_second = 5});
    EXPECT_EQ(config.types[2].share, hca::Share{.weight = 200});
    const hca::Share a{.bytes_per_second = 5, .operations_per_second = 9};
    EXPECT_EQ(config.vfio_user[0].name, "a");
    EXPECT_EQ(config.vfio_user[0].share, a);
    EXPECT_EQ(config.vfio_user[1].share, hca::Share{.bytes_per_second = 5});
}

TEST(Reload, WhatTakesARestartIsNamedOnceAndStays) {
    Running running = running_with(before);
    constexpr char after[] = R"(
        name = "rack-8"
        mdev = false
        [types.small]
        max_qp = 32
        max_cq = 64
        weight = 7
        [types.tiny]
        weight = 1
        [[vfio_user]]
        name = "a"
        clients = 2
        [[vfio_user]]
        name = "c"
    )";
    const Names all{"mdev",       "name",        "soft",        "types.small",
                    "types.tiny", "vfio_user.a", "vfio_user.b", "vfio_user.c"};
    EXPECT_EQ(take_anew(running, after), all);
    EXPECT_EQ(take_anew(running, after), all);
    const Config& config = running.config;
    EXPECT_EQ(config.name, "rack-7");
    EXPECT_EQ(config.types.size(), 6u);
    EXPECT_EQ(config.types[0].limits.max_qp, 16u);
    EXPECT_EQ(config.types[0].share.weight, 7u);
    ASSERT_EQ(config.vfio_user.size(), 2u);
    EXPECT_EQ(config.vfio_user[0].clients, 1u);
    EXPECT_EQ(config.vfio_user[1].share.weight, 50u);
}

TEST(Reload, TrafficClassesTakeARestart) {
    Running running = running_with(before);
    const auto wait =
        take_anew(running, std::string{before} + "[types.medium]\ntraffic_classes = [\"26\"]");
    EXPECT_EQ(wait, Names{"types.medium"});
    EXPECT_TRUE(running.config.types[1].traffic_classes.none());
}

TEST(Reload, TheLogLevelOfTheCommandLinePrevails) {
    Running running = running_with(before);
    running.log_level = spdlog::level::err;
    ASSERT_TRUE(take_anew(running, before));
    EXPECT_EQ(running.config.log_level, spdlog::level::err);
}

TEST(Reload, AnErrorChangesNothing) {
    Running running = running_with(before);
    const auto wait = take_anew(running, "[types.small]\nweight = 7\nmax_cq = 0");
    ASSERT_FALSE(wait);
    EXPECT_EQ(wait.error().substr(0, 18), "types.small.max_cq");
    EXPECT_EQ(running.config.types[0].share, hca::Share{});
    EXPECT_EQ(running.config.log_level, spdlog::level::debug);
}

} // namespace
} // namespace vrdma::control
