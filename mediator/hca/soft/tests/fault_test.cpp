// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The specification's tables of the actions of requesters and responders on each fault (IBA 9.9.2.4
// and 9.9.3.1, with the completion statuses of 11.6.2), for each transport. A fault is made, and
// both sides' completions, states and events are compared with its row.
#include <optional>
#include <ostream>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

using hca::QpType;

constexpr std::uint32_t peers_qkey = 0x11111111;

// A pair of QPs with low retry limits, and functions that post messages of its transport.
class Pair : public TwoGuests {
  protected:
    void connect_pair(QpType type) {
        type_ = type;
        from_.emplace(a_.create_qp(a_cq_, a_cq_, {.type = type}));
        to_.emplace(b_.create_qp(b_cq_, b_cq_, {.type = type}));
        if (type == QpType::ud) {
            activate_ud(a_, *from_, peers_qkey);
            activate_ud(b_, *to_, peers_qkey);
            return;
        }
        TwoGuests::connect_pair(*from_, *to_);
        vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
        attr.attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
        attr.retry_cnt = 1;
        attr.rnr_retry = 0;
        ASSERT_TRUE(a_.slice().modify_qp(from_->id(), attr));
    }

  public:
    // Sends a message with default values, unless the fault sets others: 8 bytes, to the peer's
    // region if it is no SEND.
    void send(SendWr wr = {}) {
        const vrdma_sge whole = a_mr_.sge(0, 8);
        if (wr.sges.empty()) {
            wr.sges = {&whole, 1};
        }
        if (wr.opcode != VRDMA_SQ_SEND && wr.opcode != VRDMA_SQ_SEND_WITH_INV) {
            wr.raddr = wr.raddr != 0 ? wr.raddr : b_mr_.start;
            wr.rkey = wr.rkey != Key{} ? wr.rkey : b_mr_.key;
        }
        if (type_ == QpType::ud) {
            wr.ah = a_.create_ah(b_.gid());
            wr.dest_qpn = to_->id();
            wr.qkey = peers_qkey;
        }
        from_->post_send(wr);
    }

    void invalidate(Key key) { from_->post_send({.opcode = VRDMA_SQ_LOCAL_INV, .rkey = key}); }

    void send_from(const vrdma_sge& piece) { send({.sges = {&piece, 1}}); }
    void send_long() { send_from(a_mr_.sge(0, 1 << 16)); }

    void receive(std::uint32_t length = 4096) {
        const vrdma_sge to = b_mr_.sge(0, length);
        to_->post_recv({&to, 1});
    }

    void receive_into(const vrdma_sge& piece) { to_->post_recv({&piece, 1}); }
    void receive_into_all(std::span<const vrdma_sge> pieces) { to_->post_recv(pieces); }
    void post_raw_receive(std::uint32_t ctrl) { to_->post_raw_recv(ctrl, {}); }

    void forbid(std::uint32_t access) {
        vrdma_qp_attr attr{};
        attr.attr_mask = IBV_QP_ACCESS_FLAGS;
        attr.access_flags = all_access & ~access;
        ASSERT_TRUE(b_.slice().modify_qp(to_->id(), attr));
    }

    void reset_peer() { ASSERT_TRUE(b_.slice().modify_qp(to_->id(), state_attr(IBV_QPS_RESET))); }

    const MemoryRegion& remote() const { return b_mr_; }
    std::uint32_t header() const { return type_ == QpType::ud ? VRDMA_UD_GRH_SIZE : 0; }

  protected:
    QpType type_ = QpType::rc;
    std::optional<GuestQp> from_;
    std::optional<GuestQp> to_;
    MemoryRegion a_mr_ = a_.register_mr(1 << 16);
    MemoryRegion b_mr_ = b_.register_mr(1 << 16);
};

constexpr vrdma_sge bad_piece{.addr = 0, .length = 64, .lkey = 4711};
constexpr vrdma_sge bad_packet{.addr = 0, .length = 4096, .lkey = 4711};
constexpr std::nullopt_t none = std::nullopt;

struct Row {
    const char* name;
    QpType type;
    void (*commit)(Pair& pair);
    ibv_wc_status requester;
    std::optional<ibv_wc_status> responder; // of the only posted receive
    ibv_qp_state requester_state;
    ibv_qp_state responder_state;
    std::optional<ibv_event_type> event{}; // at the responder
};

void PrintTo(const Row& row, std::ostream* out) {
    *out << row.name;
}

// The requester's own faults.

void too_long(Pair& pair) {
    pair.receive();
    const std::array<vrdma_sge, 3> pieces{{{.addr = 0, .length = ~0u, .lkey = 0},
                                           {.addr = 0, .length = ~0u, .lkey = 0},
                                           {.addr = 0, .length = ~0u, .lkey = 0}}};
    pair.send({.sges = pieces});
}

void local_key(Pair& pair) {
    pair.receive();
    pair.send_from(bad_piece);
}

