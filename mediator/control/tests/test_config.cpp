// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>

#include "mediator/control/config.h"

namespace vrdma::control {
namespace {

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
        vectors = 8
        max_pinned_mib = 5
    )");
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->name, "rack-7");
    EXPECT_EQ(config->log_level, spdlog::level::debug);
    EXPECT_EQ(config->soft.pollers, 3u);
    EXPECT_EQ(config->soft.poll.spin_max, std::chrono::milliseconds{1});
    const DeviceType& small = config->types[0];
    EXPECT_EQ(small.limits.max_qp, 10u);
    EXPECT_EQ(small.limits.vectors, 8u);
    EXPECT_EQ(small.limits.max_eq, 8u);
    EXPECT_EQ(small.max_pinned, 5u << 20);
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

TEST(Config, ErrorsOfSyntaxNameTheLine) {
    EXPECT_EQ(error_of("name = \"x\"\n[soft\n").substr(0, 7), "line 2:");
}

TEST(Config, EightTypesAtMost) {
    std::string text;
    for (int i = 0; i < 5; ++i) {
        text += fmt::format("[types.t{}]\n", i);
    }
    EXPECT_EQ(error_of(text), "");
    EXPECT_EQ(error_of(text + "[types.t5]\n"), "types: at most 8");
}

TEST(Config, TheInstalledFileIsValidAndSaysTheDefaults) {
    const auto config = load_config(VRDMAD_CONF);
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->name, Config{}.name);
}

TEST(Config, AFileMustBeThere) {
    EXPECT_FALSE(load_config("/nonexistent/vrdmad.conf"));
}

} // namespace
} // namespace vrdma::control
