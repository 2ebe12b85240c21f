// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/datagram.h"

#include <algorithm>

#include "mediator/hca/soft/copy.h"
#include "mediator/hca/soft/engine.h"
#include "mediator/hca/soft/grh.h"
#include "mediator/hca/soft/receive_queue.h"
#include "mediator/hca/soft/scratch_watch.h"

namespace vrdma::hca::soft {
namespace {

constexpr Ack dropped{AckStatus::no_answer};

constexpr std::uint32_t privileged_qkey = 1u << 31; // the QP's own is meant (IBA 10.2.5)

QueuePair* find_receiver(const QueuePair& qp, const SendWqe& wqe, const GidKey& target) noexcept {
    const SliceCore* slice = qp.slice.engine().fabric().find(target, qp.slice);
    if (slice == nullptr || slice->frozen()) {
        return nullptr;
    }
    QueuePair* const receiver = slice->qp(wqe.dest_qpn);
    const std::uint32_t qkey = (wqe.qkey & privileged_qkey) != 0 ? qp.attr.qkey : wqe.qkey;
    const bool listens = receiver != nullptr && receiver->type == QpType::ud &&
                         receiver->may_receive() && receiver->attr.qkey == qkey;
    return listens ? receiver : nullptr;
}

void finish(QueuePair& receiver, const QueuePair& sender, const SendWqe& wqe, std::uint8_t sl,
            std::uint32_t length) noexcept {
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, std::uint32_t{IBV_WC_RECV}) | VRDMA_CQE_GRH;
    if (wqe.has_imm()) {
        entry.ctrl |= VRDMA_CQE_WITH_IMM;
        entry.imm = wqe.imm;
    }
    entry.byte_len = length;
    entry.src_qpn = sender.id.value;
    entry.sl = sl;
    static_cast<void>(complete_receive(receiver, entry, wqe.solicited));
}

// Writes GRH and payload to the WQE's buffers.
Ack place(QueuePair& receiver, const QueuePair& sender, const RecvWqe& wqe, Grh& grh,
          const SpanList& payload) noexcept {
    SpanList target{VRDMA_UD_GRH_SIZE + payload.bytes()};
    const vrdma_vendor_err error =
        receiver.slice.gate().open_list(wqe.list(), receiver.pd, IBV_ACCESS_LOCAL_WRITE, 0, target);
    if (error != VRDMA_VERR_NONE) {
        fail_receive(receiver, IBV_WC_LOC_PROT_ERR, error);
        return dropped;
    }
    GuestMemory& here = receiver.slice.memory();
    GuestMemory& there = sender.slice.memory();
    const ScratchWatch watch_here{here};
    const ScratchWatch watch_there{there};
    SpanList header{grh.size()};
    header.add(grh);
    SpanCursor to{target};
    SpanCursor from_header{header};
    SpanCursor from_payload{payload};
    copy(to, from_header);
    copy(to, from_payload);
    if (watch_there.tripped() && &here != &there) {
        release(there, payload);
        return {AckStatus::payload_revoked};
    }
    if (watch_here.tripped()) {
        release(here, target);
        fail_receive(receiver, IBV_WC_LOC_PROT_ERR, VRDMA_VERR_REVOKED);
        return dropped;
    }
    return {AckStatus::ok};
}

} // namespace

Ack send_datagram(QueuePair& qp, const SendWqe& wqe, const AddressHandle& ah,
                  const SpanList& payload) noexcept {
    const GidKey* source = qp.slice.gid(ah.av.sgid_index);
    if (source == nullptr) {
        return dropped;
    }
    GidKey target{{}, source->type};
    std::copy(std::begin(ah.av.dgid), std::end(ah.av.dgid), target.gid.begin());
    QueuePair* const receiver = find_receiver(qp, wqe, target);
    const std::uint32_t ctrl = receiver != nullptr ? receiver->rq.peek() : 0;
    RecvWqe recv;
    if (ctrl == 0 || !take_receive(*receiver, ctrl, recv)) {
        return dropped;
    }
    const auto length = static_cast<std::uint32_t>(payload.bytes());
    if (recv.length < VRDMA_UD_GRH_SIZE + length) {
        return dropped; // the WQE waits for a shorter one (IBA 9.9.3, class D)
    }
    Grh grh = make_grh(*source, ah.av, length);
    const Ack ack = place(*receiver, qp, recv, grh, payload);
    if (ack.status == AckStatus::ok) {
        finish(*receiver, qp, wqe, ah.av.sl, VRDMA_UD_GRH_SIZE + length);
    }
    return ack;
}

} // namespace vrdma::hca::soft
