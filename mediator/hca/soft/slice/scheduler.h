// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Decides which QPs get the poller's attention. A hot QP's next WQE is looked at in each turn of
// its slice. A ready QP has work left or was just rung. All others are cold: they cost nothing
// until their doorbell or timer. This is the poller's side of the waking protocol in vrdma/queue.h.
//
// Slices take turns of bounded cost (account.h). A round ends when one turn's worth was done, so
// that the poller's other work does not wait longer. The next round continues with the next slice.
#pragma once

#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/run_queue.h"
#include "mediator/hca/soft/slice/turn.h"

namespace vrdma::hca::soft {

class Scheduler {
  public:
    explicit Scheduler(const Config& config);

    // Makes room for one timer per QP.
    void reserve(std::size_t queue_pairs);
    // Adds a slice before its first QP, and removes it after its last.
    void add(RunQueue& queue);
    void remove(RunQueue& queue) noexcept;
    // The slice gets no turn until then.
    void suspend(RunQueue& queue, Clock::time_point until) noexcept;
    void set_share(RunQueue& queue, const Share& share) noexcept;
    void set_pace(RunQueue& queue, std::uint64_t bytes_per_second) noexcept;

    void set_now(Clock::time_point now) noexcept { now_ = now; }
    Clock::time_point now() const noexcept { return now_; }

    // The QP may have work: it was rung, its timer ran out, its state changed.
    void wake(QueuePair& qp) noexcept;
    // The QP has no work, and is not looked at, until it is woken.
    void withdraw(QueuePair& qp) noexcept;
    // The same, and the QP is woken at `deadline`. Doorbells do not wake it earlier.
    void wait_until(QueuePair& qp, Clock::time_point deadline) noexcept;

    struct Served {
        bool worked = false; // some QP did something
        bool whole = false;  // it cost as much as a turn may
    };
    // Gives slices that may have work their turns.
    template <typename TakeTurn>
    Served serve(TakeTurn&& take_turn) noexcept {
        turn_ = queues_.size() > 1 ? shared_turn_ : lone_turn_;
        Served served;
        std::int64_t cost = 0;
        for (std::size_t left = queues_.size(); left > 0 && !served.whole; --left) {
            RunQueue& queue = *queues_.front();
            const bool in_credit = queue.account.grant(turn_, heaviest_);
            const bool worked = in_credit && visit(queue, take_turn);
            cost += queue.account.settle(now_);
            served.worked |= worked || !in_credit;
            served.whole = cost >= static_cast<std::int64_t>(turn_);
            pass_on(queue, worked || !in_credit);
        }
        return served;
    }
    // The size of a slice's turn now. No piece of a message is longer.
    std::uint64_t turn() const noexcept { return turn_; }

    // Wakes QPs whose timers ran out.
    void expire() noexcept;

    // Called before sleep. Makes every QP cold, except those that turn out to have work.
    void cool_all() noexcept;
    bool anything_to_do() const noexcept;
    // When expire() has something to do.
    Clock::time_point deadline() const noexcept;

  private:
    template <typename TakeTurn>
    bool visit(RunQueue& queue, TakeTurn& take_turn) noexcept {
        if (queue.next_hot >= queue.hot.size() && queue.ready_turns == 0) {
            queue.next_hot = 0;
            queue.ready_turns = queue.ready.size();
        }
        const bool any_hot = serve_hot(queue, take_turn);
        const bool any_ready = serve_ready(queue, take_turn);
        return any_hot || any_ready;
    }

    template <typename TakeTurn>
    bool serve_hot(RunQueue& queue, TakeTurn& take_turn) noexcept {
        bool worked = false;
        while (queue.next_hot < queue.hot.size() && queue.account.in_credit()) {
            QueuePair& qp = *queue.hot[queue.next_hot];
            if (qp.sq.peek() != 0) {
                qp.active = now_;
                worked |= take_turn(qp) == Turn::more;
            } else if (now_ - qp.active > hot_idle_) {
                cool_if_idle(queue, qp);
            }
            if (queue.next_hot < queue.hot.size() && queue.hot[queue.next_hot] == &qp) {
                ++queue.next_hot; // else the QP left, and another took its place
            }
        }
        return worked;
    }

    template <typename TakeTurn>
    bool serve_ready(RunQueue& queue, TakeTurn& take_turn) noexcept {
        bool worked = false;
        while (queue.ready_turns > 0 && queue.account.in_credit()) {
            QueuePair* const qp = queue.ready.pop_front();
            if (qp == nullptr) {
                queue.ready_turns = 0;
                break;
            }
            --queue.ready_turns;
            qp->attention = Attention::cold;
            if (take_turn(*qp) == Turn::more) {
                worked = true;
                wake(*qp);
            } else {
                queue.account.charge_look();
            }
        }
        return worked;
    }

    void apply_limits(RunQueue& queue) noexcept;
    void activate(RunQueue& queue) noexcept;
    void pass_on(RunQueue& queue, bool has_work) noexcept;
    void heat(RunQueue& queue, QueuePair& qp) noexcept;
    void cool(RunQueue& queue, QueuePair& qp) noexcept;
    void cool_if_idle(RunQueue& queue, QueuePair& qp) noexcept;
    bool make_room(RunQueue& queue) noexcept;
    bool take_place(RunQueue& from, const RunQueue& to) noexcept;

    const std::size_t hot_limit_;
    const Clock::duration hot_idle_;
    const std::uint64_t lone_turn_;
    const std::uint64_t shared_turn_;
    std::uint64_t turn_;
    Clock::time_point now_;
    std::size_t hot_ = 0;                    // QPs of all slices, hot_limit_ at most
    List<RunQueue, &RunQueue::hook> queues_; // those that take part in rounds
    std::size_t slices_ = 0;
    Timers<RunQueue> suspended_;
    std::vector<RunQueue*> limited_;
    // The greatest weight among the slices that had work when they were visited last.
    std::uint32_t heaviest_ = 0;
    std::uint32_t heaviest_so_far_ = 0;
    std::size_t unseen_ = 0; // visits until all slices were visited
    Timers<QueuePair> timers_;
};

} // namespace vrdma::hca::soft
