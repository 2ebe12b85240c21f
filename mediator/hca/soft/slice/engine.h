// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Everything that a poller works with, including its slices. Only the poller's thread touches it,
// without a lock.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/queues/events.h"
#include "mediator/hca/soft/routing/routing_table.h"
#include "mediator/hca/soft/slice/cross_queue.h"
#include "mediator/hca/soft/slice/doorbells.h"
#include "mediator/hca/soft/slice/network.h"
#include "mediator/hca/soft/slice/scheduler.h"

namespace vrdma::hca::soft {

class Engine {
  public:
    // `wake` ends the poller's sleep. Any thread may call it.
    Engine(const Config& config, std::function<void()> wake);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine() = default;

    const Config& config() const noexcept { return config_; }
    Scheduler& scheduler() noexcept { return scheduler_; }
    Events& events() noexcept { return events_; }
    DoorbellWatch& doorbells() noexcept { return doorbells_; }
    RoutingTable& routes() noexcept { return routes_; }
    CrossQueue& cross_queue() noexcept { return cross_queue_; }

    void add(SliceCore& slice);
    void remove(SliceCore& slice);
    std::span<SliceCore* const> slices() const noexcept { return slices_; }

    using Ports = std::vector<std::pair<std::string, std::unique_ptr<NetworkPort>>>;
    void add_port(std::string uplink, std::unique_ptr<NetworkPort> port);
    // No slice may be a member of it.
    std::unique_ptr<NetworkPort> remove_port(const std::string& uplink) noexcept;
    // Records the slice's messages from now on; nullptr: no more.
    void set_sniffer(SliceCore& slice, sniffer::Ring* ring) noexcept;
    // Whether any slice has a sniffer.
    bool sniffs() const noexcept { return sniffers_ != 0; }
    // The port to that uplink; nullptr if this engine does not serve it.
    NetworkPort* find_port(const std::string& uplink) const noexcept;
    const Ports& ports() const noexcept { return ports_; } // by uplink
    // The uplink's link has come up or gone down. Its slices tell their guests.
    void set_link(const std::string& uplink, bool up, std::uint32_t mbps) noexcept;

    void queue_pair_added();
    void queue_pair_removed() noexcept { --queue_pairs_; }
    void completion_queue_added() { events_.reserve(++completion_queues_); }
    void completion_queue_removed() noexcept { --completion_queues_; }

    // The time, at most some rounds old.
    Clock::time_point now() const noexcept { return scheduler_.now(); }

  private:
    const Config config_;
    Scheduler scheduler_;
    Events events_;
    DoorbellWatch doorbells_;
    RoutingTable routes_;
    CrossQueue cross_queue_;
    std::vector<SliceCore*> slices_;
    Ports ports_;
    unsigned sniffers_ = 0;
    std::size_t queue_pairs_ = 0;
    std::size_t completion_queues_ = 0;
};

} // namespace vrdma::hca::soft
