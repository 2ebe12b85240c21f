// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/soft_slice.h"

#include <bit>

#include "mediator/base/memory_cost.h"
#include "mediator/base/rollback.h"
#include "mediator/hca/soft/common/steps.h"
#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/qp/removal.h"

namespace vrdma::hca::soft {
namespace {

constexpr auto no_such_object = std::errc::no_such_file_or_directory;

std::vector<vrdma_sge> list(const RecvWqe& wqe) {
    std::vector<vrdma_sge> sges;
    for (const Sge& sge : wqe.list()) {
        sges.push_back({sge.address, sge.length, sge.lkey});
    }
    return sges;
}

// The cost of an object in a map by its name.
template <typename Name, typename Object>
constexpr std::uint64_t object_cost() {
    return heap_cost<Object>() + table_cost<std::pair<const Name, std::unique_ptr<Object>>>();
}
// The cost of the array of a buffer's blocks, beside the blocks themselves.
constexpr std::uint64_t array_cost = 4 * sizeof(void*) + heap_cost<void*>();

Result<std::unique_ptr<MemoryRegion>> make_region(const GuestMemory& memory, MrSpec spec) {
    auto region = std::make_unique<MemoryRegion>();
    region->key = spec.key;
    region->pd = spec.pd;
    region->start = spec.start;
    region->length = spec.length;
    region->access_flags = spec.access_flags | MemoryRegion::local_read;
    region->dma = spec.dma;
    if (spec.fast_pages != 0) {
        region->kind = KeyKind::fast_region;
        region->valid = false;
        region->pages = GuestBuffer::reserve(memory, spec.fast_pages);
    } else if ((spec.access_flags & IBV_ACCESS_ON_DEMAND) != 0) {
        region->on_demand = std::make_unique<SparsePages>(memory, spec.pages.first_offset);
    } else if (!spec.dma && spec.length != 0) {
        auto pages = GuestBuffer::map(memory, std::move(spec.pages));
        if (!pages) {
            return fail(pages.error());
        }
        if (pages->length() < spec.length) {
            return fail(std::errc::invalid_argument);
        }
        region->pages = std::move(*pages);
    }
    return region;
}

FastMrState state_of(const MemoryRegion& region) {
    FastMrState state{.key = region.key.value};
    if (region.valid) {
        const Translation pages = region.pages.pages();
        state.valid = 1;
        state.access_flags = region.access_flags & ~MemoryRegion::local_read;
        state.block_shift = pages.block_shift;
        state.blocks = static_cast<std::uint32_t>(pages.blocks.size());
        state.first_offset = pages.first_offset;
        state.start = region.start;
        state.length = region.length;
    }
    return state;
}

MwState window_state(const MemoryRegion& window) {
    MwState state{.key = window.key.value};
    if (window.valid) {
        state.bound = 1;
        state.region = window.region->key.value;
        state.owner = window.owner != nullptr ? window.owner->id.value : 0;
        state.access_flags = window.access_flags;
        state.address = window.region->start + window.offset;
        state.length = window.length;
    }
    return state;
}

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

Result<> SoftSlice::populate(const GuestBuffer& ring, const Translation& pages) const {
    const std::uint64_t end = core_->frozen() || pages.touched ? 0 : ring.length();
    for (std::uint64_t offset = 0; offset < end;) {
        if (const auto there = ring.populate(core_->memory(), offset, UINT64_MAX); !there) {
            return there;
        }
    }
    return {};
}

// If a page is absent, the pages touched before are given back in steps, too.
Result<bool> SoftSlice::touch(const Translation& ring, std::uint64_t& offset) {
    auto buffer = GuestBuffer::map(core_->memory(), ring);
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto there = buffer->populate(core_->memory(), offset, ring_pages_a_step); !there) {
        unused_.add(std::move(*buffer));
        return fail(there.error());
    }
    return offset < buffer->length();
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

Result<> SoftSlice::create_eq(const EqSpec& spec) {
    auto eq = EventQueue::create(core_->memory(), core_->host(), spec);
    if (!eq) {
        return fail(eq.error());
    }
    if (const auto populated = populate((*eq)->buffer(), spec.pages); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*eq)); });
}

void SoftSlice::destroy_eq(EqId id) {
    if (const auto eq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        unused_.add(eq->buffer());
    }
}

