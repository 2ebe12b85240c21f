// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/sent_ahead.h"

#include <utility>

namespace vrdma {
namespace {

// The rest of an image begins with the number of its copies. Then come the copies, and then the
// bytes that were not sent.
struct RestState {
    std::uint64_t copies;
};

// Bytes that were sent, and how many that were not stand before them.
struct Copy {
    std::uint64_t before;
    std::uint64_t from;
    std::uint64_t length;
};

std::span<const std::byte> bytes_of(const SavedState& state, const Extent& extent) {
    return std::span{state.image}.subspan(extent.at, extent.length);
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append(std::vector<std::byte>& all, std::span<const std::byte> more) {
    all.insert(all.end(), more.begin(), more.end());
}

// Returns how long the image is, if the copies are possible.
Result<std::uint64_t> length_of(std::span<const Copy> copies, std::uint64_t not_sent,
                                std::uint64_t sent, std::uint64_t max_length) {
    if (not_sent > max_length) {
        return fail(std::errc::file_too_large);
    }
    std::uint64_t length = not_sent;
    for (const Copy& copy : copies) {
        if (copy.before > not_sent || copy.length > sent || copy.from > sent - copy.length) {
            return fail(std::errc::invalid_argument);
        }
        not_sent -= copy.before;
        if (copy.length > max_length - length) {
            return fail(std::errc::file_too_large);
        }
        length += copy.length;
    }
    return length;
}

} // namespace

SentAhead::SentAhead(SavedState sent) : sent_{std::move(sent)} {
    places_.reserve(sent_.lasting.size());
    for (const Extent& extent : sent_.lasting) {
        places_.emplace(text_of(bytes_of(sent_, extent)), extent.at);
    }
}

// Extents that follow each other in both become one copy.
std::vector<std::byte> SentAhead::rest_of(const SavedState& state) const {
    std::vector<Copy> copies;
    std::vector<std::byte> not_sent;
    std::uint64_t end = 0; // of the last copy
    for (const Extent& extent : state.lasting) {
        const auto place = places_.find(text_of(bytes_of(state, extent)));
        if (place == places_.end()) {
            continue;
        }
        const std::uint64_t from = place->second;
        if (!copies.empty() && end == extent.at &&
            copies.back().from + copies.back().length == from) {
            copies.back().length += extent.length;
        } else {
            append(not_sent, std::span{state.image}.subspan(end, extent.at - end));
            copies.push_back({extent.at - end, from, extent.length});
        }
        end = extent.at + extent.length;
    }
    append(not_sent, std::span{state.image}.subspan(end));
    StateWriter writer;
    writer.put(RestState{copies.size()});
    writer.put_all<Copy>(copies);
    writer.put_all<std::byte>(not_sent);
    return writer.take();
}

Result<std::vector<std::byte>> whole_image(std::span<const std::byte> rest,
                                           std::span<const std::byte> sent,
                                           std::uint64_t max_length) {
    StateReader reader{rest};
    const auto head = reader.take<RestState>();
    const auto copies = head ? reader.take_all<Copy>(head->copies) : fail(head.error());
    if (!copies) {
        return fail(copies.error());
    }
    auto not_sent = rest.subspan(sizeof(RestState) + copies->size() * sizeof(Copy));
    const auto length = length_of(*copies, not_sent.size(), sent.size(), max_length);
    if (!length) {
        return fail(length.error());
    }
    std::vector<std::byte> image;
    image.reserve(*length);
    for (const Copy& copy : *copies) {
        append(image, not_sent.first(copy.before));
        append(image, sent.subspan(copy.from, copy.length));
        not_sent = not_sent.subspan(copy.before);
    }
    append(image, not_sent);
    return image;
}

} // namespace vrdma
