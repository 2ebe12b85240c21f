// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Deliberate errors. Each has to produce its status, and to flush the requests behind it.
#include <array>

#include "torture/conversation.h"

namespace vrdma::torture {
namespace {

enum class Fault {
    wrong_lkey, // the first two need no answer of the peer
    too_long_for_queue,
    wrong_rkey,
    out_of_bounds,
    no_rights,
    misaligned,
    too_long_for_receive,
    not_ready,
    nobody_there,
};

constexpr std::uint64_t marker = 1000;
constexpr std::uint32_t some = 512;

Fault draw_fault(Random& script, const Shape& shape) {
    static constexpr std::array all{Fault::wrong_lkey,   Fault::too_long_for_queue,
                                    Fault::wrong_rkey,   Fault::out_of_bounds,
                                    Fault::no_rights,    Fault::misaligned,
                                    Fault::nobody_there, Fault::too_long_for_receive,
                                    Fault::not_ready};
    std::size_t count = shape.reliable() ? 7 : 2;
    if (shape.type == IBV_QPT_RC && !shape.shared) {
        count = shape.patient() ? 8 : 9;
    }
    return all[script.below(static_cast<std::uint32_t>(count))];
}

const char* name(Fault fault) {
    static constexpr std::array names{"wrong lkey",
                                      "more pieces than a WQE has room for",
                                      "wrong rkey",
                                      "out of bounds",
                                      "key without rights",
                                      "misaligned atomic",
                                      "longer than the receive",
                                      "no receive",
                                      "no peer"};
    return names[static_cast<std::size_t>(fault)];
}

ibv_wc_status expected(Fault fault) {
    switch (fault) {
        case Fault::wrong_lkey:
            return IBV_WC_LOC_PROT_ERR;
        case Fault::wrong_rkey:
        case Fault::out_of_bounds:
        case Fault::no_rights:
            return IBV_WC_REM_ACCESS_ERR;
        case Fault::misaligned:
        case Fault::too_long_for_receive:
            return IBV_WC_REM_INV_REQ_ERR;
        case Fault::not_ready:
            return IBV_WC_RNR_RETRY_EXC_ERR;
        default:
            return IBV_WC_RETRY_EXC_ERR;
    }
}

// A WRITE, or a SEND if the connection cannot do WRITEs.
ibv_send_wr plain_request(const Conversation& c, const Connection& connection, ibv_sge& piece) {
    ibv_send_wr wr{};
    wr.wr_id = marker;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.opcode = connection.shape().type == IBV_QPT_UD ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
    if (connection.shape().type != IBV_QPT_UD) {
        wr.wr.rdma = {.remote_addr = c.peer.target(0), .rkey = c.peer.rkey};
    }
    connection.address(wr);
    return wr;
}

void spoil(const Conversation& c, Fault fault, ibv_send_wr& wr) {
    switch (fault) {
        case Fault::wrong_lkey:
            wr.sg_list->lkey = ~wr.sg_list->lkey;
            break;
        case Fault::wrong_rkey:
            wr.wr.rdma.rkey = c.peer.rkey_of_none;
            break;
        case Fault::out_of_bounds:
            wr.wr.rdma.remote_addr = c.peer.end() - some + 1;
            break;
        case Fault::no_rights:
            wr.wr.rdma.rkey = c.peer.rkey_without_rights;
            break;
        case Fault::misaligned:
            wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            wr.sg_list->length = sizeof(std::uint64_t);
            wr.wr.atomic = {.remote_addr = c.peer.target(0) + 4,
                            .compare_add = 1,
                            .swap = 0,
                            .rkey = c.peer.rkey};
            break;
        case Fault::too_long_for_receive:
        case Fault::not_ready:
            wr.opcode = IBV_WR_SEND;
            break;
        default:
            break;
    }
}

void expect_refused(const Conversation& c, const Connection& connection) {
    std::vector<ibv_sge> pieces(connection.qp()->context->num_comp_vectors + 300u);
    ibv_send_wr wr = plain_request(c, connection, pieces.front());
    wr.num_sge = static_cast<int>(pieces.size());
    ibv_send_wr* bad = nullptr;
    require(::ibv_post_send(connection.qp(), &wr, &bad) == EINVAL && bad == &wr,
            "too many pieces are not refused");
}

// Posts the bad request with a good one behind it.
void initiate(Conversation& c, const Connection& connection, Fault fault) {
    const auto address = reinterpret_cast<std::uintptr_t>(c.arena.source(0));
    std::array<ibv_sge, 2> pieces{
        {{address, some, c.arena.lkey(c.own)}, {address, some, c.arena.lkey(c.own)}}};
    ibv_send_wr bad = plain_request(c, connection, pieces[0]);
    ibv_send_wr good = plain_request(c, connection, pieces[1]);
    spoil(c, fault, bad);
    good.wr_id = marker + 1;
    bad.next = &good;
    ibv_send_wr* refused = nullptr;
    check(::ibv_post_send(connection.qp(), &bad, &refused), "ibv_post_send");
    std::uint64_t next = marker;
    c.completions.await(
        c.control, c.own, [&] { return next == marker + 2; },
        [&](const ibv_wc& completion) {
            require(completion.wr_id == next, "completions out of order");
            const ibv_wc_status status = next == marker ? expected(fault) : IBV_WC_WR_FLUSH_ERR;
            require(completion.status == status, ::ibv_wc_status_str(completion.status));
            ++next;
        });
}

// Moves the QP to the error state, posts to it there, and waits until all requests are flushed.
void flush(Conversation& c, Connection& connection) {
    if (connection.state() == IBV_QPS_RESET) {
        return;
    }
    connection.to_state(IBV_QPS_ERR);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(c.arena.source(0)), some, c.arena.lkey(c.own)};
    ibv_send_wr wr = plain_request(c, connection, piece);
    ibv_send_wr* bad = nullptr;
    check(::ibv_post_send(connection.qp(), &wr, &bad), "ibv_post_send in the error state");
    bool sent = false;
    bool received = connection.shape().shared;
    unsigned last = 0;
    if (!received) {
        last = c.post_receive(connection, some);
    }
    c.completions.await(
        c.control, c.own, [&] { return sent && received; },
        [&](const ibv_wc& completion) {
            require(completion.status != IBV_WC_SUCCESS, "success in the error state");
            if ((completion.wr_id & is_receive) == 0) {
                sent |= completion.wr_id == marker;
            } else {
                c.free_receive(completion.wr_id & ~is_receive);
                received |= completion.wr_id == (is_receive | last);
            }
        });
}

} // namespace

void provoke(Conversation& c) {
    Connection& connection = *c.script.pick(c.connections);
    const Fault fault = draw_fault(c.script, connection.shape());
    place.doing = name(fault);
    const bool initiates = c.script.below(2) == c.side;
    if (!initiates && fault == Fault::nobody_there) {
        connection.to_state(IBV_QPS_RESET);
    }
    if (!initiates && fault == Fault::too_long_for_receive) {
        c.post_receive(connection, some - 1);
    }
    c.meet();
    if (initiates && fault == Fault::too_long_for_queue) {
        expect_refused(c, connection);
    } else if (initiates) {
        initiate(c, connection, fault);
    }
    c.meet();
    flush(c, connection);
    connection.to_state(IBV_QPS_RESET);
    connection.connect(c.control, c.own);
}

} // namespace vrdma::torture