Result<> SoftSlice::create_cq(const CqSpec& spec) {
    auto cq = CompletionQueue::create(core_->memory(), core_->eq(spec.eq), spec);
    if (!cq) {
        return fail(cq.error());
    }
    if (const auto populated = populate((*cq)->buffer(), spec.pages); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*cq)); });
}

// Makes the poller call resize(core, ring), which takes the new ring and returns the old one.
template <typename Resize>
Result<> SoftSlice::replace_ring(const Translation& pages, Resize&& resize) {
    auto ring = GuestBuffer::map(core_->memory(), pages);
    if (!ring) {
        return fail(ring.error());
    }
    if (const auto populated = populate(*ring, pages); !populated) {
        return populated;
    }
    auto old =
        on_poller([&](SliceCore& core) -> Result<GuestBuffer> { return resize(core, *ring); });
    if (!old) {
        return fail(old.error());
    }
    unused_.add(std::move(*old));
    return {};
}

Result<> SoftSlice::resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) {
    return replace_ring(pages, [&](SliceCore& core, GuestBuffer& ring) -> Result<GuestBuffer> {
        CompletionQueue* cq = core.cq(id);
        return cq != nullptr ? cq->resize(std::move(ring), depth) : fail(no_such_object);
    });
}

Result<> SoftSlice::moderate_cq(Cqn id, const CqModeration& moderation) {
    return on_poller([&](SliceCore& core) -> Result<> {
        CompletionQueue* cq = core.cq(id);
        if (cq == nullptr) {
            return fail(no_such_object);
        }
        cq->moderate(moderation);
        core.engine().events().hurry(*cq); // waiting events wait by the old rule
        return {};
    });
}

void SoftSlice::destroy_cq(Cqn id) {
    if (const auto cq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        unused_.add(cq->buffer());
    }
}

Result<> SoftSlice::register_mr(MrSpec spec) {
    auto region = make_region(core_->memory(), std::move(spec));
    if (!region) {
        return fail(region.error());
    }
    return on_poller([&](SliceCore& core) { return core.gate().insert(std::move(*region)); });
}

Result<> SoftSlice::reregister_mr(MrSpec spec) {
    auto region = make_region(core_->memory(), std::move(spec));
    if (!region) {
        return fail(region.error());
    }
    const auto old =
        on_poller([&](SliceCore& core) { return core.gate().replace(std::move(*region)); });
    return old.map([&](const auto& before) { retire(*before); });
}

Result<> SoftSlice::deregister_mr(Key key) {
    const auto region = on_poller([&](SliceCore& core) { return core.gate().remove(key); });
    return region.map([&](const auto& gone) {
        if (gone != nullptr) {
            retire(*gone);
        }
    });
}

// The region cannot be found any more.
void SoftSlice::retire(MemoryRegion& region) {
    drain();
    unused_.add(std::move(region.pages));
    if (region.on_demand != nullptr) {
        auto removed = region.on_demand->prepare_unmap(0, UINT64_MAX);
        while (region.on_demand->unmap_some(0, UINT64_MAX, removed)) {
        }
        unused_.add(std::move(removed));
    }
}

bool SoftSlice::give_back() {
    return unused_.give_back(core_->memory());
}

void SoftSlice::map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                          bool writable) {
    auto leaves = SparsePages::prepare(first, pages.size());
    poller_.run([&](Engine&) {
        if (SparsePages* const region = core_->gate().on_demand(key)) {
            region->map(first, pages, writable, leaves);
            core_->gate().faults().mapped({key, first, pages.size()});
        }
    });
}

void SoftSlice::refuse_pages(Key key, std::uint64_t first, std::uint64_t count) {
    poller_.run([&](Engine&) { core_->gate().faults().refused({key, first, count}); });
}

void SoftSlice::unmap_pages(Key key, std::uint64_t first, std::uint64_t count) {
    SparsePages* const region =
        on_poller([&](SliceCore& core) { return core.gate().on_demand(key); });
    if (region == nullptr) {
        return;
    }
    auto removed = region->prepare_unmap(first, count);
    for (bool more = true; more;) { // the poller does other work in between
        poller_.run([&](Engine&) { more = region->unmap_some(first, count, removed); });
    }
    if (!removed.pages.empty() || !removed.leaves.empty()) {
        drain();
        unused_.add(std::move(removed));
    }
}

