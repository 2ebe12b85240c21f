// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/capture.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>

namespace vrdma::management {
namespace {

class CaptureTest : public testing::Test {
  protected:
    CaptureTest() {
        auto created = sniffer::Ring::create(sniffer::usual_payload);
        auto reader = sniffer::RingReader::open(created->file);
        ring.emplace(std::move(created->ring));
        capture.emplace(std::move(*reader), "disk", [this] { ++stops; });
    }

    // All that there is, with as many calls of wake() as that takes.
    std::string read_all() {
        std::string all;
        std::array<char, 4096> room{};
        capture->wake();
        while (const std::size_t size = capture->read(room)) {
            all.append(room.data(), size);
            capture->wake();
        }
        return all;
    }
    void record(std::string_view frame) {
        ring->record(std::as_bytes(std::span{frame}), sniffer::Direction::sent);
    }
    static bool contains(const std::string& text, std::string_view part) {
        return text.find(part) != text.npos;
    }

    int stops = 0;
    std::optional<sniffer::Ring> ring;
    std::optional<Capture> capture;
};

TEST_F(CaptureTest, AFileBeginsAtOnceAndFramesFollow) {
    EXPECT_TRUE(contains(read_all(), "disk"));
    EXPECT_EQ(read_all(), "");
    record("one frame");
    record("another one");
    const std::string frames = read_all();
    EXPECT_TRUE(contains(frames, "one frame") && contains(frames, "another one"));
    EXPECT_FALSE(capture->ended());
}

// End the sniffer with a frame in the ring; expect the frame, what is missing, and the end.
TEST_F(CaptureTest, ASnifferThatEndsEndsTheFile) {
    while (ring->dropped() < 5) {
        record(std::string(4000, 'x'));
    }
    ring.reset();
    EXPECT_TRUE(contains(read_all(), "5 frames are missing"));
    EXPECT_TRUE(capture->ended());
    capture.reset();
    EXPECT_EQ(stops, 0) << "it has ended";
}

TEST_F(CaptureTest, AClientThatLeavesEndsTheSniffer) {
    capture.reset();
    EXPECT_EQ(stops, 1);
}

// Record all the time, and read without wake(); expect that reading comes to an end.
TEST_F(CaptureTest, ItTakesALimitedTime) {
    std::atomic<bool> done{false};
    std::thread poller{[&] {
        while (!done) {
            record("a frame");
        }
    }};
    std::array<char, 4096> room{};
    capture->wake();
    while (capture->read(room) != 0) {
    }
    done = true;
    poller.join();
    EXPECT_FALSE(capture->ended());
}

} // namespace
} // namespace vrdma::management
