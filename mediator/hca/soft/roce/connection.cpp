// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/roce/connection.h"

#include <algorithm>

#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/peer.h"
#include "mediator/hca/soft/roce/path.h"
#include "mediator/hca/soft/roce/port.h"
#include "mediator/hca/soft/roce/requester.h"
#include "mediator/hca/soft/roce/responder.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {
namespace {

bool is_quiet(const Connection& c) noexcept {
    return c.out.sent.empty() && c.qp.sent == 0 && c.qp.cross_request == nullptr;
}

// Lets routers mark the path's packets, because their sender reacts to notices.
void let_mark(wire::Path& path) noexcept {
    if (path.type == wire::Encapsulation::roce_v2) {
        path.traffic_class |= VRDMA_ECN_CAPABLE;
    }
}

// A GID that no device of this mediator has belongs to a peer on the network.
void look_up(Connection& c) noexcept {
    const RoutingTable& routes = c.port.engine().routes();
    const auto route = route_of(c.qp);
    c.epoch = routes.epoch();
    c.remote = route && !routes.knows(route->target);
    if (route) {
        c.path = make_path(c.qp.slice, *route, c.qp.attr.av);
        c.path.source_port = flow_port(c.qp.attr.av, c.qp.id, Qpn{c.qp.attr.dest_qpn});
        let_mark(c.path);
    }
    c.mtu = mtu_bytes(c.qp.attr.path_mtu);
}

} // namespace

bool is_remote(QueuePair& qp) noexcept {
    Connection& c = *qp.connection;
    if (c.epoch != c.port.engine().routes().epoch() && is_quiet(c)) {
        look_up(c);
    }
    return c.remote;
}

bool fits(const Connection& c, std::uint8_t path_mtu) noexcept {
    return mtu_bytes(path_mtu) <= c.port.max_mtu();
}

void start_receiving(Connection& c) noexcept {
    c.in.expected = c.qp.attr.rq_psn & psn_mask;
    c.in.msn = 0;
    c.in.credits = CreditsGiven{c.qp.rq.head()};
    c.reaction = {};
    look_up(c);
}

void start_sending(Connection& c) noexcept {
    c.out.snd_una = c.out.snd_nxt = c.out.snd_max = c.qp.attr.sq_psn & psn_mask;
}

void stop(Connection& c) noexcept {
    answer(c); // acknowledges what was executed, and answers READs as far as a turn allows
    if (!c.out.sent.empty()) {
        c.qp.sq.seek(c.out.sent.front().index); // the first WQE to flush or forget
    }
    c.port.forget(c);
    c.out = {};
    c.reaction = {};
    c.epoch = 0;
    if (c.executing && has_answers(c)) {
        c.in.open = false;
        c.in.ending = true;
        c.port.answer_soon(c);
    } else {
        end(c);
    }
}

void pause(Connection& c) noexcept {
    c.port.forget(c);
    if (!c.out.sent.empty()) {
        go_back(c);
    }
}

void resume(Connection& c) noexcept {
    c.port.answer_soon(c); // if anything is due: the peer need not ask again
}

} // namespace vrdma::hca::soft::roce