Result<> SoftSlice::allocate_mw(const MwSpec& spec) {
    auto window = std::make_unique<MemoryRegion>();
    window->key = spec.key;
    window->pd = spec.pd;
    window->valid = false;
    window->kind = spec.type == IBV_MW_TYPE_1 ? KeyKind::window_1 : KeyKind::window_2;
    return on_poller([&](SliceCore& core) { return core.gate().insert(std::move(window)); });
}

void SoftSlice::deallocate_mw(Key key) {
    static_cast<void>(on_poller([&](SliceCore& core) {
        if (MemoryRegion* const window = core.gate().find_name(key)) {
            unbind(*window);
        }
        return core.gate().remove(key);
    }));
}

Result<> SoftSlice::create_ah(const AhSpec& spec) {
    return on_poller([&](SliceCore& core) { return core.insert(spec.id, {spec.pd, spec.av}); });
}

void SoftSlice::destroy_ah(AhId id) {
    poller_.run([&](Engine&) { core_->remove(id); });
}

Result<> SoftSlice::create_srq(const SrqSpec& spec) {
    auto srq = SharedReceiveQueue::create(*core_, core_->cq(spec.cq), spec);
    if (!srq) {
        return fail(srq.error());
    }
    if (const auto populated = populate((*srq)->buffer, spec.pages); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*srq)); });
}

Result<> SoftSlice::modify_srq(Srqn id, std::uint32_t limit) {
    return on_poller([&](SliceCore& core) -> Result<> {
        SharedReceiveQueue* srq = core.srq(id);
        if (srq == nullptr || limit > srq->wqes.depth()) {
            return fail(std::errc::invalid_argument);
        }
        srq->arm(limit);
        return {};
    });
}

Result<> SoftSlice::resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                               std::optional<std::uint32_t> limit) {
    return replace_ring(pages, [&](SliceCore& core, GuestBuffer& ring) -> Result<GuestBuffer> {
        SharedReceiveQueue* srq = core.srq(id);
        return srq != nullptr ? srq->resize(std::move(ring), depth, limit) : fail(no_such_object);
    });
}

Result<std::uint32_t> SoftSlice::query_srq(Srqn id) const {
    return on_poller([&](SliceCore& core) -> Result<std::uint32_t> {
        const SharedReceiveQueue* srq = core.srq(id);
        if (srq == nullptr) {
            return fail(no_such_object);
        }
        return srq->limit;
    });
}

void SoftSlice::destroy_srq(Srqn id) {
    if (const auto srq = on_poller([&](SliceCore& core) { return remove(core, id); })) {
        unused_.add(std::move(srq->buffer));
    }
}

Result<std::uint32_t> SoftSlice::create_qp(const QpSpec& spec) {
    CompletionQueue* send_cq = core_->cq(spec.send_cq);
    CompletionQueue* recv_cq = core_->cq(spec.recv_cq);
    SharedReceiveQueue* srq = core_->srq(spec.srq);
    const bool sends = spec.type != QpType::xrc_recv;
    const bool receives = sends && spec.type != QpType::xrc_send;
    if ((send_cq == nullptr) == sends || (recv_cq == nullptr) == receives ||
        (spec.srq != Srqn{} && srq == nullptr)) {
        return fail(std::errc::invalid_argument);
    }
    auto qp = QueuePair::create(*core_, send_cq, recv_cq, srq, spec);
    if (!qp) {
        return fail(qp.error());
    }
    if (const auto populated = populate((*qp)->buffer, spec.pages); !populated) {
        return fail(populated.error());
    }
    const auto slot = on_poller([&](SliceCore& core) { return core.insert(std::move(*qp)); });
    if (slot && spec.id == gsi_qpn) {
        Rollback undo{[&] {
            unlisten(RoutingTable::anything);
            on_poller([&](SliceCore& core) { return remove(core, spec.id); });
        }};
        listen(RoutingTable::anything);
        undo.keep();
    }
    return slot;
}

Result<> SoftSlice::modify_qp(Qpn id, const vrdma_qp_attr& attr) {
    const auto modified = on_poller([&](SliceCore& core) -> Result<> {
        QueuePair* qp = core.qp(id);
        return qp != nullptr ? modify(*qp, attr) : fail(no_such_object);
    });
    if ((attr.attr_mask & IBV_QP_STATE) != 0 && attr.state == IBV_QPS_RESET) {
        drain();
    }
    return modified;
}

