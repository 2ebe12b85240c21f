// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/capture.h"

#include <algorithm>
#include <utility>

#include "release/release.h"

namespace vrdma::management {
namespace {

using sniffer::Pcapng;

// Its time between two calls of wake(). Time is looked at after so many bytes.
constexpr std::chrono::microseconds turn{500};
constexpr std::size_t bytes_at_a_time = 32 << 10;

constexpr std::chrono::seconds between_statistics{1};

template <typename AnyClock>
std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds{AnyClock::now().time_since_epoch()}.count());
}

} // namespace

Capture::Capture(sniffer::RingReader ring, const std::string& device, std::function<void()> stop)
    : ring_{std::move(ring)},
      stop_{std::move(stop)},
      epoch_ns_{now_ns<std::chrono::system_clock>() - now_ns<Clock>()},
      told_{Clock::now()} {
    Pcapng{bytes_}.begin(std::string{"vrdmad "} + release, device);
    wake();
}

Capture::~Capture() {
    if (!ring_.ended()) {
        stop_();
    }
}

void Capture::wake() {
    pause_ = Clock::now() + turn;
}

std::size_t Capture::read(std::span<char> room) {
    if (taken_ == bytes_.size() && !ended_ && Clock::now() < pause_) {
        refill();
    }
    const std::size_t count = std::min(room.size(), bytes_.size() - taken_);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(taken_), count, room.begin());
    taken_ += count;
    return count;
}

void Capture::refill() {
    bytes_.clear();
    taken_ = 0;
    const bool last = ring_.ended();
    add_frames();
    const auto now = Clock::now();
    ended_ = last && bytes_.empty();
    if (ended_ || (told_drops_ != ring_.dropped() && now - told_ >= between_statistics)) {
        add_statistics(now);
    }
}

void Capture::add_frames() {
    Pcapng file{bytes_};
    while (bytes_.size() < bytes_at_a_time) {
        const auto frame = ring_.next();
        if (!frame) {
            break;
        }
        const sniffer::Record& record = frame->record;
        file.add(frame->bytes, record.original, epoch_ns_ + record.time_ns, record.direction);
        ++recorded_;
    }
    ring_.release();
}

void Capture::add_statistics(Clock::time_point now) {
    told_ = now;
    told_drops_ = ring_.dropped();
    Pcapng{bytes_}.add_statistics(epoch_ns_ + now_ns<Clock>(), recorded_, told_drops_);
}

} // namespace vrdma::management
