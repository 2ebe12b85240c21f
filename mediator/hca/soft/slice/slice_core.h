// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice as its poller keeps it: the device's objects by their names. Everything here is called on
// the poller's thread; SoftSlice is the control thread's side.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/memory/memory_gate.h"
#include "mediator/hca/soft/queues/completion_queue.h"
#include "mediator/hca/soft/queues/event_queue.h"
#include "mediator/hca/soft/routing/routing_table.h"
#include "mediator/hca/soft/slice/doorbells.h"
#include "mediator/hca/soft/slice/network.h"
#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/run_queue.h"
#include "mediator/sniffer/ring.h"

namespace vrdma::hca::soft {

class Engine;

struct AddressHandle {
    PdId pd;
    vrdma_av av{};
    std::unique_ptr<NetworkTarget> on_network{};
};

class alignas(cache_line) SliceCore {
  public:
    SliceCore(Engine& engine, const SliceSpec& spec, SliceHost& host);
    SliceCore(const SliceCore&) = delete;
    SliceCore& operator=(const SliceCore&) = delete;
    ~SliceCore() = default; // the engine must not know any of its objects any more

    Engine& engine() const noexcept { return engine_; }
    GuestMemory& memory() const noexcept { return memory_; }
    SliceHost& host() const noexcept { return host_; }
    MemoryGate& gate() noexcept { return gate_; }
    RunQueue& run_queue() noexcept { return run_queue_; }
    Account& account() noexcept { return run_queue_.account; }
    QueueFormat format() const noexcept { return format_; }
    bool loses_requests() const noexcept { return loses_requests_; }
    const QpnRange& qpns() const noexcept { return qpns_; }
    // The port to the network, or nullptr.
    NetworkPort* port() const noexcept { return port_; }
    // The slice's membership there.
    NetworkMember* member() const noexcept { return member_.get(); }
    const std::array<std::uint8_t, 6>& mac() const noexcept { return mac_; }
    // The DSCP of a traffic class that the guest asks for, if its packets may have that; else 0.
    std::uint8_t allowed_dscp(std::uint8_t traffic_class) const noexcept {
        const std::uint8_t dscp = traffic_class >> 2;
        return traffic_classes_[dscp] ? dscp : 0;
    }
    // The same for a service level.
    std::uint8_t allowed_service_level(std::uint8_t level) const noexcept {
        return level < service_levels_.size() && service_levels_[level] ? level : 0;
    }
    // The P_Key of that index. If there is none, 0, which is in no partition.
    std::uint16_t pkey(std::uint16_t index) const noexcept {
        return index < pkeys_.size() ? pkeys_[index] : std::uint16_t{0};
    }
    std::uint32_t max_mtu() const noexcept;
    bool port_up() const noexcept;
    std::uint32_t port_mbps() const noexcept;
    // The port's state has changed.
    void announce_port() noexcept;
    bool frozen() const noexcept { return frozen_; }
    // If it is frozen: for how long. A slice that was frozen shortly before counts as frozen since
    // then, so that nobody can make its peers wait most of the time.
    Clock::duration frozen_for() const noexcept { return Clock::now() - frozen_since_; }
    // Limits the bytes per second that its peers and it itself request; 0: no limit.
    void set_pace(std::uint64_t bytes_per_second) noexcept;
    bool paced() const noexcept { return paced_; }
    // Whether requests to it may have to wait.
    bool holds_back() const noexcept { return frozen_ || paced_; }
    // Records its messages, or nullptr. The engine sets it.
    sniffer::Ring* sniffer() const noexcept { return sniffer_; }
    void set_sniffer(sniffer::Ring* ring) noexcept {
        sniffer_ = ring;
        sniffed_ = ring != nullptr;
    }
    bool sniffed() const noexcept { return sniffed_; }
    // Whether requests to it need more than to be executed. It costs each of them a look, and so
    // there is one for all reasons.
    bool is_special() const noexcept { return (frozen_ | paced_ | sniffed_) != 0; }
    bool halted() const noexcept { return halted_; }

    // Find an object by its name. nullptr if there is none.
    EventQueue* eq(EqId id) const noexcept;
    CompletionQueue* cq(Cqn id) const noexcept;
    SharedReceiveQueue* srq(Srqn id) const noexcept;
    QueuePair* qp(Qpn id) const noexcept;
    const AddressHandle* ah(AhId id) const noexcept;
    CounterSet* counter_set(CounterSetId id) const noexcept;
    using Qps = std::unordered_map<Qpn, std::unique_ptr<QueuePair>>;
    // All objects of a kind. Only calls of the control thread change these.
    const auto& eqs() const noexcept { return eqs_; }
    const auto& cqs() const noexcept { return cqs_; }
    const auto& srqs() const noexcept { return srqs_; }
    const Qps& qps() const noexcept { return qps_; }
    const GidKey* gid(std::uint32_t index) const noexcept;
    // Whether the slice is in the VLAN. Every slice accepts packets without a tag (0).
    bool is_in_vlan(std::uint16_t vlan) const noexcept;
    // The QPs attached to a multicast group.
    std::span<QueuePair* const> group(const Gid& gid) const noexcept;

    Result<> set_status_page(Iova page) noexcept;
    void set_need_kick(bool need) noexcept;
    // An empty key clears the entry. The caller updates the routing tables.
    void set_gid(std::uint32_t index, const std::optional<GidKey>& key);
    static constexpr std::uint32_t max_gids = 4096;

