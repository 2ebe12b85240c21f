// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's image arrives in pieces of any size, and only a whole image is accepted.
#include "mediator/device/state_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace vrdma {
namespace {

constexpr std::uint64_t max_length = 100'000;

std::vector<std::byte> test_image(std::size_t size) {
    std::vector<std::byte> image(size);
    for (std::size_t i = 0; i < size; ++i) {
        image[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    return image;
}

std::vector<std::byte> with_header(std::vector<std::byte> stream, auto change) {
    StreamHeader header;
    std::memcpy(&header, stream.data(), sizeof(header));
    change(header);
    std::memcpy(stream.data(), &header, sizeof(header));
    return stream;
}

// Reads a stream in pieces of this size. Returns the image, or the error.
Result<std::vector<std::byte>> through(std::span<const std::byte> stream, std::size_t piece) {
    StreamReader reader{max_length};
    while (!stream.empty()) {
        const auto next = stream.first(std::min(piece, stream.size()));
        const auto taken = reader.take(next);
        if (!taken) {
            return fail(taken.error());
        }
        if (!taken->empty()) {
            return fail(std::errc::message_size);
        }
        stream = stream.subspan(next.size());
    }
    return reader.content().map(
        [](std::span<const std::byte> image) { return std::vector(image.begin(), image.end()); });
}

// Sends an image in pieces of one byte, in pieces of 1001 bytes (an odd size), and in one piece.
// Expects the image each time.
TEST(StateStreamTest, AnImageComesThrough) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{max_length}}) {
        const auto image = test_image(size);
        const auto stream = to_stream(image);
        for (const std::size_t piece : {std::size_t{1}, std::size_t{1001}, stream.size()}) {
            const auto came = through(stream, piece);
            ASSERT_TRUE(came) << size << " bytes in pieces of " << piece;
            EXPECT_EQ(*came, image);
        }
    }
}

// Changes each field of the header. Expects the error that is documented for it, before the image
// arrives.
TEST(StateStreamTest, AHeaderIsRefusedAtOnce) {
    const auto stream = to_stream(test_image(100));
    const auto of = [&](auto change) {
        StreamReader reader{max_length};
        const auto header = with_header(stream, change);
        const auto taken = reader.take(std::span{header}.first(sizeof(StreamHeader)));
        return taken ? std::errc{} : taken.error();
    };
    EXPECT_EQ(of([](StreamHeader& h) { h.magic++; }), std::errc::invalid_argument);
    EXPECT_EQ(of([](StreamHeader& h) { h.version = StreamHeader::newest_version + 1; }),
              std::errc::protocol_not_supported);
    EXPECT_EQ(of([](StreamHeader& h) { h.version = 2; }), std::errc::invalid_argument);
    EXPECT_EQ(of([](StreamHeader& h) { h.version = 0; }), std::errc::invalid_argument);
    EXPECT_EQ(of([](StreamHeader& h) { h.features = 1; }), std::errc::protocol_not_supported);
    EXPECT_EQ(of([](StreamHeader& h) { h.length = max_length + 1; }), std::errc::file_too_large);
    EXPECT_EQ(of([](StreamHeader& h) { h.length = ~0ull; }), std::errc::file_too_large);
    for (const std::uint32_t version : {1, 2}) {
        EXPECT_EQ(of([version](StreamHeader& h) {
                      h.version = version;
                      h.part = StreamPart{4};
                  }),
                  std::errc::invalid_argument);
    }
    EXPECT_EQ(of([](StreamHeader& h) {
                  h.part = StreamPart::announcement;
                  h.length = StreamHeader::max_announcement + 1;
              }),
              std::errc::file_too_large);
    EXPECT_EQ(of([](StreamHeader&) {}), std::errc{});
}

// Cuts a stream at each byte, adds a byte, and changes each byte. Expects no image.
TEST(StateStreamTest, NothingButAWholeImageIsOne) {
    const auto stream = to_stream(test_image(100));
    for (std::size_t size = 0; size < stream.size(); ++size) {
        EXPECT_FALSE(through(std::span{stream}.first(size), 64)) << size;
    }
    auto longer = stream;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(through(longer, 64));
    for (std::size_t i = 0; i < stream.size(); ++i) {
        auto changed = stream;
        changed[i] ^= std::byte{0x10};
        EXPECT_FALSE(through(changed, 64)) << i;
    }
}

// Sends two parts as one, cut at each byte. Expects the reader to stop where the first part ends.
TEST(StateStreamTest, APartEndsWhereItsHeaderSays) {
    const auto first = to_stream(test_image(100), StreamPart::announcement);
    const auto second = to_stream(test_image(50));
    auto stream = first;
    stream.insert(stream.end(), second.begin(), second.end());
    for (std::size_t cut = 0; cut < first.size(); ++cut) {
        StreamReader reader{max_length};
        const auto begun = reader.take(std::span{stream}.first(cut));
        ASSERT_TRUE(begun && begun->empty() && !reader.is_complete()) << cut;
        const auto rest = reader.take(std::span{stream}.subspan(cut));
        ASSERT_TRUE(rest && reader.is_complete()) << cut;
        EXPECT_EQ(reader.part(), StreamPart::announcement);
        EXPECT_TRUE(std::ranges::equal(*rest, second)) << cut;
        EXPECT_TRUE(reader.content());
    }
}

} // namespace
} // namespace vrdma