Result<vrdma_qp_attr> SoftSlice::query_qp(Qpn id) const {
    return on_poller([&](SliceCore& core) -> Result<vrdma_qp_attr> {
        const QueuePair* qp = core.qp(id);
        if (qp == nullptr) {
            return fail(no_such_object);
        }
        return query(*qp);
    });
}

void SoftSlice::destroy_qp(Qpn id) {
    if (id == gsi_qpn) {
        unlisten(RoutingTable::anything);
    }
    const auto destroy = [&](SliceCore& core) {
        if (QueuePair* qp = core.qp(id)) {
            flush_held(*qp); // the CQE tells the poster that the WQE is free again
        }
        return remove(core, id);
    };
    if (const auto qp = on_poller(destroy)) {
        drain();
        unused_.add(std::move(qp->buffer));
    }
}

void SoftSlice::listen(std::uint64_t service) {
    services_.push_back(service); // first, so that it is undone if a poller runs out of memory
    pollers_.run_on_all([&](Engine& engine) { engine.routes().listen(service, *core_); });
}

void SoftSlice::unlisten(std::uint64_t service) {
    pollers_.run_on_all([&](Engine& engine) { engine.routes().unlisten(service, *core_); });
    std::erase(services_, service);
}

vrdma_counters SoftSlice::counters() const {
    return on_poller([](const SliceCore& core) { return core.counters(); });
}

Result<vrdma_counters> SoftSlice::qp_counters(Qpn id) const {
    return on_poller([&](const SliceCore& core) -> Result<vrdma_counters> {
        const QueuePair* qp = core.qp(id);
        if (qp == nullptr) {
            return fail(std::errc::invalid_argument);
        }
        return qp->counters;
    });
}

Result<> SoftSlice::create_counter_set(CounterSetId id) {
    auto set = std::make_unique<CounterSet>();
    return on_poller([&](SliceCore& core) { return core.insert(id, std::move(set)); });
}

void SoftSlice::destroy_counter_set(CounterSetId id) {
    on_poller([&](SliceCore& core) { return core.remove(id); });
}

void SoftSlice::bind_counter_set(Qpn qp, CounterSetId set) {
    poller_.run([&](Engine&) {
        if (QueuePair* bound = core_->qp(qp)) {
            bound->counter_set = core_->counter_set(set);
        }
    });
}

Result<vrdma_counters> SoftSlice::set_counters(CounterSetId id) const {
    return on_poller([&](const SliceCore& core) -> Result<vrdma_counters> {
        const CounterSet* set = core.counter_set(id);
        return set != nullptr ? Result<vrdma_counters>{set->counters} : fail(no_such_object);
    });
}

vrdma_counters SoftSlice::counters_of_sets() const {
    return on_poller([](const SliceCore& core) { return core.counters_of_sets(); });
}

std::uint64_t SoftSlice::clock() const {
    return core_->clock();
}

void SoftSlice::set_clock(std::uint64_t now) {
    poller_.run([&](Engine&) { core_->set_clock(now); });
}

Result<> SoftSlice::attach_multicast(Qpn id, const Gid& group) {
    const auto first = on_poller([&](SliceCore& core) -> Result<bool> {
        QueuePair* qp = core.qp(id);
        return qp != nullptr ? Result<bool>{core.attach(*qp, group)} : fail(no_such_object);
    });
    if (!first) {
        return fail(first.error());
    }
    if (*first) {
        if (const auto joined = keeper_ != nullptr ? keeper_->join(group) : Result<>{}; !joined) {
            on_poller([&](SliceCore& core) { return core.detach(*core.qp(id), group); });
            return joined;
        }
        Rollback undo{[&] { detach_multicast(id, group); }};
        pollers_.run_on_all([&](Engine& engine) { engine.routes().join(group, *core_); });
        undo.keep();
    }
    return {};
}

void SoftSlice::leave(const Gid& group) {
    pollers_.run_on_all([&](Engine& engine) { engine.routes().leave(group, *core_); });
    if (keeper_ != nullptr) {
        keeper_->leave(group);
    }
}

