// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/local/send.h"

#include <algorithm>
#include <utility>

#include "mediator/hca/soft/common/hole_count.h"
#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/datagram.h"
#include "mediator/hca/soft/transport/execute.h"
#include "mediator/hca/soft/transport/gsi.h"
#include "mediator/hca/soft/transport/peer.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/send_queue.h"
#include "mediator/hca/soft/transport/sniff.h"

namespace vrdma::hca::soft {
namespace {

void retry_later(QueuePair& qp, Clock::duration delay) noexcept {
    qp.sent = 0;
    qp.slice.engine().scheduler().wait_until(qp, Clock::now() + delay);
}

// A peer on this host may be silent for as long as one on the network before a retry counts. It is
// tried after each timeout all the same, as that costs no packet.
void retry_lost(QueuePair& qp, const Message& message) noexcept {
    const std::uint8_t timeout = qp.attr.timeout;
    if (qp.unanswered * ack_timeout(timeout) >= silence_timeout(timeout)) {
        qp.count(VRDMA_COUNTER_ACK_TIMEOUTS);
        if (timeout != 0 && qp.retries_left-- == 0) {
            fail_message(qp, message, IBV_WC_RETRY_EXC_ERR, VRDMA_VERR_PEER);
            return;
        }
        qp.unanswered = 0;
    }
    ++qp.unanswered;
    retry_later(qp, ack_timeout(timeout));
}

void miss_peer(QueuePair& qp, const Message& message) noexcept {
    if (qp.expects_peer) {
        fail_message(qp, message, IBV_WC_RETRY_EXC_ERR, VRDMA_VERR_PEER);
    } else {
        retry_lost(qp, message);
    }
}

void retry_not_ready(QueuePair& qp, const Message& message, std::uint8_t timer) noexcept {
    qp.count(VRDMA_COUNTER_RNR_NAKS);
    if (!qp.take_rnr_retry()) {
        fail_message(qp, message, IBV_WC_RNR_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    retry_later(qp, rnr_delay(timer));
}

// A peer whose driver does not answer is treated as gone.
void wait_for_peers_pages(QueuePair& qp, const Message& message) noexcept {
    if (qp.page_waits == reliable_page_waits) {
        fail_message(qp, message, IBV_WC_RETRY_EXC_ERR, VRDMA_VERR_PEER);
    } else {
        wait_for_pages(qp);
    }
}

void arrived(QueuePair& qp, const Request& request) noexcept {
    if (request.last()) {
        succeed(qp, request.message);
    } else {
        qp.sent += request.payload.bytes();
        qp.page_waits = 0;
    }
    qp.note_arrival();
}

void answered(QueuePair& qp, const Request& request, Ack ack) noexcept {
    const Message& message = request.message;
    switch (ack.status) {
        case AckStatus::ok:
            return arrived(qp, request);
        case AckStatus::no_answer:
            return retry_lost(qp, message);
        case AckStatus::no_such_qp:
            return miss_peer(qp, message);
        case AckStatus::receiver_not_ready:
            return retry_not_ready(qp, message, ack.rnr_timer);
        case AckStatus::invalid_request:
            return fail_message(
                qp, message, IBV_WC_REM_INV_REQ_ERR,
                message.is_aligned() && message.remote_address % sizeof(std::uint64_t) != 0
                    ? VRDMA_VERR_ALIGNMENT
                    : VRDMA_VERR_PEER_ERROR);
        case AckStatus::access_error:
            return fail_message(qp, message, IBV_WC_REM_ACCESS_ERR, VRDMA_VERR_PEER_ERROR);
        case AckStatus::operation_error:
            return fail_message(qp, message, IBV_WC_REM_OP_ERR, VRDMA_VERR_PEER_ERROR);
        case AckStatus::bad_response:
            return fail_message(qp, message, IBV_WC_BAD_RESP_ERR, VRDMA_VERR_PEER);
        case AckStatus::payload_revoked:
            return fail_message(qp, message, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
        case AckStatus::pages_absent:
        case AckStatus::not_now:
            return wait_for_peers_pages(qp, message);
        case AckStatus::resting:
            return retry_later(qp, rnr_delay(ack.rnr_timer));
    }
}

bool may_pass(Ack ack) noexcept {
    return ack.status == AckStatus::pages_absent || ack.status == AckStatus::not_now;
}

// UC has no answers, so only local errors are known (IBA 9.8.2).
void sent_unreliably(QueuePair& qp, const Request& request, Ack ack) noexcept {
    if (ack.status == AckStatus::payload_revoked) {
        fail_message(qp, request.message, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
    } else if (qp.served_join != 0) {
        return; // other members of the multicast group are still to come
    } else if (ack.status == AckStatus::ok) {
        arrived(qp, request);
    } else if (ack.status == AckStatus::resting) {
        retry_later(qp, rnr_delay(ack.rnr_timer));
    } else if (may_pass(ack) && qp.page_waits < unreliable_page_waits) {
        wait_for_pages(qp);
    } else {
        succeed(qp, request.message); // the rest would be dropped as well
    }
}

// Sends a piece to a slice of another poller, which answers later.
std::optional<std::uint64_t> send_away(QueuePair& qp, const Request& request,
                                       const std::optional<Route>& route, SliceCore& to) noexcept {
    if (!route || !qp.slice.engine().cross_queue().send(qp, request, *route, to)) {
        return std::nullopt;
    }
    qp.sq_started = true;
    return request.payload.bytes();
}

void touch_pages(const SpanList& payload) noexcept {
    for (const std::span<std::byte> span : payload) {
        if (span.data() == nullptr) { // see copy.h
            continue;
        }
        for (std::size_t at = 0; at < span.size(); at += VRDMA_PAGE_SIZE) {
            static_cast<void>(load_relaxed(span[at]));
        }
        static_cast<void>(load_relaxed(span.back()));
    }
}

// Creating a page takes as long as copying a long piece, and others wait meanwhile. So if a slice
// has had holes, each hole is filled in its own turn, as far as it can be found beforehand. A hole
// that cannot be filled is left to the copy, which reports it.
bool fills_hole(GuestMemory& memory, const SpanList& payload) noexcept {
    HoleCount holes;
    return guarded(memory, payload, [&] { touch_pages(payload); }) && holes.any();
}

// Opens the payload of the message at the head. Returns false if the message has failed, or nothing
// if it must wait.
std::optional<bool> open_or_fail(QueuePair& qp, const SendWqe& wqe, SpanList& payload) noexcept {
    const vrdma_vendor_err error = open_payload(qp, wqe, qp.sent, payload);
    if (error == VRDMA_VERR_ABSENT) {
        wait_for_own_pages(qp);
        return std::nullopt;
    }
    if (error != VRDMA_VERR_NONE) {
        fail_message(qp, wqe, IBV_WC_LOC_PROT_ERR, error);
        return false;
    }
    return true;
}

// For a QP whose slice has a sniffer there is a second copy of the functions that send, so that the
// others do not ask for each message whether there is one.
enum class Sniffed : bool { no, yes };

template <Sniffed sniffed>
void conclude_as(QueuePair& qp, const Request& request, Ack ack) noexcept {
    if constexpr (sniffed == Sniffed::yes) {
        sniff_sent(qp, request, ack);
    }
    conclude(qp, request, ack);
}

// Sends the next piece of the message at the head. Returns its bytes, or nothing if it must wait.
template <Sniffed sniffed>
std::optional<std::uint64_t> send_piece(QueuePair& qp, const SendWqe& wqe, std::uint64_t limit,
                                        bool careful) noexcept {
    if (is_answered(wqe.opcode) && qp.attr.max_rd_atomic == 0) {
        fail_message(qp, wqe, IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE);
        return 0;
    }
    SpanList payload{limit};
    const auto opened = open_or_fail(qp, wqe, payload);
    if (!opened) {
        return std::nullopt;
    }
    if (!*opened) {
        return 0;
    }
    if (careful && fills_hole(qp.slice.memory(), payload)) {
        return 0;
    }
    const Request request{wqe, &qp.slice, payload, qp.sent, qp.attr.path_mtu};
    const Peer& peer = find_peer(qp);
    if (peer.elsewhere != nullptr) {
        return send_away(qp, request, route_of(qp), *peer.elsewhere);
    }
    qp.sq_started = true;
    conclude_as<sniffed>(
        qp, request,
        peer.qp != nullptr ? execute(*peer.qp, request) : answer_without_listener(peer.here));
    return payload.bytes();
}

// The address vector of a datagram. nullptr if its AH does not exist or belongs to another PD.
const vrdma_av* destination(const QueuePair& qp, const SendWqe& wqe) noexcept {
    if (wqe.has_av) {
        return wqe.av_pd == PdId{} || wqe.av_pd == qp.pd ? &wqe.av : nullptr;
    }
    const AddressHandle* ah = qp.slice.ah(wqe.ah);
    return ah != nullptr && ah->pd == qp.pd ? &ah->av : nullptr;
}

// Sends a multicast to members on the network, as its last step. The port records what it sends.
template <Sniffed sniffed>
std::optional<std::uint64_t> end_multicast(QueuePair& qp, const Request& request,
                                           const Route& route) noexcept {
    NetworkPort* const port = qp.slice.port();
    const Ack ack = port != nullptr ? port->send_datagram(qp, request, route) : Ack{AckStatus::ok};
    if (may_pass(ack) && qp.page_waits < unreliable_page_waits) {
        wait_for_pages(qp);
        return std::nullopt;
    }
    if (ack.status == AckStatus::payload_revoked) {
        fail_message(qp, request.message, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
    } else {
        succeed(qp, request.message);
    }
    if constexpr (sniffed == Sniffed::yes) {
        if (port == nullptr) {
            sniff_sent_datagram(qp.slice, route, request, ack);
        }
    }
    return request.payload.bytes();
}

// Sends to the next slice that has QPs in the group, or ends the message if there is none. The QP's
// own slice is treated like the others.
template <Sniffed sniffed>
std::optional<std::uint64_t> send_multicast(QueuePair& qp, const Request& request,
                                            const Route& route) noexcept {
    Engine& engine = qp.slice.engine();
    const auto* const next = engine.routes().next_member(route.target.gid, qp.served_join);
    if (next == nullptr) {
        return end_multicast<sniffed>(qp, request, route);
    }
    SliceCore& to = *next->slice;
    const std::uint64_t before = std::exchange(qp.served_join, next->join);
    if (&to.engine() != &engine) {
        const auto sent = send_away(qp, request, route, to);
        qp.served_join = sent ? qp.served_join : before;
        return sent;
    }
    qp.sq_started = true;
    const std::size_t copies = to.group(route.target.gid).size();
    qp.slice.account().charge(0, copies);
    conclude(qp, request, receive_multicast(to, route, request));
    return request.payload.bytes() * copies;
}

SliceCore* find_target(const RoutingTable& routes, const Route& route,
                       const Request& request) noexcept {
    return route.to == gsi_qpn ? find_gsi(routes, route.target, request)
                               : routes.find(route.target, route.to, request.from);
}

// A GID that no device here has may belong to a peer on the network.
Ack send_out(QueuePair& qp, const Request& request, const std::optional<Route>& route) noexcept {
    NetworkPort* const port = qp.slice.port();
    if (port == nullptr || !route || qp.slice.engine().routes().knows(route->target)) {
        return {AckStatus::no_answer};
    }
    return port->send_datagram(qp, request, *route);
}

template <Sniffed sniffed>
std::optional<std::uint64_t> send_one_datagram(QueuePair& qp, const SendWqe& wqe) noexcept {
    if (wqe.length > qp.slice.max_mtu()) {
        fail_message(qp, wqe, IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH);
        return 0;
    }
    SpanList payload{max_mtu};
    const auto opened = open_or_fail(qp, wqe, payload);
    if (!opened) {
        return std::nullopt;
    }
    if (!*opened) {
        return 0;
    }
    const vrdma_av* av = destination(qp, wqe);
    if (av == nullptr) {
        fail_message(qp, wqe, IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_AH);
        return 0;
    }
    const Request request{wqe, &qp.slice, payload, 0};
    const auto route = route_of(qp, wqe, *av);
    if (route && is_multicast(route->target.gid)) {
        return send_multicast<sniffed>(qp, request, *route);
    }
    qp.served_join = 0; // the guest may have changed the WQE meanwhile
    Engine& engine = qp.slice.engine();
    SliceCore* const to = route ? find_target(engine.routes(), *route, request) : nullptr;
    if (to != nullptr && &to->engine() != &engine) {
        return send_away(qp, request, route, *to);
    }
    const Ack ack =
        to != nullptr ? receive_datagram(*to, *route, request) : send_out(qp, request, route);
    if constexpr (sniffed == Sniffed::yes) {
        if (route && (to != nullptr || ack.status == AckStatus::no_answer)) { // no port sent it
            sniff_sent_datagram(qp.slice, *route, request, ack);
        }
    }
    conclude(qp, request, ack);
    return payload.bytes();
}

template <Sniffed sniffed>
Turn send_messages_as(QueuePair& qp) noexcept {
    const Config& config = qp.slice.engine().config();
    const Scheduler& scheduler = qp.slice.engine().scheduler();
    Account& account = qp.slice.account();
    const bool careful = account.is_careful(scheduler.now());
    const std::uint64_t longest_piece = careful ? VRDMA_PAGE_SIZE : scheduler.turn();
    HoleCount holes;
    SendWqe wqe;
    for (unsigned pieces = 0; pieces < config.turn_wqes && account.in_credit(); ++pieces) {
        const bool waits = qp.timer.place != Timer::unset || qp.waits_for_cross_request();
        const std::uint32_t ctrl = qp.may_send() && !waits ? qp.sq.peek() : 0;
        if (ctrl == 0) {
            return pieces != 0 ? Turn::more : Turn::idle;
        }
        account.charge(0);
        if (const WqeError error = parse(qp.sq.entry(), ctrl, qp.send_limits, wqe)) {
            fail_message(qp, wqe, static_cast<ibv_wc_status>(error.status), error.reason);
            continue;
        }
        if (qp.sent > wqe.length) { // the guest changed it while it was being sent
            fail_message(qp, wqe, IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH);
            continue;
        }
        if (wqe.is_local()) {
            execute_here(qp, wqe);
            continue;
        }
        const auto sent = qp.type == QpType::ud
                              ? send_one_datagram<sniffed>(qp, wqe)
                              : send_piece<sniffed>(qp, wqe, longest_piece, careful);
        if (holes.any()) [[unlikely]] {
            account.charge_holes(holes.take(), scheduler.now());
        }
        if (!sent) {
            return Turn::idle;
        }
        account.charge(*sent, 0);
    }
    return Turn::more;
}

} // namespace

void conclude(QueuePair& qp, const Request& request, Ack ack) noexcept {
    if (!qp.may_send()) {
        return; // it failed meanwhile: its peer may be itself, or share a CQ with it
    }
    if (qp.reliable()) {
        answered(qp, request, ack);
    } else {
        sent_unreliably(qp, request, ack);
    }
}

void conclude_sniffed(QueuePair& qp, const Request& request, const Route& route, Ack ack) noexcept {
    if (qp.type != QpType::ud) {
        sniff_sent(qp, request, ack);
    } else if (!is_multicast(route.target.gid)) { // which is recorded when all members have had it
        sniff_sent_datagram(qp.slice, route, request, ack);
    }
    conclude(qp, request, ack);
}

Turn send_messages(QueuePair& qp) noexcept {
    return qp.slice.sniffed() ? send_messages_as<Sniffed::yes>(qp)
                              : send_messages_as<Sniffed::no>(qp);
}

} // namespace vrdma::hca::soft
