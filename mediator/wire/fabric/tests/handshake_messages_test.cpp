// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshake_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace vrdma::wire::fabric::handshakes {
namespace {

Secrets some_secrets() {
    vrdma_fabric_secrets secrets{};
    std::ranges::fill(secrets.client.key, 1);
    std::ranges::fill(secrets.server.nonce, 2);
    return Secrets{secrets};
}

std::vector<std::byte> most_bytes() {
    return std::vector<std::byte>(Piece::most, std::byte{3});
}

const std::string longest_name(VRDMA_FABRIC_NAME_SIZE - 1, 'h');

std::vector<News> all_news() {
    return {Began{},
            Ready{},
            Wrong{std::string(Wrong::max_size, '~')},
            Say{{7, most_bytes()}},
            Say{{7, {std::byte{1}}}},
            Next{7},
            Asks{7, longest_name},
            Done{UINT64_MAX, "alpha", some_secrets()},
            Refused{7, "alpha", std::string(Refused::max_size, 'w')},
            Refused{7, "", "does not speak our protocol"}};
}

std::vector<Order> all_orders() {
    return {Task{{std::string(4095, 'c'), "/key", "ca"}, longest_name},
            Begin{7, true, "beta"},
            Begin{8, false, ""},
            Heard{{7, most_bytes()}},
            Admit{7, true},
            Admit{7, false},
            Forget{7}};
}

// Reads a message and packs it again.
std::optional<Message> again(std::span<const std::byte> message) {
    if (const auto news = read_news(message)) {
        EXPECT_FALSE(read_order(message)) << "it is one or the other";
        return pack(*news);
    }
    if (const auto order = read_order(message)) {
        return pack(*order);
    }
    return std::nullopt;
}

std::vector<Message> all_messages() {
    std::vector<Message> messages;
    for (const News& news : all_news()) {
        messages.push_back(pack(news));
    }
    for (const Order& order : all_orders()) {
        messages.push_back(pack(order).value());
    }
    return messages;
}

// Pack each kind; expect the same to be read, and only by the side that it is for.
TEST(HandshakeMessages, AreReadAsTheyWereWritten) {
    for (const News& news : all_news()) {
        const auto read = read_news(pack(news));
        ASSERT_TRUE(read) << news.index();
        EXPECT_EQ(read->index(), news.index());
        EXPECT_EQ(pack(*read), pack(news)) << news.index();
    }
    for (const Order& order : all_orders()) {
        const auto read = read_order(pack(order).value());
        ASSERT_TRUE(read) << order.index();
        EXPECT_EQ(read->index(), order.index());
        EXPECT_EQ(pack(*read), pack(order)) << order.index();
    }
    const auto done = read_news(pack(Done{9, "alpha", some_secrets()}));
    EXPECT_EQ(std::get<Done>(*done).name, "alpha");
    EXPECT_EQ(std::get<Done>(*done).secrets.get().client.key[31], 1);
    EXPECT_EQ(std::get<Done>(*done).secrets.get().server.nonce[11], 2);
}

// Cut each message at each length, and lengthen it; expect none to be read.
TEST(HandshakeMessages, HaveTheirSize) {
    for (Message& message : all_messages()) {
        const std::span<const std::byte> all{message};
        for (std::size_t size = 0; size < std::min<std::size_t>(message.size(), 1024); ++size) {
            EXPECT_FALSE(again(all.first(size))) << size;
        }
        EXPECT_FALSE(again(all.first(message.size() - 1)));
        message.push_back({});
        EXPECT_FALSE(again(message));
    }
}

// Pack invalid messages; expect them not to be read.
TEST(HandshakeMessages, MakeSense) {
    for (const News& news : std::vector<News>{
             Wrong{""}, Say{{7, {}}}, Asks{7, ""}, Asks{7, "a b"}, Asks{7, longest_name + 'h'},
             Done{7, "", some_secrets()}, Refused{7, "a\nb", "why"}, Refused{7, "alpha", ""}}) {
        EXPECT_FALSE(read_news(pack(news))) << news.index();
    }
    for (const Order& order : std::vector<Order>{Task{{"c", "k", "a"}, ""}, Begin{7, true, ""},
                                                 Begin{7, false, "alpha"}}) {
        EXPECT_FALSE(read_order(pack(order).value())) << order.index();
    }
    EXPECT_FALSE(pack(Order{Task{{std::string(4096, 'c'), "k", "a"}, "alpha"}}));
    EXPECT_FALSE(pack(Order{Heard{{7, std::vector<std::byte>(Piece::most + 1)}}}));
    EXPECT_FALSE(pack(Order{Heard{{7, {}}}}));
}

// Let text for people be long, and not printable; expect it to be cut, and characters to be
// replaced.
TEST(HandshakeMessages, TextIsForALog) {
    const auto news = read_news(pack(Refused{7, "", "line\nbreak" + std::string(1000, 'x')}));
    ASSERT_TRUE(news);
    const std::string& why = std::get<Refused>(*news).why;
    EXPECT_EQ(why.size(), Refused::max_size);
    EXPECT_TRUE(why.starts_with("line?breakx")) << why;
    Message raw = pack(Refused{7, "", "one"});
    raw.at(16 + VRDMA_FABRIC_NAME_SIZE) = std::byte{'\n'};
    EXPECT_FALSE(read_news(raw));
    raw.at(16 + VRDMA_FABRIC_NAME_SIZE) = std::byte{'o'};
    EXPECT_TRUE(read_news(raw));
    raw.back() = std::byte{'x'};
    EXPECT_FALSE(read_news(raw)) << "there is something behind the text";
}

// Spoil messages at random, five hundred times each; expect a message that can still be read to be
// one that could have been written.
TEST(HandshakeMessages, WhatIsReadCouldHaveBeenWritten) {
    std::minstd_rand random{1}; // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
    for (const Message& message : all_messages()) {
        for (int i = 0; i < 500; ++i) {
            Message spoilt = message;
            for (std::size_t times = random() % 4 + 1; times > 0; --times) {
                spoilt[random() % std::min<std::size_t>(spoilt.size(), 128)] =
                    static_cast<std::byte>(random() % 16);
            }
            if (const auto written = again(spoilt)) {
                EXPECT_TRUE(*written == spoilt);
            }
        }
    }
}

} // namespace
} // namespace vrdma::wire::fabric::handshakes
