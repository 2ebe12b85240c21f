// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A network cable between two uplinks, in the test's own memory. The test decides what happens to
// each frame.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mediator/base/event_fd.h"
#include "mediator/wire/encapsulation.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/uplink.h"

namespace vrdma::test {

using Frame = std::vector<std::byte>;

class Cable {
  public:
    // Gets each frame, and appends the frames that arrive at this time, in order. By default, each
    // frame arrives at once.
    using Weather = std::function<void(const Frame& frame, std::deque<Frame>& arriving)>;

    static constexpr std::size_t capacity = 512; // frames; more are lost

    // Returns one end for each side. The ends own the cable.
    static std::pair<std::unique_ptr<wire::Uplink>, std::unique_ptr<wire::Uplink>> lay(
        Weather there = {}, Weather back = {});

    class End;

  private:
    struct Way {
        std::deque<Frame> frames;
        Weather weather;
        std::size_t flushes = 0;
        std::size_t silences = 0;
    };

    Way ways_[2];
    std::size_t frame_size_ = wire::max_frame_size;
    wire::Mac outdated_{};
};

class Cable::End : public wire::Uplink {
  public:
    End(std::shared_ptr<Cable> cable, unsigned side) : cable_{std::move(cable)}, side_{side} {}

    std::span<std::byte> prepare(const wire::Mac& /*target*/,
                                 std::uint8_t /*priority*/) noexcept override {
        draft_.resize(cable_->frame_size_);
        return draft_;
    }
    void commit(std::size_t bytes) noexcept override {
        Way& way = cable_->ways_[side_];
        const Frame frame{draft_.begin(), draft_.begin() + static_cast<std::ptrdiff_t>(bytes)};
        if (way.frames.size() >= capacity) {
            return;
        }
        if (way.weather) {
            way.weather(frame, way.frames);
        } else {
            way.frames.push_back(frame);
        }
    }
    void flush() noexcept override { ++cable_->ways_[side_].flushes; }

    std::span<const std::byte> receive() noexcept override {
        const auto& frames = cable_->ways_[1 - side_].frames;
        return frames.empty() ? std::span<const std::byte>{} : frames.front();
    }
    void release() noexcept override {
        auto& frames = cable_->ways_[1 - side_].frames;
        last_ = std::move(frames.front());
        frames.pop_front();
    }
    // All frames that could be of one segmented frame count as such.
    bool resembles_last() const noexcept override {
        const auto& frames = cable_->ways_[1 - side_].frames;
        return !frames.empty() && path_of_segment(last_) &&
               path_of_segment(last_) == path_of_segment(frames.front());
    }

    void note_silence() noexcept override { ++cable_->ways_[side_].silences; }

    int fd() const noexcept override { return signal_.fd(); }
    void woken() noexcept override {}
    std::size_t frame_size() const noexcept override { return cable_->frame_size_; }
    bool knows(const wire::Mac& target) const noexcept override {
        return target != cable_->outdated_;
    }

    // The uplink no longer knows this Ethernet address, so peers with it have to be looked up
    // again.
    void outdate(const wire::Mac& mac) { cable_->outdated_ = mac; }
    // The number of times that the other side had committed frames handed over.
    std::size_t flushes_there() const { return cable_->ways_[1 - side_].flushes; }
    // The number of times that the other side has told of a silence.
    std::size_t silences_there() const { return cable_->ways_[1 - side_].silences; }
    // Frames of so many bytes fit from now on.
    void resize(std::size_t frame_size) { cable_->frame_size_ = frame_size; }

  private:
    static std::optional<wire::Path> path_of_segment(const Frame& frame) {
        wire::Path path;
        wire::Layout layout;
        const bool whole = wire::parse_encapsulation(frame, path, layout) == wire::Drop::none &&
                           layout.network != wire::Network::grh && layout.end == frame.size();
        return whole ? std::optional{path} : std::nullopt;
    }

    std::shared_ptr<Cable> cable_;
    const unsigned side_;
    Frame draft_;
    Frame last_;                          // that was released
    EventFd signal_ = *EventFd::create(); // nobody sleeps
};

inline std::pair<std::unique_ptr<wire::Uplink>, std::unique_ptr<wire::Uplink>> Cable::lay(
    Weather there, Weather back) {
    const auto cable = std::make_shared<Cable>();
    cable->ways_[0].weather = std::move(there);
    cable->ways_[1].weather = std::move(back);
    return {std::make_unique<End>(cable, 0), std::make_unique<End>(cable, 1)};
}

} // namespace vrdma::test