template <vrdma_sq_opcode opcode>
void operation(Pair& pair) {
    pair.receive();
    pair.send({.opcode = opcode});
}

// The responder's resources.

void no_receive(Pair& pair) {
    pair.send();
}

void short_receive(Pair& pair) {
    pair.receive(pair.header() + 7);
    pair.send();
}

void receive_key(Pair& pair) {
    pair.receive_into(bad_piece);
    pair.send();
}

// A message of several packets that is too long for a receive without a right key. The receive has
// room for some of the packets, or not for the first one.
template <std::uint32_t room>
void short_receive_key(Pair& pair) {
    pair.receive_into({.addr = 0, .length = room, .lkey = 4711});
    pair.send_long();
}

// The same, where the wrong key is that of the receive's second packet, which fills it.
void full_receive_key(Pair& pair) {
    pair.receive_into_all(std::array{pair.remote().sge(0, 4096), bad_packet});
    pair.send_long();
}

void malformed_receive(Pair& pair) {
    pair.post_raw_receive(1u << 30);
    pair.send();
}

void nobody(Pair& pair) {
    pair.reset_peer();
    pair.send();
}

// Requests that the responder does not allow.

template <vrdma_sq_opcode opcode>
void remote_key(Pair& pair) {
    pair.receive();
    pair.send({.opcode = opcode, .rkey = Key{4711}});
}

template <vrdma_sq_opcode opcode>
void out_of_bounds(Pair& pair) {
    pair.receive();
    pair.send({.opcode = opcode, .raddr = pair.remote().start + (1 << 16)});
}

template <vrdma_sq_opcode opcode, std::uint32_t access>
void forbidden(Pair& pair) {
    pair.receive();
    pair.forbid(access);
    pair.send({.opcode = opcode});
}

void local_invalidate(Pair& pair) {
    pair.receive();
    pair.invalidate(Key{4711});
}

void unaligned(Pair& pair) {
    pair.receive();
    pair.send({.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD, .raddr = pair.remote().start + 4});
}

constexpr auto write = VRDMA_SQ_RDMA_WRITE;
constexpr auto read = VRDMA_SQ_RDMA_READ;
constexpr auto add = VRDMA_SQ_ATOMIC_FETCH_AND_ADD;
constexpr auto send_inv = VRDMA_SQ_SEND_WITH_INV;

constexpr auto rc = QpType::rc;
constexpr auto uc = QpType::uc;
constexpr auto ud = QpType::ud;

constexpr auto success = IBV_WC_SUCCESS;
constexpr auto flushed = IBV_WC_WR_FLUSH_ERR;
constexpr auto rts = IBV_QPS_RTS;
constexpr auto sqe = IBV_QPS_SQE;
constexpr auto err = IBV_QPS_ERR;
constexpr auto access_event = IBV_EVENT_QP_ACCESS_ERR;
constexpr auto request_event = IBV_EVENT_QP_REQ_ERR;

