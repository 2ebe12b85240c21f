// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/execute.h"

#include <algorithm>
#include <atomic>

#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/qp/xrc.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/peer.h"
#include "mediator/hca/soft/transport/retry.h"
#include "mediator/hca/soft/transport/sniff.h"

namespace vrdma::hca::soft {
namespace {

// The result of moving a piece between the two sides.
enum class Moved : std::uint8_t { all, absent, refused, here_revoked, there_revoked };

// Moves a piece's bytes. `open(skip, spans)` is the gate of this side, for bytes from `skip` of the
// piece on. Each pass moves at least one span, so the loop is bounded.
template <typename Open>
Moved move_piece(QueuePair& qp, const Request& request, vrdma_vendor_err& error,
                 Open&& open) noexcept {
    GuestMemory& here = qp.slice.memory();
    GuestMemory& there = request.payload_memory(here);
    const std::uint64_t bytes = request.payload.bytes();
    SpanCursor peer{request.payload};
    for (std::uint64_t done = 0; done < bytes;) {
        SpanList spans{bytes - done};
        error = open(done, spans);
        if (error == VRDMA_VERR_ABSENT) {
            qp.slice.announce_page_faults();
            return Moved::absent;
        }
        if (error != VRDMA_VERR_NONE) {
            return Moved::refused;
        }
        const ScratchWatch watch_here{here};
        const ScratchWatch watch_there{there};
        SpanCursor own{spans};
        if (request.message.is_fetch()) {
            copy(peer, own, request.seen_by_peer() ? Seen::both : Seen::source);
        } else {
            copy(own, peer, request.seen_by_peer() ? Seen::both : Seen::target);
        }
        if (watch_there.tripped() && &here != &there) {
            release(there, request.payload);
            return Moved::there_revoked;
        }
        if (watch_here.tripped()) {
            release(here, spans);
            return Moved::here_revoked;
        }
        done += spans.bytes();
    }
    return Moved::all;
}

Ack answer(AckStatus status) noexcept {
    return {status};
}

// This QP does not allow what the peer requested (IBA 9.9.3, class C). No WQE here can report it.
Ack refuse(QueuePair& qp, AckStatus status) noexcept {
    qp.count(VRDMA_COUNTER_REFUSED_REQUESTS);
    if (qp.reliable() && qp.may_receive()) {
        qp.slice.announce(
            qp, status == AckStatus::access_error ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
        enter_error(qp);
    }
    return answer(status);
}

Ack not_ready(const QueuePair& qp) noexcept {
    return {AckStatus::receiver_not_ready, qp.attr.min_rnr_timer};
}

Ack finish_receive(QueuePair& qp, const RecvWqe& wqe, const Request& request,
                   ibv_wc_opcode opcode) noexcept {
    vrdma_cqe entry{};
    entry.ctrl = VRDMA_SET(VRDMA_CQE_OPCODE, static_cast<std::uint32_t>(opcode));
    entry.byte_len = static_cast<std::uint32_t>(request.message.length);
    if (request.message.has_imm()) {
        entry.ctrl |= VRDMA_CQE_WITH_IMM;
        entry.imm = request.message.imm;
    } else if (request.message.opcode == VRDMA_SQ_SEND_WITH_INV) {
        entry.ctrl |= VRDMA_CQE_WITH_INV;
        entry.imm = request.message.rkey.value;
    }
    const bool told = complete_receive(qp, wqe, entry, request.message.solicited);
    if (!told && qp.type == QpType::xrc_recv) {
        enter_error_fatally(qp); // other QPs failed with the CQ, as its members
    }
    if (told) {
        return answer(AckStatus::ok);
    }
    return answer(qp.reliable() ? AckStatus::operation_error : AckStatus::no_answer);
}

// The message is too long for the receive. Packets would show this when one of them leaves no room
// for the next one. Before that, they would find a fault of the receive's memory.
vrdma_vendor_err fault_of_packets_that_fit(const QueuePair& qp, const RecvWqe& wqe) noexcept {
    const std::uint64_t mtu = mtu_bytes(qp.attr.path_mtu);
    const std::uint64_t fit = wqe.length == 0 ? 0 : (wqe.length - 1) / mtu * mtu;
    std::uint64_t start = 0;
    for (const Sge& sge : wqe.list()) {
        SpanList first{1};
        const auto error = start < fit ? qp.slice.gate().open_list({&sge, 1}, qp.recv_pd,
                                                                   IBV_ACCESS_LOCAL_WRITE, 0, first)
                                       : VRDMA_VERR_NONE;
        if (error != VRDMA_VERR_NONE && error != VRDMA_VERR_ABSENT) {
            return error;
        }
        start += sge.length;
    }
    return VRDMA_VERR_NONE;
}

// The receive WQE is too short. An unreliable message is dropped then, and the WQE is kept for
// another.
// Cold: otherwise the compiler lays out the code of each packet so that it takes a tenth to a
// quarter more time, with as many instructions.
[[gnu::cold]] Ack refuse_long_message(QueuePair& qp, const RecvWqe& wqe,
                                      const Request& request) noexcept {
    const auto error = request.offset == 0 ? fault_of_packets_that_fit(qp, wqe) : VRDMA_VERR_NONE;
    if (error != VRDMA_VERR_NONE) {
        fail_receive(qp, wqe, IBV_WC_LOC_PROT_ERR, error);
        return answer(AckStatus::operation_error);
    }
    if (qp.reliable()) {
        fail_receive(qp, wqe, IBV_WC_LOC_LEN_ERR, VRDMA_VERR_LENGTH);
    }
    return answer(AckStatus::invalid_request);
}

Ack receive_send(QueuePair& qp, const Request& request) noexcept {
    RecvWqe wqe;
    switch (next_receive(qp, wqe)) {
        case Receive::ready:
            break;
        case Receive::none:
            return not_ready(qp);
        case Receive::bad:
            return answer(AckStatus::operation_error);
    }
    if (request.message.length > wqe.length) {
        return refuse_long_message(qp, wqe, request);
    }
    vrdma_vendor_err error = VRDMA_VERR_NONE;
    const Moved moved =
        move_piece(qp, request, error, [&](std::uint64_t skip, SpanList& spans) noexcept {
            return qp.slice.gate().open_list(wqe.list(), qp.recv_pd, IBV_ACCESS_LOCAL_WRITE,
                                             request.offset + skip, spans);
        });
    if (moved == Moved::there_revoked) {
        return answer(AckStatus::payload_revoked);
    }
    if (moved == Moved::absent) {
        return answer(AckStatus::pages_absent);
    }
    if (moved != Moved::all) {
        fail_receive(qp, wqe, IBV_WC_LOC_PROT_ERR,
                     moved == Moved::here_revoked ? VRDMA_VERR_REVOKED : error);
        return answer(AckStatus::operation_error);
    }
    if (!request.last()) {
        hold_receive(qp, wqe);
        return answer(AckStatus::ok);
    }
    if (request.message.opcode == VRDMA_SQ_SEND_WITH_INV) {
        error = invalidate(qp, request.message.rkey);
    }
    if (error != VRDMA_VERR_NONE) { // IBA 9.9.3, class J
        fail_receive(qp, wqe, IBV_WC_REM_INV_REQ_ERR, error);
        return answer(AckStatus::access_error);
    }
    return finish_receive(qp, wqe, request, IBV_WC_RECV);
}

// Executes an RDMA READ or WRITE on the memory that the peer names.
Ack access_memory(QueuePair& qp, const Request& request, std::uint32_t rights) noexcept {
    if ((qp.attr.access_flags & rights) == 0) {
        return refuse(qp, AckStatus::invalid_request);
    }
    const Message& message = request.message;
    const Access access{message.rkey, qp.pd, rights, message.remote_address, message.length, &qp};
    vrdma_vendor_err error = VRDMA_VERR_NONE;
    const Moved moved =
        move_piece(qp, request, error, [&](std::uint64_t skip, SpanList& spans) noexcept {
            return qp.slice.gate().open(access, request.offset + skip, spans);
        });
    switch (moved) {
        case Moved::all:
            return answer(AckStatus::ok);
        case Moved::there_revoked:
            return answer(AckStatus::payload_revoked);
        case Moved::absent:
            return answer(AckStatus::pages_absent);
        default:
            return refuse(qp, AckStatus::access_error);
    }
}

// Opens the first byte of the memory that the peer names.
vrdma_vendor_err try_memory(QueuePair& qp, const Message& message, std::uint32_t rights,
                            SpanList& first) noexcept {
    const Access access{message.rkey, qp.pd, rights, message.remote_address, message.length, &qp};
    return qp.slice.gate().open(access, 0, first);
}

// Checks whether the memory that the peer names may be accessed at all.
Ack open_memory(QueuePair& qp, const Message& message, std::uint32_t rights) noexcept {
    if ((qp.attr.access_flags & rights) == 0) {
        return refuse(qp, AckStatus::invalid_request);
    }
    SpanList first{1};
    switch (try_memory(qp, message, rights, first)) {
        case VRDMA_VERR_NONE:
            return answer(AckStatus::ok);
        case VRDMA_VERR_ABSENT:
            qp.slice.announce_page_faults();
            return answer(AckStatus::pages_absent);
        default:
            return refuse(qp, AckStatus::access_error);
    }
}

Ack receive_write(QueuePair& qp, const Request& request) noexcept {
    if (!request.message.has_imm()) {
        return access_memory(qp, request, IBV_ACCESS_REMOTE_WRITE);
    }
    // The receive WQE is needed only at the end, but without one, all pieces would have to come
    // again. All packets but the last are plain WRITEs, so the first one already checks the memory.
    if (!has_receive(qp)) {
        const Message& message = request.message;
        const Ack begun = message.length > mtu_bytes(qp.attr.path_mtu)
                              ? open_memory(qp, message, IBV_ACCESS_REMOTE_WRITE)
                              : answer(AckStatus::ok);
        return begun.status != AckStatus::ok ? begun : not_ready(qp);
    }
    const Ack ack = access_memory(qp, request, IBV_ACCESS_REMOTE_WRITE);
    if (ack.status != AckStatus::ok || !request.last()) {
        return ack;
    }
    RecvWqe wqe;
    switch (next_receive(qp, wqe)) {
        case Receive::ready:
            return finish_receive(qp, wqe, request, IBV_WC_RECV_RDMA_WITH_IMM);
        case Receive::none:
            return not_ready(qp); // another QP took the last one of the SRQ
        case Receive::bad:
            break;
    }
    return answer(AckStatus::operation_error);
}

std::uint64_t operate(const Message& message, std::uint64_t& word) noexcept {
    const std::atomic_ref<std::uint64_t> target{word};
    if (message.opcode == VRDMA_SQ_ATOMIC_FETCH_AND_ADD) {
        return target.fetch_add(message.compare_add);
    }
    std::uint64_t original = message.compare_add;
    target.compare_exchange_strong(original, message.swap);
    return original;
}

// Opens the word that the peer names. An answer other than ok is the answer to the request.
Ack open_word(QueuePair& qp, const Message& message, std::uint32_t rights,
              SpanList& target) noexcept {
    if ((qp.attr.access_flags & rights) == 0 ||
        message.remote_address % sizeof(std::uint64_t) != 0) {
        return refuse(qp, AckStatus::invalid_request);
    }
    const Access access{message.rkey,          qp.pd, rights, message.remote_address,
                        sizeof(std::uint64_t), &qp};
    const vrdma_vendor_err error = qp.slice.gate().open(access, 0, target);
    if (error == VRDMA_VERR_ABSENT) {
        qp.slice.announce_page_faults();
        return answer(AckStatus::pages_absent);
    }
    if (error != VRDMA_VERR_NONE) {
        return refuse(qp, AckStatus::access_error);
    }
    const auto place = reinterpret_cast<std::uintptr_t>(target.begin()->data());
    return place % sizeof(std::uint64_t) == 0
               ? answer(AckStatus::ok)
               : refuse(qp,
                        AckStatus::invalid_request); // the region itself is misaligned in its page
}

std::uint64_t& word_of(const SpanList& target) noexcept {
    return *reinterpret_cast<std::uint64_t*>(target.begin()->data());
}

// Copies between the request's payload and memory of this process. Returns false if the payload was
// absent. That of a packet cannot be.
bool copy_payload(const Request& request, SpanCursor& to, SpanCursor& from) noexcept {
    if (request.from == nullptr) {
        copy(to, from);
        return true;
    }
    return guarded_copy(request.from->memory(), request.payload, to, from);
}

// The destination of the original value was opened before the target changes, so the operation
// happens once or not at all.
Ack receive_atomic(QueuePair& qp, const Request& request) noexcept {
    const Message& message = request.message;
    SpanList target{sizeof(std::uint64_t)};
    const Ack opened = open_word(qp, message, IBV_ACCESS_REMOTE_ATOMIC, target);
    if (opened.status != AckStatus::ok) {
        return opened;
    }
    std::uint64_t original = 0;
    if (!guarded(qp.slice.memory(), target,
                 [&] { original = operate(message, word_of(target)); })) {
        return refuse(qp, AckStatus::access_error);
    }
    SpanList source{sizeof(original)};
    source.add(std::as_writable_bytes(std::span{&original, 1}));
    SpanCursor from{source};
    SpanCursor to{request.payload};
    return answer(copy_payload(request, to, from) ? AckStatus::ok : AckStatus::payload_revoked);
}

// Writes eight bytes atomically (IBA A19).
Ack receive_atomic_write(QueuePair& qp, const Request& request) noexcept {
    SpanList target{sizeof(std::uint64_t)};
    const Ack opened = open_word(qp, request.message, IBV_ACCESS_REMOTE_WRITE, target);
    if (opened.status != AckStatus::ok) {
        return opened;
    }
    std::uint64_t value = 0;
    SpanList private_copy{sizeof(value)};
    private_copy.add(std::as_writable_bytes(std::span{&value, 1}));
    SpanCursor from{request.payload};
    SpanCursor to{private_copy};
    if (!copy_payload(request, to, from)) {
        return answer(AckStatus::payload_revoked);
    }
    return guarded(qp.slice.memory(), target, [&] { store_release(word_of(target), value); })
               ? answer(AckStatus::ok)
               : refuse(qp, AckStatus::access_error);
}

// READ and atomics need resources that the responder set aside for them.
bool has_resources(const QueuePair& qp) noexcept {
    return qp.attr.max_dest_rd_atomic != 0;
}

Ack dispatch(QueuePair& qp, const Request& request) noexcept {
    if (is_answered(request.message.opcode) && !has_resources(qp)) {
        return refuse(qp, AckStatus::invalid_request);
    }
    switch (request.message.opcode) {
        case VRDMA_SQ_SEND:
        case VRDMA_SQ_SEND_WITH_IMM:
        case VRDMA_SQ_SEND_WITH_INV:
            return receive_send(qp, request);
        case VRDMA_SQ_RDMA_WRITE:
        case VRDMA_SQ_RDMA_WRITE_WITH_IMM:
            return receive_write(qp, request);
        case VRDMA_SQ_RDMA_READ:
            return access_memory(qp, request, IBV_ACCESS_REMOTE_READ);
        case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
        case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
            return receive_atomic(qp, request);
        case VRDMA_SQ_ATOMIC_WRITE:
            return receive_atomic_write(qp, request);
        default:
            return answer(AckStatus::invalid_request);
    }
}

// Executes call(). An XRC_RECV QP stands in for the SRQ meanwhile.
template <typename Call>
Ack for_srq(QueuePair& qp, Srqn srqn, Call&& call) noexcept {
    if (qp.type != QpType::xrc_recv) {
        return call();
    }
    if (!stand_in(qp, srqn)) {
        return refuse(qp, AckStatus::invalid_request);
    }
    const Ack ack = call();
    step_back(qp);
    return ack;
}

Ack open_read(QueuePair& qp, const Message& message) noexcept {
    return has_resources(qp) ? open_memory(qp, message, IBV_ACCESS_REMOTE_READ)
                             : refuse(qp, AckStatus::invalid_request);
}

// Two sides on one host need no packets. But a message whose packets would not fit between hosts
// fails here, too: otherwise a program that works on one host would fail on two.
bool has_other_packets(const QueuePair& qp, const Request& request) noexcept {
    const std::uint8_t smaller = std::min(request.path_mtu, qp.attr.path_mtu);
    return smaller != 0 && request.path_mtu != qp.attr.path_mtu && !request.message.is_aligned() &&
           request.message.length > mtu_bytes(smaller);
}

Ack refuse_packets(QueuePair& qp, const Request& request) noexcept {
    return request.message.is_fetch() ? answer(AckStatus::bad_response)
                                      : refuse(qp, AckStatus::invalid_request);
}

// Whether earlier requests of its peer are still answered, though it has failed.
bool is_ending(const QueuePair& qp) noexcept {
    return qp.connection != nullptr && qp.connection->is_ending();
}

Ack carry_out_now(QueuePair& qp, const Request& request) noexcept {
    establish(qp);
    if (has_other_packets(qp, request)) {
        return refuse_packets(qp, request);
    }
    return for_srq(qp, request.message.srqn, [&] { return dispatch(qp, request); });
}

// Whether a message has to wait, because its slice exceeds its pace. A message that has begun does
// not, because it would begin anew. A peer on the network is slowed by congestion notices, and told
// to wait if that is not enough, but only if it waits without end.
std::optional<Ack> hold_back(const QueuePair& qp, const Request& request,
                             Clock::time_point now) noexcept {
    constexpr std::chrono::milliseconds heed_time{50};
    const Clock::duration wait = qp.slice.account().inbound_open() - now;
    if (!request.first() || wait <= heed_time) {
        return std::nullopt;
    }
    if (request.from != nullptr) {
        return Ack{AckStatus::resting, wait_timer(wait)};
    }
    return peer_waits(qp) ? std::optional{Ack{AckStatus::receiver_not_ready, wait_timer(wait)}}
                          : std::nullopt;
}

// For a slice that is frozen or paced.
Ack carry_out_in_time(QueuePair& qp, const Request& request) noexcept {
    if (qp.slice.frozen()) {
        return answer_of_frozen(qp.slice, qp.reliable() ? reliable_rest : unreliable_rest);
    }
    const Clock::time_point now = qp.slice.engine().scheduler().now();
    if (const auto held = hold_back(qp, request, now)) {
        return *held;
    }
    const Ack ack = carry_out_now(qp, request);
    if (ack.status == AckStatus::ok) {
        qp.slice.account().take_inbound(request.payload.bytes(), now);
    }
    return ack;
}

// For a slice that holds requests back, or has a sniffer.
Ack carry_out_specially(QueuePair& qp, const Request& request) noexcept {
    const Ack ack =
        qp.slice.holds_back() ? carry_out_in_time(qp, request) : carry_out_now(qp, request);
    if (qp.slice.sniffed()) {
        sniff_received(qp, request, ack);
    }
    return ack;
}

Ack carry_out(QueuePair& qp, const Request& request) noexcept {
    const bool open = qp.may_receive() || is_ending(qp);
    if (!open) {
        return answer_without_listener(&qp.slice);
    }
    return qp.slice.is_special() ? carry_out_specially(qp, request) : carry_out_now(qp, request);
}

// Counts each message once.
void count(QueuePair& qp, const Request& request, Ack ack) noexcept {
    const Message& message = request.message;
    if (ack.status != AckStatus::ok) {
        const bool dropped = !qp.reliable() && ack.status != AckStatus::resting;
        qp.count(VRDMA_COUNTER_DROPPED_MESSAGES, dropped ? 1 : 0);
    } else if (request.last()) {
        qp.count(VRDMA_COUNTER_RX_MESSAGES);
        qp.count(message.is_fetch() ? VRDMA_COUNTER_TX_BYTES : VRDMA_COUNTER_RX_BYTES,
                 message.length);
    }
}

} // namespace

Ack answer_of_frozen(const SliceCore& slice, Clock::duration rest) noexcept {
    const Clock::duration frozen = slice.frozen_for();
    return frozen < rest ? Ack{AckStatus::resting, rest_timer(frozen)}
                         : answer(AckStatus::no_answer);
}

bool peer_waits(const QueuePair& qp) noexcept {
    return qp.reliable() && qp.waits_without_end();
}

Ack execute(QueuePair& qp, const Request& request) noexcept {
    const Ack ack = carry_out(qp, request);
    count(qp, request, ack);
    return ack;
}

Ack check_read(QueuePair& qp, const Message& message) noexcept {
    establish(qp);
    return for_srq(qp, message.srqn, [&] { return open_read(qp, message); });
}

bool can_read_again(QueuePair& qp, const Message& message) noexcept {
    const Ack ack = for_srq(qp, message.srqn, [&] {
        SpanList first{1};
        const auto error = try_memory(qp, message, IBV_ACCESS_REMOTE_READ, first);
        const bool there = error == VRDMA_VERR_NONE || error == VRDMA_VERR_ABSENT;
        return answer(there ? AckStatus::ok : AckStatus::access_error);
    });
    return ack.status == AckStatus::ok;
}

void refuse_request(QueuePair& qp) noexcept {
    static_cast<void>(refuse(qp, AckStatus::invalid_request));
}

} // namespace vrdma::hca::soft
