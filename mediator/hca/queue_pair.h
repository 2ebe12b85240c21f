// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// QPs: what a QP is made of, what the slice changes of it, and the calls for QPs: also for the
// multicast groups of those with datagrams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/gid.h"
#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/translation.h"
#include "vrdma/device.h"
#include "vrdma/queue.h"

namespace vrdma::hca {

inline constexpr std::uint64_t max_message_size = 1ull << 31;

inline constexpr Qpn gsi_qpn{1};

// The QPNs of one function, and QP1, which every function has. The range tells the functions of an
// endport apart.
struct QpnRange {
    std::uint32_t first = 0;
    std::uint32_t last = VRDMA_MULTICAST_QPN;

    constexpr bool contains(Qpn qpn) const noexcept {
        return qpn == gsi_qpn || (qpn.value >= first && qpn.value <= last);
    }
};

enum class QpType : std::uint8_t { rc = 2, uc = 3, ud = 4, xrc_send = 9, xrc_recv = 10 };

struct QpSpec {
    Qpn id;
    QpType type = QpType::rc;
    PdId pd;
    Cqn send_cq;
    Cqn recv_cq;
    Srqn srq;    // instead of an RQ, or none
    XrcdId xrcd; // of xrc_recv, which has no PD, CQs or queues
    Translation pages;
    std::uint32_t sq_depth = 0;
    std::uint32_t rq_depth = 0;
    std::uint8_t sq_stride_shift = 0;
    std::uint8_t rq_stride_shift = 0;
    std::uint32_t max_inline = 0;
    std::uint16_t max_send_sge = 0;
    std::uint16_t max_recv_sge = 0;
    bool signal_all = false;
    bool blocks_own_multicast = false; // it does not receive its own datagrams to a group
    std::uint32_t doorbell_page = 0;
    std::uint32_t handle = 0; // of PVRDMA: its name in CQEs and events
};

struct QpState {
    vrdma_qp_attr attr{}; // as query_qp returns it
    std::uint32_t doorbell_slot = 0;
    std::uint32_t sq_head = 0; // the next WQE, or an interrupted one that starts again
    std::uint32_t rq_head = 0;
    std::uint32_t events = 0; // bit n: async event n (enum ibv_event_type) waits for room
    std::uint8_t retries_left = 0;
    std::uint8_t rnr_retries_left = 0;
    std::uint8_t sq_started = 0;    // the WQE at sq_head was tried already
    std::uint8_t established = 0;   // a message arrived since RTR
    std::uint8_t last_wqe_due = 0;  // LAST_WQE_REACHED is still to be announced
    std::uint8_t holds_receive = 0; // a WQE of the SRQ, for a message that has not ended
    std::uint16_t held_sges = 0;    // number of SGEs that save_held_receive returns
    std::uint32_t held_cookie = 0;
    std::uint32_t held_srq = 0; // xrc_recv: the SRQ of that WQE
    std::uint8_t connected = 0; // 1: to a peer that may be on the network; see save_connection()
    std::uint8_t answered = 0;  // 1: the peer has answered a message since RTR
    std::uint16_t left_to_flush = 0; // WQEs that were in the SQ when the QP left SQE
};

inline constexpr std::size_t max_connection_state = 8192;

class QueuePairs {
  public:
    // Returns the doorbell slot.
    virtual Result<std::uint32_t> create_qp(const QpSpec& spec) = 0;
    // attr is validated. attr_mask says which fields are set.
    virtual Result<> modify_qp(Qpn id, const vrdma_qp_attr& attr) = 0;
    // Returns everything that modify_qp sets, and the current state, which the slice itself may
    // have moved to SQE or ERR.
    virtual Result<vrdma_qp_attr> query_qp(Qpn id) const = 0;
    virtual void destroy_qp(Qpn id) = 0;

    // The QP is UD. attach_multicast() requires that it is not yet attached to the group, and
    // detach_multicast() that it is. The QP is detached before it is destroyed.
    virtual Result<> attach_multicast(Qpn id, const Gid& group) = 0;
    virtual void detach_multicast(Qpn id, const Gid& group) = 0;

    virtual QpState save_qp(Qpn id) const = 0;
    virtual std::vector<vrdma_sge> save_held_receive(Qpn id) const = 0;
    // The number that the program gave that WQE. Only of PVRDMA.
    virtual std::uint64_t save_held_number(Qpn id) const = 0;
    // The engine's own state of the QP's connection to a peer on the network. Only engines read it.
    // It begins with its version, and has at most max_connection_state bytes.
    virtual std::vector<std::byte> save_connection(Qpn id) const = 0;
    virtual Result<> restore_qp(Qpn id, const QpState& state,
                                std::span<const vrdma_sge> held_receive) = 0;
    // These are called after restore_qp() of their QP.
    virtual Result<> restore_held_number(Qpn id, std::uint64_t number) = 0;
    virtual Result<> restore_connection(Qpn id, std::span<const std::byte> state) = 0;

  protected:
    ~QueuePairs() = default;
};

} // namespace vrdma::hca
