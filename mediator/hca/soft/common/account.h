// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The use that a slice has made of its poller, and the use that it may make: its part of each
// round, by its weight (deficit round robin: Shreedhar and Varghese, 1996), and its limits. A slice
// may exceed its credit, because a piece of a message is not divided further. The excess is
// subtracted later.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mediator/hca/share.h"
#include "mediator/hca/soft/common/token_bucket.h"

namespace vrdma::hca::soft {

class Account {
  public:
    // An operation without data costs as much as copying this many bytes.
    static constexpr std::uint64_t operation_cost = 512;
    // A packet costs this many operations, for building or checking its headers and ICRC.
    static constexpr std::uint64_t packet_operations = 4;
    // The cost of looking at a QP whose doorbell was rung without work, in bytes.
    static constexpr std::uint64_t look_cost = 256;
    // The cost of touching a page that is absent (FaultGuard::met()), in bytes.
    static constexpr std::uint64_t hole_cost = 128 << 10;
    // After an absent page there may be more: the slice is careful for this long.
    static constexpr std::chrono::milliseconds careful_time{200};

    explicit Account(const Share& share = {}) noexcept { set_share(share, {}); }

    void set_share(const Share& share, Clock::time_point now) noexcept {
        share_ = share;
        weight_ = std::clamp(share.weight, 1u, Share::max_weight);
        set_limits(now);
    }
    std::uint64_t pace() const noexcept { return pace_; }
    // Limits the bytes per second that the slice requests, besides its share, and also those that
    // others request of it; 0: no limit.
    void set_pace(std::uint64_t bytes_per_second, Clock::time_point now) noexcept {
        pace_ = bytes_per_second;
        inbound_.set_rate(pace_, now);
        set_limits(now);
    }
    std::uint32_t weight() const noexcept { return weight_; }

    void charge(std::uint64_t bytes, std::uint64_t operations = 1) noexcept {
        taken_bytes_ += bytes;
        taken_operations_ += operations;
    }
    void charge_packet(std::uint64_t payload_bytes) noexcept {
        charge(payload_bytes, packet_operations);
    }
    // The following costs do not count as operations for the slice's limits.
    void charge_look() noexcept { besides_ += look_cost; }
    void charge_holes(std::uint64_t holes, Clock::time_point now) noexcept {
        besides_ += holes * hole_cost;
        careful_until_ = now + careful_time;
    }
    bool is_careful(Clock::time_point now) const noexcept { return now < careful_until_; }
    void bill_holes(std::uint64_t holes) noexcept {
        billed_ += static_cast<std::int64_t>(holes * hole_cost);
    }
    // Charges for work that others cause: packets from the network, and answers to them. This work
    // uses at most half of the slice's turns, so that a sender cannot take them all.
    void bill(std::uint64_t bytes, std::uint64_t operations = 1) noexcept {
        billed_ += static_cast<std::int64_t>(bytes + operations * operation_cost);
        if (limited_) {
            billed_bytes_ += bytes;
            billed_operations_ += operations;
        }
    }
    void bill_packet(std::uint64_t payload_bytes) noexcept {
        bill(payload_bytes, packet_operations);
    }
    bool in_credit() const noexcept { return taken() < credit_; }

    // For a slice with a pace: others have requested so many bytes. After a long message, the rest
    // waits for a second at most.
    void take_inbound(std::uint64_t bytes, Clock::time_point now) noexcept {
        inbound_.take(bytes, now);
        inbound_.bound_debt(std::chrono::seconds{1}, now);
    }
    // The time from which on they may request more.
    Clock::time_point inbound_open() const noexcept { return inbound_.open(); }

    // Begins the slice's turn. `turn` is the size of a turn at the weight `heaviest`; the slice
    // gets its part. The slice keeps unused credit up to a second turn. Returns whether it may do
    // anything.
    bool grant(std::uint64_t turn, std::uint32_t heaviest) noexcept {
        const auto part = static_cast<std::int64_t>(
            heaviest <= weight_ ? turn : std::max<std::uint64_t>(1, turn * weight_ / heaviest));
        credit_ = std::min(credit_ + part - std::min(billed_, part / 2), 2 * part);
        billed_ = 0;
        return in_credit();
    }

    // Ends the slice's turn. Returns its cost.
    std::int64_t settle(Clock::time_point now) noexcept {
        const std::int64_t cost = taken();
        credit_ -= cost;
        if (limited_) {
            bytes_.take(taken_bytes_, now);
            operations_.take(taken_operations_, now);
        }
        taken_bytes_ = 0;
        taken_operations_ = 0;
        besides_ = 0;
        return cost;
    }

    // Called from time to time. Incoming work counts against the limits only while they allow
    // anything: its senders cannot be told to wait.
    void settle_billed(Clock::time_point now) noexcept {
        if (open() <= now) {
            bytes_.take(billed_bytes_, now);
            operations_.take(billed_operations_, now);
        }
        billed_bytes_ = 0;
        billed_operations_ = 0;
    }

    // The time from which on its limits allow more.
    Clock::time_point open() const noexcept { return std::max(bytes_.open(), operations_.open()); }
    bool limited() const noexcept { return limited_; }

  private:
    std::int64_t taken() const noexcept {
        return static_cast<std::int64_t>(taken_bytes_ + taken_operations_ * operation_cost +
                                         besides_);
    }
    void set_limits(Clock::time_point now) noexcept {
        const std::uint64_t share = share_.bytes_per_second;
        const std::uint64_t bytes =
            share != 0 && pace_ != 0 ? std::min(share, pace_) : share + pace_;
        bytes_.set_rate(bytes, now);
        operations_.set_rate(share_.operations_per_second, now);
        limited_ = bytes != 0 || share_.operations_per_second != 0;
    }

    std::uint64_t taken_bytes_ = 0;
    std::uint64_t taken_operations_ = 0;
    std::uint64_t besides_ = 0;
    Clock::time_point careful_until_{};
    std::int64_t credit_ = 0;
    std::int64_t billed_ = 0;
    std::uint32_t weight_ = Share{}.weight;
    bool limited_ = false;
    TokenBucket bytes_;
    TokenBucket operations_;
    TokenBucket inbound_;
    Share share_;
    std::uint64_t pace_ = 0;
    std::uint64_t billed_bytes_ = 0;
    std::uint64_t billed_operations_ = 0;
};

} // namespace vrdma::hca::soft
