// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/peer.h"

#include <algorithm>

#include "mediator/hca/soft/engine.h"

namespace vrdma::hca::soft {
namespace {

Gid destination(const QueuePair& qp) noexcept {
    Gid gid;
    std::copy(std::begin(qp.attr.av.dgid), std::end(qp.attr.av.dgid), gid.begin());
    return gid;
}

QueuePair* look_up(const QueuePair& qp) noexcept {
    const GidKey* source = qp.slice.gid(qp.attr.av.sgid_index);
    if (source == nullptr) {
        return nullptr;
    }
    const GidKey target{destination(qp), source->type};
    const SliceCore* slice = qp.slice.engine().fabric().find(target, qp.slice);
    QueuePair* peer = slice != nullptr ? slice->qp(Qpn{qp.attr.dest_qpn}) : nullptr;
    if (peer == nullptr || peer->type != qp.type || Qpn{peer->attr.dest_qpn} != qp.id ||
        destination(*peer) != source->gid) {
        return nullptr;
    }
    const GidKey* peer_source = slice->gid(peer->attr.av.sgid_index);
    return peer_source != nullptr && *peer_source == target ? peer : nullptr;
}

} // namespace

QueuePair* find_peer(QueuePair& qp) noexcept {
    const std::uint64_t epoch = qp.slice.engine().fabric().epoch();
    if (qp.peer.epoch != epoch) {
        qp.peer = {epoch, look_up(qp)};
    }
    return qp.peer.qp;
}

} // namespace vrdma::hca::soft
