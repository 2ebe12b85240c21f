// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/peer.h"

#include <algorithm>

#include "mediator/hca/soft/slice/engine.h"

namespace vrdma::hca::soft {
namespace {

Gid destination(const QueuePair& qp) noexcept {
    Gid gid;
    std::copy(std::begin(qp.attr.av.dgid), std::end(qp.attr.av.dgid), gid.begin());
    return gid;
}

Peer look_up(const QueuePair& qp) noexcept {
    Engine& engine = qp.slice.engine();
    Peer peer;
    peer.epoch = engine.routes().epoch();
    const auto route = route_of(qp);
    SliceCore* slice = route ? engine.routes().find(route->target, route->to, &qp.slice) : nullptr;
    if (slice == nullptr) {
        return peer;
    }
    if (&slice->engine() != &engine) {
        peer.elsewhere = slice;
    } else {
        peer.here = slice;
        peer.qp = find_listener(*slice, *route);
    }
    return peer;
}

} // namespace

std::optional<Route> route_of(const QueuePair& qp) noexcept {
    const GidKey* source = qp.slice.gid(qp.attr.av.sgid_index);
    if (source == nullptr) {
        return std::nullopt;
    }
    Route route;
    route.type = qp.type == QpType::xrc_send ? QpType::xrc_recv : qp.type;
    route.source = *source;
    route.target = {destination(qp), source->type, source->vlan};
    route.from = qp.id;
    route.to = Qpn{qp.attr.dest_qpn};
    route.pkey = qp.pkey();
    route.first_psn = qp.attr.sq_psn;
    route.path_mtu = qp.attr.path_mtu;
    return route;
}

const Peer& find_peer(QueuePair& qp) noexcept {
    if (qp.peer.epoch != qp.slice.engine().routes().epoch()) {
        qp.peer = look_up(qp);
    }
    return qp.peer;
}

QueuePair* find_listener(const SliceCore& slice, const Route& route) noexcept {
    QueuePair* const listener = slice.qp(route.to);
    if (listener == nullptr || listener->type != route.type ||
        Qpn{listener->attr.dest_qpn} != route.from || destination(*listener) != route.source.gid ||
        (listener->reliable() && listener->attr.rq_psn != route.first_psn)) {
        return nullptr;
    }
    if (listener->connection != nullptr && listener->connection->takes_receives_early()) {
        return nullptr; // its peer was on the network when it was connected
    }
    const GidKey* own = slice.gid(listener->attr.av.sgid_index);
    if (own == nullptr || *own != route.target) {
        return nullptr;
    }
    if (!share_partition(listener->pkey(), route.pkey)) {
        listener->count(VRDMA_COUNTER_BAD_PKEYS);
        return nullptr;
    }
    return listener;
}

Ack answer_without_listener(const SliceCore* slice) noexcept {
    const bool runs = slice != nullptr && !slice->frozen();
    return {runs ? AckStatus::no_such_qp : AckStatus::no_answer};
}

} // namespace vrdma::hca::soft
