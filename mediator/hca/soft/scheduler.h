// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which QPs get the poller's attention. A hot QP's next WQE is looked at in each round, a ready one
// has work left or was just rung, and all others are cold: they cost nothing until their doorbell
// or timer. This is the poller's side of the waking protocol in vrdma/queue.h.
#pragma once

#include "mediator/hca/soft/cache_line.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

enum class Turn : std::uint8_t {
    idle, // found nothing to do
    more, // did something, and there may be more
};

class Scheduler {
  public:
    explicit Scheduler(const Config& config);

    // Room for one timer each of so many QPs.
    void reserve(std::size_t queue_pairs);

    void set_now(Clock::time_point now) noexcept { now_ = now; }
    Clock::time_point now() const noexcept { return now_; }

    // The QP may have work: it was rung, its timer ran out, its state changed.
    void wake(QueuePair& qp) noexcept;
    // The QP has no work until somebody wakes it, and nobody looks at it.
    void withdraw(QueuePair& qp) noexcept;
    // The same, and it is woken at that time; doorbells do not wake it earlier.
    void wait_until(QueuePair& qp, Clock::time_point deadline) noexcept;

    // Gives each hot QP that has a WQE and each ready QP a turn. Returns whether any did something.
    template <typename TakeTurn>
    bool serve(TakeTurn&& take_turn) noexcept {
        const bool any_hot = serve_hot(take_turn);
        const bool any_ready = serve_ready(take_turn);
        return any_hot || any_ready;
    }

    // Wakes QPs whose timers ran out.
    void expire() noexcept;

    // Before sleep: every QP is cold, unless some turn out to have work.
    void cool_all() noexcept;
    bool anything_to_do() const noexcept { return !hot_.empty() || !ready_.empty(); }
    const Timers<QueuePair>& timers() const noexcept { return timers_; }

  private:
    template <typename TakeTurn>
    unsigned serve_hot(TakeTurn& take_turn) noexcept {
        unsigned worked = 0;
        for (std::size_t i = 0; i < hot_.size();) {
            QueuePair& qp = *hot_[i];
            if (qp.sq.peek() != 0) {
                qp.active = now_;
                worked += take_turn(qp) == Turn::more ? 1 : 0;
            } else if (now_ - qp.active > hot_idle_) {
                cool_if_idle(qp);
            }
            if (i < hot_.size() && hot_[i] == &qp) {
                ++i; // else it left, and another took its place
            }
        }
        return worked;
    }

    template <typename TakeTurn>
    unsigned serve_ready(TakeTurn& take_turn) noexcept {
        unsigned worked = 0;
        for (std::size_t turns = ready_.size(); turns > 0 && !ready_.empty(); --turns) {
            QueuePair& qp = *ready_.pop_front();
            qp.attention = Attention::cold;
            if (take_turn(qp) == Turn::more) {
                ++worked;
                wake(qp);
            }
        }
        return worked;
    }

    void heat(QueuePair& qp) noexcept;
    void cool(QueuePair& qp) noexcept;
    void cool_if_idle(QueuePair& qp) noexcept;
    bool make_room() noexcept;

    const std::size_t hot_limit_;
    const Clock::duration hot_idle_;
    Clock::time_point now_;
    LineVector<QueuePair*> hot_; // hot_limit_ at most
    List<QueuePair, &QueuePair::ready> ready_;
    Timers<QueuePair> timers_;
};

} // namespace vrdma::hca::soft
