// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a poller works with: everything of its slices, touched by its thread alone, without a lock.
#pragma once

#include "mediator/hca/soft/doorbells.h"
#include "mediator/hca/soft/events.h"
#include "mediator/hca/soft/exchange.h"
#include "mediator/hca/soft/fabric.h"
#include "mediator/hca/soft/roce/port.h"
#include "mediator/hca/soft/scheduler.h"
#include "mediator/hca/soft/slice_core.h"

namespace vrdma::hca::soft {

class Engine {
  public:
    // `wake` gets the poller out of its sleep, from any thread.
    Engine(const Config& config, std::function<void()> wake);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();

    const Config& config() const noexcept { return config_; }
    Scheduler& scheduler() noexcept { return scheduler_; }
    Events& events() noexcept { return events_; }
    DoorbellWatch& doorbells() noexcept { return doorbells_; }
    Fabric& fabric() noexcept { return fabric_; }
    Exchange& exchange() noexcept { return exchange_; }

    void add(SliceCore& slice);
    void remove(SliceCore& slice);
    std::size_t slices() const noexcept { return slices_.size(); }
    // The port to that uplink; nullptr if it is another engine's, or nobody's.
    roce::Port* find_port(const std::string& uplink) const noexcept;
    // Its link is up or down now; its slices tell their guests.
    void set_link(const std::string& uplink, bool up, std::uint32_t mbps) noexcept;
    Result<roce::Port*> add_port(std::string uplink, std::unique_ptr<wire::Uplink> frames);

    void queue_pair_added();
    void queue_pair_removed() noexcept { --queue_pairs_; }
    void completion_queue_added() { events_.reserve(++completion_queues_); }
    void completion_queue_removed() noexcept { --completion_queues_; }

    // The time, as of some rounds ago.
    Clock::time_point now() const noexcept { return scheduler_.now(); }

    // Looks once at everything that may have work. Returns whether anything had.
    bool round() noexcept;
    // Interrupts guests that want to know of what was completed.
    bool tell_guests() noexcept;

    // From here on every guest must ring and kick. False if it is to be called again, as there is
    // more to look at; or, and then it is taken back, if there is work after all.
    bool prepare_sleep() noexcept;
    void end_sleep() noexcept;
    bool falls_asleep() const noexcept { return falls_asleep_; }
    // There is work: nobody has to kick for more of it.
    void stay_awake() noexcept {
        if (falls_asleep_) {
            end_sleep();
        }
    }
    // When something must be looked at even if nobody kicks.
    Clock::time_point sleep_limit() const noexcept;

  private:
    Turn take_turn(QueuePair& qp) noexcept;

    const Config config_;
    Scheduler scheduler_;
    Events events_;
    DoorbellWatch doorbells_;
    Fabric fabric_;
    Exchange exchange_;
    std::vector<SliceCore*> slices_;
    std::vector<std::pair<std::string, std::unique_ptr<roce::Port>>> ports_; // by uplink
    std::size_t queue_pairs_ = 0;
    std::size_t completion_queues_ = 0;
    bool falls_asleep_ = false;
    unsigned rounds_ = 0;
    unsigned rounds_untold_ = 0;
};

} // namespace vrdma::hca::soft
