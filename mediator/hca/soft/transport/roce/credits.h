// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// End-to-end credits (IBA 9.7.7.2). With each acknowledgement, a responder reports how many
// receives are posted for further messages. A requester sends as many messages that need a receive,
// and one more. The additional message asks: the answer is an acknowledgement, or an RNR NAK.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "mediator/hca/soft/queues/work_queue.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {

// Credits by their code in an AETH (IBA table 47): 0, 1, 2, 3, 4, 6, 8, 12, 16, ... Code 31 reports
// nothing.
inline constexpr std::array credits_of_code = [] {
    std::array<std::uint32_t, VRDMA_SYNDROME_NO_CREDITS> credits{0, 1, 2, 3};
    for (std::size_t code = 4; code < credits.size(); ++code) {
        credits[code] = 2 * credits[code - 2];
    }
    return credits;
}();

// The responder's side. If a look at the queue finds n receives, the result is used for the next n
// / 2 of them, because posted receives stay posted. A look reads the WQEs that are next anyway, and
// further ones only as far as they are posted.
class CreditsGiven {
  public:
    CreditsGiven() = default;
    explicit CreditsGiven(std::uint32_t head) noexcept : until_{head} {}

    std::uint8_t code(const WorkQueue& queue) noexcept {
        std::uint32_t left = until_ - queue.head();
        left = left <= queue.depth() ? left : 0;
        std::uint8_t code = code_of(left);
        if (left <= found_ / 2) {
            code = look(queue, code);
            found_ = std::max(left, credits_of_code[code]);
            until_ = queue.head() + found_;
        }
        return code;
    }

  private:
    // The code of the largest value that is not greater. There are two codes for each power of two.
    static std::uint8_t code_of(std::uint32_t credits) noexcept {
        if (credits < 2) {
            return static_cast<std::uint8_t>(credits);
        }
        const int power = std::bit_width(credits) - 1;
        const unsigned code = 2u * power + ((credits >> (power - 1)) & 1);
        return static_cast<std::uint8_t>(std::min<unsigned>(code, credits_of_code.size() - 1));
    }
    static std::uint8_t look(const WorkQueue& queue, std::uint8_t code) noexcept {
        while (code + 1u < credits_of_code.size() && credits_of_code[code + 1] <= queue.depth() &&
               queue.has(credits_of_code[code + 1])) {
            ++code;
        }
        return code;
    }

    std::uint32_t until_ = 0; // index of a receive: all before it are posted
    std::uint32_t found_ = 0; // by the last look
};

// The requester's side. It counts the messages with a receive that were begun, and those that are
// done.
class CreditsTaken {
  public:
    // The peer has reported its credits. They count from the messages that are done now.
    void told(std::uint32_t code) noexcept {
        if (code == VRDMA_SYNDROME_NO_CREDITS) {
            limit_.reset();
            return;
        }
        const std::uint32_t limit = done_ + credits_of_code[code];
        if (!limit_ || static_cast<std::int32_t>(limit - *limit_) > 0) {
            limit_ = limit;
        }
    }
    void begin() noexcept { ++begun_; }
    // A message is done. Even if the peer reported nothing with it, the next message may ask.
    void done() noexcept {
        ++done_;
        if (limit_ && static_cast<std::int32_t>(done_ - *limit_) > 0) {
            limit_ = done_;
        }
    }

    // Whether another message that needs a receive may be begun. asks(): there may be no receive
    // for it.
    bool may_begin() const noexcept { return beyond() <= 0; }
    bool asks() const noexcept { return beyond() == 0; }

  private:
    // How far the next message is beyond those that have a receive. Below 0: it has one.
    std::int32_t beyond() const noexcept {
        return limit_ ? static_cast<std::int32_t>(begun_ - *limit_) : -1;
    }

    std::uint32_t begun_ = 0;
    std::uint32_t done_ = 0;
    std::optional<std::uint32_t> limit_; // of `begun_`; none while the peer reports no credits
};

} // namespace vrdma::hca::soft::roce
