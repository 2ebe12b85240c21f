// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/outbound.h"

#include <algorithm>

#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/send_completion.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/roce/port.h"
#include "mediator/hca/soft/transport/send_queue.h"

namespace vrdma::hca::soft::roce {

Clock::time_point next_rto_deadline(const Connection& c, Clock::time_point now) noexcept {
    const auto longest = ack_timeout(c.qp.attr.timeout);
    const auto rto = c.out.round_trip.rto(c.port.engine().config().min_rto).value_or(longest);
    return std::min(c.out.deadline, now + std::min(rto, longest));
}

void restart_timeout(Connection& c) noexcept {
    Outbound& out = c.out;
    const Clock::time_point now = c.port.engine().now();
    out.deadline = now + silence_timeout(c.qp.attr.timeout);
    out.rto_deadline = next_rto_deadline(c, now);
    if (c.timer.place != Timer::unset && out.rto_deadline < c.timer.deadline) {
        c.port.set_timer(c);
    }
}

void arm(Connection& c) noexcept {
    restart_timeout(c);
    c.port.set_timer(c);
}

bool finish_oldest(Connection& c, ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    QueuePair& qp = c.qp;
    const Sent oldest = c.out.sent.front();
    c.out.sent.pop_front();
    c.out.fetches -= is_answered(oldest.opcode) ? 1 : 0;
    if (takes_receive(oldest.opcode)) {
        c.out.credits.done();
    }
    if (c.out.cursor != 0) {
        --c.out.cursor;
    } else { // it was to be sent again
        qp.sq.seek(oldest.index + 1);
        qp.sent = 0;
        c.out.snd_nxt = add(oldest.last, 1);
    }
    const WqeName wqe = qp.sq.retire(oldest.index);
    qp.sq_started = !c.out.sent.empty();
    qp.page_waits = 0;
    const Message message = completed_message(oldest);
    if (status == IBV_WC_SUCCESS) {
        count_success(qp, message);
        if (!message.signaled && !qp.signal_all) {
            return true;
        }
    } else {
        count_failure(qp, status);
    }
    return write_completion(qp, wqe, message, status, reason);
}

void fail_oldest(Connection& c, ibv_wc_status status, vrdma_vendor_err reason) noexcept {
    if (c.out.sent.empty()) {
        return;
    }
    if (finish_oldest(c, status, reason)) {
        fail_sending(c.qp);
    }
}

void position(Connection& c, Psn psn) noexcept {
    Outbound& out = c.out;
    QueuePair& qp = c.qp;
    out.snd_nxt = psn;
    for (out.cursor = 0; out.cursor < out.sent.size(); ++out.cursor) {
        const Sent& sent = out.sent[out.cursor];
        if (distance(psn, sent.last) >= 0) {
            qp.sq.seek(sent.index);
            qp.sent = std::uint64_t{static_cast<std::uint32_t>(distance(sent.first, psn))} * c.mtu;
            return;
        }
        qp.sq.seek(sent.index + 1);
    }
    qp.sent = 0;
}

void go_back(Connection& c) noexcept {
    c.port.engine().scheduler().withdraw(c.qp);
    c.out.round_trip.sent_again();
    c.out.probing = false;
    c.out.resting = false;
    position(c, c.out.snd_una);
}

vrdma_vendor_err move_payload(QueuePair& qp, const SendWqe& wqe, std::uint64_t offset,
                              const SpanList& packet, Way way) noexcept {
    SpanCursor there{packet};
    for (std::uint64_t done = 0; done < packet.bytes();) { // each pass moves at least one span
        SpanList own{packet.bytes() - done};
        const vrdma_vendor_err error = open_payload(qp, wqe, offset + done, own);
        if (error != VRDMA_VERR_NONE) {
            return error;
        }
        SpanCursor here{own};
        // Inline data is guest memory, too: it lies in the ring.
        if (!guarded(qp.slice.memory(), own, [&] {
                way == Way::out ? copy(there, here, Seen::source) : copy(here, there, Seen::target);
            })) {
            return VRDMA_VERR_REVOKED;
        }
        done += own.bytes();
    }
    return VRDMA_VERR_NONE;
}

} // namespace vrdma::hca::soft::roce
