// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a sniffer records, as a pcapng file. It takes a limited part of a processor's time. Frames
// for which that is too little are lost, and the file says how many.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "mediator/management/stream.h"
#include "mediator/sniffer/pcapng.h"
#include "mediator/sniffer/ring.h"

namespace vrdma::management {

class Capture final : public Stream {
  public:
    using Clock = std::chrono::steady_clock;

    // `stop` is called at the end, unless the sniffer has ended before.
    Capture(sniffer::RingReader ring, const std::string& device, std::function<void()> stop);
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture() override;

    void wake() override;
    std::size_t read(std::span<char> room) override;
    bool ended() const override { return ended_; }

  private:
    void refill();
    void add_frames();
    void add_statistics(Clock::time_point now);

    sniffer::RingReader ring_;
    const std::function<void()> stop_;
    const std::uint64_t epoch_ns_; // the time at which the monotonic clock began
    std::string bytes_;            // of whole blocks
    std::size_t taken_ = 0;        // of these
    std::uint64_t recorded_ = 0;
    std::uint64_t told_drops_ = 0;
    Clock::time_point told_;    // when that was
    Clock::time_point pause_{}; // until the next wake(), from then on
    bool ended_ = false;
};

} // namespace vrdma::management