constexpr std::array rows{
    Row{"RcTooLong", rc, too_long, IBV_WC_LOC_LEN_ERR, none, err, rts},
    Row{"UcTooLong", uc, too_long, IBV_WC_LOC_LEN_ERR, none, sqe, rts},
    Row{"UdTooLong", ud, too_long, IBV_WC_LOC_LEN_ERR, none, sqe, rts},
    Row{"RcLocalKey", rc, local_key, IBV_WC_LOC_PROT_ERR, none, err, rts},
    Row{"UcLocalKey", uc, local_key, IBV_WC_LOC_PROT_ERR, none, sqe, rts},
    Row{"UdLocalKey", ud, local_key, IBV_WC_LOC_PROT_ERR, none, sqe, rts},
    Row{"UcRead", uc, operation<read>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UcAtomic", uc, operation<add>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UdRead", ud, operation<read>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UdAtomic", ud, operation<add>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UdWrite", ud, operation<write>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UcSendInvalidate", uc, remote_key<send_inv>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UdSendInvalidate", ud, remote_key<send_inv>, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"UdInvalidate", ud, local_invalidate, IBV_WC_LOC_QP_OP_ERR, none, sqe, rts},
    Row{"RcInvalidate", rc, local_invalidate, IBV_WC_MW_BIND_ERR, none, err, rts},
    Row{"UcInvalidate", uc, local_invalidate, IBV_WC_MW_BIND_ERR, none, sqe, rts},

    Row{"RcNoReceive", rc, no_receive, IBV_WC_RNR_RETRY_EXC_ERR, none, err, rts},
    Row{"UcNoReceive", uc, no_receive, success, none, rts, rts},
    Row{"UdNoReceive", ud, no_receive, success, none, rts, rts},
    Row{"RcShortReceive", rc, short_receive, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, err, err},
    Row{"UcShortReceive", uc, short_receive, success, none, rts, rts},
    Row{"UdShortReceive", ud, short_receive, success, none, rts, rts},
    Row{"RcReceiveKey", rc, receive_key, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, err, err},
    Row{"UcReceiveKey", uc, receive_key, success, IBV_WC_LOC_PROT_ERR, rts, err},
    Row{"UdReceiveKey", ud, receive_key, success, IBV_WC_LOC_PROT_ERR, rts, err},
    Row{"RcShortReceiveKey", rc, short_receive_key<40000>, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR,
        err, err},
    Row{"UcShortReceiveKey", uc, short_receive_key<40000>, success, IBV_WC_LOC_PROT_ERR, rts, err},
    Row{"RcShorterReceiveKey", rc, short_receive_key<200>, IBV_WC_REM_INV_REQ_ERR,
        IBV_WC_LOC_LEN_ERR, err, err},
    Row{"UcShorterReceiveKey", uc, short_receive_key<200>, success, none, rts, rts},
    Row{"RcFullReceiveKey", rc, full_receive_key, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, err,
        err},
    Row{"UcFullReceiveKey", uc, full_receive_key, success, none, rts, rts},
    Row{"RcReceive", rc, malformed_receive, IBV_WC_REM_OP_ERR, IBV_WC_LOC_QP_OP_ERR, err, err},
    Row{"UcReceive", uc, malformed_receive, success, IBV_WC_LOC_QP_OP_ERR, rts, err},
    Row{"UdReceive", ud, malformed_receive, success, IBV_WC_LOC_QP_OP_ERR, rts, err},
    Row{"RcNobody", rc, nobody, IBV_WC_RETRY_EXC_ERR, none, err, IBV_QPS_RESET},
    Row{"UcNobody", uc, nobody, success, none, rts, IBV_QPS_RESET},
    Row{"UdNobody", ud, nobody, success, none, rts, IBV_QPS_RESET},

    Row{"RcWriteKey", rc, remote_key<write>, IBV_WC_REM_ACCESS_ERR, flushed, err, err,
        access_event},
    Row{"RcReadKey", rc, remote_key<read>, IBV_WC_REM_ACCESS_ERR, flushed, err, err, access_event},
    Row{"RcAtomicKey", rc, remote_key<add>, IBV_WC_REM_ACCESS_ERR, flushed, err, err, access_event},
    Row{"UcWriteKey", uc, remote_key<write>, success, none, rts, rts},
    Row{"RcWriteBounds", rc, out_of_bounds<write>, IBV_WC_REM_ACCESS_ERR, flushed, err, err,
        access_event},
    Row{"RcReadBounds", rc, out_of_bounds<read>, IBV_WC_REM_ACCESS_ERR, flushed, err, err,
        access_event},
    Row{"RcAtomicBounds", rc, out_of_bounds<add>, IBV_WC_REM_ACCESS_ERR, flushed, err, err,
        access_event},
    Row{"UcWriteBounds", uc, out_of_bounds<write>, success, none, rts, rts},
    Row{"RcWriteForbidden", rc, forbidden<write, IBV_ACCESS_REMOTE_WRITE>, IBV_WC_REM_INV_REQ_ERR,
        flushed, err, err, request_event},
    Row{"RcReadForbidden", rc, forbidden<read, IBV_ACCESS_REMOTE_READ>, IBV_WC_REM_INV_REQ_ERR,
        flushed, err, err, request_event},
    Row{"RcAtomicForbidden", rc, forbidden<add, IBV_ACCESS_REMOTE_ATOMIC>, IBV_WC_REM_INV_REQ_ERR,
        flushed, err, err, request_event},
    Row{"UcWriteForbidden", uc, forbidden<write, IBV_ACCESS_REMOTE_WRITE>, success, none, rts, rts},
    Row{"RcSendInvalidate", rc, remote_key<send_inv>, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,
        err, err},
    Row{"RcUnaligned", rc, unaligned, IBV_WC_REM_INV_REQ_ERR, flushed, err, err, request_event},
};

class Fault : public Pair, public ::testing::WithParamInterface<Row> {};

// Make the fault and post another send behind it; expect the results of the row, and a flush of the
// second send if the first failed.
TEST_P(Fault, IsToldToBothSides) {
    const Row& row = GetParam();
    connect_pair(row.type);
    row.commit(*this);
    EXPECT_EQ(wait(a_cq_).status, row.requester);
    const auto told = events(b_);
    if (row.responder) {
        EXPECT_EQ(wait(b_cq_).status, *row.responder);
    }
    EXPECT_FALSE(b_cq_.poll());
    EXPECT_EQ(state_of(a_, *from_), row.requester_state);
    EXPECT_EQ(state_of(b_, *to_), row.responder_state);
    std::vector<Event> expected;
    if (row.event) {
        expected.push_back({*row.event, to_->id().value});
    }
    EXPECT_EQ(told, expected);
    EXPECT_TRUE(events(a_).empty());
    if (row.requester != success) {
        send();
        EXPECT_EQ(wait(a_cq_).status, flushed);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Fault, ::testing::ValuesIn(rows),
                         [](const auto& info) { return std::string{info.param.name}; });

} // namespace
} // namespace vrdma::test
