// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Everything that a poller works with, including its slices. Only the poller's thread touches it,
// without a lock.
#pragma once

#include "mediator/hca/soft/cross_queue.h"
#include "mediator/hca/soft/doorbells.h"
#include "mediator/hca/soft/events.h"
#include "mediator/hca/soft/roce/port.h"
#include "mediator/hca/soft/routing_table.h"
#include "mediator/hca/soft/scheduler.h"
#include "mediator/hca/soft/slice_core.h"

namespace vrdma::hca::soft {

class Engine {
  public:
    // `wake` ends the poller's sleep. Any thread may call it.
    Engine(const Config& config, std::function<void()> wake);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();

    const Config& config() const noexcept { return config_; }
    Scheduler& scheduler() noexcept { return scheduler_; }
    Events& events() noexcept { return events_; }
    DoorbellWatch& doorbells() noexcept { return doorbells_; }
    RoutingTable& routes() noexcept { return routes_; }
    CrossQueue& cross_queue() noexcept { return cross_queue_; }

    void add(SliceCore& slice);
    void remove(SliceCore& slice);
    std::size_t slices() const noexcept { return slices_.size(); }
    // The port to that uplink; nullptr if this engine does not serve it.
    roce::Port* find_port(const std::string& uplink) const noexcept;
    // The uplink's link has come up or gone down. Its slices tell their guests.
    void set_link(const std::string& uplink, bool up, std::uint32_t mbps) noexcept;
    Result<roce::Port*> add_port(std::string uplink, std::unique_ptr<wire::Uplink> frames);

    void queue_pair_added();
    void queue_pair_removed() noexcept { --queue_pairs_; }
    void completion_queue_added() { events_.reserve(++completion_queues_); }
    void completion_queue_removed() noexcept { --completion_queues_; }

    // The time, at most some rounds old.
    Clock::time_point now() const noexcept { return scheduler_.now(); }

    // Looks once at everything that may have work. Returns whether anything had.
    bool round() noexcept;
    // Interrupts guests that asked for an event about completions.
    bool tell_guests() noexcept;

    // From here on, every guest must ring and kick. Returns false if the caller must call it again
    // because there is more to look at. It also returns false if there is work; then the
    // preparation is undone.
    bool prepare_sleep() noexcept;
    void end_sleep() noexcept;
    bool falls_asleep() const noexcept { return falls_asleep_; }
    // There is work, so guests need not kick.
    void stay_awake() noexcept {
        if (falls_asleep_) {
            end_sleep();
        }
    }
    // When the poller must wake up even if nobody kicks.
    Clock::time_point sleep_limit() const noexcept;

  private:
    Turn take_turn(QueuePair& qp) noexcept;

    const Config config_;
    Scheduler scheduler_;
    Events events_;
    DoorbellWatch doorbells_;
    RoutingTable routes_;
    CrossQueue cross_queue_;
    std::vector<SliceCore*> slices_;
    std::vector<std::pair<std::string, std::unique_ptr<roce::Port>>> ports_; // by uplink
    std::size_t queue_pairs_ = 0;
    std::size_t completion_queues_ = 0;
    bool falls_asleep_ = false;
    unsigned rounds_ = 0;
    unsigned rounds_untold_ = 0;
};

} // namespace vrdma::hca::soft