    Result<> insert(std::unique_ptr<EventQueue> eq);
    Result<> insert(std::unique_ptr<CompletionQueue> cq);
    Result<> insert(std::unique_ptr<SharedReceiveQueue> srq);
    Result<std::uint32_t> insert(std::unique_ptr<QueuePair> qp);
    Result<> insert(AhId id, AddressHandle ah);
    Result<> insert(CounterSetId id, std::unique_ptr<CounterSet> set);
    // The caller frees the removed object, but not on the poller's thread. SRQs and QPs must not
    // have any work left: see qp/removal.h.
    std::unique_ptr<EventQueue> remove(EqId id) noexcept;
    std::unique_ptr<CompletionQueue> remove(Cqn id) noexcept;
    std::unique_ptr<SharedReceiveQueue> take_out(Srqn id) noexcept;
    std::unique_ptr<QueuePair> take_out(Qpn id) noexcept;
    AddressHandle remove(AhId id) noexcept;
    std::unique_ptr<CounterSet> remove(CounterSetId id) noexcept;
    // attach() returns whether it is the group's first QP here, detach() whether it was the last.
    bool attach(QueuePair& qp, const Gid& group);
    bool detach(QueuePair& qp, const Gid& group) noexcept;
    std::vector<Gid> groups() const;
    Result<> move_doorbell(QueuePair& qp, std::uint32_t slot);

    void announce(QueuePair& qp, ibv_event_type event) noexcept;
    void announce_overrun(CompletionQueue& cq) noexcept;
    void announce(SharedReceiveQueue& srq, ibv_event_type event) noexcept;
    void announce_page_faults() noexcept;
    void announce_waiting(CompletionQueue& cq, const CqState& state) noexcept;

    // The counters are for people. They contain nothing that a guest has written.
    void count(vrdma_counter what, std::uint64_t by = 1) noexcept { counters_.value[what] += by; }
    const vrdma_counters& counters() const noexcept { return counters_; }
    void count(CounterSet& set, vrdma_counter what, std::uint64_t by) noexcept {
        set.counters.value[what] += by;
        counters_of_sets_.value[what] += by;
    }
    const vrdma_counters& counters_of_sets() const noexcept { return counters_of_sets_; }

    // Only calls of the control thread set it. It reads it, too.
    std::uint64_t clock() const noexcept { return host_clock() + clock_offset_; }
    void set_clock(std::uint64_t now) noexcept { clock_offset_ = now - host_clock(); }

    // No QP gets the poller's attention any more. The caller must withdraw each QP that still has
    // it. Cross-poller requests that are with other pollers may still return.
    void halt() noexcept { halted_ = true; }
    void withdraw(QueuePair& qp) noexcept;
    // Called after halt(), when no cross-poller requests are with other pollers. Nothing is
    // received any more. The caller must freeze each object, QPs (qp_state.h) first and event
    // queues last.
    void freeze() noexcept;
    void freeze(CompletionQueue& cq) noexcept;
    // Returns whether there is more to write.
    bool freeze(EventQueue& eq) noexcept;
    // The caller must thaw each QP after that (qp_state.h).
    void thaw() noexcept;

  private:
    static std::uint64_t host_clock() noexcept {
        return static_cast<std::uint64_t>(
            std::chrono::nanoseconds{Clock::now().time_since_epoch()}.count());
    }
    vrdma_doorbell_page& page_of(const QueuePair& qp) const noexcept;

    Engine& engine_;
    GuestMemory& memory_;
    SliceHost& host_;
    NetworkPort* const port_;
    const std::unique_ptr<NetworkMember> member_;
    const QpnRange qpns_;
    const std::array<std::uint8_t, 6> mac_;
    const QueueFormat format_;
    const bool loses_requests_;
    bool halted_ = false;
    bool frozen_ = false;
    bool paced_ = false;
    bool sniffed_ = false;
    Clock::time_point frozen_since_;
    Clock::time_point rests_again_; // earlier, a freeze continues the one before
    const std::span<vrdma_doorbell_page> pages_;
    Doorbells doorbells_;
    const TrafficClasses traffic_classes_;
    const ServiceLevels service_levels_;
    const PKeys pkeys_;
    RunQueue run_queue_;
    MemoryGate gate_;
    std::unordered_map<EqId, std::unique_ptr<EventQueue>> eqs_;
    std::unordered_map<Cqn, std::unique_ptr<CompletionQueue>> cqs_;
    std::unordered_map<Srqn, std::unique_ptr<SharedReceiveQueue>> srqs_;
    Qps qps_;
    std::unordered_map<AhId, AddressHandle> ahs_;
    std::unordered_map<CounterSetId, std::unique_ptr<CounterSet>> counter_sets_;
    std::unordered_map<Gid, std::vector<QueuePair*>, GidHash> groups_;
    std::vector<std::optional<GidKey>> gids_;
    EventQueue* async_eq_ = nullptr; // the first that the guest created
    vrdma_status_page* status_ = nullptr;
    sniffer::Ring* sniffer_ = nullptr;
    std::uint64_t clock_offset_ = 0; // from the host's monotonic clock
    vrdma_counters counters_{};
    vrdma_counters counters_of_sets_{}; // sums over all sets that ever existed
};

inline std::uint16_t QueuePair::pkey() const noexcept {
    return slice.pkey(attr.pkey_index);
}

inline void QueuePair::count_alone(vrdma_counter what, std::uint64_t by) noexcept {
    counters.value[what] += by;
    if (counter_set != nullptr) {
        slice.count(*counter_set, what, by);
    }
}

inline void QueuePair::count(vrdma_counter what, std::uint64_t by) noexcept {
    slice.count(what, by);
    count_alone(what, by);
}

} // namespace vrdma::hca::soft
