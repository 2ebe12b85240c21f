// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/connection.h"

#include <algorithm>

#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/peer.h"
#include "mediator/hca/soft/transport/roce/outbound.h"
#include "mediator/hca/soft/transport/roce/path.h"
#include "mediator/hca/soft/transport/roce/port.h"
#include "mediator/hca/soft/transport/roce/responder.h"
#include "mediator/hca/soft/transport/roce/send.h"
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

// Returns whether the peer is on the network: no device of this mediator has its GID.
bool look_up(Connection& c) noexcept {
    const RoutingTable& routes = c.port.engine().routes();
    const auto route = route_of(c.qp);
    c.epoch = routes.epoch();
    if (route) {
        c.path = make_path(c.qp.slice, *route, c.qp.attr.av);
        let_mark(c.path);
    }
    c.mtu = mtu_bytes(c.qp.attr.path_mtu);
    return route && !routes.knows(route->target);
}

} // namespace

void Connection::locate_peer() noexcept {
    if (epoch != port.engine().routes().epoch() && is_quiet(*this)) {
        leaves_host_ = look_up(*this);
    }
}

Turn Connection::send() noexcept {
    return send_packets(*this);
}

bool Connection::fits(std::uint8_t path_mtu) const noexcept {
    return mtu_bytes(path_mtu) <= port.max_mtu();
}

void Connection::start_receiving() noexcept {
    in.expected = qp.attr.rq_psn & psn_mask;
    in.msn = 0;
    in.credits = CreditsGiven{qp.rq.head()};
    in.frozen = false;
    reaction = {};
    leaves_host_ = look_up(*this);
}

void Connection::start_sending() noexcept {
    out.snd_una = out.snd_nxt = out.snd_max = qp.attr.sq_psn & psn_mask;
}

void Connection::stop() noexcept {
    answer(*this); // acknowledges what was executed, and answers READs as far as a turn allows
    if (!out.sent.empty()) {
        qp.sq.seek(out.sent.front().index); // the first WQE to flush or forget
    }
    port.forget(*this);
    out = {};
    reaction = {};
    epoch = 0;
    if (executing && has_answers(*this)) {
        in.open = false;
        in.ending = true;
        port.answer_soon(*this);
    } else {
        end(*this);
    }
}

void Connection::pause() noexcept {
    in.frozen = true;
    port.forget(*this);
    if (!out.sent.empty()) {
        go_back(*this);
    }
}

// A peer whose packet has been accepted since the thaw is not told any more.
void Connection::resume() noexcept {
    locate_peer();
    in.frozen = in.frozen && leaves_host_ && is_connected(qp) && qp.reliable() &&
                qp.type != QpType::xrc_send;
    port.answer_soon(*this);
}

} // namespace vrdma::hca::soft::roce
