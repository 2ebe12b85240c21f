// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The QPs of a slice, with their address handles, multicast groups and counters.
#include "mediator/base/rollback.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/qp/removal.h"
#include "mediator/hca/soft/soft_slice.h"

namespace vrdma::hca::soft {

Result<> SoftSlice::create_ah(const AhSpec& spec) {
    auto target = core_->member() != nullptr ? core_->member()->find_target(*core_, spec)
                                             : Result<std::unique_ptr<NetworkTarget>>{};
    if (!target) {
        return fail(target.error());
    }
    return on_poller([&](SliceCore& core) {
        return core.insert(spec.id, {spec.pd, spec.av, std::move(*target)});
    });
}

void SoftSlice::destroy_ah(AhId id) {
    static_cast<void>(on_poller([&](SliceCore& core) { return core.remove(id); }));
}

Result<std::optional<Qpn>> SoftSlice::name_qp(const QpSpec& spec) {
    return chooses_names() ? core_->member()->name_qp(spec) : std::nullopt;
}

// The number is one that the verbs layer has not chosen, and so it does not tell whose it is.
void SoftSlice::add_name(Qpn id) {
    if (chooses_names()) {
        pollers_.run_on_all([&](Engine& engine) { engine.routes().name(id, *core_); });
    }
}

void SoftSlice::remove_name(Qpn id) {
    if (chooses_names()) {
        pollers_.run_on_all([&](Engine& engine) { engine.routes().unname(id, *core_); });
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
    if (slot) {
        Rollback undo{[&] { on_poller([&](SliceCore& core) { return remove(core, spec.id); }); }};
        add_name(spec.id);
        undo.keep();
    }
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
    if (const QueuePair* const qp = core_->qp(id); qp != nullptr && qp->connection != nullptr) {
        if (const auto prepared = qp->connection->prepare(attr); !prepared) {
            return prepared;
        }
    }
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
        remove_name(id);
        drain();
        unused_.add(std::move(qp->buffer));
    }
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

} // namespace vrdma::hca::soft
