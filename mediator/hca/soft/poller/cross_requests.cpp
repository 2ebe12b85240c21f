// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/cross_requests.h"

#include "mediator/hca/soft/poller/turns.h"
#include "mediator/hca/soft/transport/datagram.h"
#include "mediator/hca/soft/transport/execute.h"
#include "mediator/hca/soft/transport/local/send.h"
#include "mediator/hca/soft/transport/peer.h"

namespace vrdma::hca::soft {

void CrossRequests::execute(CrossRequest& lent) noexcept {
    const Request request = lent.request();
    if (lent.route.type == QpType::ud) {
        if (is_multicast(lent.route.target.gid)) {
            lent.receivers = static_cast<unsigned>(lent.to->group(lent.route.target.gid).size());
            lent.ack = receive_multicast(*lent.to, lent.route, request);
        } else {
            lent.ack = receive_datagram(*lent.to, lent.route, request);
        }
        return;
    }
    QueuePair* const listener = find_listener(*lent.to, lent.route);
    lent.ack =
        listener != nullptr ? soft::execute(*listener, request) : answer_without_listener(lent.to);
}

void CrossRequests::conclude(QueuePair& sender, const CrossRequest& request) noexcept {
    soft::conclude(sender, request.request(), request.ack);
}

void SniffedCrossRequests::conclude(QueuePair& sender, const CrossRequest& request) noexcept {
    if (!sender.slice.sniffed()) {
        return CrossRequests::conclude(sender, request);
    }
    conclude_sniffed(sender, request.request(), request.route, request.ack);
}

void CrossRequests::resume(QueuePair& sender) noexcept {
    static_cast<void>(send(sender));
}

} // namespace vrdma::hca::soft
