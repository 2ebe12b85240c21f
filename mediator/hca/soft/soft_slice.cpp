// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/soft_slice.h"

#include <bit>

#include "mediator/base/memory_cost.h"
#include "mediator/hca/soft/common/steps.h"
#include "mediator/hca/soft/qp/removal.h"

namespace vrdma::hca::soft {
namespace {

// The cost of an object in a map by its name.
template <typename Name, typename Object>
constexpr std::uint64_t object_cost() {
    return heap_cost<Object>() + table_cost<std::pair<const Name, std::unique_ptr<Object>>>();
}

// The cost of the array of a buffer's blocks, beside the blocks themselves.
constexpr std::uint64_t array_cost = 4 * sizeof(void*) + heap_cost<void*>();

} // namespace

SoftSlice::SoftSlice(Pollers& pollers, const SliceSpec& spec, SliceHost& host)
    : pollers_{pollers},
      poller_{spec.uplink.empty() ? pollers.quietest() : *pollers.find_uplink(spec.uplink)},
      keeper_{pollers.find_keeper(spec.uplink)} {
    poller_.run([&](Engine& engine) {
        core_ = std::make_unique<SliceCore>(engine, spec, host);
        engine.add(*core_);
    });
}

Result<std::unique_ptr<SoftSlice>> SoftSlice::carve(Pollers& pollers, const SliceSpec& spec,
                                                    SliceHost& host) {
    std::unique_ptr<SoftSlice> slice{new SoftSlice{pollers, spec, host}};
    auto kick = slice->poller_.watch(spec.kick_fd);
    if (!kick) {
        return fail(kick.error());
    }
    slice->kick_ = std::move(*kick);
    return slice;
}

// First the slice sends nothing any more. Then peers do not find it any more. Then the outstanding
// cross-poller requests end.
SoftSlice::~SoftSlice() {
    halt();
    for (std::uint32_t index = 0; index < SliceCore::max_gids; ++index) {
        clear_gid(index);
    }
    for (const Gid& group : core_->groups()) {
        leave(group);
    }
    while (!services_.empty()) {
        unlisten(services_.back());
    }
    for (const auto& numbered : core_->qps()) {
        remove_name(numbered.first);
    }
    pollers_.drain_all();
    dismantle();
    poller_.run([&](Engine& engine) { engine.remove(*core_); });
}

void SoftSlice::halt() {
    poller_.run([&](Engine&) { core_->halt(); });
    call_in_steps(core_->qps(), on_poller_in_steps(), [&](QueuePair& qp) { core_->withdraw(qp); });
}

// This thread frees the slice's objects.
void SoftSlice::dismantle() {
    const auto run = on_poller_in_steps();
    const auto take = [&](auto id) { return core_->remove(id); };
    remove_in_steps(core_->qps(), run, [&](Qpn id) { return remove(*core_, id); });
    remove_in_steps(core_->srqs(), run, [&](Srqn id) { return remove(*core_, id); });
    remove_in_steps(core_->cqs(), run, take);
    remove_in_steps(core_->eqs(), run, take);
}

// Each poller has a copy of the tables by which peers are found.
Costs SoftSlice::costs() const {
    const std::uint64_t pollers = pollers_.count();
    const std::uint64_t timers = 4 * vector_cost<void*>(); // of the scheduler and the port
    constexpr std::uint64_t group = table_cost<std::pair<const Gid, std::vector<void*>>>();
    constexpr std::uint64_t service =
        table_cost<std::pair<const std::uint64_t, std::vector<void*>>>();
    Costs costs;
    costs.ucontext = Doorbells::page_cost();
    costs.eq = object_cost<EqId, EventQueue>() + array_cost;
    costs.cq = object_cost<Cqn, CompletionQueue>() + array_cost + vector_cost<void*>();
    costs.mr = object_cost<std::uint32_t, MemoryRegion>() + array_cost + heap_cost<SparsePages>();
    costs.on_demand_leaf =
        object_cost<std::uint64_t, SparsePages::Leaf>() - sizeof(SparsePages::Leaf);
    costs.mw = object_cost<std::uint32_t, MemoryRegion>();
    costs.ah = table_cost<std::pair<const AhId, AddressHandle>>();
    costs.srq = object_cost<Srqn, SharedReceiveQueue>() + array_cost;
    costs.qp = object_cost<Qpn, QueuePair>() + array_cost + heap_cost<RecvWqe>() + timers +
               (core_->port() != nullptr ? core_->port()->connection_cost() : 0);
    costs.multicast = group + heap_cost<void*>() + vector_cost<void*>() +
                      table_cost<std::array<std::uint8_t, 6>>() + // the uplink's
                      pollers * (group + heap_cost<void*>() + vector_cost<RoutingTable::Member>());
    costs.listener = vector_cost<std::uint64_t>() +
                     pollers * (service + heap_cost<void*>() + vector_cost<void*>());
    costs.counter_set = object_cost<CounterSetId, CounterSet>();
    return costs;
}

void SoftSlice::set_share(const Share& share) {
    poller_.run([&](Engine& engine) { engine.scheduler().set_share(core_->run_queue(), share); });
}

void SoftSlice::set_pace(std::uint64_t bytes_per_second) {
    poller_.run([&](Engine&) { core_->set_pace(bytes_per_second); });
}

void SoftSlice::set_sniffer(sniffer::Ring* ring) {
    poller_.run([&](Engine& engine) { engine.set_sniffer(*core_, ring); });
}

Result<> SoftSlice::set_status_page(Iova page) {
    return on_poller([&](SliceCore& core) { return core.set_status_page(page); });
}

void SoftSlice::clear_gid(std::uint32_t index) {
    const GidKey* current = core_->gid(index);
    if (current == nullptr) {
        return;
    }
    const GidKey key = *current;
    pollers_.run_on_all([&](Engine& engine) { engine.routes().remove(key, *core_); });
    poller_.run([&](Engine&) { core_->set_gid(index, std::nullopt); });
    if (keeper_ != nullptr) {
        keeper_->remove(key, core_->mac());
    }
}

Result<> SoftSlice::set_gid(std::uint32_t index, std::uint8_t type, const Gid& gid,
                            std::uint16_t vlan) {
    if (index >= SliceCore::max_gids) {
        return fail(std::errc::invalid_argument);
    }
    const GidKey key{gid, type, vlan};
    if (gid != Gid{} && keeper_ != nullptr) {
        if (const auto kept = keeper_->add(key, core_->mac()); !kept) {
            return kept;
        }
    }
    clear_gid(index);
    if (gid != Gid{}) {
        poller_.run([&](Engine&) { core_->set_gid(index, key); });
        pollers_.run_on_all(
            [&](Engine& engine) { engine.routes().add(key, *core_, core_->qpns()); });
    }
    return {};
}

std::uint8_t SoftSlice::max_mtu() const {
    constexpr int unit = 7; // of enum ibv_mtu: 256 is 1, and each doubling is one more
    return static_cast<std::uint8_t>(std::countr_zero(core_->max_mtu()) - unit);
}

void SoftSlice::listen(std::uint64_t service) {
    services_.push_back(service); // first, so that it is undone if a poller runs out of memory
    pollers_.run_on_all([&](Engine& engine) { engine.routes().listen(service, *core_); });
}

void SoftSlice::unlisten(std::uint64_t service) {
    pollers_.run_on_all([&](Engine& engine) { engine.routes().unlisten(service, *core_); });
    std::erase(services_, service);
}

std::uint64_t SoftSlice::clock() const {
    return core_->clock();
}

void SoftSlice::set_clock(std::uint64_t now) {
    poller_.run([&](Engine&) { core_->set_clock(now); });
}

} // namespace vrdma::hca::soft
