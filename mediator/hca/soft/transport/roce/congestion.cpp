// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/congestion.h"

#include <algorithm>

#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/roce/port.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {
namespace {

constexpr std::uint32_t alpha_one = 1u << 16;
constexpr unsigned gain_bits = 8; // g is 1/256

constexpr std::uint16_t fast_stages = 5;
// Bytes per second: 40 Mb/s, and more for lines faster than 100 Gb/s.
constexpr std::uint64_t additive_step(std::uint64_t line) {
    constexpr std::uint64_t least = 5'000'000;
    constexpr std::uint64_t steps = 2500;
    return std::max(least, line / steps);
}
constexpr std::uint64_t hyper_step(std::uint64_t line) {
    return 10 * additive_step(line);
}

// A rate so near to the line's that pacing would have no effect.
constexpr std::uint64_t full_rate(std::uint64_t line) {
    return line - line / 256;
}
// After this time, additive increase alone has reached the full rate from any rate.
constexpr std::chrono::microseconds longest = 4096 * ReactionPoint::period;
static_assert(4000 * additive_step(ReactionPoint::usual_line_rate) >
              ReactionPoint::usual_line_rate);

} // namespace

void ReactionPoint::heed(Clock::time_point now, std::uint64_t line_rate) noexcept {
    pass(now);
    if (!slowed()) {
        *this = {};
        rate_ = line_rate;
        alpha_ = alpha_one;
    } else if (now - cut_ < notice_interval) {
        return;
    }
    line_ = line_rate;
    target_ = rate_ = std::min(rate_, line_);
    rate_ = std::max(rate_ - rate_ * alpha_ / (std::uint64_t{2} * alpha_one),
                     std::min(min_rate, line_));
    alpha_ += (alpha_one - alpha_) >> gain_bits;
    cut_ = period_begin_ = now;
    due_ = std::max(due_, now);
    bytes_ = 0;
    timer_stage_ = byte_stage_ = 0;
}

Clock::time_point ReactionPoint::due(Clock::time_point now) noexcept {
    pass(now);
    return due_;
}

void ReactionPoint::sent(std::uint32_t bytes, Clock::time_point now) noexcept {
    if (!slowed()) {
        return;
    }
    constexpr std::uint64_t ns_per_second = 1'000'000'000;
    due_ = std::max(due_, now - lateness) + std::chrono::nanoseconds{bytes * ns_per_second / rate_};
    bytes_ += bytes;
    if (bytes_ >= bytes_per_stage) {
        bytes_ -= bytes_per_stage;
        ++byte_stage_;
        raise();
    }
}

// Accounts for the periods that are over.
void ReactionPoint::pass(Clock::time_point now) noexcept {
    if (slowed() && now - period_begin_ >= longest) {
        rate_ = 0;
    }
    while (slowed() && now - period_begin_ >= period) {
        period_begin_ += period;
        alpha_ -= alpha_ >> gain_bits;
        ++timer_stage_;
        raise();
    }
}

void ReactionPoint::raise() noexcept {
    const auto [less, more] = std::minmax(timer_stage_, byte_stage_);
    if (less > fast_stages) {
        target_ += static_cast<std::uint64_t>(less - fast_stages) * hyper_step(line_);
    } else if (more >= fast_stages) {
        target_ += additive_step(line_);
    }
    target_ = std::min(target_, line_);
    rate_ = (rate_ + target_) / 2;
    if (rate_ >= full_rate(line_)) {
        rate_ = 0;
    }
}

bool exceeds_pace(const Connection& c) noexcept {
    SliceCore& slice = c.qp.slice;
    return slice.paced() && slice.account().inbound_open() > c.port.engine().now();
}

void notice(Connection& c) noexcept {
    constexpr std::uint8_t cs6 = 48; // NICs use this class for CNPs, so that they do not queue
    const Clock::time_point now = c.port.engine().now();
    if (now - c.noticed < notice_interval) {
        return;
    }
    wire::Path path = c.path;
    path.traffic_class = cs6 << 2;
    path.priority = c.port.priorities().of_dscp[cs6];
    wire::Headers headers;
    headers.opcode = VRDMA_ROCE_CNP;
    headers.migrated = false;
    headers.becn = true;
    headers.pkey = c.qp.pkey();
    headers.target_qpn = c.qp.attr.dest_qpn;
    if (const auto draft = c.port.draft(path, headers.opcode, 0)) {
        c.noticed = now;
        c.port.send(c.qp.slice, *draft, path, headers);
        c.qp.count(VRDMA_COUNTER_SENT_NOTICES);
        c.qp.count(VRDMA_COUNTER_TX_PACKETS);
    }
}

bool admit(Connection& c, std::uint32_t payload_bytes) noexcept {
    constexpr std::uint32_t headers = 80; // approximately
    const Clock::time_point now = c.port.engine().now();
    const Clock::time_point due = c.reaction.due(now);
    if (c.reaction.slowed() && due > now) {
        c.port.await_due(c, due);
        return false;
    }
    c.reaction.sent(payload_bytes + headers, now);
    return true;
}

} // namespace vrdma::hca::soft::roce
