// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/entry_json.h"

#include <gtest/gtest.h>

namespace vrdma::directory {
namespace {

constexpr std::int64_t revision = 20;
constexpr Gid four{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 5};
constexpr Gid six{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5};

TEST(Entry, IsReadAsItWasWritten) {
    for (const char* const host : {"10.0.0.1", "fd00::1"}) {
        const Entry entry{{host, "7471"}, {{four, 17}, {six, revision}}};
        const auto read = parse_entry(format_entry(entry), revision);
        ASSERT_TRUE(read) << read.error();
        EXPECT_EQ(*read, entry);
    }
}

TEST(Entry, AsOthersMayWriteIt) {
    const auto entry = parse_entry(
        R"({"address": "[fd00::1]:7471", "gids": {"10.0.0.5": 0, "fd00::5": 21}, "more": [1]})",
        revision);
    ASSERT_TRUE(entry) << entry.error();
    EXPECT_EQ(entry->address, (wire::fabric::Address{"fd00::1", "7471"}));
    EXPECT_EQ(entry->claims, (Claims{{four, revision}, {six, revision}}))
        << "since now, and since a time that is not yet";
    EXPECT_TRUE(parse_entry(R"({"address": "10.0.0.1:1", "gids": {}})", revision));
}

// Claim an address at revisions that etcd cannot have; expect revisions that peers can have.
TEST(Entry, NobodyClaimsLaterThanTheConfiguration) {
    const std::string text =
        R"({"address": "10.0.0.1:1", "gids": {"10.0.0.5": 9223372036854775807}})";
    EXPECT_EQ(parse_entry(text, INT64_MAX)->claims, (Claims{{four, INT64_MAX - 1}}));
    EXPECT_EQ(parse_entry(text, -1)->claims, (Claims{{four, 0}}));
}

TEST(Entry, WhatMakesNoSenseIsNone) {
    const std::string begin = R"({"address": "10.0.0.1:7471", "gids": )";
    for (const std::string& text : {
             std::string{},
             std::string{"{"},
             std::string{"[]"},
             std::string{"null"},
             std::string{"{}"},
             std::string{R"({"address": "10.0.0.1:7471"})"},
             std::string{R"({"gids": {}})"},
             std::string{R"({"address": 7, "gids": {}})"},
             std::string{R"({"address": "10.0.0.1", "gids": {}})"},
             std::string{R"({"address": "example.net:7471", "gids": {}})"},
             std::string{R"({"address": "10.0.0.1\u0000:7471", "gids": {}})"},
             begin + "[]}",
             begin + "{}} {}",
             begin + R"({"10.0.0.5": "17"}})",
             begin + R"({"10.0.0.5": -1}})",
             begin + R"({"10.0.0.5": 1.5}})",
             begin + R"({"10.0.0.5": null}})",
             begin + R"({"10.0.0": 1}})",
             begin + R"({"10.0.0.5/32": 1}})",
             begin + R"({"": 1}})",
             begin + R"({"::": 1}})",
             begin + R"({"ff02::1": 1}})",
             begin + R"({"224.0.0.1": 1}})",
             begin + "{\"10.0.0.5\\u0000\": 1}}",
             begin + "{\"\xff\": 1}}",
             std::string(Entry::max_size / 2, '['),
             std::string(Entry::max_size + 1, ' ') + begin + "{}}",
         }) {
        EXPECT_FALSE(parse_entry(text, revision)) << text;
    }
}

TEST(Entry, HasSoManyAddressesAtMost) {
    Entry entry{{"10.0.0.1", "7471"}, {}};
    for (std::size_t i = 0; i < Entry::max_gids; ++i) {
        Gid gid{0xfd, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd};
        gid[14] = static_cast<std::uint8_t>(i >> 8);
        gid[15] = static_cast<std::uint8_t>(i);
        entry.claims[gid] = INT64_MAX; // the longest number
    }
    const std::string largest = format_entry(entry);
    EXPECT_LE(largest.size(), Entry::max_size);
    EXPECT_TRUE(parse_entry(largest, INT64_MAX));
    entry.claims[four] = 1;
    EXPECT_FALSE(parse_entry(format_entry(entry), INT64_MAX));
}

TEST(Entry, KeysAreHostsNames) {
    EXPECT_EQ(key_prefix("/vrdma/"), "/vrdma/hosts/");
    EXPECT_EQ(host_of("/vrdma/hosts/alpha", "/vrdma/"), "alpha");
    for (const std::string& key :
         {std::string{"/vrdma/hosts/"}, std::string{"/vrdma/alpha"}, std::string{"alpha"},
          std::string{"/vrdma/hosts/a/b"}, std::string{"/vrdma/hosts/a\n"},
          "/vrdma/hosts/" + std::string(1000, 'a')}) {
        EXPECT_EQ(host_of(key, "/vrdma/"), std::nullopt) << key;
    }
}

} // namespace
} // namespace vrdma::directory
