// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/soft_slice.h"

#include "mediator/hca/soft/qp_state.h"
#include "mediator/hca/soft/receive_queue.h"

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

} // namespace

SoftSlice::SoftSlice(Pollers& pollers, const SliceSpec& spec, SliceHost& host)
    : pollers_{pollers}, poller_{pollers.quietest()} {
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

// First nothing leaves any more, then nobody finds the way here, then what is under way comes to
// its end.
SoftSlice::~SoftSlice() {
    poller_.run([&](Engine&) { core_->halt(); });
    for (std::uint32_t index = 0; index < SliceCore::max_gids; ++index) {
        clear_gid(index);
    }
    pollers_.drain_all();
    poller_.run([&](Engine& engine) {
        engine.remove(*core_);
        core_.reset();
    });
}

Result<> SoftSlice::populate(const GuestBuffer& ring) const {
    return core_->frozen() ? Result<>{} : ring.populate(core_->memory());
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
    pollers_.run_on_all([&](Engine& engine) { engine.fabric().remove(key, *core_); });
    poller_.run([&](Engine&) { core_->set_gid(index, std::nullopt); });
}

Result<> SoftSlice::set_gid(std::uint32_t index, std::uint8_t type, const Gid& gid) {
    if (index >= SliceCore::max_gids) {
        return fail(std::errc::invalid_argument);
    }
    clear_gid(index);
    if (gid != Gid{}) {
        const GidKey key{gid, type};
        poller_.run([&](Engine&) { core_->set_gid(index, key); });
        pollers_.run_on_all([&](Engine& engine) { engine.fabric().add(key, *core_); });
    }
    return {};
}

Result<> SoftSlice::create_eq(const EqSpec& spec) {
    auto eq = EventQueue::create(core_->memory(), core_->host(), spec);
    if (!eq) {
        return fail(eq.error());
    }
    if (const auto populated = populate((*eq)->buffer()); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*eq)); });
}

void SoftSlice::destroy_eq(EqId id) {
    if (const auto eq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        eq->buffer().release(core_->memory());
    }
}

void SoftSlice::post_async_event(EqId id, std::uint8_t type, std::uint32_t object) {
    poller_.run([&](Engine& engine) {
        EventQueue* eq = core_->eq(id);
        if (eq != nullptr && eq->post(type, object)) {
            engine.events().activate(*eq);
        }
    });
}

Result<> SoftSlice::create_cq(const CqSpec& spec) {
    auto cq = CompletionQueue::create(core_->memory(), core_->eq(spec.eq), spec);
    if (!cq) {
        return fail(cq.error());
    }
    if (const auto populated = populate((*cq)->buffer()); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*cq)); });
}

void SoftSlice::destroy_cq(Cqn id) {
    if (const auto cq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        cq->buffer().release(core_->memory());
    }
}

Result<> SoftSlice::register_mr(MrSpec spec) {
    auto region = std::make_unique<MemoryRegion>();
    *region = {.key = spec.key,
               .pd = spec.pd,
               .start = spec.start,
               .length = spec.length,
               .access_flags = spec.access_flags,
               .dma = spec.dma,
               .pages = {}};
    if (!spec.dma) {
        auto pages = GuestBuffer::map(core_->memory(), std::move(spec.pages));
        if (!pages) {
            return fail(pages.error());
        }
        if (pages->length() < spec.length) {
            return fail(std::errc::invalid_argument);
        }
        region->pages = std::move(*pages);
    }
    return on_poller([&](SliceCore& core) { return core.gate().insert(std::move(region)); });
}

void SoftSlice::deregister_mr(Key key) {
    if (const auto region = on_poller([&](SliceCore& core) { return core.gate().remove(key); })) {
        drain();
        region->pages.release(core_->memory());
    }
}

Result<> SoftSlice::create_ah(const AhSpec& spec) {
    return on_poller([&](SliceCore& core) { return core.insert(spec.id, {spec.pd, spec.av}); });
}

void SoftSlice::destroy_ah(AhId id) {
    poller_.run([&](Engine&) { core_->remove(id); });
}

Result<> SoftSlice::create_srq(const SrqSpec& spec) {
    auto srq = SharedReceiveQueue::create(*core_, spec);
    if (!srq) {
        return fail(srq.error());
    }
    if (const auto populated = populate((*srq)->buffer); !populated) {
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
    if (const auto srq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        srq->buffer.release(core_->memory());
    }
}

Result<std::uint32_t> SoftSlice::create_qp(const QpSpec& spec) {
    CompletionQueue* send_cq = core_->cq(spec.send_cq);
    CompletionQueue* recv_cq = core_->cq(spec.recv_cq);
    SharedReceiveQueue* srq = core_->srq(spec.srq);
    if (send_cq == nullptr || recv_cq == nullptr || (spec.srq != Srqn{} && srq == nullptr)) {
        return fail(std::errc::invalid_argument);
    }
    auto qp = QueuePair::create(*core_, *send_cq, *recv_cq, srq, spec);
    if (!qp) {
        return fail(qp.error());
    }
    if (const auto populated = populate((*qp)->buffer); !populated) {
        return fail(populated.error());
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*qp)); });
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
    const auto remove = [&](SliceCore& core) {
        if (QueuePair* qp = core.qp(id)) {
            flush_held(*qp); // its poster learns by the CQE that it got the WQE back
        }
        return core.remove(id);
    };
    if (const auto qp = on_poller(remove)) {
        drain();
        qp->buffer.release(core_->memory());
    }
}

void SoftSlice::freeze() {
    poller_.run([&](Engine&) { core_->halt(); });
    drain();
    poller_.run([&](Engine&) { core_->freeze(); });
}

void SoftSlice::thaw() {
    poller_.run([&](Engine&) { core_->thaw(); });
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

Result<> SoftSlice::restore_qp(Qpn id, const QpState& state,
                               std::span<const vrdma_sge> held_receive) {
    return on_poller([&](SliceCore& core) -> Result<> {
        QueuePair* qp = core.qp(id);
        return qp != nullptr ? restore(*qp, state, held_receive) : fail(no_such_object);
    });
}

} // namespace vrdma::hca::soft
