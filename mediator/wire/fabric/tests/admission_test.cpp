// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/admission.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <vector>

namespace vrdma::wire::fabric {
namespace {

Source v4(const char* text, std::uint16_t port = 1) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, text, &address.sin_addr), 1);
    return source_of(&address, sizeof(address));
}

Source v6(const char* text) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    EXPECT_EQ(::inet_pton(AF_INET6, text, &address.sin6_addr), 1);
    return source_of(&address, sizeof(address));
}

Source numbered(std::size_t n) {
    Source source{0xfd};
    source[7] = static_cast<std::uint8_t>(n);
    return source;
}

TEST(SourceOf, AnAddressWhateverThePort) {
    EXPECT_EQ(v4("10.0.0.1", 1), v4("10.0.0.1", 2));
    EXPECT_NE(v4("10.0.0.1"), v4("10.0.0.2"));
    EXPECT_EQ(v4("10.0.0.1"), v6("::ffff:10.0.0.1"));
    EXPECT_NE(v6("::ffff:10.0.0.1"), v6("::ffff:10.0.0.2"));
}

TEST(SourceOf, ANetworkOfIpv6) {
    EXPECT_EQ(v6("fd00::1"), v6("fd00::ffff:1:2:3"));
    EXPECT_NE(v6("fd00::1"), v6("fd00:0:0:1::1"));
}

TEST(SourceOf, WhatIsNoAddress) {
    EXPECT_EQ(source_of(nullptr, 100), Source{});
    constexpr std::array<std::uint8_t, 300> other{AF_UNIX};
    EXPECT_EQ(source_of(other.data(), other.size()), Source{});
    EXPECT_EQ(source_of(other.data(), 0), Source{});
}

TEST(GoesFor, NobodyWhileThereIsRoom) {
    EXPECT_EQ(goes_for(numbered(0), {}), std::nullopt);
    std::vector<Source> there;
    for (std::size_t i = 0; i + 1 < max_strangers; ++i) {
        there.push_back(numbered(i));
    }
    EXPECT_EQ(goes_for(numbered(0), there), std::nullopt);
}

TEST(GoesFor, TheOldestOfASourceThatHasItsShare) {
    std::vector<Source> there{numbered(1)};
    there.insert(there.end(), max_strangers_of_source, numbered(2));
    EXPECT_EQ(goes_for(numbered(2), there), 1u);
    EXPECT_EQ(goes_for(numbered(1), there), std::nullopt);
    EXPECT_EQ(goes_for(numbered(3), there), std::nullopt);
}

TEST(GoesFor, TheOldestOfTheSourceWithTheMostWhenAllPlacesAreTaken) {
    std::vector<Source> there;
    for (std::size_t i = 0; there.size() < max_strangers; ++i) {
        there.push_back(numbered(i));
    }
    EXPECT_EQ(goes_for(numbered(255), there), 0u) << "all have one";
    there[7] = there[60] = numbered(77);
    EXPECT_EQ(goes_for(numbered(255), there), 7u);
}

// However large the crowd, a stranger keeps its place until as many others have come.
TEST(GoesFor, ACrowdKeepsNobodyOut) {
    std::vector<Source> there;
    const auto come = [&](const Source& source) {
        if (const auto goes = goes_for(source, there)) {
            there.erase(there.begin() + static_cast<std::ptrdiff_t>(*goes));
        }
        there.push_back(source);
    };
    for (std::size_t i = 0; i < 2 * max_strangers; ++i) {
        come(numbered(i % 40));
    }
    const Source peer = numbered(200);
    come(peer);
    for (std::size_t i = 0; i < 2 * max_strangers; ++i) {
        come(numbered(i % 40));
        EXPECT_LE(there.size(), max_strangers);
        EXPECT_EQ(std::ranges::count(there, peer), 1) << i << " others have less than their share";
    }
}

} // namespace
} // namespace vrdma::wire::fabric
