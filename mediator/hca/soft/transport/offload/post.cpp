// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/post.h"

#include <array>
#include <cstring>

#include "mediator/hca/soft/qp/qp_state.h"
#include "mediator/hca/soft/qp/receive_queue.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/send_queue.h"

namespace vrdma::hca::soft::offload {
namespace {

// The pieces of a WQE as the HCA names them.
struct Pieces {
    std::array<ibv_sge, VRDMA_MAX_SGE> sges;
    int count = 0;
};

// A region without a name at the HCA is one of the guest's kernel, or has pages on demand.
vrdma_vendor_err add_piece(const QueuePair& qp, const Sge& sge, PdId pd, std::uint32_t rights,
                           Pieces& pieces) noexcept {
    if (sge.length == 0) {
        return VRDMA_VERR_NONE;
    }
    const MemoryRegion* const region = qp.slice.gate().find(Key{sge.lkey});
    if (region == nullptr || !region->valid || region->on_network == nullptr) {
        return VRDMA_VERR_KEY;
    }
    const auto error = region->check({Key{sge.lkey}, pd, rights, sge.address, sge.length});
    if (error == VRDMA_VERR_NONE) {
        pieces.sges[static_cast<std::size_t>(pieces.count++)] = {sge.address, sge.length,
                                                                 region->on_network->lkey()};
    }
    return error;
}

vrdma_vendor_err add_pieces(const QueuePair& qp, std::span<const Sge> list, PdId pd,
                            std::uint32_t rights, Pieces& pieces) noexcept {
    for (const Sge& sge : list) {
        if (const auto error = add_piece(qp, sge, pd, rights, pieces); error != VRDMA_VERR_NONE) {
            return error;
        }
    }
    return VRDMA_VERR_NONE;
}

// Inline data that the HCA's own WQEs have no room for is copied to a place of its own.
unsigned add_inline(const Connection& c, const SendWqe& wqe, Pieces& pieces) noexcept {
    const auto length = static_cast<std::uint32_t>(wqe.inline_data.size());
    pieces.count = 1;
    if (length <= c.host->max_inline) {
        pieces.sges[0] = {reinterpret_cast<std::uintptr_t>(wqe.inline_data.data()), length, 0};
        return IBV_SEND_INLINE;
    }
    const std::size_t each = c.qp.send_limits.max_inline;
    std::byte* const place = c.host->buffer.at(c.qp.sq.head() % c.host->sends * each);
    std::memcpy(place, wqe.inline_data.data(), length);
    pieces.sges[0] = {reinterpret_cast<std::uintptr_t>(place), length, c.host->buffer.lkey()};
    return 0;
}

std::optional<ibv_wr_opcode> opcode_of(vrdma_sq_opcode opcode) noexcept {
    switch (opcode) {
        case VRDMA_SQ_SEND:
            return IBV_WR_SEND;
        case VRDMA_SQ_SEND_WITH_IMM:
            return IBV_WR_SEND_WITH_IMM;
        case VRDMA_SQ_RDMA_WRITE:
            return IBV_WR_RDMA_WRITE;
        case VRDMA_SQ_RDMA_WRITE_WITH_IMM:
            return IBV_WR_RDMA_WRITE_WITH_IMM;
        case VRDMA_SQ_RDMA_READ:
            return IBV_WR_RDMA_READ;
        case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
            return IBV_WR_ATOMIC_CMP_AND_SWP;
        case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
            return IBV_WR_ATOMIC_FETCH_AND_ADD;
        default:
            return std::nullopt;
    }
}

void address(const SendWqe& wqe, ibv_send_wr& wr) noexcept {
    if (wqe.is_atomic()) {
        wr.wr.atomic = {.remote_addr = wqe.remote_address,
                        .compare_add = wqe.compare_add,
                        .swap = wqe.swap,
                        .rkey = wqe.rkey.value};
    } else {
        wr.wr.rdma = {.remote_addr = wqe.remote_address, .rkey = wqe.rkey.value};
    }
    wr.imm_data = wqe.imm;
}

// A WQE that cannot be executed completes after those before it, as they may have another error.
Turn fail_in_turn(Connection& c, const SendWqe& wqe, ibv_wc_status status,
                  vrdma_vendor_err reason) noexcept {
    if (!c.sends.empty()) {
        c.qp.slice.engine().scheduler().withdraw(c.qp);
        return Turn::idle; // the last completion wakes it
    }
    fail_message(c.qp, wqe, status, reason);
    return Turn::more;
}

// The HCA's queue has a place for each WQE that it may have, so the HCA has no reason to refuse
// one.
Turn refused(Connection& c) noexcept {
    c.port.complain("refuses a WQE");
    enter_error_fatally(c.qp);
    return Turn::more;
}

constexpr std::uint32_t fence = IBV_SEND_FENCE;

// PVRDMA's format has no fence in this engine, where messages are executed one after the other.
bool is_fenced(const QueuePair& qp, std::uint32_t ctrl) noexcept {
    return qp.send_limits.format == QueueFormat::pvrdma || (ctrl & VRDMA_SQ_FENCE) != 0;
}

Turn post_send(Connection& c, const SendWqe& wqe, std::uint32_t ctrl) noexcept {
    QueuePair& qp = c.qp;
    const auto opcode = opcode_of(wqe.opcode);
    if (!opcode || (is_answered(wqe.opcode) && qp.attr.max_rd_atomic == 0)) {
        return fail_in_turn(c, wqe, IBV_WC_LOC_QP_OP_ERR, VRDMA_VERR_OPCODE);
    }
    Pieces pieces;
    ibv_send_wr wr{};
    if (!wqe.inline_data.empty()) {
        wr.send_flags |= add_inline(c, wqe, pieces);
    } else {
        const std::uint32_t rights =
            wqe.is_fetch() ? std::uint32_t{IBV_ACCESS_LOCAL_WRITE} : MemoryRegion::local_read;
        const auto error = add_pieces(qp, wqe.list(), qp.pd, rights, pieces);
        if (error != VRDMA_VERR_NONE) {
            return fail_in_turn(c, wqe, IBV_WC_LOC_PROT_ERR, error);
        }
    }
    wr.wr_id = c.port.name(c.place, false, static_cast<std::uint16_t>(qp.sq.head()));
    wr.sg_list = pieces.sges.data();
    wr.num_sge = pieces.count;
    wr.opcode = *opcode;
    wr.send_flags |= send_flags_of(wqe) | (is_fenced(qp, ctrl) ? fence : 0u);
    address(wqe, wr);
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(c.host->qp.get(), &wr, &bad) != 0) {
        return refused(c);
    }
    c.sends.push_back({qp.sq.head(), wqe.opcode, wqe.signaled, wqe.length});
    qp.sq.advance();
    qp.sq_started = true;
    qp.slice.account().charge(wqe.length, 0);
    return Turn::more;
}

Turn post_next(Connection& c, std::uint32_t ctrl) noexcept {
    SendWqe wqe;
    if (const WqeError error = parse(c.qp.sq.entry(), ctrl, c.qp.send_limits, wqe)) {
        return fail_in_turn(c, wqe, static_cast<ibv_wc_status>(error.status), error.reason);
    }
    return post_send(c, wqe, ctrl);
}

// Returns false if the HCA does not get it.
bool take_receive(Connection& c, std::uint32_t index, std::uint32_t ctrl) noexcept {
    QueuePair& qp = c.qp;
    RecvWqe wqe;
    Pieces pieces;
    const WqeError bad = parse(qp.rq.entry(index), ctrl, qp.recv_limits, wqe);
    wqe.name.index = index;
    const auto error =
        bad ? bad.reason : add_pieces(qp, wqe.list(), qp.recv_pd, IBV_ACCESS_LOCAL_WRITE, pieces);
    if (error != VRDMA_VERR_NONE) {
        if (c.receives.empty()) { // those before it may still be needed
            fail_receive(qp, wqe,
                         bad ? static_cast<ibv_wc_status>(bad.status) : IBV_WC_LOC_PROT_ERR, error);
        }
        return false;
    }
    ibv_recv_wr wr{};
    wr.wr_id = c.port.name(c.place, true, static_cast<std::uint16_t>(index));
    wr.sg_list = pieces.sges.data();
    wr.num_sge = pieces.count;
    ibv_recv_wr* refused_wr = nullptr;
    if (ibv_post_recv(c.host->qp.get(), &wr, &refused_wr) != 0) {
        static_cast<void>(refused(c));
        return false;
    }
    c.receives.push_back({wqe.name, wqe.length});
    return true;
}

} // namespace

