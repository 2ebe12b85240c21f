// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/turns.h"

#include "mediator/hca/soft/qp/flush.h"
#include "mediator/hca/soft/transport/local/send.h"

namespace vrdma::hca::soft {

Turn send(QueuePair& qp) noexcept {
    if (qp.connection == nullptr) {
        return send_messages(qp);
    }
    qp.connection->locate_peer();
    return qp.connection->leaves_host() ? qp.connection->send() : send_messages(qp);
}

Turn take_turn(QueuePair& qp) noexcept {
    return qp.flushes() ? flush(qp) : send(qp);
}

} // namespace vrdma::hca::soft
