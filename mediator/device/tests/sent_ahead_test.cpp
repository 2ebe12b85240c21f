// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What is lasting of a device's image goes ahead, and the rest follows.
#include "mediator/device/sent_ahead.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "mediator/device/incoming_state.h"
#include "mediator/device/tests/device_test.h"

namespace vrdma {
namespace {

constexpr std::uint64_t longest_ahead = 1 << 20;

// The text in brackets is lasting.
SavedState state_of(const std::string& text) {
    StateWriter writer;
    const auto put = [&](std::size_t begin, std::size_t end) {
        writer.put_all(std::as_bytes(std::span{text}.subspan(begin, end - begin)));
    };
    for (std::size_t at = 0; at < text.size();) {
        const bool lasting = text[at] == '[';
        const std::size_t end = std::min(text.find(lasting ? ']' : '[', at), text.size());
        if (lasting) {
            writer.put_lasting([&] { put(at + 1, end); });
        } else {
            put(at, end);
        }
        at = lasting ? end + 1 : end;
    }
    return writer.take_state();
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Sends what is lasting of one state ahead, and then the other state. Returns how long its rest is,
// in bytes, and expects the whole to arrive.
std::size_t rest_between(const std::string& before, const std::string& after) {
    SavedState lasting = state_of(before);
    StateWriter only;
    for (const Extent& extent : lasting.lasting) {
        only.put_lasting([&] {
            only.put_all(
                std::span<const std::byte>{lasting.image}.subspan(extent.at, extent.length));
        });
    }
    const SentAhead ahead{only.take_state()};
    const SavedState state = state_of(after);
    const auto rest = ahead.rest_of(state);
    const auto whole = whole_image(rest, ahead.bytes(), longest_ahead);
    EXPECT_TRUE(whole && *whole == state.image) << text_of(state.image);
    return rest.size();
}

constexpr std::size_t head = 8;
constexpr std::size_t copy = 24;

// Changes what is not lasting; expects one copy for all extents that follow each other.
TEST(SentAhead, RepeatsOnlyWhatChanges) {
    const std::string lasting = "[a region and its pages][another][and one more]";
    EXPECT_EQ(rest_between("head " + lasting + " tail", "new head " + lasting + " and tail"),
              head + copy + std::strlen("new head  and tail"));
    EXPECT_EQ(rest_between(lasting, lasting), head + copy);
    EXPECT_EQ(rest_between("[a]x[b]", "[a]yy[b]"), head + 2 * copy + 2);
    EXPECT_EQ(rest_between("", "all of it"), head + std::strlen("all of it"));
}

// Adds, removes, changes and exchanges what was lasting; expects what is new in the rest.
TEST(SentAhead, RepeatsWhatAGuestHasChanged) {
    EXPECT_EQ(rest_between("[one][two][three]", "[one][three]"), head + 2 * copy);
    EXPECT_EQ(rest_between("[one][three]", "[one][two][three]"), head + 2 * copy + 3);
    EXPECT_EQ(rest_between("[one][two]", "[one][2]"), head + copy + 1);
    EXPECT_EQ(rest_between("[one][two]", "[two][one]"), head + 2 * copy);
    EXPECT_EQ(rest_between("[one]", "[one][one]"), head + 2 * copy);
    EXPECT_EQ(rest_between("[one]", ""), head);
}

std::errc refused(const std::vector<std::uint64_t>& words, std::size_t sent,
                  std::uint64_t limit = longest_ahead) {
    const std::vector<std::byte> ahead(sent);
    const auto whole = whole_image(std::as_bytes(std::span{words}), ahead, limit);
    return whole ? std::errc{} : whole.error();
}

// Names bytes that were not sent, and more copies and bytes than there are; expects a refusal
// before memory is taken.
TEST(SentAhead, RefusesWhatIsMalformed) {
    constexpr std::uint64_t most = ~std::uint64_t{0};
    EXPECT_EQ(refused({}, 0), std::errc::invalid_argument);
    EXPECT_EQ(refused({0}, 0), std::errc{});
    EXPECT_EQ(refused({1, 0, 0, 8}, 8), std::errc{});
    EXPECT_EQ(refused({1, 0, 0, 9}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({1, 0, 1, 8}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({1, 0, most, 1}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({1, 0, 0, most}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({1, 1, 0, 8}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({1, most, 0, 8}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({2, 0, 0, 8}, 8), std::errc::invalid_argument);
    EXPECT_EQ(refused({most, 0, 0, 8}, 8), std::errc::invalid_argument);
}

// Copies the same bytes again and again; expects a refusal as soon as the image is too long.
TEST(SentAhead, HasALimit) {
    EXPECT_EQ(refused({2, 0, 0, 8, 0, 0, 8}, 8, 16), std::errc{});
    EXPECT_EQ(refused({2, 0, 0, 8, 0, 0, 8}, 8, 15), std::errc::file_too_large);
    EXPECT_EQ(refused({1, 0, 0, 8, 1}, 8, 15), std::errc::file_too_large);
    EXPECT_EQ(refused({0, 1}, 8, 7), std::errc::file_too_large);
}

class AheadTest : public DeviceTest {
  protected:
    void register_regions() {
        ASSERT_TRUE(guest.enable());
        EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
        EXPECT_GT(guest.create(VRDMA_ADMIN_REG_MR, mr_command(1)), 0);
    }

    // The parts of the stream: what goes ahead, and the rest after `meanwhile`.
    std::vector<std::byte> stream(auto meanwhile) {
        const SentAhead ahead{device.save_ahead()};
        auto all = to_stream(ahead.bytes(), StreamPart::ahead);
        meanwhile();
        device.freeze();
        image = device.save();
        const auto rest = to_stream(ahead.rest_of(device.save_state()), StreamPart::rest);
        all.insert(all.end(), rest.begin(), rest.end());
        device.reset();
        return all;
    }

    void expect_arrival(const std::vector<std::byte>& sent) {
        IncomingState incoming{device, longest_ahead};
        ASSERT_TRUE(incoming.take(sent));
        ASSERT_TRUE(incoming.restore());
    }

    std::vector<std::byte> image;
};

// Registers a region, and another one after the first has gone ahead; expects the device to arrive
// with both.
TEST_F(AheadTest, ADeviceArrivesInTwoParts) {
    register_regions();
    const auto sent =
        stream([&] { EXPECT_GT(guest.create(VRDMA_ADMIN_REG_MR, mr_command(1)), 0); });
    expect_arrival(sent);
    EXPECT_EQ(device.save(), image);
}

// Deregisters everything by a reset after it has gone ahead; expects an empty device to arrive.
TEST_F(AheadTest, ADeviceThatIsResetArrives) {
    register_regions();
    const auto sent = stream([&] { device.reset(); });
    expect_arrival(sent);
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
}

// Sends a rest before what it names, what goes ahead twice, and only what goes ahead; expects
// refusals.
TEST_F(AheadTest, EachPartComesOnceAndInItsOrder) {
    register_regions();
    const auto sent = stream([] {});
    StreamReader reader{longest_ahead};
    const auto rest = reader.take(sent).value();
    const auto first = std::span{sent}.first(sent.size() - rest.size());
    IncomingState without{device, longest_ahead};
    EXPECT_FALSE(without.take(rest));
    IncomingState twice{device, longest_ahead};
    ASSERT_TRUE(twice.take(first));
    EXPECT_FALSE(twice.restore()) << "no image has come";
    EXPECT_FALSE(twice.take(first));
}

// Cuts the stream at each byte, and changes bytes at random; expects no harm, and no device of a
// part.
TEST_F(AheadTest, AHostileStreamDoesNoHarm) {
    register_regions();
    const auto sent = stream([] {});
    for (std::size_t size = 0; size < sent.size(); ++size) {
        IncomingState cut{device, longest_ahead};
        EXPECT_FALSE(cut.take(std::span{sent}.first(size)) && cut.restore()) << size;
    }
    std::minstd_rand random{1}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must repeat
    for (int i = 0; i < 2000; ++i) {
        auto changed = sent;
        changed[random() % changed.size()] ^= std::byte{1};
        IncomingState other{device, longest_ahead};
        EXPECT_FALSE(other.take(changed) && other.restore());
    }
}

} // namespace
} // namespace vrdma
