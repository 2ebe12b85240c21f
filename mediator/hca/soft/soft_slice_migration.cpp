// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice that rests: it is frozen, its objects are saved and restored, and it is thawed.
#include "mediator/hca/soft/common/steps.h"
#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/soft_slice.h"

namespace vrdma::hca::soft {
namespace {

std::vector<vrdma_sge> list(const RecvWqe& wqe) {
    std::vector<vrdma_sge> sges;
    for (const Sge& sge : wqe.list()) {
        sges.push_back({sge.address, sge.length, sge.lkey});
    }
    return sges;
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

void SoftSlice::let_go() {
    if (chooses_names()) {
        call_in_steps(core_->qps(), on_poller_in_steps(), [](QueuePair& qp) {
            if (qp.connection != nullptr) {
                qp.connection->let_go();
            }
        });
        core_->member()->note_writes();
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

std::uint64_t SoftSlice::save_held_number(Qpn id) const {
    return on_poller([&](SliceCore& core) -> std::uint64_t {
        const QueuePair* qp = core.qp(id);
        return qp != nullptr && qp->holds_receive ? qp->held->name.wr_id : 0;
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
        const auto restored = cq->restore(state, core.loses_requests());
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

Result<> SoftSlice::restore_held_number(Qpn id, std::uint64_t number) {
    return on_poller([&](SliceCore& core) -> Result<> {
        QueuePair* qp = core.qp(id);
        if (qp == nullptr || (number != 0 && !qp->holds_receive)) {
            return fail(std::errc::invalid_argument);
        }
        if (qp->holds_receive) {
            qp->held->name.wr_id = number;
        }
        return {};
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
