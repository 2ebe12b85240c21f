// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Whether an interface that says that it segments does so. Its frames do not come back, so only
// silence tells: packets that left as one frame were not answered in time. Then frames go one by
// one for a while, so that a recovery from a loss never needs segmentation. If silence comes again
// soon after that, the next while is twice as long. An interface that loses all segmented frames
// thus costs one timeout in some ten thousand frames, and a lossy network next to nothing.
#pragma once

#include <algorithm>
#include <cstddef>

namespace vrdma::wire {

class SegmentationDoubt {
  public:
    static constexpr std::size_t shortest = 256; // frames: a window
    static constexpr std::size_t longest = std::size_t{64} << 10;
    // After so many frames without silence, the interface has shown that it segments.
    static constexpr std::size_t proof = 1024;

    bool any() const noexcept { return alone_ != 0; }

    void sent(std::size_t frames) noexcept {
        if (alone_ != 0) {
            alone_ -= std::min(alone_, frames);
        } else {
            trusted_ = std::min(trusted_ + frames, proof);
        }
    }
    // One silence counts once, though several senders notice it.
    void note_silence() noexcept {
        if (alone_ != 0) {
            return;
        }
        while_ = trusted_ == proof ? shortest : std::min(2 * while_, longest);
        alone_ = while_;
        trusted_ = 0;
    }

  private:
    std::size_t alone_ = 0;        // frames that still go one by one
    std::size_t trusted_ = proof;  // frames since then
    std::size_t while_ = shortest; // of the last doubt
};

} // namespace vrdma::wire
