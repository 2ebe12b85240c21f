// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/migration.h"

#include <algorithm>
#include <utility>

#include "mediator/device/out_of_memory.h"

namespace vrdma::vfio_user {
namespace {

// The states without PRE_COPY and P2P, which the device does not offer. No client asks for ERROR.
bool can_be_asked_for(std::uint32_t state) {
    return state == VFIO_DEVICE_STATE_STOP || state == VFIO_DEVICE_STATE_RUNNING ||
           state == VFIO_DEVICE_STATE_STOP_COPY || state == VFIO_DEVICE_STATE_RESUMING;
}

// A save or a restore takes longer than the waits for memory for which WaitDebt is made.
constexpr int mildness = 10;

} // namespace

// Every way from one state to another leads through STOP.
Result<> Migration::go_to(std::uint32_t state) {
    if (!can_be_asked_for(state) || state_ == VFIO_DEVICE_STATE_ERROR) {
        return fail(std::errc::invalid_argument);
    }
    const bool costs =
        state == VFIO_DEVICE_STATE_RESUMING || (state == VFIO_DEVICE_STATE_STOP_COPY && !kept_);
    if ((ending_ && state == VFIO_DEVICE_STATE_RUNNING) ||
        (costs && debt_.due(WaitDebt::Clock::now()))) {
        return fail(std::errc::device_or_resource_busy);
    }
    if (state == state_) {
        return {};
    }
    return at_cost([&] { return leave().and_then([&] { return enter(state); }); });
}

Result<> Migration::at_cost(const std::function<Result<>()>& work) {
    const auto begin = WaitDebt::Clock::now();
    const auto done = with_what_memory_there_is(work);
    const auto end = WaitDebt::Clock::now();
    debt_.add((end - begin) / mildness, end);
    return done;
}

// Goes to STOP.
Result<> Migration::leave() {
    const bool resuming = state_ == VFIO_DEVICE_STATE_RESUMING;
    if (runs()) {
        steps_.freeze();
    }
    if (!kept_) {
        stream_ = {};
    }
    state_ = VFIO_DEVICE_STATE_STOP;
    return resuming ? finish_restore() : Result<>{};
}

// Goes on from STOP.
Result<> Migration::enter(std::uint32_t state) {
    switch (state) {
        case VFIO_DEVICE_STATE_RUNNING:
            state_ = VFIO_DEVICE_STATE_RUNNING;
            steps_.thaw(std::exchange(restored_, false));
            break;
        case VFIO_DEVICE_STATE_STOP_COPY:
            if (!kept_) {
                stream_ = to_stream(device_.save());
            }
            read_ = 0;
            state_ = VFIO_DEVICE_STATE_STOP_COPY;
            break;
        case VFIO_DEVICE_STATE_RESUMING:
            device_.reset();
            kept_ = restored_ = false;
            stream_ = {};
            incoming_.emplace(device_, max_length_);
            state_ = VFIO_DEVICE_STATE_RESUMING;
            break;
        default:
            break;
    }
    return {};
}

// A device without a valid state needs a reset.
Result<> Migration::finish_restore() {
    const auto restored = incoming_ ? incoming_->restore() : fail(std::errc::invalid_argument);
    incoming_.reset();
    restored_ = restored.has_value();
    if (!restored) {
        state_ = VFIO_DEVICE_STATE_ERROR;
    }
    return restored;
}

Result<std::span<const std::byte>> Migration::read(std::size_t size) {
    if (state_ != VFIO_DEVICE_STATE_STOP_COPY) {
        return fail(std::errc::invalid_argument);
    }
    const auto piece =
        std::span<const std::byte>{stream_}.subspan(read_, std::min(size, stream_.size() - read_));
    read_ += piece.size();
    if (!piece.empty() && read_ == stream_.size() && !kept_) {
        device_.give_way();
    }
    return piece;
}

// After an error, further pieces are refused, too.
Result<> Migration::write(std::span<const std::byte> piece) {
    if (state_ != VFIO_DEVICE_STATE_RESUMING || !incoming_) {
        return fail(std::errc::invalid_argument);
    }
    const auto taken = at_cost([&] { return incoming_->take(piece); });
    if (!taken) {
        incoming_.reset();
    }
    return taken;
}

void Migration::forget() {
    state_ = VFIO_DEVICE_STATE_RUNNING;
    kept_ = restored_ = false;
    stream_ = {};
    incoming_.reset();
}

Result<> Migration::keep() {
    return with_what_memory_there_is([this]() -> Result<> {
        stream_ = to_stream(device_.save());
        kept_ = true;
        state_ = VFIO_DEVICE_STATE_STOP;
        return {};
    });
}

} // namespace vrdma::vfio_user