void SoftSlice::detach_multicast(Qpn id, const Gid& group) {
    const bool last = on_poller([&](SliceCore& core) {
        QueuePair* qp = core.qp(id);
        return qp != nullptr && core.detach(*qp, group);
    });
    if (last) {
        leave(group);
    }
}

void SoftSlice::freeze() {
    halt();
    drain();
    poller_.run([&](Engine&) { core_->freeze(); });
    const auto run = on_poller_in_steps();
    call_in_steps(core_->qps(), run, [](QueuePair& qp) { soft::freeze(qp); });
    call_in_steps(core_->cqs(), run, [&](CompletionQueue& cq) { core_->freeze(cq); });
    for (const auto& numbered : core_->eqs()) {
        EventQueue& eq = *numbered.second;
        while (on_poller([&](SliceCore& core) { return core.freeze(eq); })) {
        }
    }
}

void SoftSlice::for_each_gid(const std::function<void(RoutingTable&, const GidKey&)>& change) {
    for (std::uint32_t index = 0; index < SliceCore::max_gids; ++index) {
        if (const GidKey* const key = core_->gid(index)) {
            pollers_.run_on_all([&](Engine& engine) { change(engine.routes(), *key); });
        }
    }
}

void SoftSlice::give_way() {
    if (!std::exchange(gave_way_, true)) {
        for_each_gid([&](RoutingTable& routes, const GidKey& key) { routes.remove(key, *core_); });
    }
}

// The words of each QP are in the client's memory, so the control thread does not wait for all of
// them at once.
bool SoftSlice::thaw() {
    if (std::exchange(gave_way_, false)) {
        for_each_gid([&](RoutingTable& routes, const GidKey& key) {
            routes.add(key, *core_, core_->qpns());
        });
    }
    if (core_->frozen()) {
        poller_.run([&](Engine&) { core_->thaw(); });
        next_to_thaw_ = core_->qps().begin();
    }
    poller_.run([&](Engine&) {
        call_some(core_->qps(), next_to_thaw_, [](QueuePair& qp) { soft::thaw(qp); });
    });
    return next_to_thaw_ != core_->qps().end();
}

EqState SoftSlice::save_eq(EqId id) const {
    return on_poller([&](SliceCore& core) {
        const EventQueue* eq = core.eq(id);
        return eq != nullptr ? eq->save() : EqState{};
    });
}

CqState SoftSlice::save_cq(Cqn id) const {
    return on_poller([&](SliceCore& core) {
        const CompletionQueue* cq = core.cq(id);
        return cq != nullptr ? cq->save() : CqState{};
    });
}

SrqState SoftSlice::save_srq(Srqn id) const {
    return on_poller([&](SliceCore& core) {
        const SharedReceiveQueue* srq = core.srq(id);
        return srq != nullptr ? srq->save() : SrqState{};
    });
}

FastMrState SoftSlice::save_fast_mr(Key key) const {
    return on_poller([&](SliceCore& core) {
        const MemoryRegion* region = core.gate().find_name(key);
        return region != nullptr ? state_of(*region) : FastMrState{};
    });
}

std::vector<Iova> SoftSlice::save_fast_pages(Key key) const {
    return on_poller([&](SliceCore& core) {
        const MemoryRegion* region = core.gate().find_name(key);
        if (region == nullptr || !region->valid) {
            return std::vector<Iova>{};
        }
        const Blocks blocks = region->pages.pages().blocks;
        return std::vector<Iova>{blocks.begin(), blocks.end()};
    });
}

MwState SoftSlice::save_mw(Key key) const {
    return on_poller([&](SliceCore& core) {
        const MemoryRegion* window = core.gate().find_name(key);
        return window != nullptr ? window_state(*window) : MwState{};
    });
}

QpState SoftSlice::save_qp(Qpn id) const {
    return on_poller([&](SliceCore& core) {
        const QueuePair* qp = core.qp(id);
        return qp != nullptr ? save(*qp) : QpState{};
    });
}

std::vector<vrdma_sge> SoftSlice::save_held_receive(Qpn id) const {
    return on_poller([&](SliceCore& core) {
        const QueuePair* qp = core.qp(id);
        return qp != nullptr && qp->holds_receive ? list(*qp->held) : std::vector<vrdma_sge>{};
    });
}

