// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A network cable between two uplinks, in the test's own memory. The test decides what happens to
// each frame.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "mediator/base/event_fd.h"
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
    void flush() noexcept override {}

    std::span<const std::byte> receive() noexcept override {
        const auto& frames = cable_->ways_[1 - side_].frames;
        return frames.empty() ? std::span<const std::byte>{} : frames.front();
    }
    void release() noexcept override { cable_->ways_[1 - side_].frames.pop_front(); }

    int fd() const noexcept override { return signal_.fd(); }
    void woken() noexcept override {}
    std::size_t frame_size() const noexcept override { return cable_->frame_size_; }
    bool knows(const wire::Mac& target) const noexcept override {
        return target != cable_->outdated_;
    }

    // The uplink no longer knows this Ethernet address, so peers with it have to be looked up
    // again.
    void outdate(const wire::Mac& mac) { cable_->outdated_ = mac; }
    // Frames of so many bytes fit from now on.
    void resize(std::size_t frame_size) { cable_->frame_size_ = frame_size; }

  private:
    std::shared_ptr<Cable> cable_;
    const unsigned side_;
    Frame draft_;
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
