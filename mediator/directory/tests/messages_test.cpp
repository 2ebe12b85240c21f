// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace vrdma::directory {
namespace {

constexpr Gid device{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5};

Here largest_host() {
    Here here{std::string(63, 'h'), {{"fd00::1", "7471"}, {}}};
    for (std::uint16_t i = 0; i < Entry::max_gids; ++i) {
        Gid gid = device;
        gid[8] = static_cast<std::uint8_t>(i >> 8);
        gid[9] = static_cast<std::uint8_t>(i);
        here.entry.claims[gid] = Entry::last_revision;
    }
    return here;
}

std::vector<News> all_news() {
    return {Began{},
            Said{Said::Level::warn, std::string(Said::max_size, '~')},
            Here{"alpha", {{"10.0.0.1", "7471"}, {}}},
            Here{"alpha", {{"fd00::1", "7471"}, {{device, 17}}}},
            largest_host(),
            Gone{"alpha"},
            Complete{}};
}

// Acts as a process that ignores its limits.
std::optional<News> packed_and_read(const News& news) {
    return read_news(pack(news));
}

// Pack each kind; expect the same to be read.
TEST(Messages, NewsAreReadAsTheyWereWritten) {
    for (const News& news : all_news()) {
        const auto read = packed_and_read(news);
        ASSERT_TRUE(read);
        EXPECT_EQ(*read, news);
    }
}

// Cut each message at each length, and lengthen it; expect none to be read.
TEST(Messages, NewsHaveTheirSize) {
    for (const News& news : all_news()) {
        Message message = pack(news);
        const std::span<const std::byte> all{message};
        for (std::size_t size = 0; size < std::min<std::size_t>(message.size(), 1024); ++size) {
            EXPECT_FALSE(read_news(all.first(size))) << size;
        }
        EXPECT_FALSE(read_news(all.first(message.size() - 1)));
        message.push_back({});
        EXPECT_FALSE(read_news(message));
    }
}

// Pack invalid news; expect it not to be read.
TEST(Messages, NewsMakeSense) {
    const wire::fabric::Address here{"10.0.0.1", "7471"};
    for (const News& news : std::vector<News>{
             Said{Said::Level::info, "one\ntwo"},
             Said{static_cast<Said::Level>(3), "text"},
             Here{"", {here, {}}},
             Here{"a/b", {here, {}}},
             Here{std::string(64, 'h'), {here, {}}},
             Here{"alpha", {{"etcd.example.net", "7471"}, {}}},
             Here{"alpha", {{"10.0.0.1", "http"}, {}}},
             Here{"alpha", {{"", ""}, {}}},
             Here{"alpha", {here, {{Gid{}, 1}}}},
             Here{"alpha", {here, {{Gid{0xff, 2}, 1}}}},
             Here{"alpha", {here, {{device, -1}}}},
             Here{"alpha", {here, {{device, Entry::last_revision + 1}}}},
             Gone{""},
             Gone{"a b"},
         }) {
        EXPECT_FALSE(packed_and_read(news)) << news.index();
    }
    Here too_many = largest_host();
    too_many.entry.claims[Gid{0xfe}] = 1;
    EXPECT_FALSE(packed_and_read(too_many));
}

// Name an address twice, or out of order, and put bytes behind a name; expect neither to be read.
TEST(Messages, NewsSayThingsOnce) {
    Message twice = pack(Here{"alpha", {{"10.0.0.1", "7471"}, {{device, 1}, {Gid{0xfe}, 2}}}});
    ASSERT_TRUE(read_news(twice));
    const auto second = twice.end() - sizeof(Gid) - sizeof(std::int64_t);
    std::copy_n(second - sizeof(Gid) - sizeof(std::int64_t), sizeof(Gid), second);
    EXPECT_FALSE(read_news(twice));
    *second = std::byte{0xfc};
    EXPECT_FALSE(read_news(twice));
    Message hidden = pack(Gone{"alpha"});
    hidden.back() = std::byte{'x'};
    EXPECT_FALSE(read_news(hidden));
    hidden[hidden.size() - 2] = std::byte{'x'};
    EXPECT_FALSE(read_news(hidden));
}

// Spoil messages at random, two hundred times per kind; expect a message that can still be read to
// be one that could have been written.
TEST(Messages, WhatIsReadCouldHaveBeenWritten) {
    std::minstd_rand random{1}; // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
    for (const News& news : all_news()) {
        const Message message = pack(news);
        for (int i = 0; i < 200; ++i) {
            Message spoilt = message;
            for (std::size_t times = random() % 4 + 1; times > 0; --times) {
                spoilt[random() % std::min<std::size_t>(spoilt.size(), 256)] =
                    static_cast<std::byte>(random());
            }
            if (const auto read = read_news(spoilt)) {
                EXPECT_TRUE(pack(*read) == spoilt);
            }
        }
    }
}

// Pack a task with all that it can have, and addresses; expect the same to be read.
TEST(Messages, OrdersAreReadAsTheyWereWritten) {
    Task task{{{}, "/ca", std::string(4095, 'c'), "/key"}, "/vrdma/", "alpha", {"::1", "7471"}};
    task.etcd.endpoints.assign(16, {true, std::string(255, 'e'), 2379});
    const auto order = read_order(pack(Order{task}).value());
    ASSERT_TRUE(order);
    const auto& read = std::get<Task>(*order);
    ASSERT_EQ(read.etcd.endpoints.size(), 16u);
    EXPECT_TRUE(read.etcd.endpoints[15].tls);
    EXPECT_EQ(read.etcd.endpoints[15].host, task.etcd.endpoints[15].host);
    EXPECT_EQ(read.etcd.endpoints[15].port, 2379);
    EXPECT_EQ(read.etcd.ca_file, task.etcd.ca_file);
    EXPECT_EQ(read.etcd.certificate_file, task.etcd.certificate_file);
    EXPECT_EQ(read.etcd.private_key_file, task.etcd.private_key_file);
    EXPECT_EQ(read.prefix, task.prefix);
    EXPECT_EQ(read.host, task.host);
    EXPECT_EQ(read.address, task.address);
    const auto addresses = read_order(pack(Order{Addresses{{device, Gid{0xfe}}}}).value());
    ASSERT_TRUE(addresses);
    EXPECT_EQ(std::get<Addresses>(*addresses).gids, (std::set<Gid>{device, Gid{0xfe}}));
    EXPECT_TRUE(std::holds_alternative<Repeat>(read_order(pack(Order{Repeat{}}).value()).value()));
    task.etcd.ca_file = std::string(4096, 'c');
    EXPECT_FALSE(pack(Order{task})) << "it does not fit";
}

} // namespace
} // namespace vrdma::directory