// A draining QP finishes what it has posted, and posts nothing more.
Turn post_sends(Connection& c) noexcept {
    QueuePair& qp = c.qp;
    Account& account = qp.slice.account();
    const unsigned limit = qp.slice.engine().config().turn_wqes;
    for (unsigned posted = 0; posted < limit && account.in_credit(); ++posted) {
        if (c.sends.size() == c.host->sends) {
            qp.slice.engine().scheduler().withdraw(qp);
            return Turn::idle; // a completion wakes it
        }
        const bool ready = c.leaves_host() && qp.state() == IBV_QPS_RTS;
        const std::uint32_t ctrl = ready ? qp.sq.peek() : 0;
        if (ctrl == 0) {
            return posted != 0 ? Turn::more : Turn::idle;
        }
        account.charge(0);
        if (post_next(c, ctrl) == Turn::idle) {
            return Turn::idle;
        }
    }
    return Turn::more;
}

void take_receives(Connection& c) noexcept {
    WorkQueue& rq = c.qp.rq;
    const std::size_t limit = std::min(c.host->receives, rq.depth());
    while (c.leaves_host() && c.receives.size() < limit) {
        const std::uint32_t index = rq.head() + static_cast<std::uint32_t>(c.receives.size());
        const std::uint32_t ctrl = rq.peek(index);
        if (ctrl == 0 || !take_receive(c, index, ctrl)) {
            return;
        }
    }
}

} // namespace vrdma::hca::soft::offload
