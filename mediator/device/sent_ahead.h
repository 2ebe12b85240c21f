// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What is lasting of a device's image is sent while its virtual machine still runs. The image
// follows when the machine has stopped, and names what is still the same instead of repeating it.
// The lists of pages of memory regions are most of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {

class SentAhead {
  public:
    explicit SentAhead(SavedState sent);
    SentAhead(const SentAhead&) = delete; // the map refers to the bytes
    SentAhead(SentAhead&&) = default;
    SentAhead& operator=(const SentAhead&) = delete;
    SentAhead& operator=(SentAhead&&) = default;
    ~SentAhead() = default;

    std::span<const std::byte> bytes() const noexcept { return sent_.image; }

    // Returns the image without what was sent.
    std::vector<std::byte> rest_of(const SavedState& state) const;

  private:
    SavedState sent_;
    std::unordered_map<std::string_view, std::uint64_t> places_; // of what was sent
};

// Returns the image of which this is the rest. EFBIG: it would be longer than `max_length`. EINVAL:
// the rest is malformed, or names bytes that were not sent.
Result<std::vector<std::byte>> whole_image(std::span<const std::byte> rest,
                                           std::span<const std::byte> sent,
                                           std::uint64_t max_length);

} // namespace vrdma
