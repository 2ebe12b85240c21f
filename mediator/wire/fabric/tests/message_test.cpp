// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/message.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "mediator/wire/bytes.h"

namespace vrdma::wire::fabric {
namespace {

using Bytes = std::vector<std::byte>;

void write(MessageWriter& writer, std::size_t size, int fill) {
    const auto room = writer.prepare();
    ASSERT_GE(room.size(), size);
    std::fill_n(room.begin(), size, static_cast<std::byte>(fill));
    writer.commit(size);
}

// One frame that claims to have `size` bytes, in a message that has `bytes`.
Bytes claiming(std::uint16_t size, std::size_t bytes, std::uint16_t reserved = 0) {
    Bytes message(sizeof(vrdma_fabric_frame) + bytes);
    store(std::span{message}, 0, vrdma_fabric_frame{htobe16(size), htobe16(reserved)});
    return message;
}

TEST(Message, FramesComeAsTheyWere) {
    Bytes message(message_size);
    MessageWriter writer{message};
    write(writer, smallest_frame, 1);
    write(writer, max_frame_size, 2);
    write(writer, 99, 3);
    MessageReader reader{std::span{message}.first(writer.size())};
    for (const auto& [size, fill] :
         {std::pair{smallest_frame, 1}, {max_frame_size, 2}, {std::size_t{99}, 3}}) {
        const auto frame = reader.next();
        EXPECT_EQ(frame.size(), size);
        EXPECT_TRUE(std::ranges::all_of(frame, [filled = static_cast<std::byte>(fill)](
                                                   std::byte byte) { return byte == filled; }));
    }
    EXPECT_TRUE(reader.next().empty());
    EXPECT_FALSE(reader.malformed());
}

TEST(Message, AFullOneTakesNoMore) {
    Bytes message(message_size);
    MessageWriter writer{message};
    std::size_t frames = 0;
    for (; !writer.prepare().empty(); ++frames) {
        write(writer, max_frame_size, 0);
    }
    EXPECT_EQ(frames, message_size / (max_frame_size + sizeof(vrdma_fabric_frame)));
    EXPECT_LE(writer.size(), message_size);
}

TEST(Message, OneWithoutFramesIsWellFormed) {
    MessageReader reader{std::span<std::byte>{}};
    EXPECT_TRUE(reader.next().empty());
    EXPECT_FALSE(reader.malformed());
}

TEST(Message, WhatMakesNoSenseYieldsNothing) {
    for (Bytes message :
         {claiming(60, 59), // longer than the message
          claiming(13, 13), // no Ethernet header
          claiming(0, 0), claiming(0xffff, message_size - 4),
          claiming(max_frame_size + 1, max_frame_size + 1), claiming(60, 60, 1), Bytes(3)}) {
        MessageReader reader{message};
        EXPECT_TRUE(reader.next().empty());
        EXPECT_TRUE(reader.malformed());
        EXPECT_TRUE(reader.next().empty());
    }
}

TEST(Message, NothingComesBehindWhatMakesNoSense) {
    Bytes message = claiming(60, 60);
    const Bytes bad = claiming(60, 10);
    message.insert(message.end(), bad.begin(), bad.end());
    MessageReader reader{message};
    EXPECT_EQ(reader.next().size(), 60u);
    EXPECT_FALSE(reader.malformed());
    EXPECT_TRUE(reader.next().empty());
    EXPECT_TRUE(reader.malformed());
}

} // namespace
} // namespace vrdma::wire::fabric
