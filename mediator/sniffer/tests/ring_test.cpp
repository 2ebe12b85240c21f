// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/sniffer/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace vrdma::sniffer {
namespace {

using Bytes = std::vector<std::byte>;

Bytes frame_of(std::size_t size, unsigned char value) {
    return Bytes(size, std::byte{value});
}

class RingTest : public testing::Test {
  protected:
    Ring::Created created = std::move(*Ring::create(usual_payload));
    Ring& ring = created.ring;
    RingReader reader = std::move(*RingReader::open(created.file));

    // Records frames until one is dropped. Returns how many were not.
    std::size_t fill(std::size_t size) {
        const Bytes frame = frame_of(size, 1);
        const auto before = ring.dropped();
        std::size_t recorded = 0;
        for (; ring.dropped() == before; ++recorded) {
            ring.record(frame, Direction::sent);
        }
        return recorded - 1;
    }
    std::size_t drain() {
        std::size_t frames = 0;
        while (reader.next()) {
            ++frames;
        }
        reader.release();
        return frames;
    }
};

TEST_F(RingTest, AFrameComesOutAsItWasRecorded) {
    EXPECT_FALSE(reader.next());
    ring.record(frame_of(60, 7), Direction::received);
    const auto frame = reader.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(Bytes(frame->bytes.begin(), frame->bytes.end()), frame_of(60, 7));
    EXPECT_EQ(frame->record.original, 60u);
    EXPECT_EQ(frame->record.direction, Direction::received);
    EXPECT_NE(frame->record.time_ns, 0u);
    EXPECT_FALSE(reader.next());
}

TEST_F(RingTest, ALongFrameIsCutOff) {
    ring.record(frame_of(longest_frame + 1, 7), Direction::sent);
    const auto frame = reader.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->bytes.size(), longest_frame);
    EXPECT_EQ(frame->record.original, longest_frame + 1);
}

// Fill the ring, read all, and fill it again, with frames that do not divide its size. Expect each
// frame that was not dropped, and as many in each pass.
TEST_F(RingTest, WhatFindsNoRoomIsCounted) {
    const std::size_t frames = fill(100);
    EXPECT_GT(frames, ring_bytes / (100 + 64));
    EXPECT_EQ(drain(), frames);
    for (int pass = 0; pass < 3; ++pass) {
        const std::size_t again = fill(100);
        EXPECT_LE(again > frames ? again - frames : frames - again, 4u); // the end is not used
        EXPECT_EQ(drain(), again);
    }
    EXPECT_EQ(ring.dropped(), 4u);
    EXPECT_EQ(reader.dropped(), 3u) << "the last one has no frame after it";
    ring.record(frame_of(60, 1), Direction::sent);
    EXPECT_EQ(reader.dropped(), 4u);
}

// Claim to have read what was never written; expect frames to be dropped, and none to be written
// outside of the ring.
TEST_F(RingTest, AHostileReaderHarmsOnlyItself) {
    const Mapping memory =
        std::move(*Mapping::map(created.file.get(), 0, sizeof(RingHead), PROT_READ | PROT_WRITE));
    for (const std::uint64_t lie :
         {~std::uint64_t{0}, std::uint64_t{ring_bytes}, std::uint64_t{3}}) {
        memory.as<RingHead>()->read = lie;
        for (std::size_t i = 0; i < ring_bytes / 100; ++i) {
            ring.record(frame_of(150, 1), Direction::sent);
        }
    }
    EXPECT_GT(ring.dropped(), 0u);
}

TEST_F(RingTest, TheReaderCannotTruncateIt) {
    EXPECT_EQ(::ftruncate(created.file.get(), 0), -1);
    EXPECT_EQ(errno, EPERM);
}

TEST_F(RingTest, ItSaysWhenItEnds) {
    ring.record(frame_of(60, 7), Direction::sent);
    EXPECT_FALSE(reader.ended());
    { const Ring gone = std::move(ring); }
    EXPECT_TRUE(reader.ended());
    EXPECT_TRUE(reader.next()) << "what was recorded before";
}

TEST(RingReaderTest, AnotherFileIsRefused) {
    const UniqueFd file{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    EXPECT_EQ(RingReader::open(file).error(), std::errc::invalid_argument);
}

// Record from one thread and read in another; expect all frames that were not dropped, in order.
TEST_F(RingTest, TwoThreads) {
    constexpr std::uint32_t frames = 200'000;
    std::atomic<bool> done{false};
    std::thread poller{[&] {
        for (std::uint32_t i = 0; i < frames; ++i) {
            ring.record(std::as_bytes(std::span{&i, 1}), Direction::sent);
        }
        done = true;
    }};
    std::uint64_t seen = 0;
    std::uint32_t last = 0;
    for (bool ended = false; !ended;) {
        ended = done;
        while (const auto frame = reader.next()) {
            std::uint32_t number = 0;
            std::ranges::copy(frame->bytes, std::as_writable_bytes(std::span{&number, 1}).begin());
            ASSERT_TRUE(seen == 0 || number > last);
            last = number;
            ++seen;
            reader.release();
        }
    }
    poller.join();
    EXPECT_EQ(seen + ring.dropped(), frames);
}

} // namespace
} // namespace vrdma::sniffer