std::vector<std::byte> SoftSlice::save_connection(Qpn id) const {
    return on_poller([&](SliceCore& core) {
        const QueuePair* qp = core.qp(id);
        return qp != nullptr && is_connected(*qp) ? qp->connection->save()
                                                  : std::vector<std::byte>{};
    });
}

Result<> SoftSlice::restore_eq(EqId id, const EqState& state) {
    return on_poller([&](SliceCore& core) -> Result<> {
        EventQueue* eq = core.eq(id);
        return eq != nullptr ? eq->restore(state) : fail(no_such_object);
    });
}

Result<> SoftSlice::restore_cq(Cqn id, const CqState& state) {
    return on_poller([&](SliceCore& core) -> Result<> {
        CompletionQueue* cq = core.cq(id);
        if (cq == nullptr) {
            return fail(no_such_object);
        }
        const auto restored = cq->restore(state);
        if (restored) {
            core.announce_waiting(*cq, state);
        }
        return restored;
    });
}

Result<> SoftSlice::restore_srq(Srqn id, const SrqState& state) {
    return on_poller([&](SliceCore& core) -> Result<> {
        SharedReceiveQueue* srq = core.srq(id);
        return srq != nullptr ? srq->restore(state) : fail(no_such_object);
    });
}

Result<> SoftSlice::restore_fast_mr(Key key, const FastMrState& state,
                                    std::span<const Iova> pages) {
    if (name_of(key) != name_of(Key{state.key}) || state.valid > 1 || state.reserved != 0 ||
        state.start > UINT64_MAX - state.length) {
        return fail(std::errc::invalid_argument);
    }
    GuestBuffer buffer;
    if (state.valid == 1) {
        Blocks blocks;
        blocks.append(pages);
        auto mapped = GuestBuffer::map(core_->memory(), {std::move(blocks), state.block_shift,
                                                         state.first_offset, state.length});
        if (!mapped) {
            return fail(mapped.error());
        }
        buffer = std::move(*mapped);
    }
    return on_poller([&](SliceCore& core) -> Result<> {
        MemoryRegion* region = core.gate().find_name(key);
        if (region == nullptr || region->kind != KeyKind::fast_region ||
            !region->pages.load(buffer)) {
            return fail(std::errc::invalid_argument);
        }
        region->key = Key{state.key};
        region->valid = state.valid == 1;
        region->start = state.start;
        region->length = state.length;
        region->access_flags = state.access_flags | MemoryRegion::local_read;
        return {};
    });
}

Result<> SoftSlice::restore_mw(Key key, const MwState& state) {
    if (name_of(key) != name_of(Key{state.key}) || state.bound > 1 || state.reserved != 0 ||
        (state.bound == 1 && state.length == 0)) {
        return fail(std::errc::invalid_argument);
    }
    return on_poller([&](SliceCore& core) -> Result<> {
        MemoryRegion* window = core.gate().find_name(key);
        QueuePair* owner = core.qp(Qpn{state.owner});
        if (window == nullptr ||
            (owner != nullptr) != (window->kind == KeyKind::window_2 && state.bound == 1)) {
            return fail(std::errc::invalid_argument);
        }
        window->key = Key{state.key};
        const vrdma_sq_bind bind{state.address, state.length, state.region, state.access_flags};
        const bool restored =
            state.bound == 0 ||
            bind_window(core.gate(), Key{state.key}, window->pd, owner, bind) == VRDMA_VERR_NONE;
        return restored ? Result<>{} : fail(std::errc::invalid_argument);
    });
}

Result<> SoftSlice::restore_qp(Qpn id, const QpState& state,
                               std::span<const vrdma_sge> held_receive) {
    return on_poller([&](SliceCore& core) -> Result<> {
        QueuePair* qp = core.qp(id);
        return qp != nullptr ? restore(*qp, state, held_receive) : fail(no_such_object);
    });
}

Result<> SoftSlice::restore_connection(Qpn id, std::span<const std::byte> state) {
    return on_poller([&](SliceCore& core) -> Result<> {
        QueuePair* qp = core.qp(id);
        return qp != nullptr && is_connected(*qp) ? qp->connection->restore(state)
                                                  : fail(std::errc::invalid_argument);
    });
}

} // namespace vrdma::hca::soft
