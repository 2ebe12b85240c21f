// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reload_message.h"

#include <gtest/gtest.h>

#include "mediator/base/rate.h"

namespace vrdma::control {
namespace {

using Kind = ReloadMessage::Kind;

std::optional<ReloadMessage> read(const ReloadMessage& message) {
    return read_reload_message(std::as_bytes(std::span{&message, 1}));
}

TEST(ReloadMessages, SharesArriveAsTheyAre) {
    const hca::Share share{7, 1ull << 40, max_rate};
    const auto message = read(share_message(Kind::device, 3, share));
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, Kind::device);
    EXPECT_EQ(message->number, 3u);
    EXPECT_EQ(share_of(*message), share);
}

TEST(ReloadMessages, TextsArriveCutAndPrintable) {
    const auto message = read(text_message(Kind::wait, "types.\xc3\xa4\n"));
    ASSERT_TRUE(message);
    EXPECT_EQ(text_of(*message), "types.???");
    constexpr std::size_t most = sizeof(ReloadMessage::text) - 1;
    EXPECT_EQ(text_of(text_message(Kind::wrong, std::string(1000, 'x'))), std::string(most, 'x'));
}

// Read messages with sizes, kinds and fields that no message has. Expect each to be refused.
TEST(ReloadMessages, WhatMakesNoSenseIsRefused) {
    const ReloadMessage good = share_message(Kind::type, 0, {});
    const auto bytes = std::as_bytes(std::span{&good, 1});
    EXPECT_TRUE(read_reload_message(bytes));
    EXPECT_FALSE(read_reload_message(bytes.first(bytes.size() - 1)));
    EXPECT_FALSE(read_reload_message({}));
    for (const std::uint32_t kind : {0u, 7u, ~0u}) {
        ReloadMessage bad = good;
        bad.kind = static_cast<Kind>(kind);
        EXPECT_FALSE(read(bad)) << kind;
    }
    ReloadMessage reserved = good;
    reserved.reserved = 1;
    EXPECT_FALSE(read(reserved));
    for (const hca::Share& share :
         {hca::Share{.weight = 0}, hca::Share{.weight = hca::Share::max_weight + 1},
          hca::Share{.bytes_per_second = max_rate + 1},
          hca::Share{.operations_per_second = max_rate + 1}}) {
        EXPECT_FALSE(share_of(share_message(Kind::type, 0, share)));
    }
}

TEST(ReloadMessages, TextsThatNobodyCanReadAreRefused) {
    EXPECT_FALSE(text_of(text_message(Kind::wait, "")));
    ReloadMessage escape = text_message(Kind::wait, "name");
    escape.text[1] = '\x1b';
    EXPECT_FALSE(text_of(escape));
    ReloadMessage behind = text_message(Kind::wait, "name");
    behind.text.back() = 'x';
    EXPECT_FALSE(text_of(behind));
    ReloadMessage endless = text_message(Kind::wait, std::string(1000, 'x'));
    endless.text.back() = 'x';
    EXPECT_FALSE(text_of(endless));
}

} // namespace
} // namespace vrdma::control
