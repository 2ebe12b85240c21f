// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/recover.h"

#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/roce/outbound.h"
#include "mediator/hca/soft/transport/roce/port.h"

namespace vrdma::hca::soft::roce {
namespace {

// It is not known what has arrived, so one packet asks. Sending all of them would make a peer that
// is only slow even slower, because it has to answer each.
void probe(Connection& c) noexcept {
    go_back(c);
    c.out.probing = true;
}

// A probe is a single packet.
void note_silence(const Connection& c) noexcept {
    if (!c.out.probing && distance(c.out.snd_una, c.out.snd_max) > 1) {
        c.port.note_silence();
    }
}

// The peer usually answers much earlier. This does not count as a retry: the peer has the whole
// timeout to answer.
void hurry(Connection& c, Clock::time_point now) noexcept {
    Outbound& out = c.out;
    c.qp.count(VRDMA_COUNTER_EARLY_RETRIES);
    out.round_trip.back_off();
    c.port.look_again(c);
    out.rto_deadline = next_rto_deadline(c, now);
    c.port.set_timer(c);
    probe(c);
    c.qp.slice.engine().scheduler().wake(c.qp);
}

} // namespace

// The peer may have moved, so its address is looked up again.
void try_again(Connection& c, Cue cue) noexcept {
    QueuePair& qp = c.qp;
    const bool ready = cue == Cue::told && c.out.resting; // it has ended its rest
    if (waits(qp) && !ready) { // for the peer, or for pages: it then retransmits anyway
        return position(c, c.out.snd_una);
    }
    if (cue == Cue::told && c.out.probing) { // the answer to a probe: the timeout goes on
        go_back(c);
        qp.slice.engine().scheduler().wake(qp);
        return;
    }
    if ((cue == Cue::told || qp.attr.timeout != 0) && qp.retries_left-- == 0) {
        fail_oldest(c, IBV_WC_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    c.port.look_again(c);
    cue == Cue::told ? go_back(c) : probe(c);
    arm(c);
    qp.slice.engine().scheduler().wake(qp);
}

void try_when_ready(Connection& c, std::uint8_t timer) noexcept {
    QueuePair& qp = c.qp;
    if (waits(qp)) {
        return; // the network duplicated the NAK
    }
    qp.count(VRDMA_COUNTER_RNR_NAKS);
    if (!qp.take_rnr_retry()) {
        fail_oldest(c, IBV_WC_RNR_RETRY_EXC_ERR, VRDMA_VERR_PEER);
        return;
    }
    qp.retries_left = qp.attr.retry_cnt; // nothing was lost: the peer has answered
    const bool probed = c.out.probing;
    probe(c); // more packets would only be refused, too
    c.out.resting = probed;
    qp.slice.engine().scheduler().wait_until(qp, Clock::now() + rnr_delay(timer));
}

void recover(Connection& c) noexcept {
    if (!c.out.recovering) {
        c.qp.count(VRDMA_COUNTER_IMPLIED_NAKS);
        c.out.recovering = true;
        try_again(c, Cue::told);
    }
}

void expire(Connection& c, Clock::time_point now) noexcept {
    QueuePair& qp = c.qp;
    if (!qp.may_send() || c.out.sent.empty()) {
        return;
    }
    if (waits(qp)) {
        return arm(c);
    }
    if (now < c.out.rto_deadline) {
        return c.port.set_timer(c);
    }
    note_silence(c);
    if (now < c.out.deadline) {
        return hurry(c, now);
    }
    qp.count(VRDMA_COUNTER_ACK_TIMEOUTS);
    try_again(c, Cue::silence);
}

} // namespace vrdma::hca::soft::roce
